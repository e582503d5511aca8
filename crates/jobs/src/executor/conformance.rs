//! What every executor must do, whatever runs behind it. One suite, run on each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fishplate_contract::JobId;

use super::{Executor, Handle, Observation, ProgramExit, StartOrder, StartTrace};
use fishplate_programs::plan::{JobLimits, Plan, SuccessRules};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A handle that no start gave.
const NOBODYS: &str = "of nobody";

/// Runs the suite; `directory` is for jobs.
///
/// # Panics
/// If the executor does not do what it must.
pub async fn run(executor: &dyn Executor, directory: &Path) {
    ends_are_told(executor, directory).await;
    many_are_observed_at_once(executor, directory).await;
    starts_are_found_again(executor, directory).await;
    a_start_is_made_once(executor, directory).await;
    cancelling_ends_a_job(executor, directory).await;
    ended_jobs_can_be_cancelled(executor, directory).await;
}

async fn ends_are_told(executor: &dyn Executor, directory: &Path) {
    let order = order(directory, "exit 0");
    let handle = executor.start(&order).await.unwrap();
    let ending = ended(executor, &handle).await;
    assert_eq!(ending.exit_code, Some(0));
    assert!(!ending.cancelled);
    assert!(ending.ended >= ending.started);
}

async fn many_are_observed_at_once(executor: &dyn Executor, directory: &Path) {
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(executor.start(&order(directory, "exit 0")).await.unwrap());
    }
    handles.insert(1, Handle(NOBODYS.to_owned()));
    let seen = executor.observe(&handles).await;
    assert_eq!(seen.len(), handles.len());
    assert!(matches!(seen[1], Observation::Lost(_)), "{:?}", seen[1]);
    for (handle, seen) in handles.iter().zip(seen).filter(|(handle, _)| handle.0 != NOBODYS) {
        let ending = match seen {
            Observation::Ended(ending) => *ending,
            Observation::Lost(why) => panic!("{handle:?} is lost: {why}"),
            _ => ended(executor, handle).await,
        };
        assert_eq!(ending.exit_code, Some(0), "{handle:?}");
    }
    assert!(executor.observe(&[]).await.is_empty());
}

async fn starts_are_found_again(executor: &dyn Executor, directory: &Path) {
    let mut order = order(directory, "exit 0");
    assert_eq!(executor.locate(&order).await, StartTrace::Never);
    let handle = executor.start(&order).await.unwrap();
    assert_eq!(executor.locate(&order).await, StartTrace::Started(handle.clone()));
    order.fence += 1;
    let StartTrace::Started(found) = executor.locate(&order).await else {
        panic!("a later claim does not find the start of an earlier one");
    };
    ended(executor, &found).await;
    assert!(matches!(executor.locate(&order).await, StartTrace::Started(_)), "ended, but started");
}

async fn a_start_is_made_once(executor: &dyn Executor, directory: &Path) {
    let order = order(directory, "echo ran >> ../../ran; exit 0");
    let first = executor.start(&order).await.unwrap();
    let again = executor.start(&order).await.unwrap();
    assert_eq!(first, again);
    ended(executor, &first).await;
    let later = StartOrder { fence: order.fence + 1, ..order };
    executor.start(&later).await.unwrap();
    if let Ok(ran) = std::fs::read_to_string(directory.join("ran")) {
        assert_eq!(ran, "ran\n");
    }
}

async fn cancelling_ends_a_job(executor: &dyn Executor, directory: &Path) {
    let handle = executor.start(&order(directory, "sleep 1000")).await.unwrap();
    executor.cancel(&handle).await;
    let ending = ended(executor, &handle).await;
    assert!(ending.cancelled, "{ending:?}");
    assert_eq!(ending.exit_code, None);
}

async fn ended_jobs_can_be_cancelled(executor: &dyn Executor, directory: &Path) {
    let handle = executor.start(&order(directory, "exit 0")).await.unwrap();
    ended(executor, &handle).await;
    executor.cancel(&handle).await;
    executor.cancel(&Handle(NOBODYS.to_owned())).await;
}

/// Waits for the end of a job.
///
/// # Panics
/// If it is lost, or does not end.
pub async fn ended(executor: &dyn Executor, handle: &Handle) -> ProgramExit {
    let begin = Instant::now();
    loop {
        let seen = executor.observe(std::slice::from_ref(handle)).await.remove(0);
        match seen {
            Observation::Ended(ending) => return *ending,
            Observation::Lost(why) => panic!("{handle:?} is lost: {why}"),
            other => assert!(begin.elapsed() < PATIENCE, "{handle:?} does not end: {other:?}"),
        }
        // An executor that can't tell of changes is observed from time to time.
        let _ = tokio::time::timeout(Duration::from_millis(20), executor.changed()).await;
    }
}

/// An order to run a line of shell in a new directory below `directory`.
///
/// # Panics
/// If the machine has no random numbers.
pub fn order(directory: &Path, script: &str) -> StartOrder {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).unwrap();
    let job = JobId::from_bytes(bits);
    StartOrder {
        job,
        fence: 1,
        directory: directory.join(job.to_string()),
        plan: Arc::new(plan("/bin/sh", &["-c", script])),
    }
}

/// A plan with nothing but a program and its arguments.
pub fn plan(program: &str, arguments: &[&str]) -> Plan {
    Plan {
        program: program.into(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        base_environment: None,
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        stdin: None,
        stdout: None,
        stderr: None,
        inputs: Vec::new(),
        staged: Vec::new(),
        outputs: Vec::new(),
        dimensions: fishplate_formats::dimension::Dimensions::default(),
        success: SuccessRules::default(),
        fault: None,
        progress: None,
        answer: fishplate_programs::output_choices::OutputChoices::default(),
        reuse: None,
        limits: JobLimits { disk_reserve: 0, kill_grace: 1.0, ..JobLimits::default() },
    }
}
