//! Places that are held for ranks.

use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use super::references::{MESH, fetch, with_stager};
use super::*;
use crate::engine::outcome::no_references;
use crate::engine::{Reservation, new_id};
use crate::store::quota::OwnerLimits;
use fishplate_programs::plan::FetchedForm;

fn reservation(domain: &str, places: u32) -> Reservation {
    Reservation {
        domain: domain.to_owned(),
        service: "s".to_owned(),
        owner: Principal::anonymous(),
        places,
        most_of_service: 2,
    }
}

fn of_two(domain: Option<&str>) -> JobRequest {
    JobRequest { max_running: 2, domain: domain.map(str::to_owned), ..work(None, 0) }
}

/// A rank that runs until it is killed.
async fn rank(fixture: &Fixture, engine: &Engine, domain: &str) -> Result<JobId, Fault> {
    let job = new_id().unwrap();
    fixture.executor.script(job, vec![Observation::Running { started: Timestamp(1) }]);
    engine.submit_as(job, of_two(Some(domain)), || ()).await.map(|accepted| accepted.job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_held_is_a_ranks_and_nobody_elses() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        let owner = Principal::anonymous();
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        let other = engine.submit(of_two(None)).await.unwrap();
        let refused = engine.reserve(reservation("e", 1)).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after.is_some()), (FaultCode::QueueFull, true));
        let refused = engine.reserve(reservation("e", 3)).await.unwrap_err();
        assert_eq!(refused.parameter.as_deref(), Some("ranks"), "never: {refused:?}");
        let refused = engine.reserve(reservation("d", 1)).await.unwrap_err();
        assert_eq!(refused.parameter.as_deref(), Some("domain"), "twice: {refused:?}");
        // Whatever waits, a rank begins.
        let job = rank(&fixture, &engine, "d").await.unwrap();
        until("it runs", async || state(&engine, job) == JobState::Running).await;
        assert_eq!(state(&engine, other.job), JobState::Queued);
        assert_eq!(rank(&fixture, &engine, "e").await.unwrap_err().code, FaultCode::InvalidValue);
        // What was not taken is given back, and goes to who waits.
        assert_eq!(engine.end_domain("d", &Principal::named("ada")), 0);
        assert_eq!(engine.end_domain("d", &owner), 1);
        assert_eq!(engine.wait(other).await.unwrap().state(), JobState::Done);
        assert!(rank(&fixture, &engine, "d").await.is_err());
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_taken_lapses() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine_with(|settings| {
            settings.reservation_lease = Duration::from_millis(20);
        });
        let (engine, run) = run(engine);
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        until("they lapse", async || engine.reserve(reservation("e", 2)).await.is_ok()).await;
        assert!(rank(&fixture, &engine, "d").await.is_err());
        let other = engine.submit(of_two(None)).await.unwrap();
        assert_eq!(engine.wait(other).await.unwrap().state(), JobState::Done);
        run.abort();
    }
}

/// Begins, and does not wait.
fn polled<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_reservation_leaves_the_domains_others() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        until("it works", async || engine.reserve(reservation("d", 1)).await.is_ok()).await;
        engine.reserve(reservation("e", 1)).await.unwrap();
        let more = Reservation { service: "t".to_owned(), ..reservation("d", 2) };
        let most = engine.settings().max_running - 1;
        let more = Reservation { places: most, most_of_service: most, ..more };
        assert_eq!(engine.reserve(more).await.unwrap_err().code, FaultCode::QueueFull);
        rank(&fixture, &engine, "d").await.unwrap();
        run.abort();
    }
}

/// A rank with an input by reference.
fn with_reference(domain: &str) -> JobRequest {
    let inputs = vec![fetch("mesh", MESH, FetchedForm::File)];
    JobRequest { plan: Plan { inputs, ..plan() }, ..of_two(Some(domain)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_is_not_accepted_leaves_its_place_to_another() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        until("it works", async || engine.reserve(reservation("d", 1)).await.is_ok()).await;
        // Nobody is there who fetches.
        let refused = engine.submit(with_reference("d")).await.unwrap_err();
        assert_eq!(refused.code, no_references().code);
        rank(&fixture, &engine, "d").await.unwrap();
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_whose_data_can_not_be_fetched_keeps_no_place() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.fail(MESH, Fault::new(FaultCode::Internal, "gone"));
        let (engine, run) = run(engine);
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        let job = engine.submit(with_reference("d")).await.unwrap();
        assert_eq!(engine.wait(job).await.unwrap().state(), JobState::Failed);
        engine.end_domain("d", &Principal::anonymous());
        engine.reserve(reservation("e", 2)).await.unwrap();
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_another_process_ended_keeps_no_place() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(MESH);
        let (engine, run) = run(engine);
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        let job = engine.submit(with_reference("d")).await.unwrap().job;
        engine.end_domain("d", &Principal::anonymous());
        fixture.engine().kill(&Principal::anonymous(), "s", job).await.unwrap();
        until("it is seen", async || engine.reserve(reservation("e", 2)).await.is_ok()).await;
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_is_accepted_after_the_end_of_its_domain_is_killed() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        let (job, accepted) = loop {
            let job = new_id().unwrap();
            fixture.executor.script(job, vec![Observation::Running { started: Timestamp(1) }]);
            let mut accepted = Box::pin(engine.submit_as(job, of_two(Some("d")), || ()));
            if polled(accepted.as_mut()).is_pending() {
                break (job, accepted);
            }
            // It was faster than we.
            engine.kill(&Principal::anonymous(), "s", job).await.unwrap();
            engine.end_domain("d", &Principal::anonymous());
            until("it is over", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        };
        engine.end_domain("d", &Principal::anonymous());
        // Though the caller hangs up.
        drop(accepted);
        let is_killed = async || {
            engine.shared.find(job).await.unwrap().is_some_and(|of| of.state == JobState::Killed)
        };
        until("it is killed", is_killed).await;
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_holds_no_places() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        until("it works", async || engine.reserve(reservation("d", 1)).await.is_ok()).await;
        engine.end_domain("d", &Principal::anonymous());
        let is_held = || !lock(&engine.shared.places).held(std::time::Instant::now()).is_empty();
        until("it is hung up while it is looked", async || {
            let mut waits = std::pin::pin!(engine.reserve(reservation("d", 2)));
            let mut state = Poll::Pending;
            while state.is_pending() && !is_held() {
                state = polled(waits.as_mut());
            }
            // It may be faster than we.
            if state.is_ready() {
                engine.end_domain("d", &Principal::anonymous());
            }
            state.is_pending()
        })
        .await;
        engine.reserve(reservation("e", 2)).await.unwrap();
        run.abort();
    }
}

#[tokio::test]
async fn who_only_accepts_holds_no_places() {
    for fixture in Fixture::each(3) {
        let refused = fixture.engine().reserve(reservation("d", 1)).await.unwrap_err();
        assert_eq!(refused.code, FaultCode::NotSupported);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_on_its_way_and_a_reservation_do_not_both_get_the_last_place() {
    let running =
        async |engine: &Engine| engine.shared.store.read(|t| t.running()).await.unwrap().len();
    // Told what it may claim, it waits for its turn until somebody has reserved.
    for fixture in Fixture::each(3) {
        let engine = fixture.engine_with(|settings| settings.max_running = 1);
        engine.submit(of_two(None)).await.unwrap();
        engine.shared.working.store(true, Ordering::Relaxed);
        let request = engine.shared.claim_request();
        engine.reserve(reservation("d", 1)).await.unwrap();
        engine.shared.claim_with(request).await;
        assert_eq!(running(&engine).await, 0);
    }
    // It is being written while somebody looks whether there is a place.
    let (store, fixture) = gated();
    let engine = fixture.engine_with(|settings| settings.max_running = 1);
    engine.submit(of_two(None)).await.unwrap();
    engine.shared.working.store(true, Ordering::Relaxed);
    let closed = store.gate.lock().await;
    let mut claiming = Box::pin(engine.shared.claim_with(engine.shared.claim_request()));
    assert!(is_pending(&mut claiming).await);
    let reserving = tokio::spawn({
        let engine = engine.clone();
        async move { engine.reserve(reservation("d", 1)).await }
    });
    let is_held = || !lock(&engine.shared.places).held(std::time::Instant::now()).is_empty();
    until("it is held", async || is_held()).await;
    drop(closed);
    let ((), reserved) = tokio::join!(claiming, reserving);
    assert_eq!(running(&engine).await + usize::from(reserved.unwrap().is_ok()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_is_refused_when_its_caller_has_gone_is_not_told_as_accepted() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        until("it works", async || engine.reserve(reservation("d", 2)).await.is_ok()).await;
        for (traffic, accepted) in [(0, false), (1, true)] {
            engine.set_quotas(move || {
                Arc::new(OwnerLimits { traffic: Some(traffic), ..OwnerLimits::default() })
            });
            let (tell, mut told) = tokio::sync::oneshot::channel();
            let work = JobRequest { bytes_in: 1, ..of_two(Some("d")) };
            let told_accepted = move || tell.send(()).unwrap();
            let mut submitted = Box::pin(engine.submit_as(new_id().unwrap(), work, told_accepted));
            // It may have been decided at once; mostly the caller goes before.
            let _ = polled(submitted.as_mut());
            drop(submitted);
            assert_eq!((&mut told).await.is_ok(), accepted);
        }
        run.abort();
    }
}
