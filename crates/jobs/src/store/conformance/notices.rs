//! What is to be told of jobs, and who tells it.

use super::*;
use crate::store::notices::{DueNotice, Notice};

const BOTH: StoredNotices = StoredNotices { start: true, end: true };

fn due(store: &Bed, now: i64) -> Vec<DueNotice> {
    with(store.at(now), |t| t.due_notices(&["s".to_owned()], 10, 10))
}

fn notices(store: &Bed, now: i64) -> Vec<Notice> {
    due(store, now).iter().map(|due| due.notice).collect()
}

fn claim_notice(store: &Bed, due: &DueNotice, holder: &str) -> FencedWrite {
    with(store, |t| t.claim_notice(due, holder, LEASE))
}

/// A job that has ended.
fn ended(store: &Bed, new: &NewJob) {
    submit(store, new);
    let claimed = claim(store, "h", 1).remove(0);
    let done = with(store, |t| t.conclude(new.id, claimed.fence, &end(JobState::Done, 5)));
    assert_eq!(done, FencedWrite::Accepted);
}

pub(super) fn told_by_one(store: &Bed) {
    submit(store, &NewJob { notices: BOTH, ..job(1, "s") });
    assert_eq!(notices(store, 0), []);
    let claimed = claim(store, "h", 0).remove(0);
    let _ =
        with(store, |t| t.started(number(1), claimed.fence, &Handle("x".to_owned()), Timestamp(2)));
    let seen = due(store, 3).remove(0);
    assert_eq!((seen.notice, seen.since), (Notice::Started, Timestamp(2)));
    assert_eq!(with(store, |t| t.due_notices(&["other".to_owned()], 10, 10)), []);
    assert_eq!(claim_notice(store, &seen, "one"), FencedWrite::Accepted);
    assert_eq!(claim_notice(store, &seen, "two"), FencedWrite::Stale);
    assert_eq!(notices(store, 4), []);
    let settle = |holder: &str, told| with(store, |t| t.settle_notice(number(1), holder, told));
    assert_eq!(settle("two", Notice::Started), FencedWrite::Stale);
    assert_eq!(settle("one", Notice::Started), FencedWrite::Accepted);
    assert_eq!(notices(store, 4), []);
    let done = with(store, |t| t.conclude(number(1), claimed.fence, &end(JobState::Done, 5)));
    assert_eq!(done, FencedWrite::Accepted);
    let seen = due(store, 6).remove(0);
    assert_eq!((seen.notice, seen.since), (Notice::Ended, Timestamp(5)));
    assert_eq!(claim_notice(store, &seen, "one"), FencedWrite::Accepted);
    // It could not be told: it rests, and then anybody tries.
    let rest = Duration::from_millis(50);
    let _ = with(store, |t| t.release_notice(number(1), "one", rest));
    assert_eq!(notices(store, 50), []);
    let seen = due(store, 56).remove(0);
    assert_eq!(claim_notice(store, &seen, "two"), FencedWrite::Accepted);
    // As long as the claim is renewed, nobody else does.
    let later = 56 + i64::try_from(LEASE.as_millis()).unwrap() - 1;
    store.at(later);
    let _ = with(store, |t| t.renew_notice(number(1), "two", LEASE));
    assert_eq!(notices(store, later + 5), []);
    assert_eq!(
        notices(store, later + 1 + i64::try_from(LEASE.as_millis()).unwrap()),
        [Notice::Ended]
    );
    assert_eq!(settle("two", Notice::Ended), FencedWrite::Accepted);
    assert_eq!(notices(store, i64::MAX), []);
}

pub(super) fn dead_teller(store: &Bed) {
    ended(store, &NewJob { notices: BOTH, ..job(1, "s") });
    let seen = due(store, 6).remove(0);
    assert_eq!(claim_notice(store, &seen, &dead()), FencedWrite::Accepted);
    assert_eq!(notices(store, 7), [Notice::Ended]);
    // One that was killed before it ran is told of too.
    submit(store, &NewJob { notices: BOTH, max_running: 0, ..job(2, "s") });
    assert_eq!(with(store, |t| t.request_kill(number(2), Timestamp(8))), KillRequest::Dequeued);
    assert_eq!(notices(store, 9), [Notice::Ended, Notice::Ended]);
}

pub(super) fn nothing_due(store: &Bed) {
    ended(store, &job(1, "s"));
    assert_eq!(notices(store, 9), []);
    ended(store, &NewJob { notices: StoredNotices { end: true, start: false }, ..job(2, "s") });
    assert_eq!(notices(store, 9), [Notice::Ended]);
    assert!(with(store, |t| t.remove(number(2))));
    assert_eq!(notices(store, 9), []);
}

pub(super) fn owners_in_turn(store: &Bed) {
    let notices = StoredNotices { end: true, start: false };
    for number in 1..=6 {
        let owner = if number < 6 { "many" } else { "one" };
        ended(store, &NewJob { notices, owner: Principal::named(owner), ..job(number, "s") });
    }
    let due = |most, most_of_owner| -> Vec<String> {
        let due = with(store.at(9), |t| t.due_notices(&["s".to_owned()], most, most_of_owner));
        due.iter().map(|due| due.owner.as_str().to_owned()).collect()
    };
    let (many, one) = ("many", "one");
    let mut first = due(2, 3);
    first.sort_unstable();
    assert_eq!(first, [many, one]);
    assert_eq!(due(10, 10).len(), 6);
    assert_eq!(due(10, 3).iter().filter(|owner| *owner == many).count(), 3);
    // What is being told counts, and is nobody's again once it was.
    let taken = with(store.at(9), |t| t.due_notices(&["s".to_owned()], 10, 3));
    for taken in taken.iter().filter(|taken| taken.owner.as_str() == many) {
        assert_eq!(claim_notice(store, taken, "teller"), FencedWrite::Accepted);
    }
    assert_eq!(due(10, 3), [one]);
    assert_eq!(due(10, 4).len(), 2);
    let settled = taken.iter().find(|taken| taken.owner.as_str() == many).unwrap().job;
    let told = with(store, |t| t.settle_notice(settled, "teller", Notice::Ended));
    assert_eq!(told, FencedWrite::Accepted);
    assert_eq!(due(10, 3).len(), 2);
}
