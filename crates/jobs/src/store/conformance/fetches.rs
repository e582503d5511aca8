//! Jobs whose data is fetched before they are queued.

use super::*;

pub(super) fn to_fetch(n: u8) -> NewJob {
    NewJob { fetching: true, owner: Principal::named("ann"), ..job(n, "s") }
}

pub(super) fn fetches_are_shared_among_owners(store: &Bed) {
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

pub(super) fn claim_fetches(bed: &Bed, holder: &str, now: i64) -> Vec<FetchClaim> {
    with(bed.at(now), |t| t.claim_fetches(&fetch_request(holder)))
}

pub(super) fn fetch_request(holder: &str) -> FetchRequest {
    FetchRequest { holder: holder.to_owned(), lease: LEASE, most: 2, most_of_owner: 2 }
}

pub(super) fn fetches(store: &Bed) {
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
        assert_eq!(t.fetched(number(1), 7, "stale", 0, 0, None)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(3), 0, "held by nobody", 0, 0, None)?, FencedWrite::Stale);
        assert_eq!(
            t.fetched(number(1), 1, "{\"n\":\"fetched\"}", 0, 0, None)?,
            FencedWrite::Accepted
        );
        assert_eq!(t.fetched(number(1), 1, "again", 0, 0, None)?, FencedWrite::Stale);
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

pub(super) fn fetches_taken_over(store: &Bed) {
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
        assert_eq!(t.fetched(number(1), first[0].fence, "", 0, 0, None)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(1), lapsed[0].fence, "", 0, 0, None)?, FencedWrite::Stale);
        assert_eq!(t.fetched(number(1), last[0].fence, "", 0, 0, None)?, FencedWrite::Accepted);
        assert_eq!(t.fetching("one")?, []);
        Ok(())
    });
}

pub(super) fn fetching_is_no_running(store: &Bed) {
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
        states: vec![JobState::Fetching],
        ..Filter::new(Principal::named("ann"), vec!["s".to_owned()], 9)
    };
    assert_eq!(with(store, |t| t.list(&fetching)).len(), 2);
}

pub(super) fn equal_jobs(store: &Bed) {
    for n in 1..=6 {
        let service = if n == 5 { "other" } else { "s" };
        submit(store, &NewJob { service: service.to_owned(), ..to_fetch(n) });
    }
    // Some at once.
    for _ in 0..6 {
        for claim in claim_fetches(store, "one", 0) {
            let content = if claim.id == number(6) { "b" } else { "a" };
            let content = (claim.id != number(4)).then_some(content);
            let queued = with(store, |t| t.fetched(claim.id, claim.fence, "", 0, 0, content));
            assert_eq!(queued, FencedWrite::Accepted);
        }
    }
    let equal = |service, content, most| {
        let found = with(store, |t| t.equal(service, content, most));
        found.into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    assert_eq!(equal("s", "a", 9), [], "none of them has ended");
    for _ in 0..6 {
        for claim in claim(store, "one", 9) {
            let state = if claim.id == number(3) { JobState::Failed } else { JobState::Done };
            let ended = with(store, |t| t.conclude(claim.id, claim.fence, &end(state, 6)));
            assert_eq!(ended, FencedWrite::Accepted);
        }
    }
    assert_eq!(
        equal("s", "a", 9),
        [number(2), number(1)],
        "done, of this digest, the newest first"
    );
    assert_eq!(equal("s", "a", 1), [number(2)]);
    assert_eq!(equal("other", "a", 9), [number(5)]);
    assert_eq!(equal("s", "b", 9), [number(6)]);
    assert_eq!(equal("s", "", 9), []);
    assert!(with(store, |t| t.remove(number(2))));
    assert_eq!(equal("s", "a", 9), [number(1)]);
}

pub(super) fn fetching_ends(store: &Bed) {
    for n in 1..=3 {
        submit(store, &to_fetch(n));
    }
    let claims = claim_fetches(store, "one", 0);
    with(store, |t| {
        assert_eq!(t.request_kill(number(1), Timestamp(5))?, KillRequest::Dequeued);
        assert_eq!(t.request_kill(number(3), Timestamp(5))?, KillRequest::Dequeued);
        assert_eq!(t.fetching("one")?, [number(2)], "whoever fetches sees that it is not wanted");
        assert_eq!(t.fetched(number(1), claims[0].fence, "", 0, 0, None)?, FencedWrite::Stale);
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
