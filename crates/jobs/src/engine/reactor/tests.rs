//! The reactor through every order of events that a lagging executor, lost handles and kills can
//! bring; its invariants are checked after every step.

mod interleavings;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use fishplate_contract::{LimitHit, Principal, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::executor::conformance;
use crate::store::Store as _;
use crate::store::conformance::{dead, job, request};
use crate::store::memory::MemoryStore;

fn plan() -> Arc<Plan> {
    Arc::new(conformance::plan("/bin/true", &[]))
}

fn claim(n: u8, fence: u64) -> Claim {
    Claim {
        id: JobId::from_bytes([n; 16]),
        service: "s".to_owned(),
        owner: Principal::anonymous(),
        directory: PathBuf::from("/nowhere"),
        fence,
        handle: None,
        taken_from: None,
        kill_requested: false,
        boot: None,
    }
}

/// From a process of this boot that is gone.
fn taken() -> Option<Boot> {
    Some(Boot::Current)
}

fn handle() -> Handle {
    Handle("h".to_owned())
}

fn ended() -> Observation {
    Observation::Ended(Box::default())
}

/// A reactor with what it was seen to do.
struct Watched {
    reactor: Reactor,
    starts: HashMap<(JobId, u64), u32>,
    concluded: HashSet<(JobId, u64)>,
}

impl Watched {
    fn new() -> Self {
        Self { reactor: Reactor::new(1), starts: HashMap::new(), concluded: HashSet::new() }
    }

    fn step(&mut self, event: Event) -> Vec<String> {
        let effects = self.reactor.handle(event, Timestamp(0));
        for effect in &effects {
            self.check(effect);
        }
        effects.iter().map(name).collect()
    }

    fn check(&mut self, effect: &Effect) {
        let about = match effect {
            Effect::Start(order) | Effect::Locate(order) => (order.job, order.fence),
            Effect::Judge(order, _) => {
                let about = (order.job, order.fence);
                assert!(self.concluded.insert(about), "concluded twice under one fence");
                return;
            }
            Effect::RecordStart(job, fence, _) | Effect::Unclaim(job, fence, _) => (*job, *fence),
            // What moves is watched in `interleavings`.
            _ => return,
        };
        assert!(!self.concluded.contains(&about), "{effect:?} after the completion");
        if let Effect::Start(_) = effect {
            let starts = self.starts.entry(about).or_default();
            *starts += 1;
            assert_eq!(*starts, 1, "started twice under one fence");
        }
    }
}

fn name(effect: &Effect) -> String {
    match effect {
        Effect::Start(_) => "start".to_owned(),
        Effect::Locate(_) => "locate".to_owned(),
        Effect::RecordStart(..) => "record".to_owned(),
        Effect::Observe => "observe".to_owned(),
        Effect::Cancel(_) => "cancel".to_owned(),
        Effect::Unclaim(..) => "unclaim".to_owned(),
        Effect::Judge(_, JobEnd::Ended(_)) => "judge".to_owned(),
        Effect::Judge(_, JobEnd::Without(state, ..)) => state.name().to_owned(),
        Effect::Judge(_, JobEnd::Refused(fault)) => fault.code.name().to_owned(),
        Effect::Prepare(..) => "prepare".to_owned(),
        Effect::Fetch(..) => "fetch".to_owned(),
        Effect::Arrange(..) => "arrange".to_owned(),
        Effect::Queue(..) => "queue".to_owned(),
        Effect::Send(..) => "send".to_owned(),
        Effect::Stop(..) => "stop".to_owned(),
        Effect::Discard(..) => "discard".to_owned(),
        Effect::WriteEnd(..) => "write".to_owned(),
    }
}

#[test]
fn a_job_is_started_recorded_observed_and_judged() {
    let mut watched = Watched::new();
    let job = claim(1, 1);
    assert_eq!(watched.step(Event::Claimed(job.clone(), plan())), ["start"]);
    assert_eq!(watched.step(Event::Started(job.id, 1, Ok(handle()))), ["record", "observe"]);
    let running = Observation::Running { started: Timestamp(0) };
    assert!(watched.step(Event::Observed(job.id, 1, running)).is_empty());
    assert_eq!(watched.step(Event::Observed(job.id, 1, ended())), ["judge"]);
    assert!(watched.step(Event::Observed(job.id, 1, ended())).is_empty());
    assert!(watched.step(Event::Closed(job.id, 1)).is_empty());
    assert!(watched.reactor.is_empty());
}

#[test]
fn a_start_that_is_not_remembered_is_looked_up_and_never_guessed() {
    let cases: [(StartTrace, &[&str]); 3] = [
        (StartTrace::Never, &["start"]),
        (StartTrace::Started(handle()), &["record", "observe"]),
        (StartTrace::Unproven("no journal".to_owned()), &["unknown"]),
    ];
    for (located, effects) in cases {
        let mut watched = Watched::new();
        let job = Claim { taken_from: taken(), ..claim(1, 2) };
        assert_eq!(watched.step(Event::Claimed(job.clone(), plan())), ["locate"]);
        assert_eq!(watched.step(Event::Located(job.id, 2, located)), effects);
    }
}

#[test]
fn after_a_restart_of_the_machine_finding_nothing_proves_nothing() {
    let mut watched = Watched::new();
    let job = Claim { taken_from: Some(Boot::Over), ..claim(1, 2) };
    assert_eq!(watched.step(Event::Claimed(job.clone(), plan())), ["locate"]);
    assert_eq!(watched.step(Event::Located(job.id, 2, StartTrace::Never)), ["unknown"]);
}

#[test]
fn nor_does_it_for_whoever_takes_the_job_over_next() {
    let mut claims = Vec::new();
    let work = &mut |t: &mut dyn crate::store::Transaction| {
        t.submit(&job(1, "s"))?;
        for holder in ["earlier/1/1/0", &dead(), "last"] {
            claims = t.claim(&request(holder))?;
        }
        Ok(())
    };
    MemoryStore::default().transact(true, work).unwrap();
    let job = claims.remove(0);
    let (id, fence) = (job.id, job.fence);
    let mut watched = Watched::new();
    assert_eq!(watched.step(Event::Claimed(job, plan())), ["locate"]);
    assert_eq!(watched.step(Event::Located(id, fence, StartTrace::Never)), ["unknown"]);
}

#[test]
fn a_kill_reaches_a_job_in_every_phase() {
    // While it is being started: as soon as the start is known.
    let mut watched = Watched::new();
    let job = claim(1, 1);
    watched.step(Event::Claimed(job.clone(), plan()));
    assert!(watched.step(Event::KillRequested(job.id)).is_empty());
    let effects = watched.step(Event::Started(job.id, 1, Ok(handle())));
    assert_eq!(effects, ["record", "observe", "cancel"]);
    assert_eq!(watched.step(Event::KillRequested(job.id)), ["cancel"], "a request can be lost");
    watched.step(Event::Observed(job.id, 1, ended()));
    assert!(watched.step(Event::KillRequested(job.id)).is_empty());
    // Requested before it was claimed: it is never started.
    let killed = Claim { kill_requested: true, ..claim(2, 1) };
    assert_eq!(watched.step(Event::Claimed(killed, plan())), ["killed"]);
    // Taken over while it runs.
    let taken =
        Claim { kill_requested: true, taken_from: taken(), handle: Some(handle()), ..claim(3, 4) };
    assert_eq!(watched.step(Event::Claimed(taken, plan())), ["observe", "cancel"]);
}

#[test]
fn a_call_of_an_earlier_boot_is_not_started_behind_its_callers_back() {
    let mut watched = Watched::new();
    let old = Claim { boot: Some(Boot::Over), ..claim(1, 1) };
    assert_eq!(watched.step(Event::Claimed(old, plan())), ["failed"]);
    let this = Claim { boot: Some(Boot::Current), ..claim(2, 1) };
    assert_eq!(watched.step(Event::Claimed(this, plan())), ["start"]);
}

#[test]
fn only_a_start_that_certainly_did_not_happen_is_tried_again_and_not_for_ever() {
    let too_long = StartError::TooLong {
        message: "too long".to_owned(),
        limit: LimitHit { name: "arguments_size".to_owned(), value: "1".to_owned() },
    };
    let failures: [(StartError, u64, &str); 9] = [
        (StartError::NotStarted("busy".to_owned()), 1, "unclaim"),
        (StartError::NotStarted("busy".to_owned()), MOST_CLAIMS, "failed"),
        (StartError::Unproven("lost".to_owned()), 1, "unknown"),
        (StartError::ProgramMissing("ccx".to_owned()), 1, "failed"),
        (StartError::StorageFull("full".to_owned()), 1, "unclaim"),
        (StartError::StorageFull("full".to_owned()), MOST_CLAIMS, "unclaim"),
        (StartError::Exhausted("no process".to_owned()), 1, "unclaim"),
        (StartError::Exhausted("no process".to_owned()), MOST_CLAIMS, "unclaim"),
        (too_long, 1, "LimitExceeded"),
    ];
    for (error, fence, effect) in failures {
        let mut watched = Watched::new();
        let job = claim(1, fence);
        watched.step(Event::Claimed(job.clone(), plan()));
        assert_eq!(watched.step(Event::Started(job.id, fence, Err(error))), [effect]);
    }
}

#[test]
fn starts_without_room_do_not_count_as_tries_here_or_elsewhere() {
    let id = claim(1, 1).id;
    let start = |watched: &mut Watched, fence, error| {
        watched.step(Event::Claimed(claim(1, fence), plan()));
        let effects = watched.step(Event::Started(id, fence, Err(error)));
        watched.step(Event::Closed(id, fence));
        effects
    };
    let full = || StartError::StorageFull("full".to_owned());
    let mut watched = Watched::new();
    for fence in 1..=MOST_STARTS {
        assert_eq!(start(&mut watched, fence, full()), ["unclaim"]);
    }
    let exhausted = || StartError::Exhausted("no process".to_owned());
    let mut poor = Watched::new();
    for fence in 1..MOST_STARTS_EXHAUSTED {
        assert_eq!(start(&mut poor, fence, exhausted()), ["unclaim"]);
    }
    let busy = || StartError::NotStarted("busy".to_owned());
    assert_eq!(start(&mut poor, MOST_STARTS_EXHAUSTED, busy()), ["unclaim"]);
    assert_eq!(start(&mut poor, MOST_STARTS_EXHAUSTED + 1, exhausted()), ["failed"]);
    for mut watched in [watched, Watched::new()] {
        for tries in 1..MOST_STARTS {
            assert_eq!(start(&mut watched, MOST_STARTS + tries, busy()), ["unclaim"]);
        }
        assert_eq!(start(&mut watched, 2 * MOST_STARTS, busy()), ["failed"]);
    }
}

#[test]
fn what_was_lost_is_unknown_and_what_died_has_failed() {
    for (seen, effect) in [
        (Observation::Lost("no exit status".to_owned()), "unknown"),
        (Observation::Died("with the machine".to_owned()), "failed"),
    ] {
        let mut watched = Watched::new();
        let job = Claim { taken_from: taken(), handle: Some(handle()), ..claim(1, 2) };
        watched.step(Event::Claimed(job.clone(), plan()));
        assert_eq!(watched.step(Event::Observed(job.id, 2, seen)), [effect]);
    }
}

#[test]
fn why_a_batch_system_lets_a_job_wait_is_told() {
    let mut watched = Watched::new();
    let job = claim(1, 1);
    watched.step(Event::Claimed(job.clone(), plan()));
    watched.step(Event::Started(job.id, 1, Ok(handle())));
    watched.step(Event::Observed(job.id, 1, Observation::Waiting("Priority".to_owned())));
    assert_eq!(watched.reactor.live(job.id).waits_for, "Priority");
    let running = Observation::Running { started: Timestamp(0) };
    watched.step(Event::Observed(job.id, 1, running));
    assert_eq!(watched.reactor.live(job.id).waits_for, "");
}

#[test]
fn what_comes_late_under_a_lost_claim_changes_nothing() {
    let mut watched = Watched::new();
    let claim = |fence| {
        let (id, owner) = (JobId::from_bytes([1; 16]), Principal::anonymous());
        FetchClaim { id, owner, directory: PathBuf::from("/nowhere"), fence }
    };
    let id = claim(1).id;
    let plan = interleavings::moving();
    let prepare = |fence| Event::Prepared(id, fence, Ok(()));
    let fetched = |fence, at| Event::Fetched(id, fence, at, Ok(PlacementMethod::Copy));
    assert_eq!(watched.step(Event::FetchClaimed(claim(1), Arc::clone(&plan))), ["prepare"]);
    assert_eq!(watched.step(prepare(1)), ["fetch", "fetch"]);
    assert_eq!(watched.step(fetched(1, 0)), [""; 0]);
    let again = watched.step(Event::FetchClaimed(claim(2), plan));
    assert_eq!(again, ["discard", "prepare"], "it was another's meanwhile");
    assert_eq!(watched.step(prepare(1)), [""; 0]);
    assert_eq!(watched.step(prepare(2)), ["fetch", "fetch"]);
    assert_eq!(watched.step(fetched(1, 1)), [""; 0]);
    assert_eq!(watched.step(fetched(2, 0)), [""; 0]);
    assert_eq!(watched.step(fetched(2, 1)), ["arrange"]);
    assert_eq!(watched.step(Event::FetchLost(id, 1, true)), [""; 0]);
    assert_eq!(watched.step(Event::FetchLost(id, 2, true)), ["discard"]);
    assert!(watched.reactor.is_empty());
}

fn any_event() -> impl Strategy<Value = Event> {
    let job = 1u8..4;
    let fence = 1u64..4;
    (job, fence, 0u8..15, any::<bool>()).prop_map(|(n, fence, kind, flag)| {
        let id = JobId::from_bytes([n; 16]);
        match kind {
            0 => Event::Claimed(Claim { kill_requested: flag, ..claim(n, fence) }, plan()),
            1 => Event::Claimed(Claim { taken_from: taken(), ..claim(n, fence) }, plan()),
            2 => {
                let handle = Some(handle());
                Event::Claimed(Claim { taken_from: taken(), handle, ..claim(n, fence) }, plan())
            }
            3 | 4 => Event::Started(id, fence, Ok(handle())),
            5 => Event::Started(id, fence, Err(StartError::NotStarted(String::new()))),
            6 => Event::Started(id, fence, Err(StartError::Unproven(String::new()))),
            7 => Event::Located(id, fence, StartTrace::Never),
            8 => Event::Located(id, fence, StartTrace::Started(handle())),
            9 => Event::Observed(id, fence, Observation::Unclear(String::new())),
            10 => Event::Observed(id, fence, ended()),
            11 => Event::Observed(id, fence, Observation::Lost(String::new())),
            12 => Event::KillRequested(id),
            13 => Event::Started(id, fence, Err(StartError::StorageFull(String::new()))),
            _ => Event::Closed(id, fence),
        }
    })
}

proptest! {
    #[test]
    fn no_order_of_events_breaks_an_invariant(
        events in proptest::collection::vec(any_event(), 0..60)
    ) {
        let mut watched = Watched::new();
        let mut claimed = HashSet::new();
        for event in events {
            // A store hands out each fence of a job once, and only larger ones.
            if let Event::Claimed(claim, _) = &event {
                let older = claimed.iter().any(|(id, fence)| *id == claim.id && *fence >= claim.fence);
                if older {
                    continue;
                }
                claimed.insert((claim.id, claim.fence));
            }
            watched.step(event);
            prop_assert!(watched.reactor.active.len() <= 3);
        }
    }
}
