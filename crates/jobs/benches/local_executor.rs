//! Jobs a second of a program that does nothing, through the local executor, against a bare
//! spawn-and-wait loop with two in flight, interleaved in one run.
//!
//! `cargo bench -p fishplate-jobs --bench local_executor -- [SECONDS [IN_FLIGHT]]`

#![expect(clippy::print_stdout, reason = "a bench tells its figures")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fishplate_contract::JobId;
use fishplate_jobs::executor::local::{LocalExecutor, LocalSettings, supervisor_main};
use fishplate_jobs::executor::{Executor as _, Handle, Observation, StartOrder, conformance};
use fishplate_jobs::workspace;
use fishplate_programs::plan::Plan;

const PROGRAM: &str = "/bin/true";
const ROUNDS: u32 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [command, _, data] = arguments.as_slice()
        && command == "supervise"
    {
        supervisor_main(Path::new(data));
    }
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u32>().ok());
    let slice = Duration::from_secs(number(0).unwrap_or(8).into()) / (2 * ROUNDS);
    let in_flight = number(1).unwrap_or(4) as usize;
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let executor = LocalExecutor::new(LocalSettings::new(directory.path())).unwrap();
    let (mut bare, mut ours, mut latencies) = (0.0, 0.0, Vec::new());
    for _ in 0..ROUNDS {
        bare += bare_loop(slice);
        ours += runtime.block_on(through_executor(
            &executor,
            directory.path(),
            slice,
            in_flight,
            &mut latencies,
        ));
    }
    let (bare, ours) = (bare / f64::from(ROUNDS), ours / f64::from(ROUNDS));
    println!("bare spawn and wait, 2 in flight:   {bare:.0} a second");
    println!("local executor, {in_flight} in flight:       {ours:.0} a second");
    println!("ratio:                              {:.2}", ours / bare);
    let alone = median(&mut bare_latencies(200));
    latencies.clear();
    runtime.block_on(through_executor(&executor, directory.path(), slice, 1, &mut latencies));
    let through = median(&mut latencies);
    println!("median latency alone: bare {alone:.0?}, executor {through:.0?}");
    println!("added:                {:.0?}", through.saturating_sub(alone));
}

fn run_bare() {
    let mut child =
        Command::new(PROGRAM).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
}

fn bare_loop(time: Duration) -> f64 {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    run_bare();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
}

fn bare_latencies(count: usize) -> Vec<Duration> {
    let timed = |_| {
        let begin = Instant::now();
        run_bare();
        begin.elapsed()
    };
    (0..count).map(timed).collect()
}

/// Starts, waits for a change, observes, removes: as an engine does.
async fn through_executor(
    executor: &LocalExecutor,
    data: &Path,
    time: Duration,
    in_flight: usize,
    latencies: &mut Vec<Duration>,
) -> f64 {
    let plan = Arc::new(plan());
    let begin = Instant::now();
    let mut count = 0_u64;
    let mut running: Vec<(Handle, Instant, std::path::PathBuf)> = Vec::new();
    let mut starting = tokio::task::JoinSet::new();
    loop {
        while begin.elapsed() < time && running.len() + starting.len() < in_flight {
            let mut bits = [0; 16];
            getrandom::fill(&mut bits).unwrap();
            let job = JobId::from_bytes(bits);
            let directory = data.join("jobs").join(job.to_string());
            let order = StartOrder { job, fence: 1, directory, plan: plan.clone() };
            let executor = executor.clone();
            starting.spawn(async move {
                let at = Instant::now();
                (executor.start(&order).await.unwrap(), at, order.directory)
            });
        }
        if running.is_empty() && starting.is_empty() {
            break;
        }
        tokio::select! {
            Some(started) = starting.join_next() => running.push(started.unwrap()),
            () = executor.changed() => {}
        }
        let handles: Vec<Handle> = running.iter().map(|(handle, ..)| handle.clone()).collect();
        let seen = executor.observe(&handles).await;
        let mut rest = Vec::new();
        for (job, observation) in running.drain(..).zip(seen) {
            match observation {
                Observation::Ended(ending) => {
                    assert_eq!(ending.exit_code, Some(0));
                    count += 1;
                    latencies.push(job.1.elapsed());
                    workspace::remove(&job.2).unwrap();
                }
                Observation::Running { .. } => rest.push(job),
                other => panic!("{other:?}"),
            }
        }
        running = rest;
    }
    count as f64 / begin.elapsed().as_secs_f64()
}

fn median(of: &mut [Duration]) -> Duration {
    of.sort_unstable();
    of[of.len() / 2]
}

fn plan() -> Plan {
    Plan { environment: std::env::vars().collect(), ..conformance::plan(PROGRAM, &[]) }
}
