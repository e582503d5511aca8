//! Where records of jobs live. One trait, one conformance suite, one file a backend.
//!
//! A claim on a job is *leased*: it lapses unless it is renewed, and at once when its holder is
//! known to be dead. It is *fenced*: each claim of a job has a larger fence than the one before,
//! and what an older fence writes is refused. So CGI processes and several servers share a store.
//! A job whose data is being fetched is leased and fenced alike, but holds no running place.

pub mod commit;
#[cfg(test)]
mod conformance;
pub mod memory;
pub mod sqlite;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};

use crate::conclusion::Conclusion;
use crate::executor::Handle;

/// A place for records. Every method of [`Transaction`] is atomic together with the others of its
/// `transact`.
pub trait Store: Send + Sync {
    /// Runs `work` as one transaction; on an error nothing of it has happened. If `durable`, it
    /// survives a power failure once this returns; if not, it survives a killed process.
    ///
    /// # Errors
    /// What `work` returned, or what the storage said at commit.
    fn transact(
        &self,
        durable: bool,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Runs `work`, which only reads, without waiting for writers.
    ///
    /// # Errors
    /// What `work` returned.
    fn read(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Keeps so many bytes for transactions to come, so that they go on for a while when the disk
    /// is full. Asked for again and again; nothing where records take no room on a disk.
    ///
    /// # Errors
    /// There is no room to keep.
    fn keep_room(&self, _bytes: u64) -> std::io::Result<()> {
        Ok(())
    }

    /// Gives room back to the disk that records took which are gone. Asked for again and again.
    ///
    /// # Errors
    /// What the storage said.
    fn give_back(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The verbs on records.
pub trait Transaction {
    /// Accepts a job, or finds the one that was accepted under the same key.
    fn submit(&mut self, job: &NewJob) -> Result<Submission, StoreError>;

    /// Records a job whose record was lost after it was worked on under this fence: it may have been
    /// started, so it runs, and whoever claims next takes it over, under a larger one; if its data is
    /// to be fetched, that comes first.
    fn adopt(&mut self, job: &NewJob, fence: u64) -> Result<Submission, StoreError>;

    /// Claims what this holder may work on: running jobs whose lease has lapsed, if asked for, and
    /// queued ones in the order of their submission, as far as there is room.
    fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError>;

    /// Claims jobs whose data is to be fetched, in the order of their submission: those that nobody
    /// holds, and those whose lease has lapsed.
    fn claim_fetches(&mut self, request: &FetchRequest) -> Result<Vec<FetchClaim>, StoreError>;

    /// Queues a job whose data was fetched; its plan tells where that is. `disk`: what it occupies
    /// now.
    fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        plan: &str,
        disk: u64,
    ) -> Result<Fenced, StoreError>;

    /// Jobs that this holder fetches data for.
    fn fetching(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError>;

    /// Jobs that have not ended, whosever they are.
    fn unfinished(&mut self) -> Result<Vec<JobId>, StoreError>;

    /// Extends the leases of a holder; tells how many it has.
    fn renew(&mut self, holder: &str, until: Timestamp) -> Result<usize, StoreError>;

    /// Records that a job's program was started.
    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        handle: &Handle,
        at: Timestamp,
    ) -> Result<Fenced, StoreError>;

    /// Puts a claimed job back: it certainly was not started.
    fn unclaim(&mut self, job: JobId, fence: u64) -> Result<Fenced, StoreError>;

    /// Records the end of a job that runs, or whose data was to be fetched.
    fn conclude(
        &mut self,
        job: JobId,
        fence: u64,
        conclusion: &Conclusion,
    ) -> Result<Fenced, StoreError>;

    /// Records the end of a job by forgetting it: it was delivered to the only one who could ask.
    fn discard(&mut self, job: JobId, fence: u64) -> Result<Fenced, StoreError>;

    /// Asks for the end of a job. One that does not run yet is concluded as killed at once.
    fn request_kill(&mut self, job: JobId, at: Timestamp) -> Result<KillRequest, StoreError>;

    /// Jobs of this holder whose end was asked for.
    fn kill_requests(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError>;

    /// The record of a job.
    fn find(&mut self, job: JobId) -> Result<Option<Record>, StoreError>;

    /// Whether a job has a record; cheaper than to find it.
    fn exists(&mut self, job: JobId) -> Result<bool, StoreError>;

    /// The plan of a job, as it was submitted.
    fn plan(&mut self, job: JobId) -> Result<Option<String>, StoreError>;

    /// Records of an owner, newest first.
    fn list(&mut self, filter: &Filter) -> Result<Vec<Record>, StoreError>;

    /// Forgets an ended job; tells whether there was one.
    fn remove(&mut self, job: JobId) -> Result<bool, StoreError>;

    /// Ended jobs that need not be kept: those that ended before `before`, and the oldest of what
    /// exceeds `keep` in number. At most 1000.
    fn expired(&mut self, before: Timestamp, keep: u64) -> Result<Vec<JobId>, StoreError>;

    /// Who holds jobs that run, or whose data is being fetched.
    fn holders(&mut self) -> Result<Vec<String>, StoreError>;

    /// How many jobs wait and run.
    fn backlog(&mut self) -> Result<Backlog, StoreError>;

    /// When the job was submitted that came last; `None` if there is none.
    fn newest(&mut self) -> Result<Option<Timestamp>, StoreError>;

    /// How many jobs have ended, and what all jobs occupy, records included. Reads every one of them.
    fn totals(&mut self) -> Result<Totals, StoreError>;
}

/// A job to be accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its ID, drawn by the engine.
    pub id: JobId,
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Its owner.
    pub owner: Principal,
    /// Its idempotency key.
    pub key: Option<String>,
    /// A digest of operation and arguments: the same key with another one is a conflict.
    pub fingerprint: u64,
    /// How to run it ([`crate::plan::recorded`]).
    pub plan: String,
    /// Bytes that it occupies on the disk, its record not counted.
    pub disk: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// How many jobs of its service may run at once.
    pub max_running: u32,
    /// How many jobs of its service may be queued, those whose data is being fetched among them.
    pub max_queued: u32,
    /// Its data is to be fetched before it is queued.
    pub fetching: bool,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// For a job that need not survive the machine (a call without a key): the boot it belongs to.
    pub boot: Option<String>,
}

/// What came of submitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// A new job was accepted.
    Accepted,
    /// The same key was used before, with the same arguments: this is its job.
    Existing(JobId),
    /// The same key was used before, with other arguments.
    KeyConflict(JobId),
    /// The queue of the service is full.
    QueueFull,
}

/// Who claims, and how much.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims.
    pub holder: String,
    /// The time at this moment, by the wall clock.
    pub now: Timestamp,
    /// For how long.
    pub lease: Duration,
    /// How many jobs may run at once in the whole store.
    pub max_running: u32,
    /// Holders known to be dead: their leases have lapsed whatever they say.
    pub dead: Vec<String>,
    /// Take over running jobs whose lease has lapsed, before any queued one is claimed.
    pub take_over: bool,
    /// Queued jobs to be left where they are for now.
    pub resting: Vec<JobId>,
}

/// Who fetches, and for how many jobs.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Who claims.
    pub holder: String,
    /// The time at this moment, by the wall clock.
    pub now: Timestamp,
    /// For how long.
    pub lease: Duration,
    /// How many jobs this holder may fetch for at once, those that it holds already among them.
    pub most: u32,
    /// How many of those may be of one owner, so that slow data of one leaves others a place.
    pub most_of_owner: u32,
    /// Holders known to be dead: their leases have lapsed whatever they say.
    pub dead: Vec<String>,
}

impl FetchRequest {
    /// Which of those that wait are claimed: always the next of whoever has the fewest.
    /// `held`: the owners of the jobs that this holder fetches for already, one for each job.
    fn choose<T>(&self, waiting: Vec<(String, T)>, held: Vec<String>) -> Vec<T> {
        let room = (self.most as usize).saturating_sub(held.len());
        let mut lines: BTreeMap<String, (usize, VecDeque<(usize, T)>)> = BTreeMap::new();
        for owner in held {
            lines.entry(owner).or_default().0 += 1;
        }
        for (at, (owner, job)) in waiting.into_iter().enumerate() {
            lines.entry(owner).or_default().1.push_back((at, job));
        }
        let mut chosen = Vec::new();
        while chosen.len() < room {
            let may = |(has, _): &&mut (usize, _)| *has < self.most_of_owner as usize;
            let next = lines
                .values_mut()
                .filter(may)
                .filter_map(|(has, line)| Some((*has, line.front()?.0, has, line)))
                .min_by_key(|(has, at, ..)| (*has, *at));
            let Some((_, _, has, line)) = next else { break };
            *has += 1;
            chosen.extend(line.pop_front().map(|(_, job)| job));
        }
        chosen
    }
}

/// A job whose data is to be fetched by whoever holds this.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchClaim {
    /// The job.
    pub id: JobId,
    /// Its owner.
    pub owner: Principal,
    /// Its directory.
    pub directory: PathBuf,
    /// The fence to write under.
    pub fence: u64,
}

/// A claimed job.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The job.
    pub id: JobId,
    /// Its service.
    pub service: String,
    /// Its owner.
    pub owner: Principal,
    /// Its directory.
    pub directory: PathBuf,
    /// The fence to write under.
    pub fence: u64,
    /// The handle of its start, if one was recorded.
    pub handle: Option<Handle>,
    /// Who held it before: whether it was started must be found out. `None` if nobody did.
    pub taken_from: Option<String>,
    /// Its end was asked for.
    pub kill_requested: bool,
    /// The boot it belongs to, if it need not survive the machine.
    pub boot: Option<String>,
}

/// Whether a fenced write was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fenced {
    /// The fence still held, and it was written.
    Accepted,
    /// The claim is not ours any more, or the job is gone; nothing was written.
    Stale,
}

/// What came of asking for the end of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum KillRequest {
    /// There is no such job.
    NoSuchJob,
    /// It was queued, or its data was being fetched, and is killed now.
    Dequeued,
    /// It runs; its holder will end it. The handle of its start, if one was recorded.
    Requested(Option<Handle>),
    /// It had ended already.
    Ended(JobState),
}

/// What to list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Whose jobs.
    pub owner: Principal,
    /// Of which service.
    pub service: String,
    /// In which state only.
    pub state: Option<JobState>,
    /// Only jobs older than this one.
    pub after: Option<JobId>,
    /// How many at the most.
    pub limit: usize,
}

/// A job's record, without its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its ID.
    pub id: JobId,
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Its owner.
    pub owner: Principal,
    /// Its directory.
    pub directory: PathBuf,
    /// Where it stands.
    pub state: JobState,
    /// Its end was asked for.
    pub kill_requested: bool,
    /// When it was accepted.
    pub submitted: Timestamp,
    /// When its program was started.
    pub started: Option<Timestamp>,
    /// How it ended.
    pub conclusion: Option<Conclusion>,
}

/// Jobs that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Jobs whose data is being fetched.
    pub fetching: u64,
    /// Jobs that wait.
    pub queued: u64,
    /// Jobs that run.
    pub running: u64,
}

/// Sums over all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Jobs that have ended and are kept.
    pub ended: u64,
    /// Bytes that jobs occupy, ended or not.
    pub disk: u64,
}

/// A store that cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk that holds the job store is full; free some space there")]
    Full,
    /// What is there is no store, or is damaged.
    #[error(
        "the job store is damaged: stop what uses it and restore a backup (fishplate restore), or \
         move jobs.sqlite, jobs.sqlite-wal and jobs.sqlite-shm away; the directories of jobs stay, \
         and `fishplate lost list` shows those without a record"
    )]
    Damaged(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Anything else the storage said.
    #[error("the job store failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thread that writes has ended.
    #[error("the job store is closed")]
    Closed,
}
