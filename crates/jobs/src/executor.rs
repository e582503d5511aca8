//! Where plans run. An executor starts a plan in a workspace, tells how it stands, and ends it;
//! what it knows of a start is a handle: a string that is persisted with the job, so that another
//! process can go on where one was killed.
//!
//! A start is made at most once for a job and a fence. What an executor cannot prove, it says.

#[doc(hidden)]
pub mod conformance;
#[doc(hidden)]
pub mod fake;
pub mod local;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use fishplate_contract::{JobId, LimitHit, Timestamp, Usage};
use serde::{Deserialize, Serialize};

use fishplate_programs::plan::Plan;

/// The file of a job's directory in which an executor notes its run. A directory in which it holds more than a line's end is
/// that of a job, whatever became of its record (docs/decisions/0008).
pub const NOTE: &str = "run";

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where plans run.
pub trait Executor: Send + Sync {
    /// Starts a plan. Answers once the start is certain, or certain not to happen.
    fn start<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, Result<Handle, StartError>>;

    /// How these starts stand, in their order. One call for many: a batch system is asked once.
    fn observe<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Vec<Observation>>;

    /// What became of a start whose handle was not persisted: looked up by job and fence.
    fn locate<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, StartTrace>;

    /// Asks for the end of a job and all of its processes, as killed on request. Returns once the
    /// request is on its way; the end shows in [`Executor::observe`]. Asking again does no harm, and
    /// is needed if the job still runs much later than its grace.
    fn cancel<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, ()>;

    /// Whether a program that is started here can't write to inputs that are linked into its
    /// workspace ([`fishplate_contract::PlacementMethod::Link`]).
    fn guards_inputs(&self) -> bool;

    /// What is known of a job whose record was lost, by its directory: how it stands, and the fence under
    /// which it was last worked on (0: none is known). Blocks.
    ///
    /// # Errors
    /// If that can't be read.
    fn recovered(&self, directory: &Path) -> io::Result<(RecoveredRun, u64)>;

    /// Returns when something may have changed, so that observing is worth while. An executor that
    /// cannot tell never returns; engines observe from time to time all the same. For one waiter:
    /// a change that came while nobody waited is told to the next, changes in between count once.
    fn changed(&self) -> BoxFuture<'_, ()>;
}

/// What to start.
#[derive(Clone, Debug)]
pub struct StartOrder {
    /// The job.
    pub job: JobId,
    /// The fence of the claim under which it is started; a later claim has a larger one.
    pub fence: u64,
    /// The job's directory: the workspace is `work/` in it.
    pub directory: PathBuf,
    /// What to run.
    pub plan: std::sync::Arc<Plan>,
}

/// What an executor knows of a start, as a string to persist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle(pub String);

/// A start that did not happen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StartError {
    /// The program does not exist or may not be executed.
    #[error("{0}")]
    ProgramMissing(String),
    /// The disk is full.
    #[error("{0}")]
    StorageFull(String),
    /// The host has no process or descriptor left for it; when others have ended, it may.
    #[error("{0}")]
    Exhausted(String),
    /// Its arguments and its environment are longer than the system takes.
    #[error("{message}")]
    TooLong {
        /// What is too long.
        message: String,
        /// The limit.
        limit: LimitHit,
    },
    /// It certainly did not start; trying again may help.
    #[error("{0}")]
    NotStarted(String),
    /// It cannot be proved that it did not start.
    #[error("{0}")]
    Unproven(String),
}

/// What became of a start that nobody remembers.
#[derive(Clone, Debug, PartialEq)]
pub enum StartTrace {
    /// It never started: it is safe to start it.
    Never,
    /// It started.
    Started(Handle),
    /// It cannot be proved either way.
    Unproven(String),
}

/// How a start stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Submitted, but not running yet; the reason, as the batch system gives it.
    Waiting(String),
    /// Its program runs.
    Running {
        /// Since when.
        started: Timestamp,
    },
    /// Its program and all it left behind have ended.
    Ended(Box<ProgramExit>),
    /// Not known just now (a batch system that lags); ask again.
    Unclear(String),
    /// It certainly ended without success, though nobody saw how: with the machine, say. Why.
    Died(String),
    /// It is gone and left no proof of its end; why.
    Lost(String),
}

/// How a job stands whose record was lost.
#[derive(Clone, Debug, PartialEq)]
pub enum RecoveredRun {
    /// It was certainly not started.
    NotStarted,
    /// It runs, or is about to.
    Running,
    /// It has ended, and this was seen of it.
    Ended(Box<ProgramExit>),
    /// It was started, or may have been, and nobody saw its end.
    Unknown,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramExit {
    /// When its program was started.
    pub started: i64,
    /// When all of its processes had ended.
    pub ended: i64,
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it, such as `SIGSEGV`.
    pub signal: Option<String>,
    /// Killed on request.
    pub cancelled: bool,
    /// The limit it ran into, with its value: what stopped it.
    pub limit: Option<(String, String)>,
    /// How its processes were ended: `cgroup` or `sweep`; empty if nothing had to be.
    pub ended_by: String,
    /// How many processes were ended beside the program itself.
    pub swept: u32,
    /// Processor seconds, user and system.
    pub cpu_seconds: f64,
    /// Largest resident memory seen of the tree, in bytes.
    pub max_memory: u64,
    /// What was collected, if the executor did it where the job ran; else the engine does
    /// ([`crate::workspace::collect`]).
    pub collected: Option<Collected>,
}

impl ProgramExit {
    /// The limit as faults name it.
    pub fn limit_hit(&self) -> Option<LimitHit> {
        let (name, value) = self.limit.clone()?;
        Some(LimitHit { name, value })
    }

    /// What it used; `disk` is known once outputs are collected.
    pub fn usage(&self) -> Usage {
        Usage {
            cpu_seconds: self.cpu_seconds,
            max_memory: self.max_memory,
            disk: self.collected.as_ref().map_or(0, |collected| collected.disk),
        }
    }
}

/// What a job left in its workspace, judged by its plan ([``crate::workspace::collect`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// The outputs found, in the plan's order.
    pub outputs: Vec<Output>,
    /// The first thing that is not as the plan wants it: an output missing or not of its type.
    pub problem: Option<(String, String)>,
    /// A line of a log that means failure, if one matched.
    pub failure_line: Option<String>,
    /// The fault that the program told, where the plan says that it may.
    #[serde(default)]
    pub fault: Option<ProgramFault>,
    /// What standard error said last (at most 4 KiB).
    pub stderr_tail: String,
    /// Bytes in the job's directory.
    pub disk: u64,
}

/// A fault that a program told in the file that its plan names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramFault {
    /// Name of its code ([`fishplate_contract::FaultCode::name`]).
    pub code: String,
    /// Its sentence.
    pub message: String,
    /// The parameter that it is about.
    #[serde(default)]
    pub parameter: Option<String>,
}

/// An output found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Name of the parameter.
    pub name: String,
    /// The file's path in the workspace, where a glob found it.
    pub label: Option<String>,
    /// Its media type; empty if not told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// Its value.
    pub content: OutputContent,
}

/// Where an output's value is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OutputContent {
    /// A scalar or a short string: its text.
    Text(String),
    /// A string that is too long for a record: a file of the workspace that holds UTF-8.
    TextFile {
        /// Path in the workspace.
        path: String,
        /// Length in bytes.
        len: u64,
    },
    /// A file of the workspace, and its length in bytes.
    File {
        /// Path in the workspace.
        path: String,
        /// Length in bytes.
        len: u64,
    },
    /// A directory of the workspace, as an archive.
    Archive {
        /// Path in the job's directory.
        path: String,
        /// Length in bytes.
        len: u64,
    },
    /// An array of numbers.
    Array {
        /// Name of what it consists of ([`fishplate_contract::ElementType::name`]).
        element: String,
        /// Lengths of its axes.
        shape: Vec<u64>,
        /// Its elements, little-endian, in C order.
        bytes: ArrayBytes,
    },
}

/// Where the bytes of an array are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ArrayBytes {
    /// Here: they are few.
    Inline(#[serde(with = "fishplate_programs::plan::base64_bytes")] Vec<u8>),
    /// In a file.
    File {
        /// Path in the job's directory.
        path: String,
        /// Length in bytes.
        len: u64,
    },
}
