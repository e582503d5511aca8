//! Jobs whose inputs are fetched, on every store, with a stager that waits until it is let go.

use fishplate_contract::{DataRef, PlacementMethod, TransferState};
use fishplate_formats::array_file::Format;

use super::*;
use crate::executor::local::{LocalExecutor, LocalSettings};
use crate::stager::fake::FakeStager;
use fishplate_programs::plan::{FetchedForm, InputContent, InputFile, ReferencedInput};

pub(super) const MESH: &str = "http://a.example/grant/mesh";
const GRID: &str = "http://b.example/grant/grid";

pub(super) fn fetch(parameter: &str, url: &str, arrival: FetchedForm) -> InputFile {
    let content = ReferencedInput::new(parameter, &DataRef::new(url), false, arrival);
    InputFile { path: parameter.to_owned(), content: InputContent::Fetch(content) }
}

/// Work with an input at each address.
fn work_with(inputs: Vec<InputFile>) -> JobRequest {
    JobRequest { plan: Plan { inputs, ..plan() }, ..work(None, 0) }
}

fn mesh_and_grid() -> JobRequest {
    work_with(vec![fetch("mesh", MESH, FetchedForm::File), fetch("grid", GRID, FetchedForm::File)])
}

async fn status(engine: &Engine, job: JobId) -> fishplate_contract::JobReport {
    engine.status(&Principal::anonymous(), "s", job).await.unwrap()
}

pub(super) fn with_stager(fixture: &Fixture) -> (Engine, Arc<FakeStager>) {
    let stager = Arc::new(FakeStager::default());
    stager.put(MESH, b"a mesh");
    stager.put(GRID, b"a grid");
    let moves: Arc<dyn Stager> = Arc::<FakeStager>::clone(&stager);
    (fixture.engine().fetched_by(moves), stager)
}

fn plan_of(fixture: &Fixture, job: JobId) -> Plan {
    let mut plan = None;
    fixture.store.read(&mut |t| t.plan(job).map(|found| plan = found)).unwrap();
    let directory = fixture.directory.path().join("jobs").join(job.to_string());
    record::read(&plan.unwrap(), &directory).unwrap()
}

/// What is at an input's place in the job's directory.
fn fetched(engine: &Engine, fixture: &Fixture, job: JobId, at: usize) -> Vec<u8> {
    let plan = plan_of(fixture, job);
    let InputContent::Fetched(fetched) = &plan.inputs[at].content else {
        panic!("not fetched: {:?}", plan.inputs[at])
    };
    std::fs::read(engine.shared.directory(job).join(&fetched.at)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_plan_is_a_file_before_and_after_its_data_was_fetched() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(GRID);
        let (engine, run) = run(engine);
        let long = JobRequest { max_running: 0, ..mesh_and_grid() };
        let arguments = vec!["x".repeat(100 << 10)];
        let plan = Plan { arguments, ..long.plan };
        let job = engine.submit(JobRequest { plan, ..long }).await.unwrap().job;
        assert_eq!(plan_of(&fixture, job).fetches().count(), 2);
        stager.let_go(GRID);
        until("it is queued", async || state(&engine, job) == JobState::Queued).await;
        assert_eq!(plan_of(&fixture, job).fetches().count(), 0);
        assert_eq!(fetched(&engine, &fixture, job, 0), b"a mesh");
        assert_eq!(plan_of(&fixture, job), engine.plan(job).await.unwrap());
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_fetched_at_once_and_then_the_job_runs() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(GRID);
        let (engine, run) = run(engine);
        let accepted = engine.submit(mesh_and_grid()).await.unwrap();
        let job = accepted.job;
        until("the mesh, and the first byte of the grid", async || {
            let transfers = status(&engine, job).await.transfers;
            matches!(&transfers[..], [mesh, grid]
                if mesh.state == TransferState::Done && grid.bytes == 1)
        })
        .await;
        let report = status(&engine, job).await;
        assert_eq!(report.state, JobState::Fetching);
        let grid = &report.transfers[1];
        assert_eq!((grid.parameter.as_str(), grid.peer.as_str()), ("grid", "http://b.example"));
        assert_eq!((grid.state, grid.bytes, grid.placed), (TransferState::Running, 1, None));
        assert_eq!(fixture.executor.starts(), [], "not before all is here");
        stager.let_go(GRID);
        let end = engine.wait(accepted).await.unwrap();
        assert_eq!(end.state(), JobState::Done, "{end:?}");
        let told: Vec<_> = status(&engine, job)
            .await
            .transfers
            .iter()
            .map(|it| (it.state, it.bytes, it.placed))
            .collect();
        let done = (TransferState::Done, 6, Some(PlacementMethod::Copy));
        assert_eq!(told, [done, done]);
        assert_eq!(fetched(&engine, &fixture, job, 0), b"a mesh");
        assert_eq!(fetched(&engine, &fixture, job, 1), b"a grid");
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_input_may_be_linked_unless_the_program_writes_to_it() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.put(MESH, &vec![7; 1 << 20]);
        let (engine, run) = run(engine);
        let mut new = mesh_and_grid();
        new.plan.inputs.push(fetch("changed", MESH, FetchedForm::File));
        let InputContent::Fetch(changed) = &mut new.plan.inputs[2].content else { panic!() };
        changed.private = true;
        let accepted = engine.submit(new).await.unwrap();
        let job = accepted.job;
        engine.wait(accepted).await.unwrap();
        let placed: Vec<_> =
            status(&engine, job).await.transfers.iter().map(|it| it.placed).collect();
        assert_eq!(
            placed,
            [PlacementMethod::Link, PlacementMethod::Copy, PlacementMethod::Copy].map(Some)
        );
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_fails_ends_the_job_and_its_other_fetches() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(GRID);
        stager.hold(MESH);
        let refused = Fault::new(FaultCode::AddressForbidden, "10.0.0.1 is private");
        stager.fail(MESH, refused.limit("allow_private", "false"));
        let (engine, run) = run(engine);
        let accepted = engine.submit(mesh_and_grid()).await.unwrap();
        let job = accepted.job;
        until("both transfers", async || stager.fetches().len() == 2).await;
        stager.let_go(MESH);
        let end = engine.wait(accepted).await.unwrap();
        let fault = end.fault(job).unwrap();
        assert_eq!(fault.code, FaultCode::AddressForbidden);
        assert_eq!((fault.parameter.as_deref(), fault.job), (Some("mesh"), Some(job)));
        assert_eq!(fault.limit.unwrap().name, "allow_private");
        let report = status(&engine, job).await;
        assert_eq!(report.state, JobState::Failed);
        assert!(report.transfers.iter().all(|it| it.state == TransferState::Failed));
        until("the end of the other", async || stager.stopped() == [GRID]).await;
        assert_eq!(fixture.executor.starts(), []);
        assert!(!engine.shared.directory(job).join("fetched/1").exists());
        // A call that waits gets its fault and leaves nothing behind.
        let mut call = engine.call(mesh_and_grid()).await.unwrap();
        stager.let_go(MESH);
        let end = call.ended().await.unwrap();
        assert_eq!(end.fault(call.id()).unwrap().code, FaultCode::AddressForbidden);
        assert_eq!(call.keep(), None);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_stops_the_transfer_at_once() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(MESH);
        let (engine, run) = run(engine);
        let accepted = engine.submit(mesh_and_grid()).await.unwrap();
        let job = accepted.job;
        until("a transfer", async || stager.fetches().len() == 2).await;
        let (state, _) = engine.kill(&Principal::anonymous(), "s", job).await.unwrap();
        assert_eq!(state, JobState::Killed);
        let end = engine.wait(accepted).await.unwrap();
        assert_eq!(end.fault(job).unwrap().code, FaultCode::JobKilled);
        until("its stop", async || stager.stopped() == [MESH]).await;
        until("nothing is to stay", async || stager.discarded().len() == 2).await;
        assert_eq!(fixture.executor.starts(), []);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_through_another_process_stops_the_transfer_too() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(MESH);
        let (engine, run) = run(engine);
        let job = engine.submit(mesh_and_grid()).await.unwrap().job;
        until("a transfer", async || stager.fetches().len() == 2).await;
        // It knows nothing of the first but the store.
        let other = fixture.engine();
        assert_eq!(status(&other, job).await.transfers[0].state, TransferState::Waiting);
        let (state, _) = other.kill(&Principal::anonymous(), "s", job).await.unwrap();
        assert_eq!(state, JobState::Killed);
        until("its stop", async || stager.stopped() == [MESH]).await;
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_while_it_fetches_is_replaced() {
    for fixture in Fixture::each(3) {
        let (first, late) = with_stager(&fixture);
        late.hold(MESH);
        late.put(MESH, b"too late");
        let (first, dead) = run(first);
        let job = first.submit(mesh_and_grid()).await.unwrap().job;
        until("a transfer", async || late.fetches().len() == 2).await;
        // It does not renew its lease any more, and what moves for it stops.
        dead.abort();
        until("the end of its transfer", async || late.stopped() == [MESH]).await;
        assert_eq!(state(&first, job), JobState::Fetching);
        let (second, stager) = with_stager(&fixture);
        stager.hold(MESH);
        let (second, run) = run(second);
        until("the transfer of the second", async || stager.fetches().len() == 2).await;
        stager.let_go(MESH);
        until("the end", async || state(&second, job).is_final()).await;
        assert_eq!(state(&second, job), JobState::Done);
        assert_eq!(fetched(&second, &fixture, job, 0), b"a mesh");
        assert_eq!(fixture.executor.starts().len(), 1);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_are_fetched_for_at_once() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.hold(MESH);
        let settings = Settings { max_fetching: 2, ..engine.settings().clone() };
        let executor: Arc<dyn Executor> = Arc::<FakeExecutor>::clone(&fixture.executor);
        let store = Arc::clone(&fixture.store);
        let moves: Arc<dyn Stager> = Arc::<FakeStager>::clone(&stager);
        let engine = Engine::new(settings, store, executor, Arc::new(SystemClock)).unwrap();
        let (engine, run) = run(engine.fetched_by(moves));
        let mut jobs = Vec::new();
        for _ in 0..3 {
            let new = work_with(vec![fetch("mesh", MESH, FetchedForm::File)]);
            jobs.push(engine.submit(new).await.unwrap());
        }
        until("two transfers", async || stager.fetches().len() == 2).await;
        let waiting = status(&engine, jobs[2].job).await;
        assert_eq!(waiting.state, JobState::Fetching);
        assert_eq!(waiting.transfers[0].state, TransferState::Waiting);
        stager.let_go(MESH);
        until("the third", async || stager.fetches().len() == 3).await;
        for accepted in jobs {
            stager.let_go(MESH);
            stager.let_go(MESH);
            let end = engine.wait(accepted).await.unwrap();
            assert_eq!(end.state(), JobState::Done);
        }
        run.abort();
    }
}

#[tokio::test]
async fn without_a_stager_references_are_refused() {
    for fixture in Fixture::each(3) {
        let fault = fixture.engine().submit(mesh_and_grid()).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::NotSupported);
        assert_eq!(fault.parameter.as_deref(), Some("mesh"));
    }
}

/// An array that is fetched, as its file then is; or the fault.
async fn arrived(format: Format, data_type: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let arrival = FetchedForm::Array { data_type: data_type.to_owned(), format, shape: None };
    arrived_for(fetch("m", MESH, arrival), bytes).await
}

/// The file of an input to be fetched.
async fn arrived_for(input: InputFile, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let fixture = Fixture::each(3).into_iter().next().unwrap();
    let (engine, stager) = with_stager(&fixture);
    stager.put(MESH, bytes);
    let (engine, run) = run(engine);
    let accepted = engine.submit(work_with(vec![input])).await.unwrap();
    let job = accepted.job;
    let end = engine.wait(accepted).await.unwrap();
    run.abort();
    match end.fault(job) {
        None => Ok(fetched(&engine, &fixture, job, 0)),
        Some(fault) => {
            let parameter = fault.parameter.unwrap_or_default();
            Err(format!("{} {parameter:?} {}", fault.code.name(), fault.message))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_arrives_in_the_format_of_its_slot() {
    let numbers: Vec<u8> = (1..=4_i32).flat_map(i32::to_le_bytes).collect();
    let header = fishplate_formats::array_file::npy::NpyHeader::print;
    let npy = [header(fishplate_contract::ElementType::Int, &[2, 2]), numbers.clone()].concat();
    let text = Format::Text { delimiter: ' ' };
    for bytes in [&numbers, &npy] {
        assert_eq!(arrived(text, "int[2,2]", bytes).await.unwrap(), b"1 2\n3 4\n");
        assert_eq!(arrived(Format::PLAIN, "int[,2]", bytes).await.unwrap(), numbers);
        assert_eq!(arrived(Format::Npy, "int[2,2]", bytes).await.unwrap(), npy);
    }
    let longer =
        [header(fishplate_contract::ElementType::Long, &[2]), 1_i64.to_le_bytes().to_vec()];
    for (data_type, bytes, says) in [
        (
            "int[3]",
            &numbers,
            "InvalidValue \"m\" what parameter m refers to: the file has 16 bytes",
        ),
        ("int[3,2]", &npy, "InvalidValue \"m\" parameter m has the shape 2 x 2"),
        ("int[]", &longer.concat(), "InvalidValue \"m\" what parameter m refers to: its header"),
    ] {
        let fault = arrived(text, data_type, bytes).await.unwrap_err();
        assert!(fault.starts_with(says), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_for_a_slot_of_bytes_what_its_media_type_says() {
    let numbers: Vec<u8> = (1..=4_i32).flat_map(i32::to_le_bytes).collect();
    let header = fishplate_formats::array_file::npy::NpyHeader::print;
    let npy = [header(fishplate_contract::ElementType::Int, &[2, 2]), numbers.clone()].concat();
    let read_as = |media_type: &str| {
        let from = DataRef::new(MESH);
        let input = ReferencedInput::new("m", &from, false, FetchedForm::File).read_as(media_type);
        InputFile { path: "m".to_owned(), content: InputContent::Fetch(input) }
    };
    for media_type in ["", "application/x-npy", "application/octet-stream", "text/csv"] {
        assert_eq!(arrived_for(read_as(media_type), &numbers).await.unwrap(), numbers);
    }
    for media_type in ["", "application/x-npy", "Application/Vnd.Numpy; version=1"] {
        assert_eq!(arrived_for(read_as(media_type), &npy).await.unwrap(), npy, "{media_type}");
    }
    let bare = arrived_for(read_as("application/octet-stream"), &npy).await;
    assert_eq!(bare.unwrap(), numbers);
    let fault = arrived_for(read_as("text/csv"), &npy).await.unwrap_err();
    let says = "InvalidValue \"m\" parameter m refers to an array (application/x-npy), and the program reads text/csv";
    assert!(fault.starts_with(says), "{fault}");
    let cut = arrived_for(read_as("application/octet-stream"), &npy[..npy.len() - 1]).await;
    assert!(cut.unwrap_err().contains("not in C order"), "half a file is none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_arrives_unpacked_or_the_fault_names_what_is_wrong() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_stager(&fixture);
        stager.put(MESH, &small_archive());
        let (engine, run) = run(engine);
        let directory = || work_with(vec![fetch("case", MESH, FetchedForm::Directory)]);
        let accepted = engine.submit(directory()).await.unwrap();
        let job = accepted.job;
        let end = engine.wait(accepted).await.unwrap();
        assert_eq!(end.state(), JobState::Done, "{end:?}");
        let file = engine.shared.directory(job).join("fetched/1/0/a");
        assert_eq!(std::fs::read(file).unwrap(), b"x");
        assert_eq!(status(&engine, job).await.transfers[0].placed, Some(PlacementMethod::Copy));
        stager.put(MESH, b"no archive");
        let accepted = engine.submit(directory()).await.unwrap();
        let job = accepted.job;
        let fault = engine.wait(accepted).await.unwrap().fault(job).unwrap();
        assert_eq!(
            (fault.code, fault.parameter.as_deref()),
            (FaultCode::InvalidValue, Some("case"))
        );
        run.abort();
    }
}

/// A small archive of which much is unpacked: one file of zeros, compressed.
fn large_when_unpacked() -> Vec<u8> {
    use std::io::{Read as _, Write as _};
    const SIZE: u64 = 1 << 29;
    let mut header = tar::Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_size(SIZE);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = zstd::Encoder::new(Vec::new(), 1).unwrap();
    archive.write_all(header.as_bytes()).unwrap();
    std::io::copy(&mut std::io::repeat(0).take(SIZE + 1024), &mut archive).unwrap();
    archive.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_stops_the_unpacking_and_removes_what_was_fetched() {
    let fixture = Fixture::each(3).into_iter().next().unwrap();
    let (engine, stager) = with_stager(&fixture);
    stager.put(MESH, &large_when_unpacked());
    let (engine, run) = run(engine);
    let directory = work_with(vec![fetch("case", MESH, FetchedForm::Directory)]);
    let accepted = engine.submit(directory).await.unwrap();
    let job = accepted.job;
    let place = engine.shared.directory(job).join("fetched/1");
    until("the beginning", async || place.join("0/a").exists()).await;
    let (state, _) = engine.kill(&Principal::anonymous(), "s", job).await.unwrap();
    assert_eq!(state, JobState::Killed, "it had not been unpacked yet");
    until("its end", async || !place.exists()).await;
    // What is fetched when its job is killed goes too.
    stager.hold(GRID);
    let job = engine.submit(mesh_and_grid()).await.unwrap().job;
    let place = engine.shared.directory(job).join("fetched/1");
    until("the mesh", async || place.join("0").exists()).await;
    engine.kill(&Principal::anonymous(), "s", job).await.unwrap();
    until("its end", async || !place.exists()).await;
    run.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_fetched_again_for_an_adopted_job_that_was_not_started() {
    for fixture in Fixture::each(3) {
        let (engine, run) = run(with_stager(&fixture).0);
        let waiting = JobRequest { max_running: 0, ..mesh_and_grid() };
        let job = engine.submit(waiting).await.unwrap().job;
        until("it is queued", async || state(&engine, job) == JobState::Queued).await;
        run.abort();
        // A worker died over it, after it was about to start the program, or before.
        let journal = engine.shared.directory(job).join("run");
        let nobody = serde_json::json!({ "pid": 1, "start": 0 });
        drop(engine);
        let mut empty = MemoryStore::default();
        for (at, recorded) in [("intent", JobState::Running), ("preparing", JobState::Fetching)] {
            let line = serde_json::json!({
                "at": at, "fence": 7, "boot": "this", "worker": nobody, "keeper": nobody,
                "cgroup": null, "grace": 1.0,
            });
            std::fs::write(&journal, format!("{line}\n")).unwrap();
            empty = MemoryStore::default();
            let data = fixture.directory.path();
            let local = LocalExecutor::new(LocalSettings::new(data)).unwrap();
            crate::lost::adopt(data, &empty, &local, job).unwrap();
            let mut record = None;
            empty.read(&mut |t| t.find(job).map(|found| record = found)).unwrap();
            assert_eq!(record.unwrap().state, recorded, "{at}");
        }
        let fixture = Fixture { store: Arc::new(empty), ..fixture };
        let (engine, run) = super::run(with_stager(&fixture).0);
        until("it is queued again", async || state(&engine, job) == JobState::Queued).await;
        assert_eq!(fetched(&engine, &fixture, job, 1), b"a grid");
        run.abort();
    }
}
