//! The engine's steps: what happened goes in, what is to be done comes out. No effect happens
//! here, so that tests can drive it through every order of events.
//!
//! What a job goes through: its data is fetched (`reactor::fetching`), it is queued; claimed, it is
//! started, observed and judged, its outputs are sent (`reactor::sending`), and its end is written.
//!
//! Invariants, checked after every step in tests:
//! - a job is started at most once under one fence;
//! - a job is concluded at most once, and nothing is done to it afterwards;
//! - an event under another fence than the active one changes nothing.

mod fetching;
mod sending;

use std::collections::HashMap;
use std::sync::Arc;

use fishplate_contract::{Fault, FaultCode, JobId, JobState, PlacementMethod, Timestamp};
use fishplate_data::Progress;

use self::fetching::JobStaging;
use self::sending::JobDelivery;
pub(super) use self::sending::OutgoingOutputs;
use super::fetching::FetchedJob;
use super::resting::Shortage;
use crate::completion::{Completion, DeliveredOutput, TransferResult};
use crate::executor::{Handle, Observation, ProgramExit, StartError, StartOrder, StartTrace};
use crate::store::{Boot, Claim, FetchClaim};
use fishplate_programs::plan::Plan;

/// How often one process tries a job that certainly did not start; starts for which something was used
/// up do not count.
pub(super) const MOST_STARTS: u64 = 5;

/// How often it tries one for which the host had nothing left: for a quarter of an hour, as such a job rests.
pub(super) const MOST_STARTS_EXHAUSTED: u64 = 225;

/// The fence from which on such a job is not tried again, whoever has tried it: one that rests for
/// room on the disk comes to it in weeks.
pub(super) const MOST_CLAIMS: u64 = 100_000;

/// Starts of a job that certainly did not happen.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    not_started: u64,
    exhausted: u64,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    /// A job was claimed; its plan was read.
    Claimed(Claim, Arc<Plan>),
    /// A start came to an answer.
    Started(JobId, u64, Result<Handle, StartError>),
    /// A start did not come about, and whoever waits for the job is told so.
    Refused(JobId, u64, Box<Fault>),
    /// A forgotten start was looked up.
    Located(JobId, u64, StartTrace),
    /// A start was observed.
    Observed(JobId, u64, Observation),
    /// Somebody asked for the end of a job.
    KillRequested(JobId),
    /// The end of a program was judged.
    Judged(JobId, u64, Box<Completion>),
    /// The transfer of an output, by its place among the outputs, came to an end.
    Sent(JobId, u64, usize, Result<DeliveredOutput, Fault>),
    /// A job was claimed whose data is to be fetched; its plan was read.
    FetchClaimed(FetchClaim, Arc<Plan>),
    /// There is a directory for what is fetched.
    Prepared(JobId, u64, Result<(), Fault>),
    /// The transfer of an input, by its place among those that are fetched, came to an end.
    Fetched(JobId, u64, usize, Result<PlacementMethod, Fault>),
    /// What was fetched became what the program gets.
    Arrived(JobId, u64, Result<Box<FetchedJob>, Fault>),
    /// A fetch claim was lost: to another process, or because the job has ended (`true`).
    FetchLost(JobId, u64, bool),
    /// The end was written, or refused as stale; or the job was put back, or queued.
    Closed(JobId, u64),
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Effect {
    /// Start this.
    Start(StartOrder),
    /// Find out whether this was started.
    Locate(StartOrder),
    /// Record that it was started.
    RecordStart(JobId, u64, Handle),
    /// Observe what runs soon: one may have ended meanwhile.
    Observe,
    /// Ask for its end.
    Cancel(Handle),
    /// Put it back into the queue, where it rests if something is used up that it needs.
    Unclaim(JobId, u64, Option<Shortage>),
    /// Judge its end.
    Judge(StartOrder, JobEnd),
    /// Bring one of its outputs somewhere.
    Send(Arc<OutgoingOutputs>, usize, Progress),
    /// Stop what moves for it under this fence.
    Stop(JobId, u64),
    /// Write its end.
    WriteEnd(JobId, u64, Box<Completion>),
    /// Make a directory for what is fetched.
    Prepare(FetchClaim),
    /// Fetch one of its inputs.
    Fetch(FetchClaim, Arc<Plan>, usize, Progress),
    /// Make of what was fetched what the program gets.
    Arrange(FetchClaim, Arc<Plan>, Vec<TransferResult>),
    /// Queue it: all is here.
    Queue(FetchClaim, Box<FetchedJob>),
    /// Stop what moves for it, and remove what was fetched. With a plan nothing is to stay of what
    /// it was fetching either; with a completion that is its end.
    Discard(FetchClaim, Option<Arc<Plan>>, Option<Box<Completion>>),
}

/// How a job stands, as far as its record does not tell.
#[derive(Debug, Default)]
pub(super) struct LiveJob {
    /// What a batch system says that it waits for; empty if it does not wait there.
    pub(super) waits_for: String,
    /// Its program has ended, and its outputs are being sent.
    pub(super) sending: bool,
    /// Its data is being fetched.
    pub(super) fetching: bool,
    /// What moves for it.
    pub(super) transfers: Vec<TransferResult>,
}

/// An end to be written.
#[derive(Debug)]
pub(super) enum JobEnd {
    /// The program ended.
    Ended(Box<ProgramExit>),
    /// There is no program's end to judge.
    Without(JobState, FaultCode, String),
    /// The program did not start, and is not to.
    Refused(Box<Fault>),
}

#[derive(Debug)]
struct Active {
    order: StartOrder,
    claim: Claim,
    kill: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Locating,
    Running { handle: Handle, waiting: String },
    Judging,
    Sending(Box<JobDelivery>),
    Closing,
}

/// The jobs that this engine holds, and the rules.
#[derive(Debug)]
pub(super) struct Reactor {
    /// Bytes from which on an output goes by reference if its form is `auto`.
    reference_size: u64,
    active: HashMap<JobId, Active>,
    fetching: HashMap<JobId, JobStaging>,
    /// How many starts of a job that failed are to be tried again.
    tries: HashMap<JobId, Tries>,
}

impl Reactor {
    /// An engine that holds nothing yet. `reference_size`: as in the settings.
    pub(super) fn new(reference_size: u64) -> Self {
        let (active, fetching, tries) = Default::default();
        Self { reference_size, active, fetching, tries }
    }

    /// Takes one step, now.
    pub(super) fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Claimed(claim, plan) => self.claimed(claim, plan),
            Event::Started(job, fence, answer) => self.started(job, fence, answer),
            Event::Refused(job, fence, fault) => match self.under(job, fence) {
                Some(active) if matches!(active.phase, Phase::Starting) => {
                    active.close(JobEnd::Refused(fault))
                }
                _ => Vec::new(),
            },
            Event::Located(job, fence, located) => self.located(job, fence, located),
            Event::Observed(job, fence, seen) => self.observed(job, fence, seen),
            Event::KillRequested(job) => self.kill_requested(job, now),
            Event::Judged(job, fence, end) => self.judged(job, fence, end, now),
            Event::Sent(job, fence, at, sent) => self.sent(job, fence, at, sent, now),
            Event::FetchClaimed(claim, plan) => self.fetch_claimed(claim, plan),
            Event::Prepared(job, fence, made) => self.prepared(job, fence, made, now),
            Event::Fetched(job, fence, at, placed) => self.fetched(job, fence, at, placed, now),
            Event::Arrived(job, fence, arrived) => self.arrived(job, fence, arrived, now),
            Event::FetchLost(job, fence, ended) => self.fetch_lost(job, fence, ended),
            Event::Closed(job, fence) => {
                if self.under(job, fence).is_some() {
                    self.active.remove(&job);
                }
                if self.fetching_under(job, fence).is_some() {
                    self.fetching.remove(&job);
                }
                Vec::new()
            }
        }
    }

    /// What to observe now.
    pub(super) fn observable(&self) -> Vec<(JobId, u64, Handle)> {
        let running = self.active.iter().filter_map(|(job, active)| match &active.phase {
            Phase::Running { handle, .. } => Some((*job, active.order.fence, handle.clone())),
            _ => None,
        });
        running.collect()
    }

    /// It holds no job.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.fetching.is_empty()
    }

    /// How a job stands that it holds.
    pub(super) fn live(&self, job: JobId) -> LiveJob {
        let mut live = LiveJob::default();
        if let Some(fetching) = self.fetching.get(&job) {
            (live.fetching, live.transfers) = (true, fetching.transfers());
        }
        match self.active.get(&job).map(|active| &active.phase) {
            Some(Phase::Running { waiting, .. }) => live.waits_for.clone_from(waiting),
            Some(Phase::Sending(sending)) => {
                (live.sending, live.transfers) = (true, sending.transfers());
            }
            _ => {}
        }
        live
    }

    fn claimed(&mut self, claim: Claim, plan: Arc<Plan>) -> Vec<Effect> {
        let (job, fence, directory) = (claim.id, claim.fence, claim.directory.clone());
        let order = StartOrder { job, fence, directory, plan };
        let mut active = Active {
            order: order.clone(),
            kill: claim.kill_requested,
            phase: Phase::Starting,
            claim,
        };
        let effects = match (active.claim.taken_from, active.claim.handle.clone()) {
            (None, _) => active.begin(),
            (Some(_), None) => {
                active.phase = Phase::Locating;
                vec![Effect::Locate(order)]
            }
            (Some(_), Some(handle)) => active.run(handle),
        };
        self.active.insert(job, active);
        effects
    }

    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        answer: Result<Handle, StartError>,
    ) -> Vec<Effect> {
        let mut tries = self.tries.get(&job).copied().unwrap_or_default();
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
                if tries.not_started + 1 < MOST_STARTS && fence < MOST_CLAIMS && !active.kill =>
            {
                active.phase = Phase::Closing;
                tries.not_started += 1;
                self.tries.insert(job, tries);
                return vec![Effect::Unclaim(job, fence, None)];
            }
            Err(StartError::StorageFull(why)) if !active.kill => {
                active.phase = Phase::Closing;
                return vec![Effect::Unclaim(job, fence, Some(Shortage::Disk(why)))];
            }
            Err(StartError::Exhausted(why))
                if tries.exhausted + 1 < MOST_STARTS_EXHAUSTED && !active.kill =>
            {
                active.phase = Phase::Closing;
                tries.exhausted += 1;
                self.tries.insert(job, tries);
                return vec![Effect::Unclaim(job, fence, Some(Shortage::Host(why)))];
            }
            Err(StartError::TooLong { message, limit }) => {
                let limit = Some(limit);
                let fault = Fault { limit, ..Fault::new(FaultCode::LimitExceeded, message) };
                active.close(JobEnd::Refused(Box::new(fault)))
            }
            Err(error) => {
                let (state, code) = match &error {
                    StartError::ProgramMissing(_) => (JobState::Failed, FaultCode::ProgramMissing),
                    StartError::StorageFull(_) => (JobState::Failed, FaultCode::StorageFull),
                    StartError::Exhausted(_) => (JobState::Failed, FaultCode::Unavailable),
                    StartError::NotStarted(_) | StartError::TooLong { .. } => {
                        (JobState::Failed, FaultCode::Internal)
                    }
                    StartError::Unproven(_) => (JobState::Unknown, FaultCode::OutcomeUnknown),
                };
                active.close(JobEnd::Without(state, code, error.to_string()))
            }
        };
        self.tries.remove(&job);
        effects
    }

    fn located(&mut self, job: JobId, fence: u64, located: StartTrace) -> Vec<Effect> {
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        if !matches!(active.phase, Phase::Locating) {
            return Vec::new();
        }
        match located {
            // What an executor wrote of a start may have been lost with the machine's memory: that
            // it finds nothing proves nothing then.
            StartTrace::Never if active.claim.taken_from == Some(Boot::Over) => {
                let why = "the machine was restarted when the program was about to be started: \
                           whether it ran can't be proved";
                active.close(JobEnd::Without(
                    JobState::Unknown,
                    FaultCode::OutcomeUnknown,
                    why.to_owned(),
                ))
            }
            StartTrace::Never => {
                active.phase = Phase::Starting;
                active.begin()
            }
            StartTrace::Started(handle) => {
                let mut effects = vec![Effect::RecordStart(job, fence, handle.clone())];
                effects.extend(active.run(handle));
                effects
            }
            StartTrace::Unproven(why) => {
                active.close(JobEnd::Without(JobState::Unknown, FaultCode::OutcomeUnknown, why))
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
            Observation::Ended(ending) => active.close(JobEnd::Ended(ending)),
            Observation::Died(why) => {
                active.close(JobEnd::Without(JobState::Failed, FaultCode::ProgramKilled, why))
            }
            Observation::Lost(why) => {
                active.close(JobEnd::Without(JobState::Unknown, FaultCode::OutcomeUnknown, why))
            }
        }
    }

    fn kill_requested(&mut self, job: JobId, now: Timestamp) -> Vec<Effect> {
        let mut effects = self.stop_fetching(job, true);
        let Some(active) = self.active.get_mut(&job) else {
            self.tries.remove(&job);
            return effects;
        };
        active.kill = true;
        match &active.phase {
            // Told again while it still runs, it is asked again: a request can be lost with a
            // supervisor.
            Phase::Running { handle, .. } => effects.push(Effect::Cancel(handle.clone())),
            Phase::Sending(_) => effects.extend(active.stop_sending(now)),
            // A start under way is ended as soon as it is known, and nothing is sent any more.
            Phase::Starting | Phase::Locating | Phase::Judging | Phase::Closing => {}
        }
        effects
    }

    fn under(&mut self, job: JobId, fence: u64) -> Option<&mut Active> {
        self.active.get_mut(&job).filter(|active| active.order.fence == fence)
    }
}

impl Active {
    /// Starts it, if it is still wanted and its boot is not over.
    fn begin(&mut self) -> Vec<Effect> {
        if self.kill {
            let why = "the job was killed on request before its program was started".to_owned();
            return self.close(JobEnd::Without(JobState::Killed, FaultCode::JobKilled, why));
        }
        if self.claim.boot == Some(Boot::Over) {
            let why = "the machine was restarted before the call's program was started, and its \
                       caller is gone; call again"
                .to_owned();
            return self.close(JobEnd::Without(JobState::Failed, FaultCode::ProgramKilled, why));
        }
        vec![Effect::Start(self.order.clone())]
    }

    fn run(&mut self, handle: Handle) -> Vec<Effect> {
        self.phase = Phase::Running { handle: handle.clone(), waiting: String::new() };
        let mut effects = vec![Effect::Observe];
        if self.kill {
            effects.push(Effect::Cancel(handle));
        }
        effects
    }

    fn close(&mut self, end: JobEnd) -> Vec<Effect> {
        self.phase = Phase::Judging;
        vec![Effect::Judge(self.order.clone(), end)]
    }

    fn write_end(&mut self, end: Box<Completion>) -> Effect {
        self.phase = Phase::Closing;
        Effect::WriteEnd(self.order.job, self.order.fence, end)
    }
}

#[cfg(test)]
mod tests;
