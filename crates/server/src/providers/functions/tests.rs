use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use fishplate_contract::{CallOptions, Principal, SystemClock, Value};
use fishplate_data::stream::{Writer, pipe};
use fishplate_jobs::engine::{self, Engine};
use fishplate_jobs::executor::fake::FakeExecutor;
use fishplate_jobs::function::PayloadReader;
use fishplate_jobs::function::plan::WorkerProgram;
use fishplate_jobs::store::memory::MemoryStore;

use super::*;
use crate::assembly;
use crate::host::PublicAddress;
use crate::settings::Limits;
use crate::spool::SpoolDirectory;

async fn run(
    functions: &Arc<Functions>,
    host: &Host,
    operation: &str,
    arguments: Vec<Argument>,
    memory: &mut MemoryReservation,
) -> Outcome {
    super::run(functions, host, operation, arguments, &CallUsage::none(), memory).await
}

/// Two functions that end when they are told to, and one that never looks.
fn functions(told: mpsc::Receiver<()>) -> Functions {
    let told = std::sync::Mutex::new(told);
    Functions::new("test", "urn:test")
        .function("wait", [], ["done"], move || {
            let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok(told.recv().is_ok())
        })
        .with(FunctionEntry::with_context("watch", [], ["cancelled"], |context: &Context| {
            while !context.is_cancelled() {
                thread::yield_now();
            }
            Ok(true)
        }))
        .function("many", ["count"], ["numbers"], |count: i32| {
            Ok(vec![0_i64; usize::try_from(count).unwrap_or_default()])
        })
        .with(
            FunctionEntry::new("quick", [], ["thread"], || Ok(thread_name())).quick().repeatable(),
        )
        .function("slow", [], ["thread"], || Ok(thread_name()))
        .with(
            FunctionEntry::new("both", ["n"], ["thread"], |_: i32| Ok(thread_name()))
                .quick_if(|given| matches!(&given[0].value, Value::Text(n) if n == "1")),
        )
        .function("read", ["data"], ["length"], |mut data: PayloadReader| {
            Ok(std::io::copy(&mut data, &mut std::io::sink()).is_ok())
        })
        .with(FunctionEntry::with_context("make", [], ["data"], |context: &Context| {
            context.stream(|to| {
                while to.push(Bytes::from_static(b"more")).is_ok() {}
                // It has something left to do.
                while !GO_ON.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                Ok(())
            })
        }))
}

/// A function that has been told that nobody reads may end.
static GO_ON: AtomicBool = AtomicBool::new(false);

fn half_a_file() -> (Writer, Vec<Argument>) {
    let (writer, stream) = pipe();
    (writer, vec![Argument::new("data", Value::Data(Payload::Stream(stream)))])
}

#[tokio::test]
async fn those_who_wait_for_slow_peers_take_no_place_of_others_and_are_given_up() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| {
        settings.functions_running = 1;
        settings.streams_running = 1;
        settings.stream_time = Duration::from_millis(100);
    });
    let (_sending, half) = half_a_file();
    let reading = tokio::spawn({
        let (host, functions) = (Arc::clone(&host), Arc::clone(&functions));
        async move { run(&functions, &host, "read", half, &mut MemoryReservation::default()).await }
    });
    until(|| host.streams.places.available_permits() == 0 || reading.is_finished()).await;
    assert_eq!(host.gate.places.available_permits(), 1);
    let slow = run(&functions, &host, "slow", Vec::new(), &mut MemoryReservation::default()).await;
    assert!(slow.is_ok(), "{slow:?}");
    let fault = reading.await.unwrap().unwrap_err();
    assert_eq!(
        (fault.code, fault.limit.unwrap().name.as_str()),
        (FaultCode::LimitExceeded, "stream_time")
    );
}

#[tokio::test]
async fn a_function_has_its_place_until_it_has_made_its_stream_which_is_broken_off_in_time() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| {
        settings.streams_running = 1;
        // Long enough to be called.
        settings.stream_time = Duration::from_secs(2);
    });
    let made = run(&functions, &host, "make", Vec::new(), &mut MemoryReservation::default())
        .await
        .unwrap();
    let Value::Data(Payload::Stream(stream)) = &made[0].value else { panic!("{made:?}") };
    let mut chunks = stream.take().unwrap();
    let ended = loop {
        match std::future::poll_fn(|context| chunks.as_mut().poll_next(context)).await {
            Some(Ok(_)) => {}
            ended => break ended,
        }
    };
    let fault = ended.unwrap().unwrap_err();
    assert_eq!(
        (fault.code, fault.limit.unwrap().name.as_str()),
        (FaultCode::LimitExceeded, "stream_time")
    );
    drop((chunks, made));
    assert_eq!(host.streams.places.available_permits(), 0, "its thread has not ended");
    GO_ON.store(true, Ordering::Relaxed);
    until(|| host.streams.places.available_permits() == 1).await;
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

fn host(
    data: &Path,
    set: impl FnOnce(&mut Settings),
) -> (Arc<Host>, Arc<Functions>, mpsc::Sender<()>) {
    let mut settings = Settings::new("http://localhost");
    set(&mut settings);
    let engine = Engine::new(
        engine::Settings::new(data.to_owned()),
        Arc::new(MemoryStore::default()),
        Arc::new(FakeExecutor::new(1)),
        Arc::new(SystemClock),
    )
    .unwrap();
    let worker = WorkerProgram {
        program: "/bin/false".into(),
        arguments: vec![crate::worker::WORKER.to_owned()],
        environment: data.join("environment.json"),
    };
    let (tell, told) = mpsc::channel();
    let spool = SpoolDirectory::open(data, 0).unwrap();
    let data = assembly::data(&Limits::new(data.to_owned(), "http://localhost")).unwrap();
    let host = Host::new(settings, PublicAddress::Below, engine, data, spool, worker, Vec::new());
    (Arc::new(host), Arc::new(functions(told)), tell)
}

fn start(
    host: &Arc<Host>,
    functions: &Arc<Functions>,
    operation: &'static str,
) -> JoinHandle<Outcome> {
    let (host, functions) = (Arc::clone(host), Arc::clone(functions));
    tokio::spawn(async move {
        run(&functions, &host, operation, Vec::new(), &mut MemoryReservation::default()).await
    })
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn text(outcome: &Outcome) -> &str {
    match &outcome.as_ref().unwrap()[0].value {
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn beyond_those_that_run_calls_wait_and_beyond_those_they_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, tell) = host(data.path(), |settings| {
        settings.functions_running = 1;
        settings.functions_queued = 1;
    });
    let running = start(&host, &functions, "wait");
    until(|| host.gate.places.available_permits() == 0).await;
    let waiting = start(&host, &functions, "wait");
    until(|| host.gate.waiting.load(Ordering::Relaxed) == 1).await;
    let fault = run(&functions, &host, "slow", Vec::new(), &mut MemoryReservation::default())
        .await
        .unwrap_err();
    assert_eq!(fault.code, FaultCode::QueueFull);
    assert_eq!(fault.limit.unwrap().name, "functions_queued");
    assert!(fault.retry_after.is_some());
    // A quick one needs no place.
    assert!(
        run(&functions, &host, "quick", Vec::new(), &mut MemoryReservation::default())
            .await
            .is_ok()
    );
    // One who hangs up waits no more.
    waiting.abort();
    until(|| host.gate.waiting.load(Ordering::Relaxed) == 0).await;
    let waiting = start(&host, &functions, "wait");
    until(|| host.gate.waiting.load(Ordering::Relaxed) == 1).await;
    tell.send(()).unwrap();
    tell.send(()).unwrap();
    assert_eq!(text(&running.await.unwrap()), "true");
    assert_eq!(text(&waiting.await.unwrap()), "true");
    assert_eq!(host.gate.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_threads_than_places() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| {
        settings.functions_running = 3;
        settings.functions_queued = 1000;
    });
    let calls: Vec<_> = (0..500).map(|_| start(&host, &functions, "slow")).collect();
    let mut names = std::collections::BTreeSet::new();
    for call in calls {
        names.insert(text(&call.await.unwrap()).to_owned());
    }
    assert!(names.iter().all(|name| name.starts_with("function-")), "{names:?}");
    assert!((1..=3).contains(&names.len()), "{names:?}");
}

#[tokio::test]
async fn a_function_that_takes_too_long_is_given_up_and_told_so() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| {
        settings.functions_running = 1;
        settings.function_time = Duration::from_millis(20);
    });
    let fault = run(&functions, &host, "watch", Vec::new(), &mut MemoryReservation::default())
        .await
        .unwrap_err();
    assert_eq!(fault.code, FaultCode::LimitExceeded);
    assert_eq!(fault.limit.unwrap().name, "function_time");
    // It saw that nobody waits, and gave its place back.
    until(|| host.gate.places.available_permits() == 1).await;
}

#[tokio::test]
async fn a_function_whose_caller_hangs_up_is_told_so() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| settings.functions_running = 1);
    let calling = start(&host, &functions, "watch");
    until(|| host.gate.places.available_permits() == 0).await;
    calling.abort();
    until(|| host.gate.places.available_permits() == 1).await;
}

#[tokio::test]
async fn only_what_is_declared_quick_runs_where_its_message_was_read() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |_| ());
    let here = thread_name();
    assert_eq!(
        text(&run(&functions, &host, "quick", Vec::new(), &mut MemoryReservation::default()).await),
        here
    );
    assert_ne!(
        text(&run(&functions, &host, "slow", Vec::new(), &mut MemoryReservation::default()).await),
        here
    );
    for (n, quick) in [("1", true), ("2", false)] {
        let (given, mut memory) = (vec![Argument::text("n", n)], MemoryReservation::default());
        let outcome = run(&functions, &host, "both", given, &mut memory).await;
        assert_eq!(text(&outcome) == here, quick, "{n}");
    }
}

#[tokio::test]
async fn a_key_makes_a_job_of_a_call_unless_it_may_run_twice() {
    let data = tempfile::tempdir().unwrap();
    let (_host, functions, _tell) = host(data.path(), |_| ());
    let provider = FunctionProvider(functions);
    let answers = |operation: &str, key: Option<&str>| {
        let options = CallOptions { key: key.map(str::to_owned), ..CallOptions::default() };
        provider.answers(&Call {
            service: "test".to_owned(),
            operation: operation.to_owned(),
            arguments: Vec::new(),
            options,
            principal: Principal::anonymous(),
        })
    };
    assert!(answers("slow", None));
    assert!(!answers("slow", Some("k")));
    assert!(answers("quick", Some("k")));
}

#[tokio::test]
async fn outputs_have_memory_until_they_are_sent_and_those_who_wait_for_it_keep_their_place() {
    let data = tempfile::tempdir().unwrap();
    let (host, functions, _tell) = host(data.path(), |settings| {
        settings.functions_running = 1;
        settings.message_memory = 12 << 20;
        settings.body_stall = Duration::from_millis(50);
    });
    let many = |memory: MemoryReservation| {
        let (host, functions) = (Arc::clone(&host), Arc::clone(&functions));
        tokio::spawn(async move {
            let mut memory = memory;
            let count = vec![Argument::text("count", (1 << 20).to_string())];
            let outcome = run(&functions, &host, "many", count, &mut memory).await;
            (outcome, memory)
        })
    };
    let (outcome, sending) = many(MemoryReservation::default()).await.unwrap();
    assert!(outcome.is_ok());
    assert_eq!(sending.bytes(), 8 << 20);
    // One goes on whatever others hold; who comes after it waits.
    let (outcome, ahead) = many(MemoryReservation::default()).await.unwrap();
    assert!(outcome.is_ok());
    let waiting = many(MemoryReservation::default());
    until(|| waiting.is_finished() || host.gate.places.available_permits() == 0).await;
    let (outcome, _) = waiting.await.unwrap();
    let fault = outcome.map(drop).unwrap_err();
    assert_eq!(fault.code, FaultCode::TimedOut);
    assert_eq!(fault.limit.unwrap().name, "message_memory");
    assert_eq!(host.gate.places.available_permits(), 1);
    drop((sending, ahead));
    assert!(many(MemoryReservation::default()).await.unwrap().0.is_ok());
    // Memory that the arguments had is memory for the outputs.
    let mut had = MemoryReservation::default();
    host.memory.resize(&mut had, 10 << 20, Duration::ZERO).await.unwrap();
    let (outcome, has) = many(had).await.unwrap();
    assert!(outcome.is_ok());
    assert_eq!(has.bytes(), 8 << 20);
}
