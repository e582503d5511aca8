//! What every store must do, run on each of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fishplate_contract::{Clock, FaultCode, JobId, JobState, Principal, Timestamp};

use super::memory::MemoryStore;
use super::quota::{DayUsage, OwnerLimits, Quota, QuotaExcess};
use super::sqlite::SqliteStore;
use super::{
    Boot, ClaimRequest, FencedWrite, FetchClaim, FetchRequest, Filter, KillRequest, NewJob,
    RunTime, RunningJobs, Store, StoreError, Submission, Transaction, UsageRecord,
};
use crate::completion::Completion;
use crate::executor::Handle;
use crate::process;
use fishplate_programs::output_choices::StoredNotices;

const LEASE: Duration = Duration::from_secs(10);

mod accounts;
mod claims;
mod fetches;
mod notices;
mod submissions;

use fetches::{claim_fetches, to_fetch};

type Check = fn(&Bed);

/// A store, and the clock by which its leases lapse.
struct Bed {
    store: Box<dyn Store>,
    clock: Arc<SetClock>,
}

impl std::ops::Deref for Bed {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// A clock that is set by hand.
#[derive(Debug, Default)]
pub(crate) struct SetClock(AtomicI64);

impl SetClock {
    /// It is so late now, in milliseconds since 1970.
    pub(crate) fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

impl Bed {
    fn new<S: Store + 'static>(make: impl FnOnce(Arc<dyn Clock>) -> S) -> Self {
        let clock = Arc::<SetClock>::default();
        Self { store: Box::new(make(Arc::<SetClock>::clone(&clock))), clock }
    }

    /// It is so late now.
    fn at(&self, millis: i64) -> &Self {
        self.clock.set(millis);
        self
    }
}

/// A process of this machine that is dead: another one has its number now.
pub(crate) fn dead() -> String {
    format!("{}/{}/1/0", process::boot(), std::process::id())
}

const CHECKS: &[(&str, Check)] = &[
    ("a job is found as it was submitted", submissions::found_as_submitted),
    ("a key gives the same job, or a conflict", submissions::keys),
    ("a full queue refuses", submissions::full_queue),
    ("claims go in order, within both limits", claims::claims_in_order),
    ("a long queue without room does not hide another service", claims::no_starvation),
    ("an owner's many jobs do not starve another's one", claims::fair_share),
    ("places that are reserved are nobody else's", claims::reserved_places),
    ("who has no jobs and was served long ago is forgotten", claims::owners_forgotten),
    ("an owner has so many jobs that run, and that wait", claims::owner_limits),
    ("a stale fence writes nothing", claims::stale_fence),
    ("a delivered job is discarded under its fence", claims::discards),
    ("each end is accounted for once", accounts::accounts),
    ("of old records there are sums", accounts::usage_sums),
    ("what an owner has used is counted day by day, and stays counted", accounts::owner_usage),
    ("who has used up a quota begins nothing more", accounts::quotas),
    ("a lapsed lease is taken over, a live one is not", claims::leases),
    ("a dead holder's lease lapses at once", claims::dead_holder),
    ("a boot that is over is not forgotten when its job changes hands again", claims::boots_over),
    (
        "an adopted job is taken over, under a larger fence than before",
        claims::adopted_are_taken_over,
    ),
    ("a job put back is claimed again under a larger fence", claims::unclaim),
    ("killing dequeues, requests, or finds the end", claims::kills),
    ("data is fetched by one, under a fence, and then the job is queued", fetches::fetches),
    ("a lapsed or dead holder's fetch is taken over", fetches::fetches_taken_over),
    ("fetching jobs count as queued and hold no running place", fetches::fetching_is_no_running),
    ("a fetching job can be killed, or fail", fetches::fetching_ends),
    ("equal jobs are found that are done", fetches::equal_jobs),
    ("fetches are shared among owners", fetches::fetches_are_shared_among_owners),
    ("what is to be told is told by one, until it was told", notices::told_by_one),
    ("nobody's notices wait for all of another's", notices::owners_in_turn),
    ("who tells and dies is followed by another at once", notices::dead_teller),
    ("of a job that nobody is to be told of nothing is due", notices::nothing_due),
    ("lists are by owner and service, newest first, in pages", submissions::lists),
    ("jobs are listed by how long they ran, or have run by now", submissions::lists_by_run_time),
    ("only ended jobs are removed", submissions::removal),
    ("ended jobs expire by age and by number", submissions::expiry),
    ("totals add up", accounts::totals),
    ("jobs that rest are left where they are, and hide no others", claims::resting),
    ("an error undoes the transaction", submissions::rollback),
];

#[test]
fn memory_conforms() {
    for (name, check) in CHECKS {
        println!("{name}");
        check(&Bed::new(MemoryStore::with_clock));
    }
}

#[test]
fn sqlite_conforms() {
    for (name, check) in CHECKS {
        println!("{name}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.sqlite");
        check(&Bed::new(|clock| SqliteStore::open(&path).unwrap().with_clock(clock)));
    }
}

#[test]
fn two_openings_of_one_sqlite_file_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    let open = || Bed::new(|clock| SqliteStore::open(&path).unwrap().with_clock(clock));
    let (one, two) = (open(), open());
    submit(&one, &job(1, "s"));
    assert_eq!(claim(&two, "two", 0).len(), 1);
    assert_eq!(claim(&one, "one", 0).len(), 0);
}

#[test]
fn a_store_of_the_first_schema_is_taken_along() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    super::sqlite::make_schema(&path, 1);
    let store = Bed::new(|clock| SqliteStore::open(&path).unwrap().with_clock(clock));
    let run = claim(&store, "h", 0).remove(0);
    assert_eq!((run.id, run.service.as_str()), (number(9), "old"));
    submit(&store, &to_fetch(1));
    assert_eq!(claim_fetches(&store, "h", 0).len(), 1);
    drop(store);
    assert!(SqliteStore::open(&path).is_ok());
}

fn number(n: u8) -> JobId {
    JobId::from_bytes([n; 16])
}

pub(crate) fn job(n: u8, service: &str) -> NewJob {
    NewJob {
        id: number(n),
        service: service.to_owned(),
        operation: "call".to_owned(),
        owner: Principal::anonymous(),
        key: None,
        fingerprint: 0xdead_beef_dead_beef,
        plan: format!("{{\"n\":{n}}}"),
        disk: 1000,
        bytes_in: 0,
        directory: PathBuf::from(format!("/data/jobs/{n}")),
        max_running: 2,
        max_queued: 100,
        limits: OwnerLimits::default(),
        data_bytes: 0,
        submitted: Timestamp(i64::from(n)),
        fetching: false,
        boot: None,
        notices: StoredNotices::default(),
    }
}

fn with<T>(store: &Bed, work: impl FnOnce(&mut dyn Transaction) -> Result<T, StoreError>) -> T {
    let (mut work, mut value) = (Some(work), None);
    store
        .transact(true, &mut |transaction| {
            value = Some((work.take().unwrap())(transaction)?);
            Ok(())
        })
        .unwrap();
    value.unwrap()
}

fn submit(store: &Bed, job: &NewJob) -> Submission {
    with(store, |t| t.submit(job))
}

pub(crate) fn request(holder: &str) -> ClaimRequest {
    ClaimRequest {
        holder: holder.to_owned(),
        lease: LEASE,
        max_running: 3,
        quotas: Arc::new(OwnerLimits::default()),
        take_over: true,
        resting: Vec::new(),
        reserved: Vec::new(),
        first: Vec::new(),
    }
}

fn claim(bed: &Bed, holder: &str, now: i64) -> Vec<super::Claim> {
    with(bed.at(now), |t| t.claim(&request(holder)))
}

fn end(state: JobState, at: i64) -> Completion {
    let mut end =
        Completion::without_ending(state, FaultCode::Internal, "for the test", Timestamp(at));
    if state == JobState::Done {
        end.fault = None;
    }
    end
}
