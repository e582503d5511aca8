//! The seconds of all agents, brought together: one after the other, each once all have told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::record::{LoadSecond, MergedSecond, SystemSecond};

/// Agents do not tell the future; clocks differ by less than this, in seconds.
const EARLIEST: u32 = 2;

/// What is known of seconds that were not judged yet.
#[derive(Debug)]
pub(super) struct Seconds {
    /// The next to be judged.
    next: u32,
    load: BTreeMap<u32, MergedSecond>,
    system: BTreeMap<u32, SystemSecond>,
    /// Client agents that still tell.
    telling: BTreeSet<u32>,
    /// How much later than its end a second may be told, in seconds; then it is judged without who has not told.
    late: f64,
}

impl Seconds {
    /// None yet, of so many client agents.
    pub(super) fn new(agents: u32, late: Duration) -> Self {
        Self {
            next: 0,
            load: BTreeMap::new(),
            system: BTreeMap::new(),
            telling: (0..agents).collect(),
            late: late.as_secs_f64(),
        }
    }

    /// Whether an agent can tell this now; why it can't.
    pub(super) fn expects(&self, second: &LoadSecond, now: f64) -> Result<(), String> {
        if f64::from(second.second) > now + f64::from(EARLIEST) {
            return Err(format!("it is told {now:.1} s after the start"));
        }
        let told = self.load.get(&second.second);
        match told.is_some_and(|told| told.agents.contains(&second.agent)) {
            true => Err("it was told before".to_owned()),
            false => Ok(()),
        }
    }

    /// A client agent tells nothing any more.
    pub(super) fn ended(&mut self, agent: u32) {
        self.telling.remove(&agent);
    }

    /// What a client agent saw; this is `now`, in seconds since the common start. False if it can't be: too late, of the
    /// future, or with histograms that are none.
    pub(super) fn load(&mut self, second: &LoadSecond, now: f64) -> bool {
        self.is_open(second.second, now)
            && self
                .load
                .entry(second.second)
                .or_insert_with(|| MergedSecond::new(second.second))
                .add(second)
                .is_ok()
    }

    /// What the agent of the system saw.
    pub(super) fn system(&mut self, second: SystemSecond, now: f64) -> bool {
        let open = self.is_open(second.second, now);
        if open {
            self.system.insert(second.second, second);
        }
        open
    }

    fn is_open(&self, second: u32, now: f64) -> bool {
        second >= self.next && f64::from(second) <= now + f64::from(EARLIEST)
    }

    /// Whether nothing that was told waits to be judged.
    pub(super) fn are_judged(&self) -> bool {
        self.load.is_empty()
    }

    /// The next second, if all have told of it, or it is too late for the others.
    pub(super) fn take(&mut self, now: f64) -> Option<(MergedSecond, SystemSecond)> {
        let second = self.next;
        let all_told = {
            let told = self.load.get(&second).map(|load| &load.agents);
            let told_by = |agent| told.is_some_and(|agents| agents.contains(agent));
            // Who ended tells nothing; a second without anybody is judged when it is over.
            self.telling.iter().all(told_by)
                && self.system.contains_key(&second)
                && now >= f64::from(second + 1)
        };
        (all_told || now >= f64::from(second + 1) + self.late).then(|| {
            self.next += 1;
            let load = self.load.remove(&second).unwrap_or_else(|| MergedSecond::new(second));
            let unseen = || SystemSecond { second, ..SystemSecond::default() };
            (load, self.system.remove(&second).unwrap_or_else(unseen))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(agent: u32, second: u32) -> LoadSecond {
        LoadSecond { agent, second, begun: 1, ..LoadSecond::default() }
    }

    fn system(second: u32) -> SystemSecond {
        SystemSecond { second, connections: 5, ..SystemSecond::default() }
    }

    #[test]
    fn a_second_is_judged_when_all_have_told_of_it() {
        let mut seconds = Seconds::new(2, Duration::from_secs(3));
        assert!(seconds.load(&load(0, 0), 1.1) && seconds.system(system(0), 1.1));
        assert!(seconds.take(1.2).is_none(), "agent 1 has not told");
        assert!(seconds.expects(&load(1, 0), 1.3).is_ok());
        assert!(seconds.expects(&load(0, 0), 1.3).is_err_and(|why| why.contains("told before")));
        assert!(seconds.expects(&load(1, 9), 1.3).is_err_and(|why| why.contains("1.3 s after")));
        assert!(seconds.load(&load(1, 0), 1.3));
        let (merged, seen) = seconds.take(1.3).expect("all have told");
        assert_eq!((merged.second, merged.begun, seen.connections), (0, 2, 5));
        assert!(!seconds.load(&load(0, 0), 1.4), "it was judged");
        assert!(!seconds.load(&load(0, 1_000_000), 1.4), "of the future");
    }

    #[test]
    fn who_is_late_or_gone_is_not_waited_for() {
        let mut seconds = Seconds::new(2, Duration::from_secs(3));
        assert!(seconds.load(&load(0, 0), 1.1) && seconds.system(system(0), 1.1));
        assert!(seconds.take(3.9).is_none());
        assert_eq!(seconds.take(4.1).expect("too late").0.begun, 1);
        seconds.ended(1);
        assert!(seconds.load(&load(0, 1), 4.1) && seconds.system(system(1), 4.1));
        assert_eq!(seconds.take(4.1).expect("the only one has told").0.second, 1);
        seconds.ended(0);
        assert!(seconds.take(5.5).is_none());
        let (merged, seen) = seconds.take(6.1).expect("nobody told");
        assert_eq!((merged.second, merged.begun, seen.second), (2, 0, 2));
    }
}
