//! Each limit stops a job, and is named with its value.

use std::fs;

use fishplate_jobs::executor::ProgramExit;
use fishplate_programs::plan::{OutputRule, OutputSource, Plan};

use crate::bed::{Bed, NOBODY};

async fn limited(script: &str, change: impl FnOnce(&mut Plan)) -> (u64, ProgramExit) {
    let bed = Bed::new();
    let (order, ending) = bed.run_script(script, change).await;
    assert_eq!(Bed::carriers(&order), NOBODY);
    let log = fs::metadata(order.directory.join("stdout")).map_or(0, |it| it.len());
    (log, ending)
}

fn hit(name: &str, value: &str) -> Option<(String, String)> {
    Some((name.to_owned(), value.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_time() {
    let (_, ending) = limited("sleep 1000", |plan| plan.limits.wall_time = Some(0.25)).await;
    assert_eq!(ending.limit, hit("wall_time", "0.25 s"));
    assert_eq!(ending.signal.as_deref(), Some("SIGTERM"));
    assert!(!ending.cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_size_stops_a_program_that_prints_for_ever() {
    let (log, ending) = limited("yes", |plan| plan.limits.log_size = 8 << 20).await;
    assert_eq!(ending.limit, hit("log_size", "8 MiB"));
    assert_eq!(log, 8 << 20, "what is over is cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_size_does_not_depend_on_the_moment() {
    let (log, ending) = limited("head -c 2000 /dev/zero", |plan| plan.limits.log_size = 1000).await;
    assert_eq!(ending.limit, hit("log_size", "1000 bytes"));
    assert_eq!(log, 1000);
    let (_, ending) = limited("head -c 1000 /dev/zero", |plan| plan.limits.log_size = 1000).await;
    assert_eq!(ending.limit, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_the_whole_tree() {
    // Two processes, each below the limit.
    let hog = "tail -c 40M /dev/zero > /dev/null";
    let script = format!("head -c 40M /dev/zero | tail -c 40M & {hog} & tail /dev/zero");
    let (_, ending) = limited(&script, |plan| plan.limits.memory = Some(64 << 20)).await;
    assert_eq!(ending.limit, hit("memory", "64 MiB"));
    assert!(ending.max_memory > 64 << 20, "{ending:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_size_of_the_workspace() {
    // In many files: none is too large.
    let script = "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > f$i; done";
    let (_, ending) = limited(script, |plan| plan.limits.output_size = Some(1 << 20)).await;
    assert_eq!(ending.limit, hit("output_size", "1 MiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_size_is_a_hard_stop_for_one_file() {
    let (_, ending) = limited("exec head -c 100M /dev/zero > f", |plan| {
        plan.limits.output_size = Some(1 << 20);
        plan.limits.log_size = 1 << 20;
        plan.limits.value_size = 1 << 20;
    })
    .await;
    assert_eq!(ending.limit, hit("output_size", "1 MiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn value_size_of_an_output_that_is_no_file() {
    let (_, ending) = limited("yes", |plan| {
        plan.limits.value_size = 1 << 20;
        plan.stdout = Some("result".to_owned());
        plan.outputs = vec![OutputRule {
            name: "result".to_owned(),
            data_type: "string".to_owned(),
            source: OutputSource::Path("result".to_owned()),
            required: true,
            non_empty: false,
            format: None,
            media_type: String::new(),
        }];
    })
    .await;
    assert_eq!(ending.limit, hit("value_size", "1 MiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cores() {
    let bed = Bed::new();
    let (order, _) = bed.run_script("nproc", |plan| plan.limits.cores = Some(1)).await;
    assert_eq!(fs::read_to_string(order.directory.join("stdout")).unwrap(), "1\n");
    // The runner itself is as free as before.
    let (order, _) = bed.run_script("nproc", |_| {}).await;
    let all = std::thread::available_parallelism().unwrap();
    assert_eq!(fs::read_to_string(order.directory.join("stdout")).unwrap(), format!("{all}\n"));
}
