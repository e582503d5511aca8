//! Who may work on a job: in which order, under which claim, and until when.

use super::*;

pub(super) fn claims_in_order(store: &Bed) {
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

pub(super) fn no_starvation(store: &Bed) {
    for n in 1..=50 {
        submit(store, &NewJob { max_running: 1, ..job(n, "busy") });
    }
    submit(store, &job(60, "quiet"));
    let ids: Vec<JobId> = claim(store, "h", 0).iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [number(1), number(60)]);
}

pub(super) fn fair_share(store: &Bed) {
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

pub(super) fn reserved_places(store: &Bed) {
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

pub(super) fn owners_forgotten(store: &Bed) {
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

pub(super) fn owner_limits(store: &Bed) {
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

pub(super) fn stale_fence(store: &Bed) {
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

pub(super) fn discards(store: &Bed) {
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

pub(super) fn leases(store: &Bed) {
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

pub(super) fn dead_holder(store: &Bed) {
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

pub(super) fn boots_over(store: &Bed) {
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

pub(super) fn adopted_are_taken_over(store: &Bed) {
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

pub(super) fn unclaim(store: &Bed) {
    submit(store, &job(1, "s"));
    let first = claim(store, "h", 0).remove(0);
    assert_eq!(with(store, |t| t.unclaim(number(1), first.fence)), FencedWrite::Accepted);
    assert_eq!(with(store, |t| t.find(number(1))).unwrap().state, JobState::Queued);
    let again = claim(store, "h", 0).remove(0);
    assert!(again.fence > first.fence && again.taken_from.is_none());
}

pub(super) fn kills(store: &Bed) {
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

pub(super) fn resting(store: &Bed) {
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
