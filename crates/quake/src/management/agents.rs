//! The agents that have joined: what each is told, and what all of them say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::agent::clock::{ClockOffset, Clocks};
use crate::agent::connection::{ConnectionError, LineReader, LineWriter, Side, greet};
use crate::agent::message::{AgentMessage, ManagerMessage};
use crate::agent::token::Token;
use crate::agent::{OUTBOX, Role};

/// Connections that have not shown yet that they have the token.
const UNAUTHENTICATED: usize = 16;
/// Messages of agents that wait to be read; then agents wait.
const INBOX: usize = 256;
/// Questions for an agent's clocks at its beginning, and how far apart.
const FIRST_QUESTIONS: (u32, Duration) = (16, Duration::from_millis(5));
/// Between two later ones: they also tell each side that the other lives.
const ASKS_EVERY: Duration = Duration::from_secs(1);

/// What comes of agents.
#[derive(Debug)]
pub(super) enum Incoming {
    /// One wants to be of this run.
    Joined(JoinedAgent),
    /// What one said.
    Message(AgentId, AgentMessage),
    /// One is gone.
    Lost(AgentId, String),
}

/// An agent's number among all that dialled.
pub(super) type AgentId = u64;

/// An agent, as the manager has it.
#[derive(Debug)]
pub(super) struct JoinedAgent {
    pub(super) id: AgentId,
    pub(super) role: Role,
    /// The name of its host, and from where it dialled.
    pub(super) host: String,
    pub(super) environment: BTreeMap<String, String>,
    outbox: mpsc::Sender<ManagerMessage>,
    offset: Arc<Mutex<Option<ClockOffset>>>,
}

/// It takes nothing any more.
#[derive(Debug)]
pub(super) struct Gone;

impl JoinedAgent {
    /// Tells it something.
    ///
    /// # Errors
    /// It takes nothing any more; that it is lost is told by [`Incoming`].
    pub(super) fn tell(&self, message: ManagerMessage) -> Result<(), Gone> {
        self.outbox.try_send(message).map_err(|_| Gone)
    }

    /// How its clocks stand to ours, once it has told.
    pub(super) fn offset(&self) -> Option<ClockOffset> {
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where agents dial.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    /// Its end ends all connections.
    _tasks: JoinSet<()>,
}

impl Listener {
    /// Listens for agents that have the token.
    pub(super) async fn bind(
        address: SocketAddr,
        token: Token,
        clocks: Clocks,
        lost_after: Duration,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (inbox, incoming) = mpsc::channel(INBOX);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, token, clocks, lost_after, inbox));
        Ok(Self { address, incoming, _tasks: tasks })
    }
}

async fn accept(
    listener: TcpListener,
    token: Token,
    clocks: Clocks,
    lost_after: Duration,
    inbox: mpsc::Sender<Incoming>,
) {
    let unauthenticated = Arc::new(Semaphore::new(UNAUTHENTICATED));
    let mut connections = JoinSet::new();
    for id in 0.. {
        let Ok(permit) = unauthenticated.clone().acquire_owned().await else { return };
        let stream = loop {
            match listener.accept().await {
                Ok((stream, peer)) => break (stream, peer),
                // No descriptor is free, say.
                Err(_) => tokio::time::sleep(FIRST_QUESTIONS.1).await,
            }
        };
        let (token, inbox) = (token.clone(), inbox.clone());
        connections.spawn(async move {
            let joined = join(id, stream, &token, lost_after).await;
            drop(permit);
            if let Ok(joined) = joined {
                serve(joined, clocks, lost_after, inbox).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

type Joining = (JoinedAgent, LineReader, LineWriter, mpsc::Receiver<ManagerMessage>);

/// Greets one that has dialled, and hears who it is.
async fn join(
    id: AgentId,
    (stream, peer): (TcpStream, SocketAddr),
    token: &Token,
    lost_after: Duration,
) -> Result<Joining, ConnectionError> {
    let (mut from, to) = greet(stream, token, Side::Manager).await?;
    loop {
        if let AgentMessage::Join { role, host, environment } = from.next(lost_after).await? {
            let (outbox, outgoing) = mpsc::channel(OUTBOX);
            let offset = Arc::default();
            let host = format!("{} ({})", bounded(&host), peer.ip());
            let agent = JoinedAgent { id, role, host, environment, outbox, offset };
            return Ok((agent, from, to, outgoing));
        }
    }
}

/// A name that somebody else chose.
fn bounded(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Carries what the agent says, and what it is told, until one of the two ends.
async fn serve(
    (agent, mut from, to, outgoing): Joining,
    clocks: Clocks,
    lost_after: Duration,
    inbox: mpsc::Sender<Incoming>,
) {
    let (id, offset) = (agent.id, agent.offset.clone());
    if inbox.send(Incoming::Joined(agent)).await.is_err() {
        return;
    }
    let read = async {
        loop {
            match from.next(lost_after).await {
                Ok(AgentMessage::Clock { asked, shown }) => {
                    let measured = ClockOffset::measured(asked, shown, clocks.now());
                    let mut best = offset.lock().unwrap_or_else(PoisonError::into_inner);
                    *best = Some(measured.surer(*best));
                }
                Ok(message) => {
                    if inbox.send(Incoming::Message(id, message)).await.is_err() {
                        return None;
                    }
                }
                Err(error) => return Some(error),
            }
        }
    };
    let ended = tokio::select! {
        ended = read => ended,
        ended = write(to, outgoing, clocks) => ended,
    };
    if let Some(error) = ended {
        let _ = inbox.send(Incoming::Lost(id, error.to_string())).await;
    }
}

/// Tells what is to be told, and asks for clocks.
async fn write(
    mut to: LineWriter,
    mut outgoing: mpsc::Receiver<ManagerMessage>,
    clocks: Clocks,
) -> Option<ConnectionError> {
    let (questions, apart) = FIRST_QUESTIONS;
    let mut asked = 0;
    let mut first = interval(apart);
    let mut later = interval(ASKS_EVERY);
    later.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => message,
            _ = first.tick(), if asked < questions => {
                asked += 1;
                Some(ManagerMessage::Clock(clocks.now()))
            }
            _ = later.tick() => Some(ManagerMessage::Clock(clocks.now())),
        };
        // Nobody has more to tell it.
        let message = message?;
        if let Err(error) = to.send(&message).await {
            return Some(error);
        }
    }
}
