//! What is asked for, and what comes back.

use std::sync::Arc;

use fishplate_contract::{
    Argument, CallOptions, Fault, FaultCode, JobPage, JobReport, KillResult, LogPage, Principal,
    Results, SubmittedJob, Verb, VerbDefinition,
};
use fishplate_jobs::engine::EphemeralJob;

use crate::host::ServiceEntry;

/// What a caller asks for.
#[derive(Debug)]
pub struct Request<'h> {
    /// The service.
    pub service: &'h Arc<ServiceEntry>,
    /// The verb, one of the service's interface.
    pub definition: &'h VerbDefinition,
    /// What the verb takes.
    pub arguments: Vec<Argument>,
    /// What is wanted beside.
    pub options: CallOptions,
    /// Who asks.
    pub principal: Principal,
}

/// What a verb gave.
#[derive(Debug)]
pub enum Reply {
    /// Of `call` and `results`.
    Results {
        /// The outputs, and the job that a call with a key was.
        results: Results,
        /// The job behind a call without a key, until the answer was sent.
        ephemeral: Option<EphemeralJob>,
    },
    /// Of `spawn`: the job.
    Spawned(SubmittedJob),
    /// Of `running`: whether the job has not ended.
    Running(bool),
    /// Of `kill`.
    Killed(KillResult),
    /// Of `status`.
    Status(Box<JobReport>),
    /// Of `log`.
    Log(LogPage),
    /// Of `jobs`.
    Jobs(JobPage),
    /// Of `remove`.
    Removed,
}

impl From<Vec<Argument>> for Reply {
    fn from(outputs: Vec<Argument>) -> Self {
        Self::Results { results: Results { outputs, job: None }, ephemeral: None }
    }
}

/// The fault of a reply that is another verb's.
pub fn unlike(verb: Verb) -> Fault {
    Fault::new(FaultCode::Internal, format!("{verb:?} gave what another verb gives"))
}
