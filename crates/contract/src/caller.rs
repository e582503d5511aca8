//! Whoever can call a service: a client over a network, or the server itself in its own process.
//! Workflows, benches and tests call through [`Caller`] and do not know which.

use std::error::Error;
use std::fmt;
use std::pin::Pin;

use crate::call::{Argument, CallOptions, OutputChoice};
use crate::fault::Fault;
use crate::job::{JobFilter, JobId, JobPage, JobReport, KillResult, LogPage, LogStream};

/// A call under way. Dropping it gives up the answer, not what was begun: a job goes on.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// Told each time that a job's report was read.
pub type ProgressCallback<'a> = &'a mut (dyn FnMut(&JobReport) + Send);

/// The verbs of one service ([`crate::interface`]), for one principal. Files among the arguments stay
/// the caller's; those among the results last as long as their payloads.
pub trait Caller: Send + Sync {
    /// Runs an operation and waits for its results.
    fn call<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, Results>;

    /// Starts an operation as a job.
    fn spawn<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, JobId>;

    /// The results of a job of this operation that has ended; a fault `NotFinished` if it has not.
    /// `outputs` are chosen again, if any are.
    fn results<'a>(
        &'a self,
        operation: &'a str,
        job: JobId,
        outputs: Vec<OutputChoice>,
    ) -> CallFuture<'a, Results>;

    /// All there is to tell of a job.
    fn status(&self, job: JobId) -> CallFuture<'_, JobReport>;

    /// Waits until a job has ended, and tells how far it is meanwhile. How it ended is no error.
    fn wait<'a>(&'a self, job: JobId, progress: ProgressCallback<'a>) -> CallFuture<'a, JobReport>;

    /// Ends a job and all of its processes.
    fn kill(&self, job: JobId) -> CallFuture<'_, KillResult>;

    /// What a job's program wrote, from a byte on.
    fn log(&self, job: JobId, stream: LogStream, offset: u64) -> CallFuture<'_, LogPage>;

    /// The caller's jobs on this service, newest first.
    fn jobs(&self, filter: JobFilter) -> CallFuture<'_, JobPage>;

    /// Forgets an ended job and frees its space.
    fn remove(&self, job: JobId) -> CallFuture<'_, ()>;
}

/// What an operation gave.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The outputs, in the operation's order.
    pub outputs: Vec<Argument>,
    /// The job behind them, if the call had a key.
    pub job: Option<SubmittedJob>,
}

/// A job that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedJob {
    /// Its ID.
    pub id: JobId,
    /// It was there before, under the same key.
    pub existing: bool,
}

/// Why a call gave nothing.
#[derive(Debug)]
pub struct CallError {
    fault: Option<Fault>,
    source: Box<dyn Error + Send + Sync>,
}

impl CallError {
    /// An error of whoever calls; with the fault that the service gave, or would have given.
    pub fn new(fault: Option<Fault>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { fault, source: source.into() }
    }

    /// The service's fault; `None` if there was no answer.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The error as whoever called has it: a [`Fault`] in process, the client's own over a network.
    pub fn into_source(self) -> Box<dyn Error + Send + Sync> {
        self.source
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::new(Some(fault.clone()), fault)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
