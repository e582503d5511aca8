//! What the manager asks of agents, and what it hears from them meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::timeout;

use super::benchmark_run::BenchmarkRunError;
use super::fleet::{Fleet, Said, Speaker};
use crate::agent::message::{
    AgentMessage, LoadCommand, ManagerMessage, SystemAnswer, SystemCommand,
};
use crate::load::LoadPlan;

/// The agents of a run, while a cell has them.
#[derive(Debug)]
pub(super) struct Dialogue<'f> {
    pub(super) fleet: &'f mut Fleet,
    /// What agents said while something else was waited for.
    heard: VecDeque<Said>,
    /// How long an agent may take for what it does at once.
    answers_within: Duration,
}

impl<'f> Dialogue<'f> {
    /// Nothing was asked yet.
    pub(super) fn new(fleet: &'f mut Fleet, answers_within: Duration) -> Self {
        Self { fleet, heard: VecDeque::new(), answers_within }
    }

    /// The next that is said. Nothing is lost if this is dropped before it is there.
    pub(super) async fn next(&mut self) -> Said {
        match self.heard.pop_front() {
            Some(said) => said,
            None => self.fleet.next().await,
        }
    }

    /// What was said while something else was waited for, if anything is left of it.
    pub(super) fn heard(&mut self) -> Option<Said> {
        self.heard.pop_front()
    }

    /// What was heard of seconds of the system, and not listened to yet, is not wanted any more.
    pub(super) fn forget_seconds(&mut self) {
        self.heard.retain(|said| !matches!(said, Said::Message(_, AgentMessage::System(_))));
    }

    /// The agent of the system is to do this; it answers under this number.
    pub(super) fn order(&mut self, command: SystemCommand) -> Result<u64, BenchmarkRunError> {
        let lost = || BenchmarkRunError::AgentLost("agent of the system".to_owned());
        let number = self.fleet.number();
        let system = self.fleet.system().ok_or_else(lost)?;
        system.tell(ManagerMessage::System(number, command)).map_err(|_| lost())?;
        Ok(number)
    }

    /// What became of a command, however long that takes.
    pub(super) async fn answer(&mut self, command: u64) -> Result<SystemAnswer, BenchmarkRunError> {
        loop {
            match self.fleet.next().await {
                Said::Message(Speaker::System, AgentMessage::Done(id, ended)) if id == command => {
                    return ended.map_err(BenchmarkRunError::System);
                }
                Said::Lost(Speaker::System, why) => return Err(BenchmarkRunError::AgentLost(why)),
                other => self.heard.push_back(other),
            }
        }
    }

    /// What becomes of a command that takes no time.
    pub(super) async fn ask(
        &mut self,
        command: SystemCommand,
    ) -> Result<SystemAnswer, BenchmarkRunError> {
        let command = self.order(command)?;
        let within = self.answers_within;
        let answer = timeout(within, self.answer(command)).await;
        answer.map_err(|_| BenchmarkRunError::Unanswered(within))?
    }

    /// Tells all client agents something, each by its number.
    pub(super) fn tell_clients(&self, of: impl Fn(u32) -> LoadCommand) {
        for (agent, client) in self.fleet.clients() {
            // If it is gone, that is heard.
            let _ = client.tell(ManagerMessage::Load(of(agent)));
        }
    }

    /// Has all client agents ready for a load.
    pub(super) async fn prepare(
        &mut self,
        plan: &LoadPlan,
        log: bool,
    ) -> Result<(), BenchmarkRunError> {
        let mut missing: BTreeSet<u32> = self.fleet.clients().map(|(agent, _)| agent).collect();
        let agents = self.fleet.client_count();
        self.tell_clients(|agent| {
            let plan = Box::new(plan.clone());
            LoadCommand::Prepare { plan, agent, agents, log }
        });
        let within = self.answers_within;
        let prepared = async {
            while !missing.is_empty() {
                match self.fleet.next().await {
                    Said::Message(Speaker::Client(agent), AgentMessage::Prepared) => {
                        missing.remove(&agent);
                    }
                    // It is of the load before.
                    Said::Message(Speaker::Client(agent), _) if missing.contains(&agent) => {}
                    Said::Lost(_, why) => return Err(BenchmarkRunError::AgentLost(why)),
                    other => self.heard.push_back(other),
                }
            }
            Ok(())
        };
        let prepared = timeout(within, prepared).await;
        prepared.map_err(|_| BenchmarkRunError::Unanswered(within))??;
        // What clients told until now is of loads before.
        self.heard.retain(|said| !matches!(said, Said::Message(Speaker::Client(_), _)));
        Ok(())
    }

    /// Has all client agents start when our steady clock shows this.
    pub(super) fn start(&self, at: i64) -> Result<(), BenchmarkRunError> {
        for (_, client) in self.fleet.clients() {
            let offset = client.offset().ok_or(BenchmarkRunError::NoClock)?;
            let start = LoadCommand::Start(offset.theirs(at));
            let _ = client.tell(ManagerMessage::Load(start));
        }
        Ok(())
    }
}
