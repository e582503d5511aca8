//! A process of the system under test, as the agent has it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::reaper::{Launch, ReaperCommand, ReaperMessage};
use super::{Happened, Happenings, SystemError, proc, signal_by_name};
use crate::experiment::Process;
use crate::record::Happening;
use crate::subprocess::{
    Subprocess, SubprocessCommand, SubprocessOrder, SubprocessReceiver, SubprocessSender,
};

/// A process and its reaper. When it is dropped, all that it started is killed.
#[derive(Debug)]
pub(super) struct SystemProcess {
    name: String,
    launch: Launch,
    stop: i32,
    stop_within: Duration,
    to: tokio::sync::Mutex<SubprocessSender>,
    seen: SeenProcess,
}

/// What is known of it, shared with who samples it.
#[derive(Clone, Debug)]
pub(super) struct SeenProcess {
    /// Its reaper, whose descendants are all that it started.
    pub(super) reaper: u32,
    pub(super) state: watch::Receiver<ProcessState>,
    /// A signal of ours may have killed it.
    killed: Arc<AtomicBool>,
    /// How many processes the kernel had killed for want of memory when this one was last seen alive.
    out_of_memory_kills: Arc<Mutex<u64>>,
}

/// Where a process is in its life.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ProcessState {
    /// Not started yet, or stopped when it was asked to.
    Stopped,
    /// It could not be started: why.
    NotStarted(String),
    /// It runs, under this ID.
    Running(u32),
    /// It has ended, unasked or not.
    Ended,
    /// Its reaper is gone.
    Lost,
}

impl SystemProcess {
    pub(super) fn new(
        name: &str,
        settings: &Process,
        (directory, log): (&Path, PathBuf),
        subprocess: &SubprocessCommand,
        happenings: Happenings,
    ) -> Result<Self, SystemError> {
        let stop = signal_by_name(&settings.stop).ok_or_else(|| SystemError::NoSuchSignal {
            process: name.to_owned(),
            signal: settings.stop.clone(),
        })?;
        let Subprocess { pid, to, from, .. } = subprocess
            .start(&SubprocessOrder::Reap)
            .map_err(|source| SystemError::Reaper { process: name.to_owned(), source })?;
        let (states, state) = watch::channel(ProcessState::Stopped);
        let seen = SeenProcess {
            reaper: pid,
            state,
            killed: Arc::default(),
            out_of_memory_kills: Arc::default(),
        };
        tokio::spawn(follow(from, name.to_owned(), seen.clone(), states, happenings));
        let launch = Launch {
            start: settings.start.clone(),
            environment: settings.environment.clone(),
            directory: directory.to_owned(),
            log,
            output: None,
            ends: settings.restart_ends,
        };
        let to = tokio::sync::Mutex::new(to);
        let stop_within = settings.stop_within;
        Ok(Self { name: name.to_owned(), launch, stop, stop_within, to, seen })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn seen(&self) -> SeenProcess {
        self.seen.clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.seen.state.borrow(), ProcessState::Ended | ProcessState::Lost)
    }

    /// Starts it, if it does not run.
    pub(super) async fn start(&self) -> Result<(), SystemError> {
        let before = self.seen.state.borrow().clone();
        if matches!(before, ProcessState::Running(_)) {
            return Ok(());
        }
        self.seen.killed.store(false, Ordering::Relaxed);
        self.seen.is_alive();
        let mut state = self.seen.state.clone();
        state.mark_unchanged();
        self.send(&ReaperCommand::Start(Box::new(self.launch.clone()))).await?;
        // It may have ended already; then it was started.
        let _ = state.changed().await;
        match &*state.borrow() {
            ProcessState::NotStarted(why) => Err(SystemError::NotStarted {
                process: self.name.clone(),
                program: self.launch.start.first().cloned().unwrap_or_default(),
                why: why.clone(),
            }),
            ProcessState::Lost => Err(self.lost()),
            _ => Ok(()),
        }
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn stop(&self) -> Result<(), SystemError> {
        let mut state = self.seen.state.clone();
        if *state.borrow() == ProcessState::Stopped {
            return Ok(());
        }
        let within = u64::try_from(self.stop_within.as_millis()).unwrap_or(u64::MAX);
        self.seen.killed.store(true, Ordering::Relaxed);
        self.send(&ReaperCommand::Stop(self.stop, within)).await?;
        let stopped =
            |state: &ProcessState| matches!(state, ProcessState::Stopped | ProcessState::Lost);
        match state.wait_for(stopped).await.as_deref() {
            Ok(ProcessState::Stopped) => Ok(()),
            _ => Err(self.lost()),
        }
    }

    pub(super) async fn signal(&self, signal: i32) -> Result<(), SystemError> {
        if signal == Signal::SIGKILL as i32 {
            self.seen.killed.store(true, Ordering::Relaxed);
        }
        self.send(&ReaperCommand::Signal(signal)).await
    }

    async fn send(&self, command: &ReaperCommand) -> Result<(), SystemError> {
        self.to.lock().await.send(command).await.map_err(|_| self.lost())
    }

    fn lost(&self) -> SystemError {
        SystemError::ReaperGone { process: self.name.clone() }
    }
}

impl SeenProcess {
    /// Its ID, if it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        match *self.state.borrow() {
            ProcessState::Running(pid) => Some(pid),
            _ => None,
        }
    }

    /// It is seen alive: what the kernel has killed so far was another.
    pub(super) fn is_alive(&self) {
        let mut kills = self.out_of_memory_kills.lock().unwrap_or_else(PoisonError::into_inner);
        *kills = proc::out_of_memory_kills();
    }

    /// Whether it was the kernel that killed it, for want of memory.
    fn was_out_of_memory(&self, signal: Option<i32>) -> bool {
        let before = *self.out_of_memory_kills.lock().unwrap_or_else(PoisonError::into_inner);
        signal == Some(Signal::SIGKILL as i32)
            && !self.killed.load(Ordering::Relaxed)
            && proc::out_of_memory_kills() > before
    }
}

/// Takes what a reaper tells, until it is gone.
async fn follow(
    mut from: SubprocessReceiver,
    process: String,
    seen: SeenProcess,
    states: watch::Sender<ProcessState>,
    happenings: Happenings,
) {
    let tell = |what| {
        // If nobody listens any more, the cell is over.
        let _ = happenings.send(Happened { at: Instant::now(), what });
    };
    while let Ok(Some(message)) = from.next().await {
        let state = match message {
            ReaperMessage::Started(pid) => {
                tell(Happening::Started { process: process.clone(), pid });
                ProcessState::Running(pid)
            }
            ReaperMessage::NotStarted(why) => ProcessState::NotStarted(why),
            ReaperMessage::Ended(code, signal) => {
                let out_of_memory = seen.was_out_of_memory(signal);
                tell(Happening::Ended { process: process.clone(), code, signal, out_of_memory });
                ProcessState::Ended
            }
            ReaperMessage::Stopped => ProcessState::Stopped,
        };
        states.send_replace(state);
    }
    if seen.pid().is_some() {
        // It had asked to be killed with its reaper.
        let signal = Some(Signal::SIGKILL as i32);
        tell(Happening::Ended { process, code: None, signal, out_of_memory: false });
    }
    states.send_replace(ProcessState::Lost);
}
