//! How programs end, and how they are ended.

use std::fs;
use std::path::Path;

use fishplate_jobs::executor::local::CgroupUse;
use fishplate_jobs::executor::{Executor as _, StartTrace, conformance};

use crate::bed::{Bed, NOBODY, eventually};
use crate::skipped::skipped;

/// Leaves a process behind that nobody waits for, in a session of its own, deaf to SIGTERM.
const DAEMON: &str = "(setsid sh -c \"trap '' TERM; : > up; while :; do sleep 0.1; done\" &) & \
                      while [ ! -e up ]; do sleep 0.01; done; ";

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_and_signals_are_told() {
    let bed = Bed::new();
    let (_, ending) = bed.run_script("exit 77", |_| {}).await;
    assert_eq!((ending.exit_code, ending.signal.as_deref()), (Some(77), None));
    assert_eq!((ending.ended_by.as_str(), ending.swept), ("", 0));
    let (_, ending) = bed.run_script("kill -SEGV $$", |_| {}).await;
    assert_eq!((ending.exit_code, ending.signal.as_deref()), (None, Some("SIGSEGV")));
    assert!(!ending.cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_is_told() {
    let bed = Bed::new();
    let (_, ending) = bed
        .run_script(
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 5000 /dev/zero",
            |_| {},
        )
        .await;
    assert!(ending.cpu_seconds > 0.01, "{ending:?}");
    assert!(ending.max_memory > 100_000, "{ending:?}");
    assert_eq!(ending.usage().disk, 5000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_the_program_leaves_is_swept() {
    let bed = Bed::new();
    let order = bed.order(&format!("{DAEMON} exit 5"), |plan| plan.limits.kill_grace = 0.2);
    let ending = bed.run(&order).await;
    assert_eq!(ending.exit_code, Some(5));
    assert!(!ending.cancelled);
    assert_eq!(ending.ended_by, "sweep");
    assert!(ending.swept >= 1, "{ending:?}");
    assert_eq!(Bed::carriers(&order), NOBODY);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_grandchildren_in_sessions_of_their_own() {
    let bed = Bed::new();
    let order = bed.order(&format!("{DAEMON} sleep 1000"), |plan| plan.limits.kill_grace = 0.2);
    let handle = bed.start(&order).await;
    eventually("the daemon is up", || order.directory.join("work/up").exists()).await;
    bed.executor.cancel(&handle).await;
    let ending = conformance::ended(&bed.executor, &handle).await;
    assert!(ending.cancelled);
    assert_eq!(ending.signal.as_deref(), Some("SIGTERM"));
    assert_eq!(ending.ended_by, "sweep");
    assert!(ending.swept >= 1, "{ending:?}");
    assert_eq!(Bed::carriers(&order), NOBODY);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_leaves_time_to_clean_up_and_sigkill_ends_who_ignores_it() {
    let bed = Bed::new();
    let tidy = "trap 'echo tidied; exit 0' TERM; : > up; while :; do sleep 0.02; done";
    let deaf = "trap '' TERM; : > up; while :; do sleep 0.02; done";
    for (script, signal) in [(tidy, None), (deaf, Some("SIGKILL"))] {
        let order = bed.order(script, |plan| plan.limits.kill_grace = 0.5);
        let handle = bed.start(&order).await;
        eventually("the program is up", || order.directory.join("work/up").exists()).await;
        bed.executor.cancel(&handle).await;
        let ending = conformance::ended(&bed.executor, &handle).await;
        assert!(ending.cancelled);
        assert_eq!(ending.signal.as_deref(), signal, "{ending:?}");
        let said = fs::read_to_string(order.directory.join("stdout")).unwrap();
        assert_eq!(said, if signal.is_none() { "tidied\n" } else { "" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_program_can_be_ended() {
    let bed = Bed::new();
    let order = bed.order("kill -STOP $$; exit 1", |_| {});
    let handle = bed.start(&order).await;
    bed.executor.cancel(&handle).await;
    assert!(conformance::ended(&bed.executor, &handle).await.cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_forks_faster_than_it_is_killed_ends() {
    let bed = Bed::new();
    // Each of these replaces itself by a child and is gone, for ever: no list of them is current.
    let script = "trap '' TERM; n=0; while [ $n -lt 8 ]; do n=$((n+1)); setsid sh ./again & done; \
                  : > up; sleep 1000";
    let order = bed.order(script, |plan| {
        plan.limits.kill_grace = 0.0;
        plan.inputs = vec![fishplate_programs::plan::InputFile {
            path: "again".to_owned(),
            content: fishplate_programs::plan::InputContent::Text("sh ./again &\n".to_owned()),
        }];
    });
    let handle = bed.start(&order).await;
    eventually("they run", || order.directory.join("work/up").exists()).await;
    bed.executor.cancel(&handle).await;
    conformance::ended(&bed.executor, &handle).await;
    assert_eq!(Bed::carriers(&order), NOBODY);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_can_cancel_what_is_not_its_own() {
    let bed = Bed::new();
    let order = bed.order("sleep 1000", |_| {});
    let handle = bed.start(&order).await;
    let other = bed.another_executor();
    assert_eq!(other.locate(&order).await, StartTrace::Started(handle.clone()));
    other.cancel(&handle).await;
    assert!(conformance::ended(&other, &handle).await.cancelled);
    assert!(conformance::ended(&bed.executor, &handle).await.cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_group_ends_all_at_once() {
    let parent = Path::new("/sys/fs/cgroup/unified").join(format!("it-{}", std::process::id()));
    if fs::create_dir(&parent).is_err() || !parent.join("cgroup.kill").exists() {
        skipped("cgroups", &format!("no control group can be made at {}", parent.display()));
        return;
    }
    let bed = Bed::with(CgroupUse::At(parent.clone()));
    let order = bed.order(&format!("{DAEMON} sleep 1000"), |plan| plan.limits.kill_grace = 0.2);
    let handle = bed.start(&order).await;
    eventually("the daemon is up", || order.directory.join("work/up").exists()).await;
    let group = parent.join(format!("fishplate-{}", order.job));
    assert!(fs::read_to_string(group.join("cgroup.procs")).unwrap().lines().count() >= 2);
    bed.executor.cancel(&handle).await;
    let ending = conformance::ended(&bed.executor, &handle).await;
    assert!(ending.cancelled);
    assert_eq!(ending.ended_by, "cgroup");
    assert_eq!(Bed::carriers(&order), NOBODY);
    assert!(!group.exists());
    let (_, ending) = bed.run_script("exit 6", |_| {}).await;
    assert_eq!((ending.exit_code, ending.ended_by.as_str()), (Some(6), ""));
    fs::remove_dir(&parent).unwrap();
}
