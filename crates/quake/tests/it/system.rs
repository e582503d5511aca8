//! Processes of a system under test: started, stopped, and gone with who started them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fishplate_quake::experiment::FaultAction;
use fishplate_quake::fault::{DueFault, inject};
use fishplate_quake::record::Happening;
use fishplate_quake::system::{SERVER, SystemError};

use crate::fixture::{Bed, free_address};
use crate::skipped::skipped;
use crate::{lives, number_in, subprocesses, wait_until};

/// Where a test's own agent works.
const PLACE: &str = "FISHPLATE_TEST_PLACE";

const MINUTE: Duration = Duration::from_secs(60);

/// Runs the configuring program; in words, why it came to nothing.
async fn configured(bed: &Bed, within: Duration) -> Result<(), String> {
    let configured = bed.system.configure(&subprocesses(), within).await;
    configured.map_err(|error| std::error::Error::source(&error).unwrap().to_string())
}

/// A shell script as the only process.
fn script(script: &str) -> Bed {
    let script = script.replace('\n', " ");
    let process =
        format!("process.server = {{ start = ['sh', '-c', \"{script}\"], stop_within = '1s' }}");
    Bed::new(free_address(), &format!("{process}\nready_within = '300ms'"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_is_ready_when_its_probe_is_answered_and_another_after_a_restart() {
    let mut bed = Bed::fixture("0.5");
    let begun = Instant::now();
    bed.system.start().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(500));
    let mut sampler = bed.system.sampler(bed.address.port());
    let pid = sampler.sample(0).processes[SERVER].pid;
    assert!(lives(pid));
    bed.system.restart(Some(SERVER)).await.unwrap();
    let again = sampler.sample(1).processes[SERVER].pid;
    assert!(again != pid && lives(again) && !lives(pid));
    bed.system.stop().await.unwrap();
    assert!(!lives(again) && sampler.sample(2).processes.is_empty());
    let log = fs::read_to_string(bed.directory.path().join("log/server")).unwrap();
    assert_eq!(log.matches("listening on").count(), 2, "{log}");
    let term = |what: &Happening| matches!(what, Happening::Ended { signal: Some(15), .. });
    let started = |pid: u32| move |what: &Happening| matches!(what, Happening::Started { pid: one, .. } if *one == pid);
    let ready = |what: &Happening| *what == Happening::Ready;
    let expected: [&dyn Fn(&Happening) -> bool; 6] =
        [&started(pid), &ready, &term, &started(again), &ready, &term];
    for (at, is_it) in expected.iter().enumerate() {
        let happened = bed.happened.recv().await.unwrap();
        assert!(is_it(&happened.what), "{at}: {happened:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_at_the_start_is_said() {
    let not_ready = script("exec sleep 1000").system.start().await.unwrap_err();
    assert!(
        matches!(&not_ready, SystemError::NotReady { why, .. } if why == "connection refused"),
        "{not_ready}"
    );
    let ended = script("echo fatal: no; exit 2").system.start().await.unwrap_err();
    assert!(ended.to_string().ends_with("fatal: no"), "{ended}");
    let none = Bed::new(free_address(), "process.server = { start = ['/no/such/program'] }");
    let none = none.system.start().await.unwrap_err().to_string();
    assert!(none.contains("process.server") && none.contains("/no/such/program"), "{none}");
    let bed = Bed::new(free_address(), "configure = ['sh', '-c', 'echo no room >&2; exit 4']");
    let unconfigured = configured(&bed, MINUTE).await.unwrap_err();
    assert!(
        unconfigured.contains("exit status: 4") && unconfigured.ends_with("no room"),
        "{unconfigured}"
    );
    let bed = Bed::new(free_address(), "configure = ['sh', '-c', 'pwd > here']");
    configured(&bed, MINUTE).await.unwrap();
    assert!(bed.directory.path().join("here").exists());
    let bed = Bed::new(free_address(), "configure = ['/no/such/program']");
    let none = configured(&bed, MINUTE).await.unwrap_err();
    assert!(none.contains("cannot start /no/such/program"), "{none}");
    let unknown = bed.system.signal("database", 9).await.unwrap_err().to_string();
    assert!(unknown.contains("database"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_want_to_end_is_killed_with_its_group_even_when_it_is_stopped() {
    let bed = script(
        "trap '' TERM; sleep 1000 & echo $! > {directory}/child; while :; do sleep 0.1; done",
    );
    let _ = bed.system.start().await;
    let child = number_in(&bed.directory.path().join("child"));
    bed.system.signal(SERVER, 19).await.unwrap();
    bed.system.stop().await.unwrap();
    wait_until("its child is gone", || !lives(child));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_left_outlives_a_restart_and_not_the_agent() {
    let bed =
        script("setsid sh -c 'echo $$ >> {directory}/left; exec sleep 1000' & exec sleep 1000");
    let left = bed.directory.path().join("left");
    let _ = bed.system.start().await;
    let first = number_in(&left);
    bed.system.stop().await.unwrap();
    assert!(lives(first), "as a server's supervisor of jobs does");
    let directory = bed.directory;
    drop(bed.system);
    wait_until("it is gone", || !lives(first));
    drop(directory);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_process_that_crashed_are_gone_before_it_is_started_again() {
    for (setting, setsid, stays) in [
        ("", "", false),
        ("", "setsid", true),
        ("restart_ends = 'group', ", "setsid", true),
        ("restart_ends = 'tree', ", "setsid", false),
    ] {
        // The process itself ends once its worker is there.
        let start = format!(
            "{setsid} sh -c 'echo $$ > {{directory}}/worker; exec sleep 1000' & \
             while ! test -s {{directory}}/worker; do sleep 0.01; done; exit 3"
        );
        let process = format!("process.server = {{ {setting}start = ['sh', '-c', \"{start}\"] }}");
        let bed = Bed::new(free_address(), &process);
        let file = bed.directory.path().join("worker");
        bed.system.start().await.unwrap_err();
        let worker = number_in(&file);
        assert!(lives(worker), "{process}");
        fs::remove_file(&file).unwrap();
        bed.system.restart(Some(SERVER)).await.unwrap_err();
        assert_ne!(number_in(&file), worker);
        assert_eq!(lives(worker), stays, "{process}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuring_program_is_ended_with_all_that_it_started_when_its_time_is_over() {
    let script = "sleep 1000 & echo $! > {directory}/child; wait";
    let bed = Bed::new(free_address(), &format!("configure = ['sh', '-c', '{script}']"));
    let child = async {
        let file = bed.directory.path().join("child");
        let child = tokio::task::spawn_blocking(move || number_in(&file)).await.unwrap();
        assert!(lives(child));
        child
    };
    let (error, child) = tokio::join!(configured(&bed, Duration::from_secs(2)), child);
    let error = error.unwrap_err();
    assert!(error.contains("had not ended after 2s (limits.configure)"), "{error}");
    wait_until("its child is gone", || !lives(child));
}

/// A control group with 32 MiB of memory; it goes when it is empty.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new() -> Option<Self> {
        let name = format!("quake-{}", std::process::id());
        for (parent, limit) in
            [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        {
            let group = Path::new(parent).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            if group.join(limit).exists() && fs::write(group.join(limit), "32M").is_ok() {
                return Some(Self(group));
            }
            let _ = fs::remove_dir(&group);
        }
        skipped("cgroups", "no control group of memory can be made");
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_the_kernel_kills_for_want_of_memory_is_told_from_one_that_we_kill() {
    let Some(group) = MemoryGroup::new() else { return };
    let mut bed = script(&format!(
        "echo $$ > {}/cgroup.procs; exec python3 -c 'bytes(bytearray(200 << 20))'",
        group.0.display()
    ));
    let _ = bed.system.start().await;
    assert_eq!(bed.ending().await, (None, Some(9), true));
    let mut bed = script("exec sleep 1000");
    let _ = bed.system.start().await;
    bed.system.signal(SERVER, 9).await.unwrap();
    assert_eq!(bed.ending().await, (None, Some(9), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_cannot_be_injected_says_why() {
    let mut bed = script("exec sleep 1000");
    for action in [FaultAction::Kill, FaultAction::Stop, FaultAction::Restart] {
        for (process, why) in
            [(SERVER, "process server does not run"), ("other", "no process other")]
        {
            let (process, length) = (process.to_owned(), Duration::ZERO);
            let fault = DueFault { at: Duration::ZERO, action, process: process.clone(), length };
            inject(&fault, &bed.system, &bed.happenings).await;
            let told = bed.happened.recv().await.expect("it is told").what;
            assert_eq!(told, Happening::Fault { action, process });
            let failed = bed.happened.recv().await.expect("and that it failed").what;
            let Happening::FaultFailed { why: told, .. } = failed else { panic!("{failed:?}") };
            assert!(told.contains(why), "{told}");
        }
    }
}

/// An agent in a process of its own, that starts a process which leaves another behind.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what another test starts, and kills"]
async fn agent() {
    let place = std::env::var(PLACE).unwrap();
    let bed = script(&format!(
        "setsid sh -c 'echo $$ > {place}/left; exec sleep 1000' & echo $$ > {place}/server; exec sleep 1000"
    ));
    let _ = bed.system.start().await;
    std::future::pending::<()>().await;
}

/// An agent in a process of its own, whose configuring program does not end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what another test starts, and kills"]
async fn configuring_agent() {
    let place = place();
    let script =
        format!("sleep 1000 & echo $! > {0}/server; echo $$ > {0}/left; wait", place.display());
    let bed = Bed::new(free_address(), &format!("configure = ['sh', '-c', '{script}']"));
    let _ = configured(&bed, MINUTE).await;
}

/// Runs a test of this binary, which is ignored otherwise, in a process of its own.
pub(crate) fn child(test: &str, place: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Where a child was told to work.
pub(crate) fn place() -> PathBuf {
    std::env::var_os(PLACE).expect("a child's place").into()
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_behind() {
    for test in ["system::agent", "system::configuring_agent"] {
        let place = tempfile::tempdir().unwrap();
        let mut agent = child(test, place.path());
        let pids = ["server", "left"].map(|name| number_in(&place.path().join(name)));
        assert!(pids.into_iter().all(lives));
        agent.kill().unwrap();
        agent.wait().unwrap();
        wait_until("all are gone", || !pids.into_iter().any(lives));
    }
}
