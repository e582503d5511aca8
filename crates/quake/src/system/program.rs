//! A program that is run to its end beside the system: one that configures it, one that tells what it has done. It has a
//! reaper as processes of the system have, so that it and all that it starts end with the agent, and when its time is over.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{interval, timeout};

use super::reaper::{Launch, ReaperCommand, ReaperMessage};
use super::tail;
use crate::subprocess::{Subprocess, SubprocessCommand, SubprocessOrder, SubprocessReceiver};

/// How often it is looked how much it has written.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Characters of what it says that are told.
const WORDS_LIMIT: usize = 200;

/// A program, and where what it writes goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'p> {
    /// It and its arguments.
    pub(crate) words: &'p [String],
    /// Where it works.
    pub(crate) directory: &'p Path,
    /// Its errors, and its output if that has no file of its own.
    pub(crate) log: &'p Path,
    /// Its output, and how many bytes that may be.
    pub(crate) output: Option<(&'p Path, u64)>,
    /// How long it may take,
    pub(crate) within: Duration,
    /// by the limit of this name.
    pub(crate) limit: &'static str,
}

/// Why a program came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There are no words.
    #[error("no program is named")]
    NoProgram,
    /// Its reaper can't be started, or is gone.
    #[error("the reaper of {program} cannot be used")]
    Reaper {
        /// The program, as the experiment names it.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// It can't be started.
    #[error("cannot start {program}: {why}")]
    NotStarted {
        /// The program, as the experiment names it.
        program: String,
        /// What was wrong, for people.
        why: String,
    },
    /// It failed.
    #[error("{program} ended with {status}: {said}")]
    Failed {
        /// The program, as the experiment names it.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last line that it wrote.
        said: String,
    },
    /// It was ended, for its time was over.
    #[error("{program} had not ended after {within:?} (limits.{limit})")]
    TooLong {
        /// The program, as the experiment names it.
        program: String,
        /// How long it had.
        within: Duration,
        /// By which limit.
        limit: &'static str,
    },
    /// It was ended, for it wrote too much.
    #[error("{program} wrote more than {most} bytes (limits.{limit}_size)")]
    TooMuch {
        /// The program, as the experiment names it.
        program: String,
        /// What it might have written.
        most: u64,
        /// By which limit.
        limit: &'static str,
    },
}

impl Program<'_> {
    /// Runs it to its end. If this is dropped before, it is killed with all that it has started.
    ///
    /// # Errors
    /// It can't be started, says by its exit code that it failed, takes too long or writes too much.
    pub(crate) async fn run(self, subprocess: &SubprocessCommand) -> Result<(), ProgramError> {
        let program = self.words.first().ok_or(ProgramError::NoProgram)?.clone();
        let reaper = |source| ProgramError::Reaper { program: program.clone(), source };
        let Subprocess { mut to, mut from, .. } =
            subprocess.start(&SubprocessOrder::Reap).map_err(reaper)?;
        let launch = ReaperCommand::Start(Box::new(self.launch()));
        to.send(&launch).await.map_err(reaper)?;
        let ended = tokio::select! {
            ended = timeout(self.within, ended(&mut from)) => ended,
            most = self.writes_too_much() => {
                return Err(ProgramError::TooMuch { program, most, limit: self.limit });
            }
        };
        let (within, limit) = (self.within, self.limit);
        let status = match ended {
            Err(_) => return Err(ProgramError::TooLong { program, within, limit }),
            Ok(Err(source)) => return Err(reaper(source)),
            Ok(Ok(Err(why))) => return Err(ProgramError::NotStarted { program, why }),
            Ok(Ok(Ok(status))) => status,
        };
        // It may have passed its limit since it was last looked at.
        if let Some((path, most)) = self.output
            && std::fs::metadata(path).is_ok_and(|file| file.len() > most)
        {
            return Err(ProgramError::TooMuch { program, most, limit });
        }
        if status.success() {
            return Ok(());
        }
        let said = tail(self.log).unwrap_or_default();
        let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let said = said.chars().take(WORDS_LIMIT).collect();
        Err(ProgramError::Failed { program, status, said })
    }

    fn launch(&self) -> Launch {
        Launch {
            start: self.words.to_vec(),
            environment: BTreeMap::new(),
            directory: self.directory.to_owned(),
            log: self.log.to_owned(),
            output: self.output.map(|(path, _)| path.to_owned()),
            ends: crate::experiment::RestartEnds::Group,
        }
    }

    /// Returns when it has written more than it may: what that is.
    async fn writes_too_much(&self) -> u64 {
        let Some((path, most)) = self.output else { return std::future::pending().await };
        let mut looks = interval(LOOKS_EVERY);
        loop {
            looks.tick().await;
            if std::fs::metadata(path).is_ok_and(|output| output.len() > most) {
                return most;
            }
        }
    }
}

/// How it ended, or why it was not started.
async fn ended(from: &mut SubprocessReceiver) -> io::Result<Result<ExitStatus, String>> {
    loop {
        match from.next().await? {
            Some(ReaperMessage::Ended(code, signal)) => {
                let status = (code.unwrap_or(0) << 8) | signal.unwrap_or(0);
                return Ok(Ok(ExitStatus::from_raw(status)));
            }
            Some(ReaperMessage::NotStarted(why)) => return Ok(Err(why)),
            Some(ReaperMessage::Started(_) | ReaperMessage::Stopped) => {}
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
