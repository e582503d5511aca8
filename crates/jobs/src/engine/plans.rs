//! Plans at hand: of jobs that were accepted here and are not claimed yet, so that a job that begins at
//! once is not read back from the store. Bounded by `plan_memory`.

use std::collections::HashMap;
use std::sync::Arc;

use fishplate_contract::JobId;

use fishplate_programs::plan::Plan;

/// Plans of waiting jobs.
#[derive(Debug)]
pub(super) struct PlanCache {
    /// Each with its bytes.
    at_hand: HashMap<JobId, (Arc<Plan>, u64)>,
    bytes: u64,
    most: u64,
}

impl PlanCache {
    /// As many as take so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Self { at_hand: HashMap::new(), bytes: 0, most }
    }

    /// Keeps the plan of a job that may be claimed soon, if there is memory for it.
    pub(super) fn keep(&mut self, job: JobId, plan: &Arc<Plan>, bytes: u64) {
        self.take(job);
        if self.bytes.saturating_add(bytes) <= self.most {
            self.bytes += bytes;
            self.at_hand.insert(job, (Arc::clone(plan), bytes));
        }
    }

    /// The plan of a job, which is not needed here any more.
    pub(super) fn take(&mut self, job: JobId) -> Option<Arc<Plan>> {
        let (plan, bytes) = self.at_hand.remove(&job)?;
        self.bytes -= bytes;
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::conformance;

    #[test]
    fn plans_at_hand_are_bounded_by_their_bytes() {
        let plan = conformance::order("/nowhere".as_ref(), "").plan;
        let job = |n: u8| JobId::from_bytes([n; 16]);
        let mut plans = PlanCache::new(100);
        plans.keep(job(1), &plan, 60);
        plans.keep(job(2), &plan, 60);
        plans.keep(job(3), &plan, 40);
        assert!(plans.take(job(2)).is_none());
        plans.keep(job(1), &plan, 50);
        assert_eq!(plans.bytes, 90);
        assert!(plans.take(job(1)).is_some() && plans.take(job(3)).is_some());
        assert!(plans.take(job(1)).is_none());
        assert_eq!(plans.bytes, 0);
    }
}
