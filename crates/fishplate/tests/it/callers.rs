//! What every [`Caller`] must do, whether the service is in the same process or behind HTTP.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use fishplate_client::{Options, Service, file_input};
use fishplate_contract::{
    Argument, CallError, CallOptions, Caller, FaultCode, JobFilter, JobState, LogStream, Payload,
    Principal, Results, Value,
};
use fishplate_jobs::engine::RunMode;
use fishplate_jobs::executor::local::CgroupUse;
use fishplate_programs::descriptor::{self, SourceText};
use fishplate_server::assembly::{self, Backends, StoreCheck};
use fishplate_server::caller::LocalCaller;
use fishplate_server::current::CurrentHost;
use fishplate_server::host::PublicAddress;
use fishplate_server::http;
use fishplate_server::settings::Limits;
use tempfile::TempDir;

/// However slow the machine is, nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVICE: &str = "name = 'work'\n\
    command = './work [in val code:int] [in file data:raw] > [out file result:raw]'\n";

/// Gives its data back and ends with the code; with 7 only once there is a file `go`.
const SCRIPT: &str = "#!/bin/sh\necho begun >> DIR/begun; echo begun >&2\n\
    if [ $1 = 7 ]; then until [ -e DIR/go ]; do sleep 0.01; done; set -- 0 \"$2\"; fi\n\
    cat \"$2\"; exit $1\n";

/// A server, with its jobs in this process.
struct Bed {
    directory: TempDir,
    /// One of each kind, for the same service.
    callers: Vec<(&'static str, Box<dyn Caller>)>,
}

impl Bed {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let dir = directory.path();
        let program = dir.join("work");
        fs::write(&program, SCRIPT.replace("DIR", dir.to_str().unwrap())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let listening = http::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listening.address());
        let limits = Limits::new(dir.join("data"), &url);
        let data = assembly::data(&limits).unwrap();
        let backends = Backends::local(&limits, CgroupUse::Off, StoreCheck::All).unwrap();
        let engine = assembly::engine(&limits, backends, &data).unwrap();
        let source = SourceText { name: "work.toml".to_owned(), text: SERVICE.to_owned() };
        let description = descriptor::check_text(&source, dir).description.unwrap();
        let described = vec![description];
        let host = assembly::host(
            limits,
            PublicAddress::Below,
            engine.clone(),
            data,
            described,
            Vec::new(),
        );
        let host = host.unwrap();
        tokio::spawn(async move { engine.run(RunMode::Dropped).await });
        let near = LocalCaller::new(&host, "work", Principal::anonymous()).unwrap();
        tokio::spawn(listening.serve(CurrentHost::new(host)));
        let far = Service::connect(&format!("{url}/work")).await.unwrap().with(Options::default());
        let callers: Vec<(_, Box<dyn Caller>)> =
            vec![("in process", Box::new(near)), ("over HTTP", Box::new(far))];
        Self { directory, callers }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// How often the program was started.
    fn begun(&self) -> usize {
        fs::read_to_string(self.path("begun")).map_or(0, |told| told.lines().count())
    }

    fn jobs(&self) -> usize {
        fs::read_dir(self.path("data/jobs")).map_or(0, Iterator::count)
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn given(code: &str, data: Value) -> Vec<Argument> {
    vec![Argument::text("code", code), Argument::new("data", data)]
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn none() -> CallOptions {
    CallOptions::default()
}

fn keyed(key: &str) -> CallOptions {
    CallOptions { key: Some(key.to_owned()), ..none() }
}

/// The bytes of the only output.
fn result(results: &Results) -> Vec<u8> {
    let [Argument { name, value: Value::Data(payload), .. }] = &results.outputs[..] else {
        panic!("{results:?}")
    };
    assert_eq!(name, "result");
    match payload {
        Payload::Spooled(held) => fs::read(held.path()).unwrap(),
        other => other.pieces().expect("it is here").concat(),
    }
}

/// Code and parameter of the fault that it is.
fn fault<T>(done: Result<T, CallError>) -> (FaultCode, Option<String>) {
    let error = done.err().expect("a fault");
    let fault = error.fault().unwrap_or_else(|| panic!("no fault: {error}"));
    (fault.code, fault.parameter.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_gives_what_its_program_wrote_and_leaves_nothing() {
    let bed = Bed::new().await;
    for (kind, caller) in &bed.callers {
        let small = caller.call("call", given("0", text("ab")), none()).await.unwrap();
        assert_eq!(result(&small), b"ab", "{kind}");
        assert_eq!(small.job, None, "{kind}");
        let file = bed.path("input");
        let bytes: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
        fs::write(&file, &bytes).unwrap();
        let data = file_input(&file).await.unwrap();
        let large = caller.call("call", given("0", Value::Data(data)), none()).await.unwrap();
        assert!(result(&large) == bytes, "{kind}");
        assert!(fs::read(&file).unwrap() == bytes, "{kind}: the caller's file stays");
        let pipe = bed.path(&format!("pipe {kind}"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let writing = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "streamed")
        });
        let data = file_input(&pipe).await.unwrap();
        assert!(matches!(data, Payload::Stream(_)), "{data:?}");
        let streamed = caller.call("call", given("0", Value::Data(data)), none()).await.unwrap();
        assert_eq!(result(&streamed), b"streamed", "{kind}");
        writing.join().unwrap().unwrap();
        drop((small, large, streamed));
        until("the jobs are gone", || bed.jobs() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_waited_for_asked_about_and_forgotten() {
    let bed = Bed::new().await;
    for (kind, caller) in &bed.callers {
        let job = caller.spawn("call", given("7", text("x")), none()).await.unwrap();
        assert_eq!(fault(caller.results("call", job, vec![]).await).0, FaultCode::NotFinished);
        assert_eq!(fault(caller.remove(job).await).0, FaultCode::NotFinished, "{kind}");
        let mut states = Vec::new();
        let mut progress = |report: &fishplate_contract::JobReport| {
            states.push(report.state);
            if report.state == JobState::Running {
                fs::write(bed.path("go"), "").unwrap();
            }
        };
        let report = caller.wait(job, &mut progress).await.unwrap();
        assert_eq!((report.id, report.state), (job, JobState::Done), "{kind}");
        assert!(states.contains(&JobState::Running), "{kind}: {states:?}");
        assert_eq!(states.last(), Some(&JobState::Done), "{kind}");
        assert_eq!(caller.status(job).await.unwrap(), report, "{kind}");
        let page = caller.log(job, LogStream::Stderr, 2).await.unwrap();
        assert_eq!((&*page.text, page.next, page.end), ("gun\n", 6, true), "{kind}");
        for _ in 0..2 {
            let results = caller.results("call", job, vec![]).await.unwrap();
            assert_eq!(result(&results), b"x", "{kind}");
        }
        let done = JobFilter { state: Some(JobState::Done), ..JobFilter::default() };
        let listed = caller.jobs(done).await.unwrap();
        assert_eq!(listed.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job], "{kind}");
        caller.remove(job).await.unwrap();
        assert_eq!(fault(caller.status(job).await).0, FaultCode::NoSuchJob, "{kind}");
        fs::remove_file(bed.path("go")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_killed_ends_so() {
    let bed = Bed::new().await;
    for (kind, caller) in &bed.callers {
        let before = bed.begun();
        let job = caller.spawn("call", given("7", text("x")), none()).await.unwrap();
        until("it runs", || bed.begun() > before).await;
        assert_eq!(caller.kill(job).await.unwrap().state, JobState::Killed, "{kind}");
        let report = caller.wait(job, &mut |_| ()).await.unwrap();
        assert_eq!(report.state, JobState::Killed, "{kind}");
        assert_eq!(fault(caller.results("call", job, vec![]).await).0, FaultCode::JobKilled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_goes_on_and_is_found_by_its_key() {
    let bed = Bed::new().await;
    for (kind, caller) in &bed.callers {
        let before = bed.begun();
        let call = || caller.call("call", given("7", text(kind)), keyed(kind));
        let mut calling = call();
        tokio::select! {
            done = &mut calling => panic!("{kind}: {done:?}"),
            () = until("it runs", || bed.begun() > before) => {}
        }
        drop(calling);
        fs::write(bed.path("go"), "").unwrap();
        let results = call().await.unwrap();
        assert_eq!(result(&results), kind.as_bytes());
        assert_eq!(bed.begun(), before + 1, "{kind}: it ran once");
        let job = results.job.expect("a keyed call tells its job");
        assert!(job.existing, "{kind}: it was there before");
        assert_eq!(caller.status(job.id).await.unwrap().state, JobState::Done);
        fs::remove_file(bed.path("go")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_the_same_fault_near_and_far() {
    let bed = Bed::new().await;
    for (kind, caller) in &bed.callers {
        let call = |arguments| caller.call("call", arguments, none());
        let parameter = |name: &str| Some(name.to_owned());
        let good = || given("0", text("x"));
        let with = |more: Argument| good().into_iter().chain([more]).collect();
        for (done, code, about) in [
            (caller.call("cal", good(), none()).await, FaultCode::UnknownOperation, None),
            (
                call(with(Argument::text("dat", "x"))).await,
                FaultCode::UnexpectedParameter,
                parameter("dat"),
            ),
            (
                call(with(Argument::text("code", "1"))).await,
                FaultCode::UnexpectedParameter,
                parameter("code"),
            ),
            (
                call(vec![Argument::text("code", "0")]).await,
                FaultCode::MissingParameter,
                parameter("data"),
            ),
            (call(given("one", text("x"))).await, FaultCode::InvalidValue, parameter("code")),
            (
                caller.call("call", good(), keyed("")).await,
                FaultCode::InvalidValue,
                parameter("key"),
            ),
            (call(given("3", text("x"))).await, FaultCode::ProgramFailed, None),
        ] {
            assert_eq!(fault(done), (code, about), "{kind}");
        }
        let unknown = "0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(fault(caller.kill(unknown).await).0, FaultCode::NoSuchJob, "{kind}");
    }
}
