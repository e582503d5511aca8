//! What was used: a record for each job and transfer, kept beyond it.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::NewJob;
use crate::completion::Completion;
use crate::executor::{ArrayBytes, Output, OutputContent};

/// A day in milliseconds: records that are too many become sums of one.
pub const DAY: i64 = 86_400_000;

/// What a job, or a transfer beside jobs, has used; or what many have, whose own records are gone.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRecord {
    /// The job, if it is one's.
    pub job: Option<JobId>,
    /// Whose it was.
    pub owner: Principal,
    /// Its service; `data` for uploads, for what was read at an address, and for results that were given again.
    pub service: String,
    /// Its operation; `upload`, `read` and `results` for transfers.
    pub operation: String,
    /// How many jobs or transfers it stands for.
    pub count: u64,
    /// When it was accepted; of a sum, the day.
    pub submitted: Timestamp,
    /// When its program was started, if it was.
    pub started: Option<Timestamp>,
    /// When it ended; of a sum, the day.
    pub ended: Timestamp,
    /// How it ended: name of the final state ([`fishplate_contract::JobState::name`]).
    pub state: String,
    /// Processor seconds, user and system.
    pub cpu_seconds: f64,
    /// From the start of the program to the end of all its processes, in milliseconds.
    pub wall: u64,
    /// Largest resident memory, in bytes; of a sum, of the largest.
    pub max_memory: u64,
    /// Bytes that came: with the call, and fetched for it.
    pub bytes_in: u64,
    /// Bytes that it gave.
    pub bytes_out: u64,
}

impl UsageRecord {
    /// That of a job that ended so.
    pub(super) fn of_job(new: &NewJob, started: Option<Timestamp>, end: &Completion) -> Self {
        let used = JobUsage::of(end);
        Self {
            job: Some(new.id),
            owner: new.owner.clone(),
            service: new.service.clone(),
            operation: new.operation.clone(),
            count: 1,
            submitted: new.submitted,
            started: used.started.or(started),
            ended: Timestamp(end.ended),
            state: end.state.clone(),
            cpu_seconds: used.cpu_seconds,
            wall: used.wall,
            max_memory: used.max_memory,
            bytes_in: new.bytes_in + used.bytes_in,
            bytes_out: used.bytes_out,
        }
    }

    /// That of something that took no job, from then to now.
    pub fn without_job(
        owner: Principal,
        (service, operation): (impl Into<String>, impl Into<String>),
        state: JobState,
        took: Duration,
        ended: Timestamp,
    ) -> Self {
        let wall = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let begun = Timestamp(ended.0.saturating_sub_unsigned(wall));
        Self {
            job: None,
            owner,
            service: service.into(),
            operation: operation.into(),
            count: 1,
            submitted: begun,
            started: Some(begun),
            ended,
            state: state.name().to_owned(),
            cpu_seconds: 0.0,
            wall,
            max_memory: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// The day in which it ended.
    pub fn day(&self) -> Timestamp {
        Timestamp(self.ended.0.div_euclid(DAY) * DAY)
    }

    /// Adds what another one has used.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.cpu_seconds += other.cpu_seconds;
        self.wall += other.wall;
        self.max_memory = self.max_memory.max(other.max_memory);
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// A sum of one.
    pub(super) fn summed(&self) -> Self {
        let day = self.day();
        Self { job: None, submitted: day, started: None, ended: day, ..self.clone() }
    }

    /// Whether both belong to one sum.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.sum_key() == other.sum_key()
    }

    /// What those of a sum have in common: the day; owner, service, operation and state.
    fn sum_key(&self) -> (Timestamp, [&str; 4]) {
        let owner = self.owner.as_str();
        (self.day(), [owner, &self.service, &self.operation, &self.state])
    }
}

/// So many sums are gathered at the most.
const MOST_SUMS: usize = 100_000;

/// What was used without a job, gathered: of one owner, service, operation, state and day together, so that many small
/// things take no more room than one.
#[derive(Debug, Default)]
pub struct UsageAccumulator {
    /// Found by their [`UsageRecord::sum_key`].
    sums: HashTable<UsageRecord>,
    hasher: RandomState,
    dropped: u64,
}

impl UsageAccumulator {
    /// Adds a record. It is counted as dropped if there is no room for one more sum.
    pub fn add(&mut self, record: UsageRecord) {
        let (hash, room) =
            (|it: &UsageRecord| self.hasher.hash_one(it.sum_key()), self.sums.len() < MOST_SUMS);
        match self.sums.entry(hash(&record), |sum| sum.is_alike(&record), hash) {
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.add(&record);
                sum.submitted = sum.submitted.min(record.submitted);
                sum.started = sum.started.min(record.started);
                sum.ended = sum.ended.max(record.ended);
            }
            Entry::Vacant(place) if room => drop(place.insert(record)),
            Entry::Vacant(_) => self.dropped += record.count,
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: Self) {
        self.dropped += other.dropped;
        other.sums.into_iter().for_each(|record| self.add(record));
    }

    /// The sums, in no order, of which nothing is left here.
    pub fn take(&mut self) -> Vec<UsageRecord> {
        std::mem::take(&mut self.sums).into_iter().collect()
    }

    /// How many jobs and transfers were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What the end of a job tells of what it used.
pub(super) struct JobUsage {
    pub(super) started: Option<Timestamp>,
    pub(super) cpu_seconds: f64,
    pub(super) wall: u64,
    pub(super) max_memory: u64,
    /// Of inputs that came in part: others were counted when they were there.
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl JobUsage {
    pub(super) fn of(end: &Completion) -> Self {
        let ending = end.ending.as_ref();
        let wall = ending.map_or(0, |it| it.ended.saturating_sub(it.started));
        let failed = end.transfers.iter().filter(|it| !it.out);
        Self {
            started: ending.map(|it| Timestamp(it.started)),
            cpu_seconds: ending.map_or(0.0, |it| it.cpu_seconds),
            wall: u64::try_from(wall).unwrap_or(0),
            max_memory: ending.map_or(0, |it| it.max_memory),
            bytes_in: failed.map(|it| it.bytes).sum(),
            bytes_out: end.outputs().iter().map(bytes).sum(),
        }
    }
}

fn bytes(output: &Output) -> u64 {
    match &output.content {
        OutputContent::Text(text) => text.len() as u64,
        OutputContent::Array { bytes: ArrayBytes::Inline(bytes), .. } => bytes.len() as u64,
        OutputContent::TextFile { len, .. }
        | OutputContent::File { len, .. }
        | OutputContent::Archive { len, .. }
        | OutputContent::Array { bytes: ArrayBytes::File { len, .. }, .. } => *len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_gathered_and_what_has_no_room_is_counted() {
        let transfer = |owner: &str, at| UsageRecord {
            bytes_out: 10,
            ..UsageRecord::without_job(
                Principal::named(owner),
                ("data", "read"),
                JobState::Done,
                Duration::from_millis(2),
                Timestamp(at),
            )
        };
        let mut gathered = UsageAccumulator::default();
        for at in [5, 9, 7, DAY] {
            gathered.add(transfer("ada", at));
        }
        gathered.add(transfer("bob", 6));
        let told = |it: &UsageRecord| {
            (it.owner.as_str().to_owned(), it.count, it.submitted.0, it.ended.0, it.bytes_out)
        };
        let mut sums: Vec<_> = gathered.take().iter().map(told).collect();
        sums.sort();
        let sum = |owner: &str, count, from, to| (owner.to_owned(), count, from, to, count * 10);
        assert_eq!(sums, [sum("ada", 1, DAY - 2, DAY), sum("ada", 3, 3, 9), sum("bob", 1, 4, 6)]);
        assert_eq!(gathered.take(), []);
        for number in 0..MOST_SUMS + 7 {
            gathered.add(transfer(&number.to_string(), 1));
        }
        gathered.add(transfer("0", 1));
        assert_eq!(gathered.dropped(), 7);
        assert_eq!(gathered.take().len(), MOST_SUMS);
        assert_eq!(gathered.dropped(), 7, "until the process ends");
    }
}
