//! Whose turn it is: a running place goes to the owner who has the fewest, of these to the one who was given none for the
//! longest time, and of that owner's jobs to the oldest. So one owner's thousand jobs do not starve another's one.

use std::collections::{BTreeMap, VecDeque};

use fishplate_contract::Timestamp;

/// What an owner has.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    running: u64,
    /// When a place was given last, while others waited too.
    served: Timestamp,
}

/// The jobs that wait for a place, by service and owner.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// Of each service and owner, the oldest jobs, with what tells their order.
    lines: BTreeMap<(String, String), VecDeque<(u64, T)>>,
    shares: BTreeMap<String, Share>,
    /// How many places one owner may have.
    most_of_owner: u64,
}

impl<T> Turns<T> {
    pub(super) fn new(most_of_owner: u64) -> Self {
        Self { lines: BTreeMap::new(), shares: BTreeMap::new(), most_of_owner }
    }

    /// A job waits, behind those of the same service and owner that were told before.
    pub(super) fn wait(&mut self, service: &str, owner: &str, number: u64, job: T) {
        let line = (service.to_owned(), owner.to_owned());
        self.lines.entry(line).or_default().push_back((number, job));
    }

    /// An owner has so many places.
    pub(super) fn runs(&mut self, owner: &str, running: u64) {
        self.shares.entry(owner.to_owned()).or_default().running += running;
    }

    /// When an owner was given a place last.
    pub(super) fn was_served(&mut self, owner: &str, at: Timestamp) {
        self.shares.entry(owner.to_owned()).or_default().served = at;
    }

    /// Whether more than one owner waits: then it matters who was served.
    pub(super) fn is_contended(&self) -> bool {
        let mut owners = self.lines.keys().map(|(_, owner)| owner);
        owners.next().is_some_and(|first| owners.any(|owner| owner != first))
    }

    /// The job whose turn it is, and its owner.
    pub(super) fn next(&mut self) -> Option<(String, T)> {
        let share = |owner: &String| self.shares.get(owner).copied().unwrap_or_default();
        let may = |owner: &String| share(owner).running < self.most_of_owner;
        let heads =
            self.lines.iter().filter(|((_, owner), _)| may(owner)).filter_map(|(key, line)| {
                let Share { running, served } = share(&key.1);
                Some(((running, served, line.front()?.0), key.clone()))
            });
        let (_, key) = heads.min_by_key(|(order, _)| *order)?;
        let (_, job) = self.lines.get_mut(&key)?.pop_front()?;
        Some((key.1, job))
    }

    /// It was given a place.
    pub(super) fn took(&mut self, owner: &str, now: Timestamp) {
        let share = self.shares.entry(owner.to_owned()).or_default();
        *share = Share { running: share.running + 1, served: now };
    }
}
