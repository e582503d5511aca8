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
    RunningJobs, Store, StoreError, Submission, Transaction, UsageRecord,
};
use crate::completion::Completion;
use crate::executor::Handle;
use crate::process;

const LEASE: Duration = Duration::from_secs(10);

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
    ("a job is found as it was submitted", found_as_submitted),
    ("a key gives the same job, or a conflict", keys),
    ("a full queue refuses", full_queue),
    ("claims go in order, within both limits", claims_in_order),
    ("a long queue without room does not hide another service", no_starvation),
    ("an owner's many jobs do not starve another's one", fair_share),
    ("places that are reserved are nobody else's", reserved_places),
    ("who has no jobs and was served long ago is forgotten", owners_forgotten),
    ("an owner has so many jobs that run, and that wait", owner_limits),
    ("a stale fence writes nothing", stale_fence),
    ("a delivered job is discarded under its fence", discards),
    ("each end is accounted for once", accounts),
    ("of old records there are sums", usage_sums),
    ("what an owner has used is counted day by day, and stays counted", owner_usage),
    ("who has used up a quota begins nothing more", quotas),
    ("a lapsed lease is taken over, a live one is not", leases),
    ("a dead holder's lease lapses at once", dead_holder),
    ("a boot that is over is not forgotten when its job changes hands again", boots_over),
    ("an adopted job is taken over, under a larger fence than before", adopted_are_taken_over),
    ("a job put back is claimed again under a larger fence", unclaim),
    ("killing dequeues, requests, or finds the end", kills),
    ("data is fetched by one, under a fence, and then the job is queued", fetches),
    ("a lapsed or dead holder's fetch is taken over", fetches_taken_over),
    ("fetching jobs count as queued and hold no running place", fetching_is_no_running),
    ("a fetching job can be killed, or fail", fetching_ends),
    ("fetches are shared among owners", fetches_are_shared_among_owners),
    ("lists are by owner and service, newest first, in pages", lists),
    ("only ended jobs are removed", removal),
    ("ended jobs expire by age and by number", expiry),
    ("totals add up", totals),
    ("jobs that rest are left where they are, and hide no others", resting),
    ("an error undoes the transaction", rollback),
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

fn found_as_submitted(store: &Bed) {
    assert_eq!(submit(store, &job(1, "s")), Submission::Accepted);
    let record = with(store, |t| t.find(number(1))).unwrap();
    assert_eq!(record.state, JobState::Queued);
    assert_eq!(record.submitted, Timestamp(1));
    assert_eq!(record.directory, PathBuf::from("/data/jobs/1"));
    assert_eq!(record.owner, Principal::anonymous());
    assert_eq!(with(store, |t| t.plan(number(1))).unwrap(), "{\"n\":1}");
    assert_eq!(with(store, |t| t.find(number(9))), None);
    let mut read = None;
    store.read(&mut |t| t.find(number(1)).map(|found| read = found)).unwrap();
    assert_eq!(read.unwrap(), record);
}

fn keys(store: &Bed) {
    let keyed = |n, owner: &str, fingerprint| NewJob {
        key: Some("k".to_owned()),
        owner: Principal::named(owner),
        fingerprint,
        ..job(n, "s")
    };
    assert_eq!(submit(store, &keyed(1, "ann", u64::MAX)), Submission::Accepted);
    assert_eq!(submit(store, &keyed(2, "ann", u64::MAX)), Submission::Existing(number(1)));
    assert_eq!(submit(store, &keyed(3, "ann", 8)), Submission::KeyConflict(number(1)));
    assert_eq!(submit(store, &keyed(4, "bob", 8)), Submission::Accepted);
    assert_eq!(with(store, |t| t.find(number(2))), None);
}

fn full_queue(store: &Bed) {
    let bounded = |n, service: &str| NewJob { max_queued: 1, ..job(n, service) };
    assert_eq!(submit(store, &bounded(1, "s")), Submission::Accepted);
    assert_eq!(submit(store, &bounded(2, "s")), Submission::QueueFull);
    assert_eq!(submit(store, &bounded(3, "other")), Submission::Accepted);
    claim(store, "h", 0);
    assert_eq!(submit(store, &bounded(2, "s")), Submission::Accepted);
}

fn claims_in_order(store: &Bed) {
    for n in 1..=5 {
        submit(store, &job(n, if n == 4 { "b" } else { "a" }));
    }
    let ids: Vec<JobId> = claim(store, "h", 0).iter().map(|claim| claim.id).collect();
    // Two of service a (its own limit), then b's (the store's limit of three is reached).
    assert_eq!(ids, [number(1), number(2), number(4)]);
    assert_eq!(claim(store, "h", 0), []);
    assert_eq!(
        with(store, |t| t.conclude(number(1), 1, &end(JobState::Done, 5))),
        FencedWrite::Accepted
    );
    let next = claim(store, "h", 0);
    assert_eq!(next.len(), 1);
    assert_eq!((next[0].id, &next[0].taken_from, next[0].fence), (number(3), &None, 1));
}

fn no_starvation(store: &Bed) {
    for n in 1..=50 {
        submit(store, &NewJob { max_running: 1, ..job(n, "busy") });
    }
    submit(store, &job(60, "quiet"));
    let ids: Vec<JobId> = claim(store, "h", 0).iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [number(1), number(60)]);
}

fn fair_share(store: &Bed) {
    let of = |n, owner: &str, service: &str| NewJob {
        owner: Principal::named(owner),
        ..job(n, service)
    };
    for n in 1..=6 {
        submit(store, &of(n, "many", "s"));
    }
    submit(store, &of(7, "one", "s"));
    submit(store, &of(8, "other", "t"));
    // A single place: of those who have none, it goes to who was given one longest ago.
    let mut order = Vec::new();
    for now in 1..=8 {
        let single = ClaimRequest { max_running: 1, ..request("h") };
        let claimed = with(store.at(now), |t| t.claim(&single)).remove(0);
        order.push(claimed.id);
        let _ = with(store, |t| t.discard(claimed.id, claimed.fence, &end(JobState::Done, now)));
    }
    assert_eq!(order, [1, 7, 8, 2, 3, 4, 5, 6].map(number));

    // Several places: to who has the fewest. (Who was alone was not served before anybody.)
    for n in 11..=14 {
        submit(store, &NewJob { max_running: 9, ..of(n, "many", "s") });
    }
    submit(store, &NewJob { max_running: 9, ..of(15, "one", "s") });
    let claimed = claim(store, "h", 20);
    let ids: Vec<_> = claimed.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [11, 15, 12].map(number));
}

fn reserved_places(store: &Bed) {
    for n in 1..=4 {
        submit(store, &NewJob { max_running: 9, ..job(n, "s") });
    }
    let ann = Principal::named("ann");
    let held = |count| RunningJobs { service: "s".to_owned(), owner: ann.clone(), count };
    let request = |reserved, first| ClaimRequest { reserved, first, ..request("h") };
    let claim = |request: &ClaimRequest| -> Vec<JobId> {
        with(store, |t| t.claim(request)).iter().map(|claim| claim.id).collect()
    };
    // Of three places two are held.
    assert_eq!(claim(&request(vec![held(2)], vec![])), [number(1)]);
    // Whose place is held comes whatever waits; the other one is held still.
    let rank = NewJob { owner: ann.clone(), ..job(9, "s") };
    submit(store, &rank);
    assert_eq!(claim(&request(vec![held(2)], vec![number(9)])), [number(9)]);
    assert_eq!(claim(&request(vec![held(1)], vec![number(9)])), [] as [JobId; 0]);
    let running = |owner, count| RunningJobs { service: "s".to_owned(), owner, count };
    let mut all = with(store, |t| t.running());
    all.sort_by_key(|of| of.owner.as_str().to_owned());
    assert_eq!(all, [running(Principal::anonymous(), 1), running(ann.clone(), 1)]);
    assert_eq!(claim(&request(vec![], vec![])), [number(2)]);
    // A service's and an owner's bounds count them too.
    submit(store, &NewJob { max_running: 3, ..job(20, "t") });
    submit(store, &NewJob { max_running: 9, owner: ann.clone(), ..job(21, "u") });
    let held = |service: &str, count| RunningJobs {
        service: service.to_owned(),
        owner: ann.clone(),
        count,
    };
    let most = ClaimRequest { max_running: 99, ..request(vec![held("t", 3)], vec![]) };
    let limits = OwnerLimits { running: Some(4), ..OwnerLimits::default() };
    let owners = ClaimRequest { quotas: Arc::new(limits), ..most.clone() };
    assert_eq!(claim(&owners), [number(3), number(4)]);
    assert_eq!(claim(&most), [number(21)]);
}

fn owners_forgotten(store: &Bed) {
    let submit_for = |n, owner: &str| {
        submit(store, &NewJob { owner: Principal::named(owner), ..job(n, "s") });
    };
    let serve = |now| {
        let single = ClaimRequest { max_running: 1, ..request("h") };
        let claimed = with(store.at(now), |t| t.claim(&single)).remove(0);
        let _ = with(store, |t| t.discard(claimed.id, claimed.fence, &end(JobState::Done, now)));
        claimed.id
    };
    for (n, owner) in [(1, "ann"), (2, "bob"), (3, "bob"), (4, "carl"), (5, "carl")] {
        submit_for(n, owner);
    }
    assert_eq!([1, 2, 3].map(serve), [1, 2, 4].map(number));
    // Bob's and Carl's other jobs wait.
    with(store, |t| t.forget_owners(Timestamp(3)));
    submit_for(6, "ann");
    submit_for(7, "dora");
    assert_eq!([4, 5].map(serve), [6, 7].map(number));
    // Ann was served too late to be forgotten, and goes behind who was served before.
    with(store, |t| t.forget_owners(Timestamp(4)));
    submit_for(8, "ann");
    submit_for(9, "eve");
    assert_eq!([6, 7, 8, 9].map(serve), [9, 3, 5, 8].map(number));
}

fn owner_limits(store: &Bed) {
    let limits = OwnerLimits { queued: Some(2), ..OwnerLimits::default() };
    let of = |n, owner: &str| NewJob { owner: Principal::named(owner), limits, ..job(n, "s") };
    assert_eq!(submit(store, &of(1, "ann")), Submission::Accepted);
    assert_eq!(submit(store, &NewJob { fetching: true, ..of(2, "ann") }), Submission::Accepted);
    assert_eq!(submit(store, &of(3, "ann")), Submission::OwnerQueueFull);
    assert_eq!(
        submit(store, &NewJob { service: "t".to_owned(), ..of(3, "ann") }),
        Submission::Accepted
    );
    assert_eq!(submit(store, &of(4, "bob")), Submission::Accepted);
    let limits = OwnerLimits { running: Some(1), ..OwnerLimits::default() };
    let single = ClaimRequest { quotas: Arc::new(limits), ..request("h") };
    let ids: Vec<_> = with(store, |t| t.claim(&single)).iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [1, 4].map(number));
    assert_eq!(with(store, |t| t.claim(&single)), []);
}

fn stale_fence(store: &Bed) {
    submit(store, &job(1, "s"));
    let first = claim(store, "one", 0).remove(0);
    let second = claim(store, "two", 20_000).remove(0);
    assert_eq!(second.taken_from, Some(Boot::Over), "no boot that goes on has this name");
    assert!(second.fence > first.fence);
    let handle = Handle("h".to_owned());
    let old = first.fence;
    with(store, |t| {
        assert_eq!(t.started(number(1), old, &handle, Timestamp(1))?, FencedWrite::Stale);
        assert_eq!(t.conclude(number(1), old, &end(JobState::Done, 1))?, FencedWrite::Stale);
        assert_eq!(t.unclaim(number(1), old)?, FencedWrite::Stale);
        assert_eq!(
            t.started(number(1), second.fence, &handle, Timestamp(7))?,
            FencedWrite::Accepted
        );
        assert_eq!(
            t.conclude(number(1), second.fence, &end(JobState::Done, 9))?,
            FencedWrite::Accepted
        );
        // An end is written once.
        assert_eq!(
            t.conclude(number(1), second.fence, &end(JobState::Failed, 9))?,
            FencedWrite::Stale
        );
        let record = t.find(number(1))?.unwrap();
        assert_eq!((record.state, record.started), (JobState::Done, Some(Timestamp(7))));
        Ok(())
    });
}

fn discards(store: &Bed) {
    submit(store, &job(1, "s"));
    assert_eq!(
        with(store, |t| t.discard(number(1), 0, &end(JobState::Done, 1))),
        FencedWrite::Stale
    );
    let fence = claim(store, "h", 0)[0].fence;
    assert_eq!(
        with(store, |t| t.discard(number(1), fence + 1, &end(JobState::Done, 1))),
        FencedWrite::Stale
    );
    assert_eq!(
        with(store, |t| t.discard(number(1), fence, &end(JobState::Done, 1))),
        FencedWrite::Accepted
    );
    assert_eq!(with(store, |t| t.find(number(1))), None);
}

fn leases(store: &Bed) {
    submit(store, &job(1, "s"));
    let handle = Handle("local:1".to_owned());
    let fence = claim(store, "one", 0)[0].fence;
    let _ = with(store, |t| t.started(number(1), fence, &handle, Timestamp(0)));
    assert_eq!(claim(store, "two", 9_000), []);
    assert_eq!(with(store.at(20_000), |t| t.renew("one", LEASE)), 1);
    assert_eq!(claim(store, "two", 25_000), []);
    let taken = claim(store, "two", 30_001);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].handle.as_ref(), Some(&handle));
    assert_eq!(with(store, |t| t.renew("one", LEASE)), 0);
    assert_eq!(with(store, |t| t.holders()), ["two"]);
}

fn dead_holder(store: &Bed) {
    submit(store, &NewJob { boot: Some(process::boot().to_owned()), ..job(1, "s") });
    submit(store, &NewJob { boot: Some("earlier".to_owned()), ..job(2, "s") });
    claim(store, &dead(), 0);
    let mut request = request("two");
    request.take_over = false;
    assert_eq!(with(store, |t| t.claim(&request)), []);
    request.take_over = true;
    let taken = with(store, |t| t.claim(&request));
    let boots: Vec<_> = taken.iter().map(|claim| (claim.taken_from, claim.boot)).collect();
    let (current, over) = (Some(Boot::Current), Some(Boot::Over));
    assert_eq!(boots, [(current, current), (current, over)]);
}

fn boots_over(store: &Bed) {
    submit(store, &job(1, "s"));
    claim(store, "earlier/1/1/0", 0);
    assert_eq!(with(store, |t| t.adopt(&job(2, "s"), 1)), Submission::Accepted);
    let taken = |holder: &str| -> Vec<_> {
        claim(store, holder, 1).iter().map(|claim| (claim.fence, claim.taken_from)).collect()
    };
    let (current, over) = (Some(Boot::Current), Some(Boot::Over));
    assert_eq!(taken(&dead()), [(2, over), (2, over)]);
    assert_eq!(taken("two"), [(3, over), (3, over)], "the one before recorded nothing");
    // Put back, it certainly was not started; what was before is past.
    assert_eq!(with(store, |t| t.unclaim(number(1), 3)), FencedWrite::Accepted);
    assert_eq!(taken(&dead()), [(4, None)]);
    assert_eq!(taken("two"), [(5, current)]);
}

fn adopted_are_taken_over(store: &Bed) {
    let mut lost = job(1, "s");
    lost.key = Some("k".to_owned());
    assert_eq!(with(store, |t| t.newest()), None);
    assert!(!with(store, |t| t.exists(lost.id)));
    assert_eq!(with(store, |t| t.adopt(&lost, 3)), Submission::Accepted);
    assert_eq!(with(store, |t| t.newest()), Some(Timestamp(1)));
    assert!(with(store, |t| t.exists(lost.id)));
    assert_eq!(with(store, |t| t.adopt(&lost, 3)), Submission::Existing(lost.id));
    let claimed = claim(store, "a", 100);
    assert_eq!((claimed.len(), claimed[0].fence), (1, 4));
    assert!(claimed[0].taken_from.is_some(), "whether it was started must be found out");
    let fetching = to_fetch(2);
    assert_eq!(with(store, |t| t.adopt(&fetching, 3)), Submission::Accepted);
    assert_eq!(claim(store, "a", 100), []);
    let fetched = claim_fetches(store, "a", 100);
    assert_eq!((fetched.len(), fetched[0].id, fetched[0].fence), (1, fetching.id, 4));
}

fn unclaim(store: &Bed) {
    submit(store, &job(1, "s"));
    let first = claim(store, "h", 0).remove(0);
    assert_eq!(with(store, |t| t.unclaim(number(1), first.fence)), FencedWrite::Accepted);
    assert_eq!(with(store, |t| t.find(number(1))).unwrap().state, JobState::Queued);
    let again = claim(store, "h", 0).remove(0);
    assert!(again.fence > first.fence && again.taken_from.is_none());
}

fn kills(store: &Bed) {
    submit(store, &job(1, "s"));
    submit(store, &job(2, "s"));
    submit(store, &NewJob { max_running: 0, ..job(3, "never") });
    claim(store, "h", 0);
    let handle = Handle("local:2".to_owned());
    with(store, |t| {
        let _ = t.started(number(2), 1, &handle, Timestamp(0))?;
        assert_eq!(t.request_kill(number(9), Timestamp(5))?, KillRequest::NoSuchJob);
        assert_eq!(t.request_kill(number(1), Timestamp(5))?, KillRequest::Requested(None));
        assert_eq!(t.request_kill(number(2), Timestamp(5))?, KillRequest::Requested(Some(handle)));
        assert_eq!(t.request_kill(number(3), Timestamp(5))?, KillRequest::Dequeued);
        assert_eq!(t.request_kill(number(3), Timestamp(6))?, KillRequest::Ended(JobState::Killed));
        assert_eq!(t.kill_requests("h")?, [number(1), number(2)]);
        assert_eq!(t.kill_requests("other")?, []);
        let record = t.find(number(3))?.unwrap();
        assert_eq!(record.state, JobState::Killed);
        assert_eq!(record.completion.unwrap().ended, 5);
        Ok(())
    });
}

fn to_fetch(n: u8) -> NewJob {
    NewJob { fetching: true, owner: Principal::named("ann"), ..job(n, "s") }
}

fn fetches_are_shared_among_owners(store: &Bed) {
    let of = |owner, n| submit(store, &NewJob { owner: Principal::named(owner), ..to_fetch(n) });
    for n in 1..=5 {
        of("ann", n);
    }
    let claim = |most_of_owner| {
        let request = FetchRequest { most: 4, most_of_owner, ..fetch_request("one") };
        let claims = with(store, |t| t.claim_fetches(&request));
        claims.iter().map(|it| it.id).collect::<Vec<JobId>>()
    };
    assert_eq!(claim(2), [number(1), number(2)], "one owner leaves others a place");
    assert_eq!(claim(2), []);
    for n in 6..=7 {
        of("bob", n);
    }
    of("cy", 8);
    assert_eq!(claim(2), [number(6), number(8)], "whoever has the fewest is next");
    assert_eq!(claim(2), []);
}

fn claim_fetches(bed: &Bed, holder: &str, now: i64) -> Vec<FetchClaim> {
    with(bed.at(now), |t| t.claim_fetches(&fetch_request(holder)))
}

fn fetch_request(holder: &str) -> FetchRequest {
    FetchRequest { holder: holder.to_owned(), lease: LEASE, most: 2, most_of_owner: 2 }
}

fn fetches(store: &Bed) {
    for n in 1..=3 {
        submit(store, &to_fetch(n));
    }
    submit(store, &job(4, "s"));
    let claims = claim_fetches(store, "one", 0);
    let ids: Vec<JobId> = claims.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [number(1), number(2)], "as many as one may at once, in their order");
    assert_eq!(claim_fetches(store, "one", 1), []);
    let ids: Vec<JobId> = claim(store, "one", 1).iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [number(4)], "what is not fetched is not run");
    let expected = FetchClaim {
        id: number(1),
        owner: Principal::named("ann"),
        directory: PathBuf::from("/data/jobs/1"),
        fence: 1,
    };
    assert_eq!(claims[0], expected);
    with(store, |t| {
        assert_eq!(t.fetching("one")?, [number(1), number(2)]);
        assert_eq!(t.unfinished()?, [number(1), number(2), number(3), number(4)]);
        assert_eq!(t.fetched(number(1), 7, "stale", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(3), 0, "held by nobody", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(1), 1, "{\"n\":\"fetched\"}", 0, 0)?, FencedWrite::Accepted);
        assert_eq!(t.fetched(number(1), 1, "again", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.plan(number(1))?.unwrap(), "{\"n\":\"fetched\"}");
        assert_eq!(t.find(number(1))?.unwrap().state, JobState::Queued);
        assert_eq!(t.find(number(2))?.unwrap().state, JobState::Fetching);
        Ok(())
    });
    let run = claim(store, "one", 2).remove(0);
    assert_eq!((run.id, run.fence, run.taken_from), (number(1), 2, None));
    let ids: Vec<JobId> = claim_fetches(store, "one", 2).iter().map(|it| it.id).collect();
    assert_eq!(ids, [number(3)], "there is room again");
}

fn fetches_taken_over(store: &Bed) {
    submit(store, &to_fetch(1));
    submit(store, &to_fetch(2));
    let first = claim_fetches(store, "one", 0);
    assert_eq!(claim_fetches(store, "two", 9_000), []);
    assert_eq!(with(store.at(20_000), |t| t.renew("one", LEASE)), 2);
    assert_eq!(claim_fetches(store, "two", 25_000), []);
    assert_eq!(with(store, |t| t.holders()), ["one"]);
    let lapsed = claim_fetches(store, &dead(), 30_001);
    assert_eq!(lapsed.len(), 2);
    assert!(lapsed[0].fence > first[0].fence);
    let last = claim_fetches(store, "three", 30_001);
    assert_eq!(last.len(), 2, "of a dead holder, at once");
    with(store, |t| {
        assert_eq!(t.fetched(number(1), first[0].fence, "", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(1), lapsed[0].fence, "", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(1), last[0].fence, "", 0, 0)?, FencedWrite::Accepted);
        assert_eq!(t.fetching("one")?, []);
        Ok(())
    });
}

fn fetching_is_no_running(store: &Bed) {
    let bounded = |n| NewJob { max_queued: 2, max_running: 1, ..to_fetch(n) };
    assert_eq!(submit(store, &bounded(1)), Submission::Accepted);
    claim_fetches(store, "one", 0);
    let queued = NewJob { fetching: false, ..bounded(2) };
    assert_eq!(submit(store, &queued), Submission::Accepted);
    assert_eq!(submit(store, &bounded(3)), Submission::QueueFull);
    assert_eq!(claim(store, "one", 0).len(), 1, "a fetch takes nobody's place");
    let backlog = with(store, |t| t.backlog());
    assert_eq!((backlog.fetching, backlog.queued, backlog.running), (1, 0, 1));
    assert_eq!(submit(store, &bounded(3)), Submission::Accepted);
    let fetching = Filter {
        owner: Principal::named("ann"),
        service: "s".to_owned(),
        state: Some(JobState::Fetching),
        after: None,
        limit: 9,
    };
    assert_eq!(with(store, |t| t.list(&fetching)).len(), 2);
}

fn fetching_ends(store: &Bed) {
    for n in 1..=3 {
        submit(store, &to_fetch(n));
    }
    let claims = claim_fetches(store, "one", 0);
    with(store, |t| {
        assert_eq!(t.request_kill(number(1), Timestamp(5))?, KillRequest::Dequeued);
        assert_eq!(t.request_kill(number(3), Timestamp(5))?, KillRequest::Dequeued);
        assert_eq!(t.fetching("one")?, [number(2)], "whoever fetches sees that it is not wanted");
        assert_eq!(t.fetched(number(1), claims[0].fence, "", 0, 0)?, FencedWrite::Stale);
        assert_eq!(t.unfinished()?, [number(2)]);
        let record = t.find(number(1))?.unwrap();
        let completion = record.completion.unwrap();
        assert_eq!((record.state, completion.ended), (JobState::Killed, 5));
        assert!(completion.message().contains("fetched"));
        let failed = end(JobState::Failed, 6);
        assert_eq!(t.conclude(number(2), 9, &failed)?, FencedWrite::Stale);
        assert_eq!(t.conclude(number(2), claims[1].fence, &failed)?, FencedWrite::Accepted);
        assert_eq!(t.find(number(2))?.unwrap().state, JobState::Failed);
        assert!(t.remove(number(1))? && t.remove(number(2))?);
        Ok(())
    });
    submit(store, &to_fetch(4));
    assert_eq!(
        with(store, |t| t.discard(number(4), 0, &end(JobState::Done, 1))),
        FencedWrite::Stale
    );
    let fence = claim_fetches(store, "one", 0)[0].fence;
    assert_eq!(
        with(store, |t| t.discard(number(4), fence, &end(JobState::Done, 1))),
        FencedWrite::Accepted
    );
}

fn lists(store: &Bed) {
    for n in 1..=5 {
        submit(store, &job(n, "s"));
    }
    submit(store, &job(6, "other"));
    submit(store, &NewJob { owner: Principal::named("ann"), max_running: 0, ..job(7, "s") });
    let ids = |filter: Filter| -> Vec<JobId> {
        with(store, |t| t.list(&filter)).iter().map(|record| record.id).collect()
    };
    let filter = Filter {
        owner: Principal::anonymous(),
        service: "s".to_owned(),
        state: None,
        after: None,
        limit: 2,
    };
    assert_eq!(ids(filter.clone()), [number(5), number(4)]);
    assert_eq!(ids(Filter { after: Some(number(4)), ..filter.clone() }), [number(3), number(2)]);
    assert_eq!(ids(Filter { after: Some(number(99)), ..filter.clone() }), []);
    claim(store, "h", 0);
    let running = Filter { state: Some(JobState::Running), ..filter.clone() };
    assert_eq!(ids(running), [number(2), number(1)]);
    let ann = Filter { owner: Principal::named("ann"), ..filter };
    assert_eq!(ids(ann), [number(7)]);
}

fn removal(store: &Bed) {
    submit(store, &job(1, "s"));
    assert!(!with(store, |t| t.remove(number(1))));
    claim(store, "h", 0);
    assert!(!with(store, |t| t.remove(number(1))));
    let _ = with(store, |t| t.conclude(number(1), 1, &end(JobState::Failed, 1)));
    assert!(with(store, |t| t.remove(number(1))));
    assert_eq!(with(store, |t| t.find(number(1))), None);
}

fn expiry(store: &Bed) {
    for n in 1..=3 {
        submit(store, &job(n, if n == 3 { "other" } else { "s" }));
    }
    claim(store, "h", 0);
    for n in 1..=3 {
        let _ = with(store, |t| t.conclude(number(n), 1, &end(JobState::Done, i64::from(n) * 10)));
    }
    submit(store, &job(4, "s"));
    assert_eq!(with(store, |t| t.expired(Timestamp(5), 100)), []);
    assert_eq!(with(store, |t| t.expired(Timestamp(25), 100)), [number(1), number(2)]);
    assert_eq!(with(store, |t| t.expired(Timestamp(5), 1)), [number(1), number(2)]);
    assert_eq!(with(store, |t| t.expired(Timestamp(25), 0)), [number(1), number(2), number(3)]);
}

fn totals(store: &Bed) {
    for n in 1..=4 {
        submit(store, &job(n, "s"));
    }
    let occupied = || with(store, |t| Ok(t.totals()?.disk));
    // What waits counts, and so do records.
    let records = |jobs: u64| jobs..=jobs * 1000 - 1;
    assert!(records(4).contains(&(occupied() - 4000)), "{}", occupied());
    claim(store, "h", 0);
    // One whose files were not counted keeps what it had; one whose were has those.
    let counted = |disk| {
        let mut end = end(JobState::Done, 1);
        let collected = crate::executor::Collected { disk, ..Default::default() };
        let ending =
            crate::executor::ProgramExit { collected: Some(collected), ..Default::default() };
        end.ending = Some(ending);
        end
    };
    let _ = with(store, |t| t.conclude(number(1), 1, &end(JobState::Done, 1)));
    let _ = with(store, |t| t.conclude(number(2), 1, &counted(50_000)));
    let (backlog, totals) = with(store, |t| Ok((t.backlog()?, t.totals()?)));
    assert_eq!((backlog.queued, backlog.running), (2, 0));
    assert_eq!(totals.ended, 2);
    assert!(records(4).contains(&(totals.disk - 53_000)), "{totals:?}");
    with(store, |t| t.request_kill(number(3), Timestamp(1)));
    assert!(records(4).contains(&(occupied() - 53_000)), "{}", occupied());
    with(store, |t| t.remove(number(2)));
    assert!(records(3).contains(&(occupied() - 3000)), "{}", occupied());
}

fn resting(store: &Bed) {
    for n in 1..=4 {
        submit(store, &job(n, "s"));
    }
    let request = ClaimRequest { resting: vec![number(1), number(2)], ..request("h") };
    let claimed = |request: &ClaimRequest| -> Vec<JobId> {
        with(store, |t| t.claim(request)).iter().map(|claim| claim.id).collect()
    };
    assert_eq!(claimed(&request), [number(3), number(4)]);
    assert_eq!(claimed(&request), []);
    let _ = with(store, |t| t.discard(number(3), 1, &end(JobState::Done, 1)));
    assert_eq!(claim(store, "h", 0).remove(0).id, number(1));
}

fn accounts(store: &Bed) {
    let used = |at, cpu_seconds| {
        let exit = crate::executor::ProgramExit {
            started: at - 5,
            ended: at,
            cpu_seconds,
            max_memory: 7,
            ..Default::default()
        };
        Completion { ending: Some(exit), ..end(JobState::Done, at) }
    };
    submit(store, &NewJob { bytes_in: 10, owner: Principal::named("ann"), ..job(1, "s") });
    submit(store, &NewJob { bytes_in: 20, ..to_fetch(2) });
    submit(store, &NewJob { max_running: 0, ..job(4, "t") });
    assert_eq!(with(store, |t| t.conclude(number(1), 0, &used(100, 9.0))), FencedWrite::Stale);
    claim(store, "h", 0);
    let fence = claim_fetches(store, "h", 0)[0].fence;
    assert_eq!(with(store, |t| t.fetched(number(2), fence, "", 0, 5)), FencedWrite::Accepted);
    claim(store, "h", 0);
    assert_eq!(with(store, |t| t.discard(number(1), 7, &used(100, 9.0))), FencedWrite::Stale);
    for _ in 0..2 {
        let _ = with(store, |t| t.discard(number(1), 1, &used(100, 0.5)));
        let _ = with(store, |t| t.conclude(number(2), fence + 1, &used(200, 1.5)));
        with(store, |t| t.request_kill(number(4), Timestamp(300)));
    }
    let _ = with(store, |t| t.remove(number(2)));
    let all = with(store, |t| t.usage(Timestamp(0), Timestamp(1000)));
    let told: Vec<_> = all
        .iter()
        .map(|it| {
            (
                it.job,
                it.owner.as_str(),
                it.ended.0,
                it.cpu_seconds,
                it.wall,
                it.bytes_in,
                &*it.state,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Some(number(1)), "ann", 100, 0.5, 5, 10, "done"),
            (Some(number(2)), "ann", 200, 1.5, 5, 25, "done"),
            (Some(number(4)), "", 300, 0.0, 0, 0, "killed"),
        ]
    );
    assert_eq!((all[0].started, all[0].max_memory, all[2].started), (Some(Timestamp(95)), 7, None));
    let from = with(store, |t| t.usage(Timestamp(200), Timestamp(300)));
    assert_eq!(from, all[1..2]);
}

fn usage_sums(store: &Bed) {
    let (day, ann) = (super::usage::DAY, Principal::named("ann"));
    let record = |at: i64, bytes_in| UsageRecord {
        bytes_in,
        cpu_seconds: 0.25,
        ..UsageRecord::without_job(
            &ann,
            ("data", "upload"),
            Duration::from_millis(3),
            Timestamp(at),
        )
    };
    for n in 0..10 {
        with(store, |t| t.account(&record(day * (n / 4) + n, 1 << n)));
    }
    let total = |records: &[UsageRecord]| {
        let of = |record: &UsageRecord| (record.count, record.bytes_in, record.wall);
        records.iter().map(of).fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
    };
    let all = || with(store, |t| t.usage(Timestamp(0), Timestamp(i64::MAX)));
    assert_eq!(total(&all()), (10, 1023, 30));
    for keep in [20, 7, 3] {
        while with(store, |t| t.fold_usage(Timestamp(0), keep)) {}
        assert_eq!(total(&all()), (10, 1023, 30), "{keep}");
    }
    let sums: Vec<_> = all().iter().map(|it| (it.count, it.ended.0, it.cpu_seconds)).collect();
    assert_eq!(sums[..2], [(4, 0, 1.0), (3, day, 0.75)]);
    assert_eq!(sums.len(), 5);
    while with(store, |t| t.fold_usage(Timestamp(2 * day + 9), 100)) {}
    assert_eq!(total(&all()), (1, 512, 3));
    // Of records that ended in another order some in the middle go first.
    for at in [2 * day + 9, 1, 2, 2 * day + 9] {
        with(store, |t| t.account(&record(at, 1)));
    }
    for _ in 0..2 {
        assert!(!with(store, |t| t.fold_usage(Timestamp(2 * day + 9), 3)));
    }
    assert!(all().iter().all(|it| it.started.is_some()), "{:?}", all());
    assert_eq!(total(&all()), (3, 514, 9));
}

fn owner_usage(store: &Bed) {
    let day = super::usage::DAY;
    let ann = || NewJob { owner: Principal::named("ann"), bytes_in: 7, ..job(1, "s") };
    let ended = |id, at| {
        let exit = crate::executor::ProgramExit { cpu_seconds: 1.5, ..Default::default() };
        let end = Completion { ending: Some(exit), ..end(JobState::Done, at) };
        with(store.at(at), |t| t.claim(&request("h")));
        let _ = with(store, |t| t.conclude(number(id), 1, &end));
    };
    for (id, at) in [(1, 5), (2, day + 5), (3, day + 6)] {
        submit(store, &NewJob { id: number(id), ..ann() });
        ended(id, at);
    }
    let transfer = UsageRecord {
        bytes_out: 5,
        ..UsageRecord::without_job(
            &Principal::named("ann"),
            ("data", "read"),
            Duration::ZERO,
            Timestamp(day),
        )
    };
    with(store, |t| t.account(&transfer));
    submit(store, &NewJob { owner: Principal::named("bob"), ..job(4, "s") });
    let of_ann = |since| with(store, |t| t.owner_usage("ann", Timestamp(since)));
    let first = DayUsage { day: Timestamp(0), cpu_seconds: 1.5, bytes: 7 };
    let second = DayUsage { day: Timestamp(day), cpu_seconds: 3.0, bytes: 19 };
    assert_eq!(of_ann(0).days, [first, second]);
    assert_eq!(of_ann(day).days, [second]);
    let job_bytes = of_ann(0).job_bytes;
    assert!(job_bytes > 0);
    // Whatever becomes of the jobs and of their records.
    with(store, |t| t.remove(number(1)));
    while with(store, |t| t.fold_usage(Timestamp(0), 0)) {}
    assert_eq!(of_ann(0).days, [first, second]);
    assert!(of_ann(0).job_bytes < job_bytes);
    // What has not ended.
    submit(store, &NewJob { id: number(5), ..ann() });
    submit(store, &NewJob { id: number(6), max_running: 0, ..ann() });
    let at = 2 * day;
    let fence = with(store.at(at), |t| t.claim(&request("h")));
    let fence = fence.iter().find(|claim| claim.id == number(5)).unwrap().fence;
    let handle = Handle("5".to_owned());
    let _ = with(store, |t| t.started(number(5), fence, &handle, Timestamp(at)));
    let usage = with(store.at(at + 4000), |t| t.owner_usage("ann", Timestamp(day)));
    assert_eq!((usage.running_time, usage.running, usage.queued), (4000, 1, 1));
    assert_eq!(usage.unfinished_bytes, 14);
}

fn quotas(store: &Bed) {
    let limits = OwnerLimits {
        cpu_time: Some(4000),
        traffic: Some(100),
        disk: Some(3000),
        ..OwnerLimits::default()
    };
    let of = |n, owner: &str| NewJob { owner: Principal::named(owner), limits, ..job(n, "s") };
    let refused = |job: NewJob| match submit(store, &job) {
        Submission::QuotaExceeded(QuotaExcess { quota, used, .. }) => Some((quota, used)),
        Submission::Accepted => None,
        other => panic!("{other:?}"),
    };
    store.at(0);
    assert_eq!(refused(of(1, "ann")), None);
    assert_eq!(refused(NewJob { bytes_in: 60, ..of(2, "ann") }), None);
    assert_eq!(refused(NewJob { bytes_in: 41, ..of(3, "ann") }), Some((Quota::Traffic, 60)));
    assert_eq!(refused(NewJob { data_bytes: 1, ..of(3, "ann") }), Some((Quota::Disk, 2001)));
    assert_eq!(refused(NewJob { bytes_in: 39, ..of(3, "ann") }), None);
    assert_eq!(refused(of(4, "ann")), Some((Quota::Disk, 3000)));
    assert_eq!(refused(NewJob { bytes_in: 90, ..of(5, "bob") }), None);
    // One runs for all of the time: the others wait, and another's runs.
    let one = ClaimRequest { max_running: 1, quotas: Arc::new(limits), ..request("h") };
    let begun = with(store, |t| t.claim(&one)).remove(0);
    assert_eq!(begun.id, number(1));
    let handle = Handle("1".to_owned());
    let _ = with(store, |t| t.started(number(1), begun.fence, &handle, Timestamp(0)));
    let all = ClaimRequest { max_running: 9, ..one };
    let begun: Vec<_> = with(store.at(4000), |t| t.claim(&all)).iter().map(|it| it.id).collect();
    assert_eq!(begun, [number(5)]);
    let used = Some((Quota::CpuTime, 4000));
    assert_eq!(refused(NewJob { disk: 0, ..of(6, "ann") }), used);
    // It took less of the processor than of time: there is room again.
    let exit = crate::executor::ProgramExit { cpu_seconds: 3.0, ..Default::default() };
    let end = Completion { ending: Some(exit), ..end(JobState::Done, 4000) };
    let _ = with(store, |t| t.discard(number(1), 1, &end));
    let begun: Vec<_> = with(store, |t| t.claim(&all)).iter().map(|it| it.id).collect();
    assert_eq!(begun, [number(2)]);
}

fn rollback(store: &Bed) {
    let failed = store.transact(true, &mut |t| {
        t.submit(&job(1, "s"))?;
        Err(StoreError::Closed)
    });
    assert!(failed.is_err());
    assert_eq!(with(store, |t| t.find(number(1))), None);
}
