//! What a store must do.

use std::time::Duration;

use fishplate_contract::{JobId, Timestamp};

use super::notices::{DueNotice, Notice};
use super::quota::OwnerUsage;
use super::{
    Claim, ClaimRequest, FencedWrite, FetchClaim, FetchRequest, Filter, JobRecord, KillRequest,
    NewJob, PendingJobs, RunningJobs, StoreError, Submission, Totals, UsageRecord,
};
use crate::completion::Completion;
use crate::executor::Handle;

/// A place for records. Every method of [`Transaction`] is atomic together with the others of its
/// `transact`.
///
/// Its methods block, and are called where that is allowed: by tasks through
/// [`AsyncStore`](super::AsyncStore), which has threads for it. A backend whose driver is asynchronous
/// waits for it there (`Handle::block_on`), and may read in several threads at once.
///
/// Users of one store may be on several machines. So leases lapse by a clock that is the store's (a
/// server's, where there is one), and whether a holder is gone is the store's to tell: at once where it can
/// be sure, else when the lease lapses. A store of one machine asks the machine ([`crate::process`]).
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
    /// queued ones as far as there is room, those that are to come first before: always the oldest of whoever has the fewest that run, and of these was served
    /// longest ago. A job that belongs to a
    /// boot is only for holders of that boot, until it is certain that it is over.
    fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError>;

    /// Claims jobs whose data is to be fetched, in the order of their submission: those that nobody
    /// holds, and those whose lease has lapsed.
    fn claim_fetches(&mut self, request: &FetchRequest) -> Result<Vec<FetchClaim>, StoreError>;

    /// Queues a job whose data was fetched; its plan tells where that is. `disk`: what it occupies
    /// now. `bytes`: how many were fetched. `content`: a digest of all that its results depend on, by which [`Transaction::equal`] finds it.
    fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        plan: &str,
        disk: u64,
        bytes: u64,
        content: Option<&str>,
    ) -> Result<FencedWrite, StoreError>;

    /// Jobs of a service that are done and were queued with this digest, whosever they are; the newest first, at most so many.
    fn equal(
        &mut self,
        service: &str,
        content: &str,
        most: usize,
    ) -> Result<Vec<JobRecord>, StoreError>;

    /// Jobs that this holder fetches data for.
    fn fetching(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError>;

    /// Jobs that have not ended, whosever they are.
    fn unfinished(&mut self) -> Result<Vec<JobId>, StoreError>;

    /// Extends the leases of a holder for so long from now; tells how many it has.
    fn renew(&mut self, holder: &str, lease: Duration) -> Result<usize, StoreError>;

    /// Records that a job's program was started.
    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        handle: &Handle,
        at: Timestamp,
    ) -> Result<FencedWrite, StoreError>;

    /// Puts a claimed job back: it certainly was not started.
    fn unclaim(&mut self, job: JobId, fence: u64) -> Result<FencedWrite, StoreError>;

    /// Records the end of a job that runs, or whose data was to be fetched, and what it has used.
    fn conclude(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError>;

    /// Records the end of a job by forgetting all of it but what it has used: it was delivered to the only one who
    /// could ask.
    fn discard(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError>;

    /// Asks for the end of a job. One that does not run yet is concluded as killed at once.
    fn request_kill(&mut self, job: JobId, at: Timestamp) -> Result<KillRequest, StoreError>;

    /// Jobs of this holder whose end was asked for.
    fn kill_requests(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError>;

    /// The record of a job.
    fn find(&mut self, job: JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Whether a job has a record; cheaper than to find it.
    fn exists(&mut self, job: JobId) -> Result<bool, StoreError>;

    /// The plan of a job, as it was submitted.
    fn plan(&mut self, job: JobId) -> Result<Option<String>, StoreError>;

    /// Records of an owner, newest first.
    fn list(&mut self, filter: &Filter) -> Result<Vec<JobRecord>, StoreError>;

    /// Forgets an ended job; tells whether there was one.
    fn remove(&mut self, job: JobId) -> Result<bool, StoreError>;

    /// Ended jobs that need not be kept: those that ended before `before`, and the oldest of what
    /// exceeds `keep` in number. At most 1000.
    fn expired(&mut self, before: Timestamp, keep: u64) -> Result<Vec<JobId>, StoreError>;

    /// What is to be told of jobs now: of these services, and what nobody else is telling. At most so many, and of one owner no more
    /// than `most_of_owner` together with what is being told of his; owners take turns.
    fn due_notices(
        &mut self,
        services: &[String],
        most: usize,
        most_of_owner: usize,
    ) -> Result<Vec<DueNotice>, StoreError>;

    /// Claims what is to be told, for so long; refused if somebody else did meanwhile, or there is something else to tell.
    fn claim_notice(
        &mut self,
        due: &DueNotice,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError>;

    /// Extends the claim of a holder for so long from now.
    fn renew_notice(
        &mut self,
        job: JobId,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError>;

    /// Gives a claim back: it was not told, and nobody tries for so long.
    fn release_notice(
        &mut self,
        job: JobId,
        holder: &str,
        rest: Duration,
    ) -> Result<FencedWrite, StoreError>;

    /// It was told, or never can be.
    fn settle_notice(
        &mut self,
        job: JobId,
        holder: &str,
        told: Notice,
    ) -> Result<FencedWrite, StoreError>;

    /// Who holds jobs that run, or whose data is being fetched.
    fn holders(&mut self) -> Result<Vec<String>, StoreError>;

    /// Jobs that run, by service and owner.
    fn running(&mut self) -> Result<Vec<RunningJobs>, StoreError>;

    /// How many jobs wait and run.
    fn backlog(&mut self) -> Result<PendingJobs, StoreError>;

    /// When the job was submitted that came last; `None` if there is none.
    fn newest(&mut self) -> Result<Option<Timestamp>, StoreError>;

    /// Records what was used without a job.
    fn account(&mut self, record: &UsageRecord) -> Result<(), StoreError>;

    /// What was used by all that ended from `since` on and before `until`: sums of days, then records.
    fn usage(&mut self, since: Timestamp, until: Timestamp)
    -> Result<Vec<UsageRecord>, StoreError>;

    /// What an owner has used since a day began, and has now. Cheap: its records are not read.
    fn owner_usage(&mut self, owner: &str, since: Timestamp) -> Result<OwnerUsage, StoreError>;

    /// Forgets what was used before `before`, and of the oldest records beyond `keep` makes sums, one for all of a
    /// day, owner, service, operation and state. Some of them; tells whether there are more.
    fn fold_usage(&mut self, before: Timestamp, keep: u64) -> Result<bool, StoreError>;

    /// Forgets when owners were given a place last, if that was before `before` and no job of theirs waits or runs.
    fn forget_owners(&mut self, before: Timestamp) -> Result<(), StoreError>;

    /// How many jobs have ended, and what all jobs occupy, records included. Reads every one of them.
    fn totals(&mut self) -> Result<Totals, StoreError>;
}
