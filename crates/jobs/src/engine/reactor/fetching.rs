//! The state `fetching`: a directory is made, all inputs are fetched at once, what came becomes what
//! the program gets, and the job is queued. The first that fails ends the others.

use std::sync::Arc;

use fishplate_contract::{Fault, JobId, PlacementMethod, Timestamp, TransferState};

use super::{Effect, FetchedJob, Reactor};
use crate::completion::{Completion, TransferResult};
use crate::engine::transfers::JobTransfer;
use crate::store::FetchClaim;
use fishplate_programs::plan::Plan;

/// A job whose data is fetched under this claim.
#[derive(Debug)]
pub(super) struct JobStaging {
    claim: FetchClaim,
    plan: Arc<Plan>,
    moves: Vec<JobTransfer>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Preparing,
    Fetching,
    Arranging,
    /// It is being queued, or its end written: that is not stopped any more, so that this process
    /// hears whether it may start the job.
    Closing,
}

impl JobStaging {
    /// What its transfers have come to.
    pub(super) fn transfers(&self) -> Vec<TransferResult> {
        self.moves.iter().map(JobTransfer::moved).collect()
    }

    fn fail(&mut self, fault: Fault, now: Timestamp) -> Vec<Effect> {
        self.phase = Phase::Closing;
        self.moves.iter().for_each(JobTransfer::give_up);
        let mut end = Completion::of_fault(fault, now);
        end.transfers = self.transfers();
        vec![Effect::Discard(self.claim.clone(), None, Some(Box::new(end)))]
    }

    fn arrange(&mut self) -> Vec<Effect> {
        self.phase = Phase::Arranging;
        vec![Effect::Arrange(self.claim.clone(), Arc::clone(&self.plan), self.transfers())]
    }
}

impl Reactor {
    pub(super) fn fetch_claimed(&mut self, claim: FetchClaim, plan: Arc<Plan>) -> Vec<Effect> {
        let moves = plan.fetches().map(JobTransfer::of_input).collect();
        let fetching = JobStaging { claim: claim.clone(), plan, moves, phase: Phase::Preparing };
        // Another process had it meanwhile, and lost it.
        let earlier = self.fetching.insert(claim.id, fetching);
        let mut effects: Vec<_> =
            earlier.map(|it| Effect::Discard(it.claim, None, None)).into_iter().collect();
        effects.push(Effect::Prepare(claim));
        effects
    }

    pub(super) fn prepared(
        &mut self,
        job: JobId,
        fence: u64,
        made: Result<(), Fault>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(it) = self.fetching_in(job, fence, Phase::Preparing) else { return Vec::new() };
        if let Err(fault) = made {
            return it.fail(fault, now);
        }
        if it.moves.is_empty() {
            return it.arrange();
        }
        it.phase = Phase::Fetching;
        let fetch = |(at, input): (usize, &JobTransfer)| {
            Effect::Fetch(it.claim.clone(), Arc::clone(&it.plan), at, input.begin())
        };
        it.moves.iter().enumerate().map(fetch).collect()
    }

    pub(super) fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        at: usize,
        placed: Result<PlacementMethod, Fault>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(it) = self.fetching_in(job, fence, Phase::Fetching) else { return Vec::new() };
        let Some(input) = it.moves.get_mut(at) else { return Vec::new() };
        match placed {
            Ok(placing) => input.arrived(placing),
            Err(fault) => {
                input.progress.enter(TransferState::Failed);
                let fault = fault.parameter(&input.parameter);
                return it.fail(fault, now);
            }
        }
        if it.moves.iter().all(|input| input.placed.is_some()) { it.arrange() } else { Vec::new() }
    }

    pub(super) fn arrived(
        &mut self,
        job: JobId,
        fence: u64,
        arrived: Result<Box<FetchedJob>, Fault>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(it) = self.fetching_in(job, fence, Phase::Arranging) else { return Vec::new() };
        match arrived {
            Ok(arrived) => {
                it.phase = Phase::Closing;
                vec![Effect::Queue(it.claim.clone(), arrived)]
            }
            Err(fault) => it.fail(fault, now),
        }
    }

    /// Claims under which data is fetched that may still be lost.
    pub(in crate::engine) fn fetch_claims(&self) -> Vec<(JobId, u64)> {
        let open = self.fetching.values().filter(|it| it.phase != Phase::Closing);
        open.map(|it| (it.claim.id, it.claim.fence)).collect()
    }

    /// The claim is another's now, or the job has ended: then nobody goes on from what has come.
    pub(super) fn fetch_lost(&mut self, job: JobId, fence: u64, ended: bool) -> Vec<Effect> {
        match self.fetching_under(job, fence) {
            Some(_) => self.stop_fetching(job, ended),
            None => Vec::new(),
        }
    }

    /// Stops fetching for a job. `for_good`: nobody goes on from what has come.
    pub(super) fn stop_fetching(&mut self, job: JobId, for_good: bool) -> Vec<Effect> {
        let open = |it: &JobStaging| it.phase != Phase::Closing;
        if !self.fetching.get(&job).is_some_and(open) {
            return Vec::new();
        }
        let stopped = self.fetching.remove(&job);
        let discard = |it: JobStaging| Effect::Discard(it.claim, for_good.then_some(it.plan), None);
        stopped.map(discard).into_iter().collect()
    }

    pub(super) fn fetching_under(&mut self, job: JobId, fence: u64) -> Option<&mut JobStaging> {
        self.fetching.get_mut(&job).filter(|it| it.claim.fence == fence)
    }

    fn fetching_in(&mut self, job: JobId, fence: u64, phase: Phase) -> Option<&mut JobStaging> {
        self.fetching_under(job, fence).filter(|it| it.phase == phase)
    }
}
