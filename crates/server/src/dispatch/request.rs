//! What is asked for, and what comes back.

use std::sync::Arc;

use fishplate_contract::{Argument, CallOptions, Exposed, JobId, Principal};
use fishplate_jobs::engine::EphemeralJob;

use crate::host::Hosted;

/// What a caller asks for.
#[derive(Debug)]
pub struct Request<'h> {
    /// The service.
    pub service: &'h Arc<Hosted>,
    /// The verb, one of the service's interface.
    pub exposed: &'h Exposed,
    /// What the verb takes.
    pub arguments: Vec<Argument>,
    /// What is wanted beside.
    pub options: CallOptions,
    /// Who asks.
    pub principal: Principal,
}

/// What a verb gave.
#[derive(Debug, Default)]
pub struct Reply {
    /// What the verb gives, in the order of its signature.
    pub outputs: Vec<Argument>,
    /// The job behind a call with a key, for who may want to ask for it again.
    pub job: Option<JobId>,
    /// The job behind a call without one, until the answer was sent.
    pub ephemeral: Option<EphemeralJob>,
}

impl From<Vec<Argument>> for Reply {
    fn from(outputs: Vec<Argument>) -> Self {
        Self { outputs, ..Self::default() }
    }
}
