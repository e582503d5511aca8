//! What callers send is kept in files, counted, and waits for room.

use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use fishplate_contract::Payload;

use super::*;
use crate::completion::Completion;
use crate::store::ClaimRequest;
use fishplate_programs::plan::{InputContent, InputFile, ProgressRule};
use fishplate_programs::program::{InputPlacement, PlacedInput};

/// Work that brings a file of so many bytes along.
fn bringing(bytes: usize) -> JobRequest {
    let content = PlacedInput::Bytes(Payload::Inline(vec![b'x'; bytes].into()));
    let placements = vec![InputPlacement { path: "input".to_owned(), content }];
    let input = InputFile { path: "input".to_owned(), content: InputContent::InPlace };
    JobRequest { plan: Plan { inputs: vec![input], ..plan() }, placements, ..work(None, 0) }
}

fn recorded(fixture: &Fixture, job: JobId) -> String {
    let mut found = None;
    fixture.store.read(&mut |t| t.plan(job).map(|plan| found = plan)).unwrap();
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_plan_is_a_file_of_its_job_and_is_read_again_from_there() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let arguments = vec!["x".repeat(100 << 10)];
        let long = Plan { arguments, ..plan() };
        let job =
            engine.submit(JobRequest { plan: long.clone(), ..work(None, 0) }).await.unwrap().job;
        assert_eq!(recorded(&fixture, job), "@plan");
        let file = engine.shared.directory(job).join("plan");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(engine.plan(job).await.unwrap(), long);
        assert_eq!(state(&engine, job), JobState::Queued);
        // A short one costs no file.
        let job = engine.call(work(None, 0)).await.unwrap().id();
        assert!(!engine.shared.directory(job).exists());
        assert_eq!(engine.plan(job).await.unwrap(), plan());
        drop(engine);
        // An engine that has it not at hand.
        let (engine, run) = fixture.running();
        until("the end", async || state(&engine, job).is_final()).await;
        assert_eq!(state(&engine, job), JobState::Done);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_counts_what_waits_from_the_moment_it_is_accepted() {
    for fixture in Fixture::each(3) {
        let settings =
            Settings { disk_quota: Some(2 << 20), ..fixture.engine().settings().clone() };
        let engine = || {
            let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&fixture.executor);
            let store = Arc::clone(&fixture.store);
            Engine::new(settings.clone(), store, executor, Arc::new(SystemClock)).unwrap()
        };
        let owner = Principal::anonymous();
        // In a process that works, and in one that only accepts.
        for works in [true, false] {
            let engine = engine();
            engine.shared.working.store(works, std::sync::atomic::Ordering::Relaxed);
            // None of its service may run.
            let bringing = |bytes| JobRequest { max_running: 0, ..bringing(bytes) };
            let first = engine.submit(bringing(1 << 20)).await.unwrap().job;
            let refused = engine.submit(bringing((1 << 20) + 1)).await.unwrap_err();
            assert_eq!(refused.code, FaultCode::QuotaExceeded);
            assert_eq!(refused.limit.unwrap().name, "disk_quota");
            let left = std::fs::read_dir(fixture.directory.path().join("jobs")).unwrap().count();
            assert_eq!(left, 1, "nothing is left of what was refused");
            assert!(engine.disk_used() >= 1 << 20);
            // One that was killed while it waited holds what it brought along.
            engine.kill(&owner, "s", first).await.unwrap();
            assert!(engine.submit(bringing((1 << 20) + 1)).await.is_err());
            engine.remove(&owner, "s", first).await.unwrap();
            let second = engine.submit(bringing((1 << 20) + 1)).await.unwrap().job;
            engine.kill(&owner, "s", second).await.unwrap();
            engine.remove(&owner, "s", second).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_room_waits_says_so_and_starts_when_there_is() {
    waits(StartError::StorageFull, "waits for room on the server's disk: nothing is left").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_host_has_no_process_for_waits_says_so_and_starts_when_it_has() {
    waits(StartError::Exhausted, "waits until others have ended on the server: nothing is left")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_host_has_no_process_for_is_told_so_at_once() {
    for fixture in Fixture::each(1) {
        let engine = fixture.engine();
        let mut call = engine.call(work(None, 0)).await.unwrap();
        fixture.executor.refuse(call.id(), StartError::Exhausted("nothing is left".to_owned()));
        let (_, run) = run(engine);
        let ended = call.ended().await.unwrap();
        let fault = ended.fault(call.id()).unwrap();
        assert_eq!(fault.code, FaultCode::Unavailable);
        assert!(
            fault.retry_after.is_some() && fault.message.contains("nothing is left"),
            "{fault:?}"
        );
        run.abort();
    }
}

/// A job that this keeps from starting.
async fn waits(refusal: fn(String) -> StartError, says: &str) {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let waiting = engine.submit(work(None, 0)).await.unwrap();
        let (job, owner) = (waiting.job, Principal::anonymous());
        let refusal = || refusal("nothing is left".to_owned());
        fixture.executor.refuse(job, refusal());
        let killed = engine.submit(work(None, 0)).await.unwrap().job;
        for _ in 0..100 {
            fixture.executor.refuse(killed, refusal());
        }
        let (engine, run) = run(engine);
        let rests = async |job| {
            let report = engine.status(&owner, "s", job).await.unwrap();
            report.state == JobState::Queued && report.message.contains(says)
        };
        until("it waits and says why", async || rests(job).await || state(&engine, job).is_final())
            .await;
        until("the other does, too", async || rests(killed).await).await;
        // Others are not in its way, nor it in theirs.
        let other = engine.submit(work(None, 0)).await.unwrap();
        assert_eq!(engine.wait(other).await.unwrap().state(), JobState::Done);
        let (state, _) = engine.kill(&owner, "s", killed).await.unwrap();
        assert_eq!(state, JobState::Killed);
        let ended = engine.wait(waiting).await.unwrap();
        assert_eq!(ended.state(), JobState::Done, "{ended:?}");
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_as_long_as_the_disk_has_no_room() {
    for fixture in Fixture::each(3) {
        let accepting = fixture.engine();
        let job = accepting.submit(work(None, 0)).await.unwrap().job;
        drop(accepting);
        let all = Settings { disk_reserve: u64::MAX, ..fixture.engine().settings().clone() };
        let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&fixture.executor);
        let store = Arc::clone(&fixture.store);
        let engine = Engine::new(all, store, executor, Arc::new(SystemClock)).unwrap();
        let (engine, full) = run(engine);
        engine.shared.claim_with(engine.shared.claim_request()).await;
        let report = engine.status(&Principal::anonymous(), "s", job).await.unwrap();
        assert_eq!(report.state, JobState::Queued);
        assert!(report.message.contains("disk_reserve"), "{}", report.message);
        assert!(fixture.executor.starts().is_empty());
        full.abort();
        let (engine, run) = fixture.running();
        until("the end", async || state(&engine, job).is_final()).await;
        assert_eq!(state(&engine, job), JobState::Done);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_while_its_start_fails_does_not_wait_for_room_first() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let accepted = engine.submit(work(None, 0)).await.unwrap();
        let job = accepted.job;
        // Claimed, and its end asked for, before the start is known to have failed.
        let claimed = engine.shared.claim_request();
        let claims = engine.shared.store.write(true, move |t| t.claim(&claimed())).await.unwrap();
        let at = engine.shared.clock.now();
        let asked = engine.shared.store.write(true, move |t| t.request_kill(job, at));
        assert_eq!(asked.await.unwrap(), crate::store::KillRequest::Requested(None));
        let rest = Some(Duration::ZERO);
        engine.shared.unclaim(job, claims[0].fence, rest).await;
        let ended = engine.wait(accepted).await.unwrap();
        assert_eq!(ended.state(), JobState::Killed);
    }
}

#[tokio::test]
async fn a_long_plan_is_found_again_when_the_record_of_its_job_was_lost() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let long = Plan { arguments: vec!["x".repeat(100 << 10)], ..plan() };
        let job =
            engine.submit(JobRequest { plan: long.clone(), ..work(None, 0) }).await.unwrap().job;
        drop(engine);
        let empty = MemoryStore::default();
        crate::lost::adopt(fixture.directory.path(), &empty, &*fixture.executor, job).unwrap();
        let again = Fixture { store: Arc::new(empty), ..fixture };
        assert_eq!(recorded(&again, job), "@plan");
        assert_eq!(again.engine().plan(job).await.unwrap(), long);
    }
}

#[tokio::test]
async fn an_end_that_comes_too_late_does_not_give_up_the_files_of_a_job_that_is_anothers() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let call = engine.call(bringing(1)).await.unwrap();
        let job = call.id();
        let claim = async |holder: String| {
            let mine = engine.shared.claim_request();
            let request = move || ClaimRequest { holder, take_over: true, ..mine() };
            let claims = engine.shared.store.write(true, move |t| t.claim(&request()));
            claims.await.unwrap().remove(0)
        };
        // By a process of before, which is dead.
        let fence = claim(format!("{}/1/1/0", crate::process::boot())).await.fence;
        assert!(claim("another".to_owned()).await.fence > fence);
        let (state, why) = (JobState::Failed, "seen late");
        let at = engine.shared.clock.now();
        let late = Completion::without_ending(state, FaultCode::Internal, why, at);
        engine.shared.write_end(job, fence, late).await;
        assert!(engine.running(&Principal::anonymous(), "s", job).await.unwrap());
        let mode = std::fs::metadata(engine.shared.directory(job)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700, "it is not to go");
        drop(call);
    }
}

#[tokio::test]
async fn what_has_ended_is_told_without_its_plan() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let long = Plan { arguments: vec!["x".repeat(100 << 10)], ..plan() };
        let job = engine.submit(JobRequest { plan: long, ..work(None, 0) }).await.unwrap().job;
        // As after it was restored from a backup that was made before its end.
        std::fs::remove_dir_all(engine.shared.directory(job)).unwrap();
        let owner = Principal::anonymous();
        let log =
            async || engine.log(&owner, "s", job, crate::workspace::OutputStream::Stdout, 7).await;
        let unreadable = engine.status(&owner, "s", job).await.unwrap_err();
        assert_eq!(
            (unreadable.code, log().await.unwrap_err().code),
            (FaultCode::Internal, unreadable.code)
        );
        engine.kill(&owner, "s", job).await.unwrap();
        assert_eq!(state(&engine, job), JobState::Killed);
        let page = log().await.unwrap();
        assert_eq!((page.text.len(), page.next, page.end), (0, 7, true));
    }
}

/// A FIFO blocks whoever opens it until it is written to, as a slow file system would.
#[tokio::test]
async fn nobody_waits_for_the_stream_of_anothers_job() {
    for fixture in Fixture::each(3) {
        let engine = fixture.engine();
        let progress = ProgressRule { pattern: "x".to_owned(), stream: "stdout".to_owned() };
        let plan = Plan { progress: Some(progress), ..plan() };
        let job = engine.submit(JobRequest { plan, ..work(None, 0) }).await.unwrap().job;
        fixture.executor.script(job, vec![FakeExecutor::running()]);
        let (engine, run) = run(engine);
        until("it runs", async || state(&engine, job) == JobState::Running).await;
        let fifo = engine.shared.directory(job).join("stdout");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let owner = Principal::anonymous();
        for log in [true, false] {
            let (tell, told) = std::sync::mpsc::channel();
            let path = fifo.clone();
            let rescuer = std::thread::spawn(move || {
                let in_time = told.recv_timeout(Duration::from_secs(10)).is_ok();
                // Now whoever opens it goes on.
                let _both = File::options().read(true).write(true).open(path).unwrap();
                let _ = told.recv();
                in_time
            });
            let asked = async {
                if log {
                    let _ = engine
                        .log(&owner, "s", job, crate::workspace::OutputStream::Stdout, 0)
                        .await;
                } else {
                    assert_eq!(engine.status(&owner, "s", job).await.unwrap().progress, None);
                }
            };
            let other = async {
                let mut write = File::options();
                write.write(true).custom_flags(libc::O_NONBLOCK);
                // As long as nobody reads it, it does not open.
                until("a reader", async || write.open(&fifo).is_ok()).await;
                tell.send(()).unwrap();
            };
            tokio::join!(asked, other);
            drop(tell);
            assert!(rescuer.join().unwrap(), "the runtime stood still");
        }
        run.abort();
    }
}
