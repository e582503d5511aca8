//! The agents of a run: those that this host has, those that are waited for, and who is lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::agents::{AgentId, Incoming, JoinedAgent, Listener};
use super::local::LocalAgent;
use super::{Observer, RunError, WAITS_QUIETLY};
use crate::agent::Role;
use crate::agent::clock::Clocks;
use crate::agent::message::{AgentMessage, ManagerMessage};
use crate::agent::token::Token;

/// How long agents have to end when the run is over.
const LEAVES_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether an agent of this host ended before it joined.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Which agents a run has.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    /// Client agents that the manager starts on its own host.
    pub local_clients: u32,
    /// Client agents that join from elsewhere.
    pub remote_clients: u32,
    /// Whether the agent of the system joins from elsewhere, too.
    pub remote_system: bool,
    /// Where agents dial; only this host can, if it is loopback.
    pub listen: SocketAddr,
    /// What they have to know.
    pub token: Token,
    /// How long they may take to join.
    pub join_within: Duration,
    /// How long one may say nothing, and be told nothing, before it is lost: each side speaks every second.
    pub lost_after: Duration,
    /// The program and arguments that are `quake agent`.
    pub program: Vec<String>,
    /// What agents of this host say for people.
    pub log: PathBuf,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A client agent, by its number from 0.
    Client(u32),
    /// The agent of the system.
    System,
}

/// Something of an agent of the run.
#[derive(Debug)]
pub(super) enum Said {
    /// What it said.
    Message(Speaker, AgentMessage),
    /// It is gone, and why.
    Lost(Speaker, String),
}

/// The agents of a run.
#[derive(Debug)]
pub(super) struct Fleet {
    settings: FleetSettings,
    listener: Listener,
    pub(super) clocks: Clocks,
    /// By number; a gap is one that is lost.
    clients: Vec<Option<JoinedAgent>>,
    system: Option<JoinedAgent>,
    local: Vec<LocalAgent>,
    /// Commands to the agent of the system until now.
    commands: u64,
}

impl Fleet {
    /// Listens; agents are there after [`Self::complete`].
    pub(super) async fn new(settings: FleetSettings) -> Result<Self, RunError> {
        let clocks = Clocks::new();
        let (address, token) = (settings.listen, settings.token.clone());
        let listener = Listener::bind(address, token, clocks, settings.lost_after)
            .await
            .map_err(|source| RunError::Listen { address, source })?;
        let clients = settings.local_clients + settings.remote_clients;
        let clients = (0..clients).map(|_| None).collect();
        Ok(Self {
            settings,
            listener,
            clocks,
            clients,
            system: None,
            local: Vec::new(),
            commands: 0,
        })
    }

    /// Where agents dial.
    pub(super) fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Starts and waits for agents until none is missing.
    pub(super) async fn complete(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let (began, within) = (Instant::now(), self.settings.join_within);
        let (deadline, mut told) = (began + within, false);
        self.local.retain_mut(|agent| agent.ended().is_none());
        let missing = self.missing(Role::Client);
        let remote = self.settings.remote_clients.min(missing);
        let starts = (
            missing - remote,
            u32::from(!self.settings.remote_system).min(self.missing(Role::System)),
        );
        for (role, count) in [(Role::Client, starts.0), (Role::System, starts.1)] {
            for _ in 0..count {
                let FleetSettings { program, token, log, .. } = &self.settings;
                let started = LocalAgent::start(program, role, self.address(), token, log);
                self.local.push(started.map_err(RunError::NoLocalAgent)?);
            }
        }
        while let Some(role) =
            [Role::Client, Role::System].into_iter().find(|role| self.missing(*role) > 0)
        {
            if let Some(status) = self.local.iter_mut().find_map(LocalAgent::ended) {
                let log = self.settings.log.clone();
                return Err(RunError::LocalAgentEnded { status, log });
            }
            if Instant::now() >= deadline {
                let count = self.missing(role);
                return Err(RunError::AgentsMissing { role: role.name(), count, within });
            }
            if !told && began.elapsed() > WAITS_QUIETLY {
                told = true;
                let (clients, system) = (self.missing(Role::Client), self.missing(Role::System));
                let what = format!(
                    "agents to join at {}: {clients} of clients, {system} of the system",
                    self.address()
                );
                observer.waits(&what, within);
            }
            if let Ok(Some(incoming)) = timeout(LOOKS_EVERY, self.listener.incoming.recv()).await {
                self.take(incoming);
            }
        }
        self.compare_clocks(deadline).await
    }

    fn missing(&self, role: Role) -> u32 {
        let missing = match role {
            Role::Client => self.clients.iter().filter(|agent| agent.is_none()).count(),
            Role::System => usize::from(self.system.is_none()),
        };
        u32::try_from(missing).unwrap_or(u32::MAX)
    }

    /// Each has told its clocks once, at least.
    async fn compare_clocks(&mut self, deadline: Instant) -> Result<(), RunError> {
        while let Some(agent) = self.all().find(|agent| agent.offset().is_none()) {
            let host = agent.host.clone();
            if Instant::now() >= deadline {
                return Err(RunError::NoClock { host });
            }
            sleep(LOOKS_EVERY / 10).await;
        }
        Ok(())
    }

    /// The next of an agent of this run.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            // The listener lives as long as this, and with it the channel.
            let Some(incoming) = self.listener.incoming.recv().await else {
                std::future::pending::<()>().await;
                continue;
            };
            if let Some(said) = self.take(incoming) {
                return said;
            }
        }
    }

    fn take(&mut self, incoming: Incoming) -> Option<Said> {
        match incoming {
            Incoming::Joined(agent) => {
                let lost_after = self.settings.lost_after;
                let place = match agent.role {
                    Role::System => Some(&mut self.system).filter(|place| place.is_none()),
                    Role::Client => self.clients.iter_mut().find(|place| place.is_none()),
                };
                // Nobody else hears it, if it is gone at once.
                let _ = match place {
                    Some(place) => place.insert(agent).tell(ManagerMessage::Welcome { lost_after }),
                    None => agent.tell(ManagerMessage::Leave),
                };
                None
            }
            Incoming::Message(id, message) => Some(Said::Message(self.speaker(id)?, message)),
            Incoming::Lost(id, why) => {
                let speaker = self.speaker(id)?;
                let place = match speaker {
                    Speaker::System => &mut self.system,
                    Speaker::Client(number) => self.clients.get_mut(number as usize)?,
                };
                let agent = place.take()?;
                Some(Said::Lost(speaker, format!("{} on {}: {why}", agent.role.name(), agent.host)))
            }
        }
    }

    fn speaker(&self, id: AgentId) -> Option<Speaker> {
        if self.system.as_ref().is_some_and(|agent| agent.id == id) {
            return Some(Speaker::System);
        }
        self.clients().find(|(_, agent)| agent.id == id).map(|(number, _)| Speaker::Client(number))
    }

    /// The client agents that are there, by number.
    pub(super) fn clients(&self) -> impl Iterator<Item = (u32, &JoinedAgent)> {
        (0..).zip(&self.clients).filter_map(|(number, agent)| Some((number, agent.as_ref()?)))
    }

    /// How many of them there are.
    pub(super) fn client_count(&self) -> u32 {
        u32::try_from(self.clients().count()).unwrap_or(u32::MAX)
    }

    /// How many client agents there are when none is lost.
    pub(super) fn size(&self) -> u32 {
        self.settings.local_clients + self.settings.remote_clients
    }

    /// Whether the system runs on the manager's host, with its files.
    pub(super) fn system_is_local(&self) -> bool {
        !self.settings.remote_system
    }

    /// A number for a command that no other has.
    pub(super) fn number(&mut self) -> u64 {
        self.commands += 1;
        self.commands
    }

    /// The agent of the system, if it is there.
    pub(super) fn system(&self) -> Option<&JoinedAgent> {
        self.system.as_ref()
    }

    /// All that are there: client agents by number, then the agent of the system.
    pub(super) fn all(&self) -> impl Iterator<Item = &JoinedAgent> {
        self.clients.iter().chain([&self.system]).flatten()
    }

    /// Facts of the hosts: of the system's by their names, of clients' with their number.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        if let Some(system) = &self.system {
            all.extend(system.environment.clone());
            all.insert("host".to_owned(), system.host.clone());
        }
        for (number, agent) in self.clients() {
            all.insert(format!("client agent {number}"), agent.host.clone());
        }
        all
    }

    /// Lets all agents go, and waits until they are gone.
    pub(super) async fn leave(mut self) {
        for agent in self.all() {
            let _ = agent.tell(ManagerMessage::Leave);
        }
        let gone = async {
            while self.all().next().is_some() {
                self.next().await;
            }
        };
        // Those of this host that did not go are killed.
        let _ = timeout(LEAVES_WITHIN, gone).await;
    }
}
