//! What goes into a store and comes out of it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};

use super::quota::{OwnerLimits, OwnerQuotas, OwnerUsage, Quota, QuotaExcess};
use crate::completion::Completion;
use crate::executor::Handle;
use crate::process;
use fishplate_programs::output_choices::StoredNotices;

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
    /// How to run it (see [`fishplate_programs::plan`]).
    pub plan: String,
    /// Bytes that it occupies on the disk, its record not counted.
    pub disk: u64,
    /// Bytes that came with it.
    pub bytes_in: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// How many jobs of its service may run at once.
    pub max_running: u32,
    /// How many jobs of its service may be queued, those whose data is being fetched among them.
    pub max_queued: u32,
    /// What its owner may have.
    pub limits: OwnerLimits,
    /// Bytes of data that its owner has beside jobs.
    pub data_bytes: u64,
    /// Its data is to be fetched before it is queued.
    pub fetching: bool,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// For a job that need not survive the machine (a call without a key): the boot it belongs to.
    pub boot: Option<String>,
    /// What is to be told of it.
    pub notices: StoredNotices,
}

impl NewJob {
    /// The quota that stands against it, if this is what its owner has used.
    pub(super) fn excess(&self, mut usage: OwnerUsage) -> Option<QuotaExcess> {
        usage.data_bytes = self.data_bytes;
        let wanted =
            [(Quota::CpuTime, 0), (Quota::Traffic, self.bytes_in), (Quota::Disk, self.disk)];
        wanted.into_iter().find_map(|(quota, wanted)| usage.excess(quota, &self.limits, wanted))
    }
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
    /// So many of the owner's jobs wait for the service already.
    OwnerQueueFull,
    /// Its owner has used up a quota.
    QuotaExceeded(QuotaExcess),
}

/// Who claims, and how much.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who claims.
    pub holder: String,
    /// For how long.
    pub lease: Duration,
    /// How many jobs may run at once in the whole store.
    pub max_running: u32,
    /// What each owner may have.
    pub quotas: Arc<dyn OwnerQuotas>,
    /// Take over running jobs whose lease has lapsed, before any queued one is claimed.
    pub take_over: bool,
    /// Queued jobs to be left where they are for now.
    pub resting: Vec<JobId>,
    /// Places that count as jobs that run.
    pub reserved: Vec<RunningJobs>,
    /// Queued jobs that are claimed whatever else waits and runs: their places were reserved.
    pub first: Vec<JobId>,
}

/// How many jobs of an owner and a service run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJobs {
    /// The service.
    pub service: String,
    /// The owner.
    pub owner: Principal,
    /// How many.
    pub count: u64,
}

/// Who fetches, and for how many jobs.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Who claims.
    pub holder: String,
    /// For how long.
    pub lease: Duration,
    /// How many jobs this holder may fetch for at once, those that it holds already among them.
    pub most: u32,
    /// How many of those may be of one owner, so that slow data of one leaves others a place.
    pub most_of_owner: u32,
}

impl FetchRequest {
    /// Which of those that wait are claimed: always the next of whoever has the fewest.
    /// `held`: the owners of the jobs that this holder fetches for already, one for each job.
    pub(super) fn choose<T>(&self, waiting: Vec<(String, T)>, held: Vec<String>) -> Vec<T> {
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

/// A boot of a machine, as far as the store can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// It goes on.
    Current,
    /// It is over: the machine was restarted since.
    Over,
}

impl Boot {
    /// The boot of this ID, in a store whose users are processes of one machine.
    pub(super) fn of_id(id: &str) -> Self {
        if id == process::boot() { Self::Current } else { Self::Over }
    }
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
    /// It was taken over, so whether it was started must be found out: the boot in which it was claimed
    /// from the queue, whoever took it over since. `None` if it comes from the queue.
    pub taken_from: Option<Boot>,
    /// Its end was asked for.
    pub kill_requested: bool,
    /// The boot it belongs to, if it need not survive the machine.
    pub boot: Option<Boot>,
}

/// Whether a fenced write was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FencedWrite {
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
    /// Of which services.
    pub services: Vec<String>,
    /// Of which operations of these services, service first; none: of all.
    pub operations: Vec<(String, String)>,
    /// In which states only; none: in all.
    pub states: Vec<JobState>,
    /// Submitted not before this.
    pub since: Option<Timestamp>,
    /// Submitted not after this.
    pub until: Option<Timestamp>,
    /// How long they ran, or have run by now.
    pub ran: RunTime,
    /// Only jobs older than this one.
    pub after: Option<JobId>,
    /// How many at the most.
    pub limit: usize,
}

impl Filter {
    /// All jobs of an owner on these services; at most so many.
    pub fn new(owner: Principal, services: Vec<String>, limit: usize) -> Self {
        Self {
            owner,
            services,
            operations: Vec::new(),
            states: Vec::new(),
            since: None,
            until: None,
            ran: RunTime::default(),
            after: None,
            limit,
        }
    }
}

/// How long jobs ran that are listed; those that have not begun only if it is open at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// At least so long.
    pub least: Option<Duration>,
    /// At most so long.
    pub most: Option<Duration>,
}

impl RunTime {
    /// It is open at both ends.
    pub fn is_any(&self) -> bool {
        self.least.is_none() && self.most.is_none()
    }

    /// Whether a job is one of them that ran for so long, if it has begun.
    pub(super) fn includes(&self, ran: Option<Duration>) -> bool {
        self.is_any()
            || ran.is_some_and(|ran| {
                self.least.is_none_or(|least| ran >= least)
                    && self.most.is_none_or(|most| ran <= most)
            })
    }

    /// Its ends in the milliseconds in which a store counts; `None` if it is open at both.
    pub(super) fn millis(&self) -> Option<(i64, i64)> {
        let whole = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let least = self.least.map_or(0, |least| {
            let is_cut = least.subsec_nanos() % 1_000_000 != 0;
            whole(least).saturating_add(i64::from(is_cut))
        });
        (!self.is_any()).then(|| (least, self.most.map_or(i64::MAX, whole)))
    }
}

/// A job's record, without its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
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
    pub completion: Option<Completion>,
}

impl JobRecord {
    /// When its program began, as the program's end tells, or else its start.
    pub fn began(&self) -> Option<Timestamp> {
        self.completion.as_ref().and_then(Completion::began).or(self.started)
    }

    /// When it ended.
    pub fn ended(&self) -> Option<Timestamp> {
        self.completion.as_ref().map(|end| Timestamp(end.ended))
    }

    /// How long it ran, or has run by now.
    pub fn ran(&self, now: Timestamp) -> Option<Duration> {
        self.began().map(|began| self.ended().unwrap_or(now).since(began))
    }
}

/// Jobs that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingJobs {
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
