//! What is counted: of jobs, of owners, against quotas.

use super::*;

pub(super) fn totals(store: &Bed) {
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

pub(super) fn accounts(store: &Bed) {
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
    assert_eq!(with(store, |t| t.fetched(number(2), fence, "", 0, 5, None)), FencedWrite::Accepted);
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

pub(super) fn usage_sums(store: &Bed) {
    let (day, ann) = (crate::store::usage::DAY, Principal::named("ann"));
    let record = |at: i64, bytes_in| UsageRecord {
        bytes_in,
        cpu_seconds: 0.25,
        ..UsageRecord::without_job(
            ann.clone(),
            ("data", "upload"),
            JobState::Done,
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

pub(super) fn owner_usage(store: &Bed) {
    let day = crate::store::usage::DAY;
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
            Principal::named("ann"),
            ("data", "read"),
            JobState::Done,
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

pub(super) fn quotas(store: &Bed) {
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
