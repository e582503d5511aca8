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

pub(super) fn lists_by_run_time(store: &Bed) {
    for n in 1..=7 {
        submit(store, &NewJob { max_running: if n <= 5 { 5 } else { 0 }, ..job(n, "s") });
    }
    let request = ClaimRequest { max_running: 9, ..request("h") };
    assert_eq!(with(store.at(0), |t| t.claim(&request)).len(), 5);
    // The fifth is claimed and not begun yet; the last two wait.
    for n in 1..=4 {
        let handle = Handle("started".to_owned());
        let _ = with(store, |t| t.started(number(n), 1, &handle, Timestamp(1000)));
    }
    let _ = with(store, |t| t.conclude(number(1), 1, &end(JobState::Done, 3000)));
    // Its program tells of its own end when it began.
    let exit = crate::executor::ProgramExit { started: 1500, ended: 6500, ..Default::default() };
    let told = Completion { ending: Some(exit), ..end(JobState::Failed, 6500) };
    let _ = with(store, |t| t.conclude(number(2), 1, &told));
    // It ended long ago, and nobody saw it until now.
    let late = Completion { noted: Some(900_000), ..end(JobState::Done, 2000) };
    let _ = with(store, |t| t.conclude(number(3), 1, &late));
    with(store, |t| t.request_kill(number(7), Timestamp(2000)));
    // The fourth has run for 4 s.
    store.at(5000);
    let ids = |least: Option<u64>, most: Option<u64>, more: &dyn Fn(&mut Filter)| -> Vec<JobId> {
        let ran = RunTime {
            least: least.map(Duration::from_micros),
            most: most.map(Duration::from_micros),
        };
        let services = vec!["s".to_owned()];
        let mut filter = Filter { ran, ..Filter::new(Principal::anonymous(), services, 3) };
        more(&mut filter);
        let mut found = Vec::new();
        let read = &mut |t: &mut dyn Transaction| {
            found = t.list(&filter)?;
            Ok(())
        };
        store.read(read).unwrap();
        found.iter().map(|record| record.id).collect()
    };
    let all = |_: &mut Filter| ();
    assert_eq!(ids(Some(0), None, &all), [number(4), number(3), number(2)]);
    let after = |filter: &mut Filter| filter.after = Some(number(2));
    assert_eq!(ids(Some(0), None, &after), [number(1)]);
    assert_eq!(ids(Some(2_000_000), None, &all), [number(4), number(2), number(1)]);
    // No millisecond is taken for a whole one.
    assert_eq!(ids(Some(4_000_001), None, &all), [number(2)]);
    assert_eq!(ids(Some(4_000_000), Some(4_999_999), &all), [number(4)]);
    assert_eq!(ids(None, Some(2_000_000), &all), [number(3), number(1)]);
    let failed = |filter: &mut Filter| filter.states = vec![JobState::Failed, JobState::Running];
    assert_eq!(ids(None, Some(9_000_000), &failed), [number(4), number(2)]);
    let early = |filter: &mut Filter| filter.until = Some(Timestamp(2));
    assert_eq!(ids(Some(0), None, &early), [number(2), number(1)]);
    let other = |filter: &mut Filter| filter.operations = vec![("s".to_owned(), "cal".to_owned())];
    assert_eq!(ids(Some(0), None, &other), []);
    // Those that have not begun are there if nothing is said of it.
    assert_eq!(ids(None, None, &all), [number(7), number(6), number(5)]);
    let done = |filter: &mut Filter| filter.states = vec![JobState::Done];
    assert_eq!(ids(None, None, &done), [number(3), number(1)]);
    let killed = |filter: &mut Filter| filter.states = vec![JobState::Killed, JobState::Queued];
    assert_eq!(ids(None, None, &killed), [number(7), number(6)]);
    let late = |filter: &mut Filter| filter.since = Some(Timestamp(4));
    assert_eq!(ids(None, None, &late), [number(7), number(6), number(5)]);
    let between = |filter: &mut Filter| {
        filter.until = Some(Timestamp(6));
        filter.after = Some(number(6));
    };
    assert_eq!(ids(None, None, &between), [number(5), number(4), number(3)]);
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
