//! What is started, and how it ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::status::{Deadlock, KnownRank};
use fishplate_ranks::{DomainId, Rank};
use nix::sys::signal::Signal;

/// The ranks of a domain, as they shall be started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Their programs; ranks are numbered through them.
    pub programs: Vec<Program>,
    /// Each line of output begins with its rank.
    pub label: bool,
    /// A rank that fails does not end the others.
    pub keep_going: bool,
    /// What has not ended by then is ended.
    pub timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL, when ranks are ended.
    pub kill_grace: Duration,
    /// The library of the MPI ABI, to which programs are led.
    pub library: Option<PathBuf>,
    /// Standard output goes to standard error.
    pub to_stderr: bool,
    /// What carries messages.
    pub transport: TransportKind,
    /// Where SOAP clients find domain, credential and addresses, as JSON, once all ranks have joined.
    pub endpoints: Option<PathBuf>,
}

/// Some ranks that run the same command.
#[derive(Clone, Debug)]
pub struct Program {
    /// How many.
    pub ranks: u32,
    /// A path, or a name that is looked for on PATH.
    pub program: OsString,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// Its working directory, if it is not the launcher's.
    pub directory: Option<PathBuf>,
    /// Variables besides the launcher's.
    pub environment: Vec<(OsString, OsString)>,
}

/// How all of it ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// The domain that the ranks were.
    pub domain: DomainId,
    /// Each of them.
    pub ranks: Vec<RankReport>,
    /// What went wrong first, if something did.
    pub cause: Option<Cause>,
    /// Processes that ranks had left running, and that were ended.
    pub swept: usize,
    /// The first deadlock that was seen.
    pub deadlock: Option<Deadlock>,
    /// What all ranks did when they were ended by SIGQUIT, or because it took too long.
    pub snapshot: Option<BTreeMap<Rank, KnownRank>>,
}

/// How a rank ended.
#[derive(Clone, Debug)]
pub struct RankReport {
    /// Its program.
    pub program: OsString,
    /// Its process's number.
    pub pid: i32,
    /// How its process ended.
    pub exit: RankExit,
    /// It joined the domain.
    pub joined: bool,
    /// It left the domain in order.
    pub left: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankExit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(Signal),
}

/// What went wrong first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A rank ended with a code that is not 0.
    Exit {
        /// The rank.
        rank: Rank,
        /// Its code.
        code: i32,
    },
    /// A rank was killed.
    Signal {
        /// The rank.
        rank: Rank,
        /// The signal.
        signal: Signal,
    },
    /// A rank ended without leaving the domain that it had joined.
    NotLeft {
        /// The rank.
        rank: Rank,
    },
    /// A rank ended all (`MPI_Abort`).
    Abort {
        /// The rank.
        rank: Rank,
        /// The code that it gave.
        code: i32,
    },
    /// The launcher was told to end.
    Interrupted {
        /// By this signal.
        signal: Signal,
    },
    /// It took too long.
    Timeout,
    /// Nobody reads the output any more.
    OutputClosed,
}

impl Report {
    /// The exit code of a command that did this, as of `mpiexec` and a shell: the first rank's that failed, 128 and the signal's number,
    /// what `MPI_Abort` was given; 124 when it took too long, as of `timeout`.
    pub fn exit_code(&self) -> u8 {
        self.cause.map_or(0, Cause::exit_code)
    }
}

impl Cause {
    /// The exit code of a command that ends so.
    pub fn exit_code(self) -> u8 {
        let of_signal = |signal: Signal| 128 + signal as i32;
        let code = match self {
            Self::Exit { code, .. } | Self::Abort { code, .. } => code,
            Self::Signal { signal, .. } | Self::Interrupted { signal } => of_signal(signal),
            Self::NotLeft { .. } => 1,
            Self::Timeout => 124,
            Self::OutputClosed => of_signal(Signal::SIGPIPE),
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }

    /// The rank that it is about.
    pub fn rank(self) -> Option<Rank> {
        match self {
            Self::Exit { rank, .. }
            | Self::Signal { rank, .. }
            | Self::NotLeft { rank }
            | Self::Abort { rank, .. } => Some(rank),
            Self::Interrupted { .. } | Self::Timeout | Self::OutputClosed => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit { rank, code } => write!(f, "rank {rank} ended with exit code {code}"),
            Self::Signal { rank, signal } => {
                write!(f, "rank {rank} was killed by signal {} ({signal})", *signal as i32)
            }
            Self::NotLeft { rank } => write!(
                f,
                "rank {rank} ended with exit code 0, but without leaving the domain (MPI_Finalize)"
            ),
            Self::Abort { rank, code } => {
                write!(f, "rank {rank} ended all ranks (MPI_Abort) with exit code {code}")
            }
            Self::Interrupted { signal } => write!(f, "the command was ended by {signal}"),
            Self::Timeout => f.write_str("it took longer than the time it was given"),
            Self::OutputClosed => f.write_str("nobody reads the output any more"),
        }
    }
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// There are none, or too many to be counted.
    #[error("{0} ranks can't be started: 1 or more can")]
    Count(u64),
    /// More ranks than this process may have pipes for.
    #[error(
        "{ranks} ranks need {needed} open files, and {allowed} are allowed: raise the hard limit (ulimit -Hn)"
    )]
    OpenFiles {
        /// How many.
        ranks: u32,
        /// What they need.
        needed: u64,
        /// What the system allows.
        allowed: u64,
    },
    /// A rank's process can't be started. Those that were are ended.
    #[error("rank {rank}: {} can't be started{}", program.display(), directory.as_ref().map(|at| format!(" in {}", at.display())).unwrap_or_default())]
    Start {
        /// The rank.
        rank: Rank,
        /// Its program.
        program: OsString,
        /// Where it was to work, if not here.
        directory: Option<PathBuf>,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses what the launcher needs.
    #[error("{what}")]
    System {
        /// What it needs.
        what: &'static str,
        /// Why it has it not.
        source: io::Error,
    },
}

impl LaunchError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
