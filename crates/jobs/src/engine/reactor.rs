//! The engine's steps: what happened goes in, what is to be done comes out. No effect happens
//! here, so that tests can drive it through every order of events.
//!
//! Invariants, checked after every step in tests:
//! - a job is started at most once under one fence;
//! - a job is concluded at most once, and nothing is done to it afterwards;
//! - an event under another fence than the active one changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use fishplate_contract::{Fault, FaultCode, JobId, JobState};

use super::holder;
use crate::executor::{Ending, Handle, Located, Observation, Order, StartError};
use crate::plan::Plan;
use crate::store::Claim;

/// How often one process tries a job that certainly did not start; starts that found no room on the
/// disk do not count.
pub const MOST_STARTS: u64 = 5;

/// The fence from which on such a job is not tried again, whoever has tried it: one that rests for
/// room comes to it in weeks.
pub const MOST_CLAIMS: u64 = 100_000;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A job was claimed; its plan was read.
    Claimed(Claim, Arc<Plan>),
    /// A start came to an answer.
    Started(JobId, u64, Result<Handle, StartError>),
    /// A forgotten start was looked up.
    Located(JobId, u64, Located),
    /// A start was observed.
    Observed(JobId, u64, Observation),
    /// Somebody asked for the end of a job.
    KillRequested(JobId),
    /// The conclusion was written, or refused as stale; or the job was put back.
    Closed(JobId, u64),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Start this.
    Start(Order),
    /// Find out whether this was started.
    Locate(Order),
    /// Record that it was started.
    RecordStart(JobId, u64, Handle),
    /// Observe it soon: it may have ended meanwhile.
    Observe(JobId, u64, Handle),
    /// Ask for its end.
    Cancel(Handle),
    /// Put it back into the queue; if there was no room for it, it rests there. What was missing.
    Unclaim(JobId, u64, Option<String>),
    /// Judge its end and write it.
    Conclude(Order, End),
}

/// An end to be written.
#[derive(Debug)]
pub enum End {
    /// The program ended.
    Ended(Box<Ending>),
    /// There is no program's end to judge.
    Without(JobState, FaultCode, String),
    /// The program can never start.
    Refused(Box<Fault>),
}

#[derive(Debug)]
struct Active {
    order: Order,
    boot: Option<String>,
    /// The boot in which it was claimed before it was taken over.
    claimed_in_boot: String,
    kill: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Locating,
    Running { handle: Handle, waiting: String },
    Closing,
}

/// The jobs that this engine holds, and the rules.
#[derive(Debug)]
pub struct Reactor {
    boot: String,
    active: HashMap<JobId, Active>,
    /// How many starts of a job that failed are to be tried again.
    tries: HashMap<JobId, u64>,
}

impl Reactor {
    /// An engine that holds nothing yet, on this boot of the machine.
    pub fn new(boot: String) -> Self {
        Self { boot, active: HashMap::new(), tries: HashMap::new() }
    }

    /// Takes one step.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Claimed(claim, plan) => self.claimed(claim, plan),
            Event::Started(job, fence, answer) => self.started(job, fence, answer),
            Event::Located(job, fence, located) => self.located(job, fence, located),
            Event::Observed(job, fence, seen) => self.observed(job, fence, seen),
            Event::KillRequested(job) => self.kill_requested(job),
            Event::Closed(job, fence) => {
                if self.active.get(&job).is_some_and(|active| active.order.fence == fence) {
                    self.active.remove(&job);
                }
                Vec::new()
            }
        }
    }

    /// What to observe now.
    pub fn observable(&self) -> Vec<(JobId, u64, Handle)> {
        let running = self.active.iter().filter_map(|(job, active)| match &active.phase {
            Phase::Running { handle, .. } => Some((*job, active.order.fence, handle.clone())),
            _ => None,
        });
        running.collect()
    }

    /// How many jobs it holds.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// It holds no job.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// What a batch system says a job waits for; empty if it does not wait there.
    pub fn waits_for(&self, job: JobId) -> &str {
        match self.active.get(&job).map(|active| &active.phase) {
            Some(Phase::Running { waiting, .. }) => waiting,
            _ => "",
        }
    }

    fn claimed(&mut self, claim: Claim, plan: Arc<Plan>) -> Vec<Effect> {
        let order = Order { job: claim.id, fence: claim.fence, directory: claim.directory, plan };
        let mut active = Active {
            order: order.clone(),
            boot: claim.boot,
            claimed_in_boot: self.boot.clone(),
            kill: claim.kill_requested,
            phase: Phase::Starting,
        };
        let effects = match (claim.taken_from, claim.handle) {
            (None, _) => active.begin(&self.boot),
            (Some(holder), None) => {
                active.claimed_in_boot = holder::boot_of(&holder).to_owned();
                active.phase = Phase::Locating;
                vec![Effect::Locate(order)]
            }
            (Some(_), Some(handle)) => active.run(handle),
        };
        self.active.insert(claim.id, active);
        effects
    }

    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        answer: Result<Handle, StartError>,
    ) -> Vec<Effect> {
        let tries = 1 + self.tries.get(&job).copied().unwrap_or(0);
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        if !matches!(active.phase, Phase::Starting) {
            return Vec::new();
        }
        let effects = match answer {
            Ok(handle) => {
                let mut effects = vec![Effect::RecordStart(job, fence, handle.clone())];
                effects.extend(active.run(handle));
                effects
            }
            Err(StartError::NotStarted(_))
                if tries < MOST_STARTS && fence < MOST_CLAIMS && !active.kill =>
            {
                active.phase = Phase::Closing;
                self.tries.insert(job, tries);
                return vec![Effect::Unclaim(job, fence, None)];
            }
            Err(StartError::StorageFull(why)) if !active.kill => {
                active.phase = Phase::Closing;
                return vec![Effect::Unclaim(job, fence, Some(why))];
            }
            Err(StartError::TooLong { message, limit }) => {
                let limit = Some(limit);
                let fault = Fault { limit, ..Fault::new(FaultCode::LimitExceeded, message) };
                active.close(End::Refused(Box::new(fault)))
            }
            Err(error) => {
                let (state, code) = match &error {
                    StartError::ProgramMissing(_) => (JobState::Failed, FaultCode::ProgramMissing),
                    StartError::StorageFull(_) => (JobState::Failed, FaultCode::StorageFull),
                    StartError::NotStarted(_) | StartError::TooLong { .. } => {
                        (JobState::Failed, FaultCode::Internal)
                    }
                    StartError::Unproven(_) => (JobState::Unknown, FaultCode::OutcomeUnknown),
                };
                active.close(End::Without(state, code, error.to_string()))
            }
        };
        self.tries.remove(&job);
        effects
    }

    fn located(&mut self, job: JobId, fence: u64, located: Located) -> Vec<Effect> {
        let boot = self.boot.clone();
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        if !matches!(active.phase, Phase::Locating) {
            return Vec::new();
        }
        match located {
            // What an executor wrote of a start may have been lost with the machine's memory: that
            // it finds nothing proves nothing then.
            Located::Never if active.claimed_in_boot != boot => {
                let why = "the machine was restarted when the program was about to be started: \
                           whether it ran can't be proved";
                active.close(End::Without(
                    JobState::Unknown,
                    FaultCode::OutcomeUnknown,
                    why.to_owned(),
                ))
            }
            Located::Never => {
                active.phase = Phase::Starting;
                active.begin(&boot)
            }
            Located::Started(handle) => {
                let mut effects = vec![Effect::RecordStart(job, fence, handle.clone())];
                effects.extend(active.run(handle));
                effects
            }
            Located::Unproven(why) => {
                active.close(End::Without(JobState::Unknown, FaultCode::OutcomeUnknown, why))
            }
        }
    }

    fn observed(&mut self, job: JobId, fence: u64, seen: Observation) -> Vec<Effect> {
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        let Phase::Running { waiting, .. } = &mut active.phase else { return Vec::new() };
        match seen {
            Observation::Waiting(why) | Observation::Unclear(why) => {
                *waiting = why;
                Vec::new()
            }
            Observation::Running { .. } => {
                waiting.clear();
                Vec::new()
            }
            Observation::Ended(ending) => active.close(End::Ended(ending)),
            Observation::Died(why) => {
                active.close(End::Without(JobState::Failed, FaultCode::ProgramKilled, why))
            }
            Observation::Lost(why) => {
                active.close(End::Without(JobState::Unknown, FaultCode::OutcomeUnknown, why))
            }
        }
    }

    fn kill_requested(&mut self, job: JobId) -> Vec<Effect> {
        let Some(active) = self.active.get_mut(&job) else {
            self.tries.remove(&job);
            return Vec::new();
        };
        active.kill = true;
        match &active.phase {
            // Told again while it still runs, it is asked again: a request can be lost with a
            // supervisor.
            Phase::Running { handle, .. } => vec![Effect::Cancel(handle.clone())],
            // A start under way is ended as soon as it is known.
            Phase::Starting | Phase::Locating | Phase::Closing => Vec::new(),
        }
    }

    fn under(&mut self, job: JobId, fence: u64) -> Option<&mut Active> {
        self.active.get_mut(&job).filter(|active| active.order.fence == fence)
    }
}

impl Active {
    /// Starts it, if it is still wanted and may be started on this boot.
    fn begin(&mut self, boot: &str) -> Vec<Effect> {
        if self.kill {
            let why = "the job was killed on request before its program was started".to_owned();
            return self.close(End::Without(JobState::Killed, FaultCode::JobKilled, why));
        }
        if self.boot.as_ref().is_some_and(|its| its != boot) {
            let why = "the machine was restarted before the call's program was started, and its \
                       caller is gone; call again"
                .to_owned();
            return self.close(End::Without(JobState::Failed, FaultCode::ProgramKilled, why));
        }
        vec![Effect::Start(self.order.clone())]
    }

    fn run(&mut self, handle: Handle) -> Vec<Effect> {
        self.phase = Phase::Running { handle: handle.clone(), waiting: String::new() };
        let mut effects = vec![Effect::Observe(self.order.job, self.order.fence, handle.clone())];
        if self.kill {
            effects.push(Effect::Cancel(handle));
        }
        effects
    }

    fn close(&mut self, end: End) -> Vec<Effect> {
        self.phase = Phase::Closing;
        vec![Effect::Conclude(self.order.clone(), end)]
    }
}

#[cfg(test)]
mod tests;
