//! The system under test on its host: its processes configured, started, watched, stopped and started again, and what
//! they use, second by second.
//!
//! Each process has a reaper of its own ([`reaper`]), by which it and all that it starts end when the agent does,
//! however that ends. A process is to stay in the foreground: one that puts itself into the background has ended for us.
//!
//! Reading order:
//!
//! - `process`: one process, from the agent's side
//! - `reaper`: the same from the other side
//! - `program`: one that configures it, or tells what it has done
//! - [`Sampler`]: what is used
//! - `proc`: where that is read

pub(crate) mod proc;
mod process;
pub(crate) mod program;
pub(crate) mod reaper;
mod sampler;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use self::process::SystemProcess;
use self::program::Program;
pub use self::program::ProgramError;
pub use self::sampler::Sampler;
use crate::experiment::System;
use crate::probe::Probe;
use crate::record::Happening;
use crate::subprocess::SubprocessCommand;

/// The process that is watched.
pub const SERVER: &str = "server";

/// Where processes' output stands in a cell's directory.
pub const LOGS: &str = "log";

/// What the configuring program's log and limit are called.
const CONFIGURE: &str = "configure";

/// Between two looks whether it is ready.
const READY_EVERY: Duration = Duration::from_millis(50);

/// Between two probes, if the experiment does not say.
const PROBES_EVERY: Duration = Duration::from_secs(1);

/// The last bytes of a log or of a program's errors that are looked at.
const TAIL: u64 = 64 << 10;

/// Something happened to the system.
#[derive(Clone, Debug)]
pub struct Happened {
    /// When it happened.
    pub at: Instant,
    /// What happened.
    pub what: Happening,
}

/// What the parts tell of what happens.
pub type Happenings = mpsc::UnboundedSender<Happened>;

/// The system under test.
#[derive(Debug)]
pub struct SystemUnderTest {
    system: System,
    directory: PathBuf,
    processes: BTreeMap<String, SystemProcess>,
    probe: Probe,
    happenings: Happenings,
}

/// Why something could not be done to the system.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A subprocess of ours can't be started.
    #[error("the reaper of process {process} cannot be started")]
    Reaper {
        /// The process of the system, by its name in the experiment.
        process: String,
        /// The system's error.
        source: io::Error,
    },
    /// The cell's directory can't be written.
    #[error("cannot make {}", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The configuring program came to nothing.
    #[error("system.configure")]
    Configure(#[from] ProgramError),
    /// A process can't be started.
    #[error("system.process.{process}: cannot start {program}: {why}")]
    NotStarted {
        /// Its name.
        process: String,
        /// Which program.
        program: String,
        /// What was wrong, for people.
        why: String,
    },
    /// A process ended before the system was ready.
    #[error("process {process} ended before the system was ready; its log ends with: {said}")]
    Ended {
        /// Its name.
        process: String,
        /// The end of its log.
        said: String,
    },
    /// It was not ready in time.
    #[error(
        "the probe had no right answer within {within:?} of the start (system.ready_within): {why}"
    )]
    NotReady {
        /// How long it had.
        within: Duration,
        /// The last answer.
        why: String,
    },
    /// There is no such process.
    #[error("there is no process {process}; the system has {}", known.join(", "))]
    NoSuchProcess {
        /// The name that was given.
        process: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It does not run, so nothing can be done to it.
    #[error("process {process} does not run")]
    NotRunning {
        /// Its name.
        process: String,
    },
    /// No such signal.
    #[error(
        "system.process.{process}.stop: {signal:?} is no signal: write its name, such as TERM or INT"
    )]
    NoSuchSignal {
        /// Of which process.
        process: String,
        /// What was written.
        signal: String,
    },
    /// Its reaper is gone.
    #[error("the reaper of process {process} is gone")]
    ReaperGone {
        /// The process of the system, by its name in the experiment.
        process: String,
    },
}

impl SystemUnderTest {
    /// The system of a cell: its braces are filled, its files and logs go to the cell's directory. What happens to it
    /// is told to `happenings`. Needs a tokio runtime about it. Nothing is started but the reapers.
    ///
    /// # Errors
    /// A signal that is none, a directory that can't be made, a reaper that can't be started.
    pub fn new(
        system: System,
        directory: &Path,
        subprocess: &SubprocessCommand,
        probe: Probe,
        happenings: Happenings,
    ) -> Result<Self, SystemError> {
        let logs = directory.join(LOGS);
        std::fs::create_dir_all(&logs)
            .map_err(|source| SystemError::Directory { path: logs.clone(), source })?;
        let mut processes = BTreeMap::new();
        for (name, settings) in &system.process {
            let log = logs.join(name);
            let process = SystemProcess::new(
                name,
                settings,
                (directory, log),
                subprocess,
                happenings.clone(),
            )?;
            processes.insert(name.clone(), process);
        }
        Ok(Self { system, directory: directory.to_owned(), processes, probe, happenings })
    }

    /// Runs the configuring program, if there is one (paper: the configuration manager), in the cell's directory. What it
    /// writes stands beside the logs of processes.
    ///
    /// # Errors
    /// It can't be started, says by its exit code that it failed, or takes longer than `within`.
    pub async fn configure(
        &self,
        subprocess: &SubprocessCommand,
        within: Duration,
    ) -> Result<(), SystemError> {
        if self.system.configure.is_empty() {
            return Ok(());
        }
        let log = self.directory.join(LOGS).join(CONFIGURE);
        let program = Program {
            words: &self.system.configure,
            directory: &self.directory,
            log: &log,
            output: None,
            within,
            limit: CONFIGURE,
        };
        Ok(program.run(subprocess).await?)
    }

    /// Starts its processes, in the order of their names, and waits until the probe is answered rightly.
    ///
    /// # Errors
    /// One can't be started, ends, or the probe is not answered within `ready_within`.
    pub async fn start(&self) -> Result<(), SystemError> {
        for process in self.processes.values() {
            process.start().await?;
        }
        self.ready().await
    }

    /// Ends a process and starts it again, or all of them, and waits until the probe is answered.
    ///
    /// # Errors
    /// As [`start`](Self::start), and if there is no such process.
    pub async fn restart(&self, process: Option<&str>) -> Result<(), SystemError> {
        let Some(name) = process else {
            self.stop().await?;
            return self.start().await;
        };
        let process = self.process(name)?;
        process.stop().await?;
        process.start().await?;
        self.ready().await
    }

    /// Whether a process runs.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn runs(&self, process: &str) -> Result<bool, SystemError> {
        Ok(self.process(process)?.seen().pid().is_some())
    }

    /// Sends a process and its process group a signal, by its number.
    ///
    /// # Errors
    /// If there is no such process.
    pub async fn signal(&self, process: &str, signal: i32) -> Result<(), SystemError> {
        self.process(process)?.signal(signal).await
    }

    /// Asks its processes to end, the last first, and kills those that do not. What they left running stays until the
    /// system is dropped.
    ///
    /// # Errors
    /// If a reaper is gone.
    pub async fn stop(&self) -> Result<(), SystemError> {
        for process in self.processes.values().rev() {
            process.stop().await?;
        }
        Ok(())
    }

    /// What they use, to be asked each second; the probe is made from now on. `port` is that of which connections are
    /// counted.
    pub fn sampler(&self, port: u16) -> Sampler {
        self.probe.repeat(self.system.probe.as_ref().map_or(PROBES_EVERY, |probe| probe.every));
        let processes = self.processes.iter();
        let processes = processes.map(|(name, process)| (name.clone(), process.seen())).collect();
        Sampler::new(processes, port, self.directory.clone(), self.probe.clone())
    }

    /// What a process's log says last that tells why it failed: its last line of an error, or else its last line.
    pub fn last_words(&self, process: &str) -> Option<String> {
        let log = self.directory.join(LOGS).join(process);
        last_words(&tail(&log).unwrap_or_default())
    }

    async fn ready(&self) -> Result<(), SystemError> {
        let within = self.system.ready_within;
        let mut why = "it was not asked".to_owned();
        let asked = tokio::time::timeout(within, async {
            loop {
                match self.probe.ask().await {
                    Ok(_) => return Ok(()),
                    Err(error) => why = error,
                }
                if let Some(process) = self.processes.values().find(|process| process.has_ended()) {
                    let process = process.name().to_owned();
                    let said = self.last_words(&process).unwrap_or_else(|| "nothing".to_owned());
                    return Err(SystemError::Ended { process, said });
                }
                tokio::time::sleep(READY_EVERY).await;
            }
        });
        asked.await.map_err(|_| SystemError::NotReady { within, why })??;
        let _ = self.happenings.send(Happened { at: Instant::now(), what: Happening::Ready });
        Ok(())
    }

    fn process(&self, name: &str) -> Result<&SystemProcess, SystemError> {
        self.processes.get(name).ok_or_else(|| SystemError::NoSuchProcess {
            process: name.to_owned(),
            known: self.processes.keys().cloned().collect(),
        })
    }
}

/// A signal by its name, with or without `SIG`.
fn signal_by_name(name: &str) -> Option<i32> {
    let name = name.trim().to_ascii_uppercase();
    let name = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(&name));
    name.parse::<Signal>().ok().map(|signal| signal as i32)
}

fn tail(log: &Path) -> io::Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut log = std::fs::File::open(log)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut text = Vec::new();
    log.take(TAIL).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn last_words(log: &str) -> Option<String> {
    // As Java, Python, C and Rust call what ends a program; the first of these tell more than the others.
    const MEMORY: [&str; 2] = ["OutOfMemory", "out of memory"];
    const ERROR: [&str; 7] =
        ["Exception", "Error", "error:", "panicked", "fatal", "FATAL", "Segmentation fault"];
    // Frames of a stack (Java's) have names of errors in them and tell nothing.
    let is_word = |line: &&str| !line.is_empty() && !line.starts_with("at ");
    let lines = || log.lines().rev().map(str::trim).filter(is_word);
    let with = |words: &[&str]| lines().find(|line| words.iter().any(|word| line.contains(word)));
    let telling = with(&MEMORY).or_else(|| with(&ERROR)).or_else(|| lines().next());
    telling.map(|line| line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_log_that_tells_most_is_found() {
        let log = "started\njava.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)\n\n";
        assert_eq!(last_words(log).as_deref(), Some("java.lang.OutOfMemoryError: Java heap space"));
        let later = format!(
            "{log}SEVERE: Servlet.service() threw Exception\n\tat a.ErrorValve.invoke(E.java:2)\n"
        );
        let memory = Some("java.lang.OutOfMemoryError: Java heap space");
        assert_eq!(last_words(&later).as_deref(), memory, "neither a frame nor what came of it");
        assert_eq!(last_words("one\ntwo\n").as_deref(), Some("two"));
        assert_eq!(last_words(" \n"), None);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_by_name("TERM"), Some(15));
        assert_eq!(signal_by_name("sigkill"), Some(9));
        assert_eq!(signal_by_name("HARD"), None);
    }
}
