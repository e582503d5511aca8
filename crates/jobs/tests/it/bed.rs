//! A data directory with an executor, and a look at its supervisors.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fishplate_jobs::executor::local::{CgroupUse, LocalExecutor, LocalSettings};
use fishplate_jobs::executor::{Executor as _, Handle, ProgramExit, StartOrder, conformance};
use fishplate_programs::plan::Plan;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) struct Bed {
    pub(crate) directory: TempDir,
    pub(crate) executor: LocalExecutor,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(CgroupUse::Off)
    }

    pub(crate) fn with(cgroup: CgroupUse) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = LocalSettings { cgroup, ..LocalSettings::new(directory.path()) };
        Self { executor: LocalExecutor::new(settings).unwrap(), directory }
    }

    /// Another executor on the same data, as after a restart of the server.
    pub(crate) fn another_executor(&self) -> LocalExecutor {
        let settings = LocalSettings::new(self.directory.path());
        LocalExecutor::new(LocalSettings { cgroup: CgroupUse::Off, ..settings }).unwrap()
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.directory.path().join("jobs")
    }

    pub(crate) fn order(&self, script: &str, change: impl FnOnce(&mut Plan)) -> StartOrder {
        let mut order = conformance::order(&self.jobs(), script);
        let mut plan = (*order.plan).clone();
        change(&mut plan);
        order.plan = plan.into();
        order
    }

    pub(crate) async fn start(&self, order: &StartOrder) -> Handle {
        self.executor.start(order).await.unwrap()
    }

    pub(crate) async fn run(&self, order: &StartOrder) -> ProgramExit {
        let handle = self.start(order).await;
        conformance::ended(&self.executor, &handle).await
    }

    pub(crate) async fn run_script(
        &self,
        script: &str,
        change: impl FnOnce(&mut Plan),
    ) -> (StartOrder, ProgramExit) {
        let order = self.order(script, change);
        let ending = self.run(&order).await;
        (order, ending)
    }

    /// Processes of this data directory's supervisors by what they are.
    pub(crate) fn job_processes(&self, role: &str) -> Vec<i32> {
        let data = self.directory.path().to_str().unwrap();
        processes_with("cmdline", data)
            .into_iter()
            .filter(|pid| {
                // A program between fork and exec looks like its runner, and a runner that was just forked like its
                // supervisor; but they lead no session. So that comes first: a runner takes its name before its session.
                let process = Pid::from_raw(*pid);
                nix::unistd::getsid(Some(process)) == Ok(process)
                    && fs::read_to_string(format!("/proc/{pid}/comm"))
                        .is_ok_and(|name| name.trim_end() == role)
            })
            .collect()
    }

    pub(crate) fn kill_runners(&self) {
        kill_all(&self.job_processes("fishplate-run"));
    }

    pub(crate) fn kill_supervisors(&self) {
        kill_all(&self.job_processes("fishplate-super"));
    }

    /// Kills supervisors and runners, and waits until they hold nothing any more.
    pub(crate) async fn kill_supervisors_and_wait(&self) {
        let mut all = self.job_processes("fishplate-super");
        all.extend(self.job_processes("fishplate-run"));
        kill_all(&all);
        eventually("the supervisors are dead", || !all.iter().any(|pid| is_alive(*pid))).await;
    }

    /// Living processes of a job.
    pub(crate) fn carriers(order: &StartOrder) -> Vec<i32> {
        processes_with("environ", &format!("FISHPLATE_JOB={}", order.job))
    }
}

impl Drop for Bed {
    /// A test that failed leaves no processes either.
    fn drop(&mut self) {
        self.kill_supervisors();
        self.kill_runners();
        for entry in fs::read_dir(self.jobs()).into_iter().flatten().flatten() {
            let mark = format!("FISHPLATE_JOB={}", entry.file_name().display());
            kill_all(&processes_with("environ", &mark));
        }
    }
}

pub(crate) fn kill_all(pids: &[i32]) {
    for pid in pids {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

/// Neither gone nor a zombie.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Processes with this word in a list of their `/proc` directory.
fn processes_with(file: &str, word: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let list = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            list.split(|byte| *byte == 0).any(|it| it == word.as_bytes())
        })
        .collect()
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// No processes.
pub(crate) const NOBODY: [i32; 0] = [];
