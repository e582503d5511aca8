//! How a job ended, as it is persisted.

use fishplate_contract::{Fault, FaultCode, JobId, JobState, LimitHit, Timestamp};
use serde::{Deserialize, Serialize};

use crate::executor::{Ending, Output};

/// The end of a job. It is written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// Name of the final state ([`JobState::name`]).
    pub state: String,
    /// When it was reached, in milliseconds since 1970.
    pub ended: i64,
    /// Why it is not `done`: name of the fault's code, and its sentence.
    pub fault: Option<(String, String)>,
    /// The parameter the fault is about.
    pub parameter: Option<String>,
    /// How the program ended, if it was seen to.
    pub ending: Option<Ending>,
}

impl Conclusion {
    /// An end without a program that was seen to end.
    pub fn without_ending(state: JobState, code: FaultCode, message: &str, at: Timestamp) -> Self {
        Self {
            state: state.name().to_owned(),
            ended: at.0,
            fault: Some((code.name().to_owned(), message.to_owned())),
            parameter: None,
            ending: None,
        }
    }

    /// The final state.
    pub fn state(&self) -> JobState {
        JobState::from_name(&self.state).unwrap_or(JobState::Unknown)
    }

    /// What was collected.
    pub fn outputs(&self) -> &[Output] {
        self.ending
            .as_ref()
            .and_then(|ending| ending.collected.as_ref())
            .map_or(&[], |collected| collected.outputs.as_slice())
    }

    /// Bytes that the job occupies.
    pub fn disk(&self) -> u64 {
        self.ending.as_ref().map_or(0, |ending| ending.usage().disk)
    }

    /// The fault that callers get instead of results; `None` if it is done.
    pub fn fault(&self, job: JobId) -> Option<Fault> {
        let (code, message) = self.fault.as_ref()?;
        let code = FaultCode::from_name(code).unwrap_or(FaultCode::Internal);
        let mut fault = Fault::new(code, message.clone()).job(job);
        fault.parameter.clone_from(&self.parameter);
        if let Some(ending) = &self.ending {
            fault.exit_code = ending.exit_code;
            fault.signal.clone_from(&ending.signal);
            fault.limit = ending.limit_hit();
            let tail = ending.collected.as_ref().map(|collected| collected.stderr_tail.clone());
            fault.stderr = tail.filter(|tail| !tail.is_empty());
        }
        Some(fault)
    }

    /// A sentence for `status`.
    pub fn message(&self) -> &str {
        self.fault.as_ref().map_or("", |(_, message)| message)
    }

    /// The limit that stopped the job.
    pub fn limit(&self) -> Option<LimitHit> {
        self.ending.as_ref().and_then(Ending::limit_hit)
    }
}
