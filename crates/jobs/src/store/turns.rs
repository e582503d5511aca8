//! Whose turn it is: a running place goes to the owner who has the fewest, of these to the one who was given none for the
//! longest time, and of that owner's jobs to the oldest. So one owner's thousand jobs do not starve another's one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fishplate_contract::Timestamp;

use super::quota::{OwnerUsage, Quota, QuotaPeriod};
use super::{ClaimRequest, StoreError};

/// What an owner has.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    running: u64,
    /// When a place was given last, while others waited too.
    served: Timestamp,
    /// How many places it may have.
    most: Option<u64>,
}

/// A job that waits.
#[derive(Debug)]
struct WaitingJob<T> {
    job: T,
    /// What tells the order of jobs.
    number: u64,
    /// How many of its service may run for it to begin.
    max_running: u64,
}

/// The jobs that wait for a place, by service and owner.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// Of each service and owner, the oldest jobs.
    lines: BTreeMap<(String, String), VecDeque<WaitingJob<T>>>,
    /// How many run of each service.
    services: BTreeMap<String, u64>,
    shares: BTreeMap<String, Share>,
}

impl<T> Turns<T> {
    pub(super) fn new() -> Self {
        Self { lines: BTreeMap::new(), services: BTreeMap::new(), shares: BTreeMap::new() }
    }

    /// A job waits, behind those of the same service and owner that were told before, until fewer than `max_running` of
    /// its service run.
    pub(super) fn wait(
        &mut self,
        (service, owner): (&str, &str),
        number: u64,
        max_running: u32,
        job: T,
    ) {
        let line = (service.to_owned(), owner.to_owned());
        let job = WaitingJob { job, number, max_running: max_running.into() };
        self.lines.entry(line).or_default().push_back(job);
    }

    /// So many more of a service run.
    pub(super) fn service_runs(&mut self, service: &str, running: u64) {
        *self.services.entry(service.to_owned()).or_default() += running;
    }

    /// An owner has so many more places.
    pub(super) fn runs(&mut self, owner: &str, running: u64) {
        self.shares.entry(owner.to_owned()).or_default().running += running;
    }

    /// When an owner was given a place last.
    pub(super) fn was_served(&mut self, owner: &str, at: Timestamp) {
        self.shares.entry(owner.to_owned()).or_default().served = at;
    }

    /// Who waits.
    fn owners(&self) -> BTreeSet<String> {
        self.lines.keys().map(|(_, owner)| owner.clone()).collect()
    }

    /// Whether more than one owner waits: then it matters who was served.
    pub(super) fn is_contended(&self) -> bool {
        self.owners().len() > 1
    }

    /// Bounds those who wait by what they may have; tells whether there is anything to bound. Who has used up their
    /// processor time gets no place.
    pub(super) fn bound_by(
        &mut self,
        request: &ClaimRequest,
        mut usage: impl FnMut(&str, QuotaPeriod) -> Result<OwnerUsage, StoreError>,
    ) -> Result<bool, StoreError> {
        let mut bound = false;
        for owner in self.owners() {
            let limits = request.quotas.of(&owner);
            let mut most = limits.running;
            if limits.cpu_time.is_some()
                && usage(&owner, limits.period)?.excess(Quota::CpuTime, &limits, 0).is_some()
            {
                most = Some(0);
            }
            if let Some(most) = most {
                self.shares.entry(owner).or_default().most = Some(most);
                bound = true;
            }
        }
        Ok(bound)
    }

    /// Gives a place to the job whose turn it is: that job, and its owner.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(String, T)> {
        let Self { lines, services, shares } = self;
        let heads = lines.iter_mut().filter_map(|((service, owner), line)| {
            let Share { running, served, most } = shares.get(owner).copied().unwrap_or_default();
            if most.is_some_and(|most| running >= most) {
                return None;
            }
            // Whoever finds the service full now will not find room later: nothing ends meanwhile.
            let busy = services.get(service).copied().unwrap_or_default();
            while line.front().is_some_and(|head| head.max_running <= busy) {
                line.pop_front();
            }
            Some(((running, served, line.front()?.number), service, owner, line))
        });
        let (_, service, owner, line) = heads.min_by_key(|(order, ..)| *order)?;
        let job = line.pop_front()?.job;
        let share = shares.entry(owner.clone()).or_default();
        (share.running, share.served) = (share.running + 1, now);
        *services.entry(service.clone()).or_default() += 1;
        Some((owner.clone(), job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_service_gives_no_turns() {
        let mut turns = Turns::new();
        for owner in 0..1000 {
            let owner = owner.to_string();
            (0..32).for_each(|number| turns.wait(("full", &owner), number, 1, "full"));
        }
        turns.wait(("other", "last"), 40, 1, "other");
        // Accepted when more of its service might run.
        turns.wait(("full", "5"), 50, 2, "of before");
        turns.service_runs("full", 1);
        let mut given = Vec::new();
        while let Some((_, job)) = turns.next(Timestamp(1)) {
            given.push(job);
        }
        assert_eq!(given, ["other", "of before"]);
    }
}
