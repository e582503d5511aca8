//! Jobs as they are submitted, found, listed, removed.

use super::*;

pub(super) fn found_as_submitted(store: &Bed) {
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

pub(super) fn keys(store: &Bed) {
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

pub(super) fn full_queue(store: &Bed) {
    let bounded = |n, service: &str| NewJob { max_queued: 1, ..job(n, service) };
    assert_eq!(submit(store, &bounded(1, "s")), Submission::Accepted);
    assert_eq!(submit(store, &bounded(2, "s")), Submission::QueueFull);
    assert_eq!(submit(store, &bounded(3, "other")), Submission::Accepted);
    claim(store, "h", 0);
    assert_eq!(submit(store, &bounded(2, "s")), Submission::Accepted);
}

pub(super) fn lists(store: &Bed) {
    for n in 1..=5 {
        submit(store, &job(n, "s"));
    }
    submit(store, &job(6, "other"));
    submit(store, &NewJob { owner: Principal::named("ann"), max_running: 0, ..job(7, "s") });
    let ids = |filter: Filter| -> Vec<JobId> {
        with(store, |t| t.list(&filter)).iter().map(|record| record.id).collect()
    };
    let filter = Filter::new(Principal::anonymous(), vec!["s".to_owned()], 2);
    assert_eq!(ids(filter.clone()), [number(5), number(4)]);
    assert_eq!(ids(Filter { after: Some(number(4)), ..filter.clone() }), [number(3), number(2)]);
    assert_eq!(ids(Filter { after: Some(number(99)), ..filter.clone() }), []);
    let several = || ["s", "other", "none"].map(str::to_owned).to_vec();
    let both = Filter { services: several(), ..filter.clone() };
    assert_eq!(ids(both.clone()), [number(6), number(5)]);
    assert_eq!(ids(Filter { after: Some(number(6)), ..both }), [number(5), number(4)]);
    assert_eq!(ids(Filter { services: Vec::new(), ..filter.clone() }), []);
    claim(store, "h", 0);
    let running = Filter { states: vec![JobState::Running], ..filter.clone() };
    assert_eq!(ids(running), [number(2), number(1)]);
    let either = vec![JobState::Running, JobState::Queued];
    assert_eq!(ids(Filter { states: either, ..filter.clone() }), [number(5), number(4)]);
    let of = |operation: &str| vec![("s".to_owned(), operation.to_owned())];
    assert_eq!(ids(Filter { operations: of("call"), ..filter.clone() }), [number(5), number(4)]);
    assert_eq!(ids(Filter { operations: of("cal"), ..filter.clone() }), []);
    let between = (Some(Timestamp(2)), Some(Timestamp(3)));
    let found = ids(Filter { since: between.0, until: between.1, ..filter.clone() });
    assert_eq!(found, [number(3), number(2)]);
    let ann = Filter { owner: Principal::named("ann"), ..filter };
    assert_eq!(ids(ann), [number(7)]);
}

pub(super) fn removal(store: &Bed) {
    submit(store, &job(1, "s"));
    assert!(!with(store, |t| t.remove(number(1))));
    claim(store, "h", 0);
    assert!(!with(store, |t| t.remove(number(1))));
    let _ = with(store, |t| t.conclude(number(1), 1, &end(JobState::Failed, 1)));
    assert!(with(store, |t| t.remove(number(1))));
    assert_eq!(with(store, |t| t.find(number(1))), None);
}

pub(super) fn expiry(store: &Bed) {
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

pub(super) fn rollback(store: &Bed) {
    let failed = store.transact(true, &mut |t| {
        t.submit(&job(1, "s"))?;
        Err(StoreError::Closed)
    });
    assert!(failed.is_err());
    assert_eq!(with(store, |t| t.find(number(1))), None);
}
