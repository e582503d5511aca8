//! How a job ended, as it is persisted.

use std::time::Duration;

use fishplate_contract::{
    DataRef, Digest, Fault, FaultCode, JobId, JobState, LimitHit, PlacementMethod, Timestamp,
    Transfer, TransferState,
};
use serde::{Deserialize, Serialize};

use crate::executor::{ArrayBytes, Output, OutputContent, ProgramExit};
use fishplate_programs::output_choices::OutputChoices;

/// An end that is written down so much later was reached while nobody worked on the job.
const LATE: Duration = Duration::from_secs(60);

/// When to try again if the host had no process left for a program.
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);

/// The end of a job. It is written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Name of the final state ([`JobState::name`]).
    pub state: String,
    /// When it was reached, in milliseconds since 1970.
    pub ended: i64,
    /// When it was written down, if that was much later: nobody had seen it before. It is kept from
    /// then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noted: Option<i64>,
    /// Why it is not `done`: name of the fault's code, and its sentence.
    pub fault: Option<(String, String)>,
    /// The parameter the fault is about.
    pub parameter: Option<String>,
    /// The limit that the fault is about, if it is none of the program's: name and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<(String, String)>,
    /// How the program ended, if it was seen to.
    pub ending: Option<ProgramExit>,
    /// How the caller wants the outputs.
    #[serde(default, skip_serializing_if = "OutputChoices::is_plain")]
    pub answer: OutputChoices,
    /// Outputs that were delivered, or put into the job's session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<DeliveredOutput>,
    /// The program did well, and the fault is that an output could not be sent: outputs are there
    /// for whoever asks for them in another way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsent: bool,
    /// How transfers ended: of inputs, if they are why the job did; of outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferResult>,
}

/// An output that was brought somewhere before the job was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveredOutput {
    /// The parameter.
    pub name: String,
    /// The file's path in the workspace, where a glob found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where it is now.
    pub url: String,
    /// Its length in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// Its digest, as a member of a field of RFC 9530.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Until when the address stands, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

impl DeliveredOutput {
    /// What callers get.
    pub fn reference(&self) -> DataRef {
        let digest = self.digest.as_deref().and_then(Digest::from_field);
        DataRef { url: self.url.clone(), len: self.len, digest }
    }
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// The parameter.
    pub parameter: String,
    /// The other end: scheme and authority.
    pub peer: String,
    /// [`TransferState::name`].
    pub state: String,
    /// Bytes that are here, or there.
    pub bytes: u64,
    /// How many there were to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// [`PlacementMethod::name`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<String>,
    /// It was here before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// It is an output's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out: bool,
}

impl TransferResult {
    /// As a job's status tells it.
    pub fn transfer(&self) -> Transfer {
        Transfer {
            parameter: self.parameter.clone(),
            peer: self.peer.clone(),
            state: TransferState::from_name(&self.state).unwrap_or(TransferState::Failed),
            bytes: self.bytes,
            total: self.total,
            placed: self.placed.as_deref().and_then(PlacementMethod::from_name),
            cached: self.cached,
        }
    }
}

impl Completion {
    /// An end without a program that was seen to end.
    pub fn without_ending(state: JobState, code: FaultCode, message: &str, at: Timestamp) -> Self {
        Self {
            state: state.name().to_owned(),
            ended: at.0,
            noted: None,
            fault: Some((code.name().to_owned(), message.to_owned())),
            parameter: None,
            refused_by: None,
            ending: None,
            answer: OutputChoices::default(),
            sent: Vec::new(),
            unsent: false,
            transfers: Vec::new(),
        }
    }

    /// The end of a job whose data could not be moved, or whose program can't be started.
    pub fn of_fault(fault: Fault, at: Timestamp) -> Self {
        let mut end = Self::without_ending(JobState::Failed, fault.code, &fault.message, at);
        end.parameter = fault.parameter;
        end.refused_by = fault.limit.map(|limit| (limit.name, limit.value));
        end
    }

    /// Notes that it is written down now, if it was reached long before: its owner could not ask for
    /// it as long as no server worked on it.
    pub(crate) fn note(&mut self, now: Timestamp) {
        if now.since(Timestamp(self.ended)) >= LATE {
            self.noted = Some(now.0);
        }
    }

    /// When its program began, if that was seen to end.
    pub fn began(&self) -> Option<Timestamp> {
        self.ending.as_ref().map(|ending| Timestamp(ending.started))
    }

    /// From when on it is kept, in milliseconds since 1970.
    pub fn kept_from(&self) -> i64 {
        self.noted.unwrap_or(self.ended)
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

    /// Bytes of the outputs that are in memory when they go by value: those that are no files.
    pub fn in_memory(&self) -> u64 {
        let bytes = |output: &Output| match &output.content {
            OutputContent::Text(text) => text.len() as u64,
            OutputContent::TextFile { len, .. } => *len,
            OutputContent::Array { bytes: ArrayBytes::Inline(bytes), .. } => bytes.len() as u64,
            OutputContent::File { .. }
            | OutputContent::Archive { .. }
            | OutputContent::Array { .. } => 0,
        };
        self.outputs().iter().map(bytes).sum()
    }

    /// Bytes that the job's directory holds, if they were counted.
    pub fn disk(&self) -> Option<u64> {
        Some(self.ending.as_ref()?.collected.as_ref()?.disk)
    }

    /// The fault that callers get instead of results; `None` if it is done.
    pub fn fault(&self, job: JobId) -> Option<Fault> {
        let (code, message) = self.fault.as_ref()?;
        let code = FaultCode::from_name(code).unwrap_or(FaultCode::Internal);
        let mut fault = Fault::new(code, message.clone()).job(job);
        fault.parameter.clone_from(&self.parameter);
        fault.limit = self.limit();
        fault.retry_after = (code == FaultCode::Unavailable).then_some(RETRY_UNAVAILABLE);
        if let Some(ending) = &self.ending {
            fault.exit_code = ending.exit_code;
            fault.signal.clone_from(&ending.signal);
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
        if let Some((name, value)) = self.refused_by.clone() {
            return Some(LimitHit { name, value });
        }
        self.ending.as_ref().and_then(ProgramExit::limit_hit)
    }
}
