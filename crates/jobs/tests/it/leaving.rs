//! Nothing is left behind.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use fishplate_jobs::executor::{Executor as _, Handle, Observation};
use fishplate_jobs::workspace;
use nix::fcntl::{FcntlArg, FdFlag};

use crate::bed::{Bed, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_jobs_leave_no_process_no_descriptor_and_no_file() {
    const JOBS: usize = 1000;
    const AT_ONCE: usize = 8;
    let bed = Bed::new();
    let executor = bed.another_executor();
    let mut running: Vec<(Handle, PathBuf)> = Vec::new();
    let (mut started, mut ended, mut descriptors_early) = (0, 0, 0);
    while ended < JOBS {
        while started < JOBS && running.len() < AT_ONCE {
            let order = bed.order("", |plan| {
                plan.program = "/bin/true".into();
                plan.arguments.clear();
            });
            running.push((executor.start(&order).await.unwrap(), order.directory));
            started += 1;
        }
        executor.changed().await;
        let handles: Vec<Handle> = running.iter().map(|(handle, _)| handle.clone()).collect();
        let seen = executor.observe(&handles).await;
        let mut rest = Vec::new();
        for (job, observation) in running.into_iter().zip(seen) {
            match observation {
                Observation::Ended(ending) => {
                    assert_eq!(ending.exit_code, Some(0));
                    workspace::remove(&job.1).unwrap();
                    ended += 1;
                }
                Observation::Running { .. } => rest.push(job),
                other => panic!("{other:?}"),
            }
        }
        running = rest;
        if ended <= 100 {
            descriptors_early = runner_descriptors(&bed);
        }
    }
    assert_eq!(fs::read_dir(bed.jobs()).unwrap().count(), 0);
    let runners = bed.job_processes("fishplate-run");
    assert!(runners.len() <= AT_ONCE + 1, "{runners:?}");
    assert!(runner_descriptors(&bed) <= descriptors_early);
    assert_eq!(bed.job_processes("fishplate-super").len(), 1);
    // Nobody needs them any more.
    drop(executor);
    eventually("supervisors end", || {
        bed.job_processes("fishplate-run").is_empty()
            && bed.job_processes("fishplate-super").is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn supervisors_hold_nothing_of_who_started_them() {
    let bed = Bed::new();
    let (mut read, write) = std::io::pipe().unwrap();
    // As a web server's sockets are to a CGI script.
    nix::fcntl::fcntl(&write, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let order = bed.order("sleep 1000", |_| {});
    let handle = bed.executor.start(&order).await.unwrap();
    drop(write);
    let mut rest = Vec::new();
    read.read_to_end(&mut rest).unwrap();
    assert_eq!(bed.job_processes("fishplate-super").len(), 1, "it ended only then");
    bed.executor.cancel(&handle).await;
}

/// The most that a runner has open.
fn runner_descriptors(bed: &Bed) -> usize {
    let count = |pid: &i32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    bed.job_processes("fishplate-run").iter().map(count).max().unwrap_or(0)
}
