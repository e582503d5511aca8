//! What stands between the agent and a process of the system: it starts it, reaps it and all that it leaves behind, and
//! kills all of that when the agent is gone. It is the subreaper of all that the process starts (prctl(2)), so that
//! nothing that was started is lost sight of, however it was left.

#![expect(unsafe_code, reason = "what a process does between fork and exec")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::proc;
use crate::experiment::RestartEnds;
use crate::subprocess::{Parent, write_line};

/// Between two looks for what is left to kill.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// How long what a process has left may take to be gone when it is killed.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// What a reaper is told.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReaperCommand {
    /// Start the process.
    Start(Box<Launch>),
    /// Send it and its process group a signal.
    Signal(i32),
    /// Ask it to end by a signal, and kill it if it has not after so many milliseconds.
    Stop(i32, u64),
}

/// What a reaper tells.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReaperMessage {
    /// The process was started, and has this ID.
    Started(u32),
    /// It could not be: why.
    NotStarted(String),
    /// It ended: its exit code, or the signal that ended it.
    Ended(Option<i32>, Option<i32>),
    /// It was asked to end, and has, or there was none.
    Stopped,
}

/// A process that is to be started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Launch {
    /// Program and arguments.
    pub(super) start: Vec<String>,
    /// Variables beside the agent's.
    pub(super) environment: BTreeMap<String, String>,
    /// Where it works.
    pub(super) directory: PathBuf,
    /// What its output is appended to.
    pub(super) log: PathBuf,
    /// What its output is written to, if not that: then the log has its errors only.
    pub(super) output: Option<PathBuf>,
    /// What is killed of the one before.
    pub(super) ends: RestartEnds,
}

/// The process, while it is there.
#[derive(Debug, Default)]
struct Reaped {
    pid: Mutex<Option<Pid>>,
    changed: Condvar,
    /// The process group of the one that was started last, which may have ended.
    group: Mutex<Option<Pid>>,
}

/// Serves the agent until it is gone.
pub(crate) fn run(mut agent: Parent) -> io::Result<()> {
    prctl::set_child_subreaper(true)?;
    let reaped = Arc::new(Reaped::default());
    let (reaping, way) = (Arc::clone(&reaped), agent.way()?);
    thread::Builder::new().name("reaper".to_owned()).spawn(move || reaping.reap(&way))?;
    while let Some(command) = agent.next() {
        let told = match command {
            ReaperCommand::Start(launch) => Some(reaped.start(&launch)),
            ReaperCommand::Signal(signal) => {
                reaped.signal(signal);
                None
            }
            ReaperCommand::Stop(signal, within) => {
                reaped.stop(signal, Duration::from_millis(within));
                Some(ReaperMessage::Stopped)
            }
        };
        if told.is_some_and(|told| agent.tell(&told).is_err()) {
            break;
        }
    }
    kill_all();
    Ok(())
}

/// Kills all that was started, and what that starts meanwhile.
fn kill_all() {
    let own = std::process::id().cast_signed();
    loop {
        let left = proc::descendants(own);
        if left.iter().all(proc::Stat::has_ended) {
            return;
        }
        for stat in left {
            let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
        }
        thread::sleep(LOOKS_EVERY);
    }
}

impl Reaped {
    fn start(&self, launch: &Launch) -> ReaperMessage {
        if let Err(why) = self.end_remains(launch.ends) {
            return ReaperMessage::NotStarted(why);
        }
        // Held while the process is started, so that it is not reaped before it is known.
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        match spawn(launch) {
            Ok(started) => {
                *pid = Some(Pid::from_raw(started.cast_signed()));
                *self.group.lock().unwrap_or_else(PoisonError::into_inner) = *pid;
                self.changed.notify_all();
                ReaperMessage::Started(started)
            }
            Err(error) => ReaperMessage::NotStarted(error.to_string()),
        }
    }

    /// Kills what the process before has left running: with its port and its memory none could be started.
    fn end_remains(&self, ends: RestartEnds) -> Result<(), String> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).map(Pid::as_raw);
        let Some(group) = group else { return Ok(()) };
        let own = std::process::id().cast_signed();
        let remains = |stat: &proc::Stat| {
            !stat.has_ended() && (ends == RestartEnds::Tree || stat.group == group)
        };
        let begun = Instant::now();
        loop {
            let left: Vec<i32> = proc::descendants(own)
                .iter()
                .filter(|stat| remains(stat))
                .map(|stat| stat.pid)
                .collect();
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > GONE_WITHIN {
                return Err(format!(
                    "what the one before has left does not end: processes {left:?}"
                ));
            }
            for pid in left {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::sleep(LOOKS_EVERY);
        }
    }

    fn signal(&self, signal: i32) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(pid), Ok(signal)) = (*pid, Signal::try_from(signal)) {
            // Its number is its own until it is reaped, which is not done while we have the lock.
            let _ = killpg(pid, signal);
        }
    }

    fn stop(&self, signal: i32, within: Duration) {
        let Some(group) = *self.pid.lock().unwrap_or_else(PoisonError::into_inner) else { return };
        self.signal(signal);
        // One that is stopped would not see it.
        self.signal(Signal::SIGCONT as i32);
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(pid, within, |pid| pid.is_some());
        let pid = waited.unwrap_or_else(PoisonError::into_inner).0;
        // The rest of its group goes with it; what has left that may be meant to stay.
        let _ = killpg(group, Signal::SIGKILL);
        let _gone = self.changed.wait_while(pid, |pid| pid.is_some());
    }

    /// Reaps all that ends, and tells when it was the process itself.
    fn reap(&self, agent: &UnixStream) {
        loop {
            match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Ok(status) => {
                    let Some(ended) = status.pid() else { continue };
                    let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = waitpid(ended, None);
                    if *pid == Some(ended) {
                        *pid = None;
                        let _ = write_line(&mut &*agent, &how(status));
                        self.changed.notify_all();
                    }
                }
                Err(Errno::ECHILD) => {
                    // There is nothing to reap before the next is started.
                    let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
                    let _started = self.changed.wait_while(pid, |pid| pid.is_none());
                }
                Err(_) => {}
            }
        }
    }
}

fn how(status: WaitStatus) -> ReaperMessage {
    match status {
        WaitStatus::Signaled(_, signal, _) => ReaperMessage::Ended(None, Some(signal as i32)),
        WaitStatus::Exited(_, code) => ReaperMessage::Ended(Some(code), None),
        _ => ReaperMessage::Ended(None, None),
    }
}

fn spawn(launch: &Launch) -> io::Result<u32> {
    let (program, arguments) =
        launch.start.split_first().ok_or_else(|| io::Error::other("`start` names no program"))?;
    let log = File::options().create(true).append(true).open(&launch.log)?;
    let output = launch.output.as_ref().map_or_else(|| log.try_clone(), File::create)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(&launch.environment)
        .current_dir(&launch.directory)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(log)
        .process_group(0);
    // SAFETY: a system call that may be made between fork and exec, and allocates nothing.
    unsafe {
        // If the reaper itself is killed. It is started by the thread that lives as long as the reaper.
        command.pre_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    command.spawn().map(|child| child.id())
}
