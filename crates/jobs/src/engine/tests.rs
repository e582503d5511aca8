//! The whole engine on a batch executor that lags, on every store: jobs that are accepted end, each
//! is started once, and an engine that dies is replaced by the next.

mod outputs;
mod places;
mod references;
mod reuse;
mod values;

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, JobId, JobState, Principal, SystemClock, Timestamp};

use super::*;
use crate::completion::Completion;
use crate::executor::fake::FakeExecutor;
use crate::executor::{
    Collected, Executor, Observation, Output, OutputContent, ProgramExit, StartError, conformance,
};
use crate::stager::Stager;
use crate::store::conformance::SetClock;
use crate::store::memory::MemoryStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{Filter, Store, StoreError, Transaction, UsageRecord};
use fishplate_programs::plan::Plan;

fn plan() -> Plan {
    conformance::plan("/bin/true", &[])
}

fn work(key: Option<&str>, fingerprint: u64) -> JobRequest {
    JobRequest {
        service: "s".to_owned(),
        operation: "call".to_owned(),
        owner: Principal::anonymous(),
        key: key.map(str::to_owned),
        fingerprint,
        plan: plan(),
        bytes_in: 0,
        placements: Vec::new(),
        max_running: 4,
        domain: None,
    }
}

/// An archive of one file, `a`, that holds `x`.
pub(super) fn small_archive() -> Vec<u8> {
    let (mut archive, mut header) = (tar::Builder::new(Vec::new()), tar::Header::new_ustar());
    header.set_size(1);
    header.set_mode(0o644);
    archive.append_data(&mut header, "a", &b"x"[..]).unwrap();
    archive.into_inner().unwrap()
}

struct Fixture {
    directory: tempfile::TempDir,
    store: Arc<dyn Store>,
    executor: Arc<FakeExecutor>,
    /// What the server may choose goes by reference from so many bytes on.
    reference_size: u64,
}

impl Fixture {
    fn on(store: impl Store + 'static, directory: tempfile::TempDir, seed: u64) -> Self {
        let executor = Arc::new(FakeExecutor::new(seed));
        Self { directory, store: Arc::new(store), executor, reference_size: 1 << 20 }
    }

    fn each(seed: u64) -> [Self; 2] {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sqlite = SqliteStore::open(&one.path().join("jobs.sqlite")).unwrap();
        [Self::on(sqlite, one, seed), Self::on(MemoryStore::default(), two, seed)]
    }

    fn engine(&self) -> Engine {
        self.engine_with(|_| ())
    }

    fn engine_with(&self, set: impl FnOnce(&mut Settings)) -> Engine {
        let mut settings = Settings {
            reference_size: self.reference_size,
            observe_every: Duration::from_millis(2),
            lease: Duration::from_millis(300),
            max_queued: 100,
            ..Settings::new(self.directory.path().to_owned())
        };
        set(&mut settings);
        let store = Arc::clone(&self.store);
        let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&self.executor);
        Engine::new(settings, store, executor, Arc::new(SystemClock)).unwrap()
    }

    fn running(&self) -> (Engine, tokio::task::JoinHandle<()>) {
        run(self.engine())
    }
}

fn run(engine: Engine) -> (Engine, tokio::task::JoinHandle<()>) {
    let run = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(RunMode::Dropped).await }
    });
    (engine, run)
}

fn state(engine: &Engine, job: JobId) -> JobState {
    let mut found = None;
    let store = engine.shared.store.blocking();
    store.read(&mut |t| t.find(job).map(|record| found = record)).unwrap();
    found.unwrap().state
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not come about");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_job_ends_and_is_started_once() {
    for seed in 1..4 {
        for fixture in Fixture::each(seed) {
            let (engine, run) = fixture.running();
            let mut jobs = Vec::new();
            for _ in 0..30 {
                jobs.push(engine.submit(work(None, 0)).await.unwrap());
            }
            for accepted in jobs {
                let completion = engine.wait(accepted).await.unwrap();
                assert_eq!(completion.state(), JobState::Done, "{completion:?}");
            }
            let mut started: Vec<JobId> =
                fixture.executor.starts().iter().map(|(job, _)| *job).collect();
            started.sort();
            started.dedup();
            assert_eq!((started.len(), fixture.executor.starts().len()), (30, 30));
            run.abort();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_is_replaced_and_nothing_runs_twice() {
    for fixture in Fixture::each(7) {
        let (first, run) = fixture.running();
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(first.submit(work(None, 0)).await.unwrap().job);
        }
        let started = async || !fixture.executor.starts().is_empty();
        until("a start", started).await;
        run.abort();
        drop(first);
        let (second, run) = fixture.running();
        until("the end of all jobs", async || {
            jobs.iter().all(|job| state(&second, *job).is_final())
        })
        .await;
        assert!(jobs.iter().all(|job| state(&second, *job) == JobState::Done));
        let mut starts: Vec<JobId> =
            fixture.executor.starts().iter().map(|(job, _)| *job).collect();
        starts.sort();
        let count = starts.len();
        starts.dedup();
        assert_eq!(starts.len(), count, "a job was started twice");
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_runs_once_and_finds_its_job() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        let first = engine.submit(work(Some("k"), 1)).await.unwrap();
        let again = engine.submit(work(Some("k"), 1)).await.unwrap();
        assert_eq!(first.job, again.job);
        assert!(again.existing && !first.existing);
        let conflict = engine.submit(work(Some("k"), 2)).await.unwrap_err();
        assert_eq!((conflict.code, conflict.job), (FaultCode::KeyConflict, Some(first.job)));
        let (one, two) = tokio::join!(engine.wait(first), engine.wait(again));
        assert_eq!(one.unwrap(), two.unwrap());
        assert_eq!(fixture.executor.starts().len(), 1);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_key_is_forgotten_once_delivered_and_kept_if_its_caller_is_gone() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        let owner = Principal::anonymous();
        let mut call = engine.call(work(None, 0)).await.unwrap();
        let job = call.id();
        assert_eq!(call.ended().await.unwrap().state(), JobState::Done);
        assert_eq!(call.keep(), None, "all of it was in memory");
        // Its record goes while its caller reads.
        let gone = async || {
            let found = engine.running(&owner, "s", job).await;
            found.is_err_and(|fault| fault.code == FaultCode::NoSuchJob)
        };
        until("it is forgotten", gone).await;
        let job = engine.call(work(None, 0)).await.unwrap().id();
        until("the end", async || state(&engine, job).is_final()).await;
        assert_eq!(state(&engine, job), JobState::Done);
        run.abort();
    }
}

/// The job of a call ends with a file among its outputs.
fn script_a_file(fixture: &Fixture, call: &EphemeralJob) {
    let content = OutputContent::File { path: "y".to_owned(), len: 4 };
    let (name, label, media_type) = ("y".to_owned(), None, String::new());
    let outputs = vec![Output { name, label, media_type, content }];
    let collected = Some(Collected { outputs, ..Collected::default() });
    let ending = ProgramExit { exit_code: Some(0), collected, ..ProgramExit::default() };
    fixture.executor.script(call.id(), vec![Observation::Ended(Box::new(ending))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_stopped_working_still_forgets_and_claims_nothing() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let mut call = engine.call(work(None, 0)).await.unwrap();
        script_a_file(&fixture, &call);
        let (engine, run) = run(engine);
        assert_eq!(call.ended().await.unwrap().state(), JobState::Done);
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        let (job, owner) = (call.id(), Principal::anonymous());
        call.delivered();
        engine.released().await;
        let gone = engine.running(&owner, "s", job).await;
        assert_eq!(gone.unwrap_err().code, FaultCode::NoSuchJob);
        let waiting = engine.submit(work(None, 0)).await.unwrap().job;
        assert_eq!(state(&engine, waiting), JobState::Queued);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_outputs_are_files_is_forgotten_only_when_they_were_delivered() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let mut calls = Vec::new();
        for _ in 0..3 {
            let call = engine.call(work(None, 0)).await.unwrap();
            script_a_file(&fixture, &call);
            calls.push(call);
        }
        let (engine, run) = run(engine);
        for call in &mut calls {
            assert_eq!(call.ended().await.unwrap().state(), JobState::Done);
        }
        let owner = Principal::anonymous();
        let running = async |job| engine.running(&owner, "s", job).await;
        let [delivered, broken_off, panicking] = calls.try_into().unwrap();
        let job = delivered.id();
        assert_eq!(running(job).await, Ok(false), "as long as it is being sent");
        delivered.delivered();
        until("it is gone", async || running(job).await.is_err()).await;
        let (kept, panicked) = (broken_off.id(), panicking.id());
        assert_eq!(broken_off.keep(), Some(kept));
        let sending = tokio::spawn(async move {
            let _job = panicking;
            panic!("while it is sent");
        });
        assert!(sending.await.unwrap_err().is_panic());
        for job in [kept, panicked] {
            assert_eq!(running(job).await, Ok(false));
            assert!(!engine.shared.is_ephemeral(job));
        }
        run.abort();
    }
}

#[tokio::test]
async fn a_full_queue_says_when_to_try_again_and_leaves_nothing_behind() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        for _ in 0..100 {
            engine.submit(work(None, 0)).await.unwrap();
        }
        let fault = engine.submit(work(None, 0)).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::QueueFull);
        assert_eq!(fault.limit.unwrap().name, "max_queued");
        assert!(fault.retry_after.is_some());
        let left = std::fs::read_dir(fixture.directory.path().join("jobs")).unwrap().count();
        assert_eq!(left, 100, "those of jobs that were accepted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_failed_is_a_fault_or_is_tried_again() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let missing = engine.submit(work(None, 0)).await.unwrap();
        let error = StartError::ProgramMissing("/bin/true: not there".to_owned());
        fixture.executor.refuse(missing.job, error);
        let busy = engine.submit(work(None, 0)).await.unwrap();
        fixture.executor.refuse(busy.job, StartError::NotStarted("busy".to_owned()));
        let run = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run(RunMode::Dropped).await }
        });
        let completion = engine.wait(missing).await.unwrap();
        assert_eq!(completion.fault.as_ref().unwrap().0, "ProgramMissing");
        assert_eq!(engine.wait(busy).await.unwrap().state(), JobState::Done);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_ends_a_queued_job_and_reaches_a_running_one() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let owner = Principal::anonymous();
        let queued = engine.submit(work(None, 0)).await.unwrap();
        let (state, _) = engine.kill(&owner, "s", queued.job).await.unwrap();
        assert_eq!(state, JobState::Killed);
        let running = engine.submit(work(None, 0)).await.unwrap();
        let forever = vec![FakeExecutor::running()];
        fixture.executor.script(running.job, forever);
        let run = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run(RunMode::Dropped).await }
        });
        until("a start", async || !fixture.executor.starts().is_empty()).await;
        let (state, message) = engine.kill(&owner, "s", running.job).await.unwrap();
        assert_eq!(state, JobState::Killed, "{message}");
        assert!(!fixture.executor.cancels().is_empty());
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_sees_a_job() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let job = engine.submit(work(None, 0)).await.unwrap().job;
        let other = Principal::named("somebody else");
        let code = |fault: Fault| fault.code;
        assert_eq!(engine.running(&other, "s", job).await.map_err(code), Err(FaultCode::NoSuchJob));
        assert_eq!(engine.status(&other, "s", job).await.unwrap_err().code, FaultCode::NoSuchJob);
        assert_eq!(engine.kill(&other, "s", job).await.map_err(code), Err(FaultCode::NoSuchJob));
        assert_eq!(engine.remove(&other, "s", job).await.map_err(code), Err(FaultCode::NoSuchJob));
        let results = engine.completion(&other, "s", "call", job).await;
        assert_eq!(results.unwrap_err().code, FaultCode::NoSuchJob);
        let log = engine.log(&other, "s", job, crate::workspace::OutputStream::Stdout, 0).await;
        assert_eq!(log.unwrap_err().code, FaultCode::NoSuchJob);
        let wrong_service = engine.running(&Principal::anonymous(), "t", job).await;
        assert_eq!(wrong_service.map_err(code), Err(FaultCode::NoSuchJob));
        let filter = Filter::new(other, vec!["s".to_owned()], 10);
        assert_eq!(engine.jobs(&filter).await.unwrap(), (Vec::new(), false));
        assert_eq!(engine.running(&Principal::anonymous(), "s", job).await.map_err(code), Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_stop_housekeeping() {
    const DAY: i64 = 24 * 3600 * 1000;
    let fixture = Fixture::on(MemoryStore::default(), tempfile::tempdir().unwrap(), 3);
    let clock = Arc::<SetClock>::default();
    clock.set(100 * DAY);
    let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&fixture.executor);
    let settings = Settings::new(fixture.directory.path().to_owned());
    let store = Arc::clone(&fixture.store);
    let engine = Engine::new(settings, store, executor, Arc::<SetClock>::clone(&clock)).unwrap();
    engine.shared.housekeeping().await;
    clock.set(70 * DAY);
    let job = engine.submit(work(None, 0)).await.unwrap().job;
    engine.kill(&Principal::anonymous(), "s", job).await.unwrap();
    clock.set(90 * DAY);
    tokio::time::advance(Duration::from_secs(11)).await;
    engine.shared.housekeeping().await;
    let gone = engine.running(&Principal::anonymous(), "s", job).await;
    assert_eq!(gone.unwrap_err().code, FaultCode::NoSuchJob);
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_that_lost_their_record_are_kept_and_counted_and_others_go_at_once() {
    let fixture = Fixture::on(MemoryStore::default(), tempfile::tempdir().unwrap(), 3);
    let (engine, run) = fixture.running();
    let lost = engine.submit(work(None, 0)).await.unwrap();
    let lost_directory = engine.shared.directory(lost.job);
    engine.wait(lost).await.unwrap();
    std::fs::write(lost_directory.join("work/result"), vec![1; 4096]).unwrap();
    run.abort();
    // Another store in its place.
    let fixture = Fixture { store: Arc::new(MemoryStore::default()), ..fixture };
    let engine = fixture.engine();
    let accepted = engine.submit(work(None, 0)).await.unwrap();
    let half = engine.shared.directory(JobId::from_bytes([7; 16]));
    std::fs::create_dir_all(half.join("work")).unwrap();
    std::fs::write(half.join("work/input"), "half").unwrap();
    // Where one can't be removed (here: it is none), the others go on.
    let jobs = lost_directory.parent().unwrap();
    std::fs::write(jobs.join(".removed-stuck"), "no directory").unwrap();
    let run = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(RunMode::Dropped).await }
    });
    until("they are counted", async || engine.lost_jobs() == 1).await;
    assert!(engine.disk_used() >= 4096);
    until("what nobody accepted is gone", async || !half.exists()).await;
    engine.wait(accepted).await.unwrap();
    assert!(lost_directory.join("work/result").exists());
    run.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_seen_late_is_kept_from_then_on() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let job = engine.submit(work(None, 0)).await.unwrap().job;
        let ending = ProgramExit { exit_code: Some(0), ended: 5, ..Default::default() };
        fixture.executor.script(job, vec![Observation::Ended(Box::new(ending))]);
        let (engine, run) = run(engine);
        until("the end", async || state(&engine, job).is_final()).await;
        let engine = fixture.engine();
        engine.shared.housekeeping().await;
        let record = engine.shared.find(job).await.unwrap().expect("it has not expired");
        assert_eq!(record.completion.unwrap().ended, 5);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_jobs_expire_and_free_their_space() {
    for fixture in Fixture::each(3) {
        let (engine, run) = fixture.running();
        let accepted = engine.submit(work(None, 0)).await.unwrap();
        let job = accepted.job;
        engine.wait(accepted).await.unwrap();
        run.abort();
        let directory = engine.shared.directory(job);
        std::fs::create_dir_all(&directory).unwrap();
        let strict = Settings { retention: Duration::ZERO, ..engine.settings().clone() };
        let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&fixture.executor);
        let store = Arc::clone(&fixture.store);
        let strict = Engine::new(strict, store, executor, Arc::new(SystemClock)).unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        strict.shared.housekeeping().await;
        assert!(!directory.exists());
        let gone = strict.running(&Principal::anonymous(), "s", job).await;
        assert_eq!(gone.unwrap_err().code, FaultCode::NoSuchJob);
    }
}

/// A store that writes nothing while its gate is locked.
#[derive(Default)]
struct GatedStore {
    store: MemoryStore,
    gate: tokio::sync::Mutex<()>,
}

impl Store for Arc<GatedStore> {
    fn transact(
        &self,
        durable: bool,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let _open = self.gate.blocking_lock();
        self.store.transact(durable, work)
    }

    fn read(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.read(work)
    }
}

/// Whether it goes on waiting when it is asked once.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::time::timeout(Duration::ZERO, future).await.is_err()
}

fn gated() -> (Arc<GatedStore>, Fixture) {
    let store = Arc::new(GatedStore::default());
    let fixture = Fixture::on(Arc::clone(&store), tempfile::tempdir().unwrap(), 3);
    (store, fixture)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_write_of_what_was_used_waits_for_those_under_way() {
    let (store, fixture) = gated();
    let engine = fixture.engine();
    let (nobody, what) = (Principal::anonymous(), ("data", "upload"));
    let (state, took) = (JobState::Done, Duration::ZERO);
    engine.account(UsageRecord::without_job(nobody, what, state, took, Timestamp(1)));
    let closed = store.gate.lock().await;
    let mut first = Box::pin(engine.write_usage());
    assert!(is_pending(&mut first).await);
    let mut last = Box::pin(engine.write_usage());
    assert!(is_pending(&mut last).await);
    drop(closed);
    tokio::join!(first, last);
    let mut found = Vec::new();
    let read = &mut |t: &mut dyn Transaction| {
        found = t.usage(Timestamp(0), Timestamp(2))?;
        Ok(())
    };
    store.read(read).unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_after_its_answer_leaves_no_record() {
    let (store, fixture) = gated();
    let engine = fixture.engine();
    let mut call = engine.call(work(None, 0)).await.unwrap();
    let job = call.id();
    let claimed = engine.shared.store.write(false, {
        let request = engine.shared.claim_request();
        move |t| t.claim(&request())
    });
    let fence = claimed.await.unwrap().remove(0).fence;
    let closed = store.gate.lock().await;
    let end = Completion::without_ending(JobState::Done, FaultCode::Internal, "", Timestamp(1));
    let shared = Arc::clone(&engine.shared);
    let writing = tokio::spawn(async move { shared.write_end(job, fence, end).await });
    // All of it was delivered, and it is still there.
    assert!(call.ended().await.is_ok());
    call.delivered();
    let mut released = Box::pin(engine.released());
    assert!(is_pending(&mut released).await);
    drop(closed);
    released.await;
    let mut exists = None;
    store.read(&mut |t| t.exists(job).map(|it| exists = Some(it))).unwrap();
    assert_eq!(exists, Some(false));
    writing.await.unwrap();
}
