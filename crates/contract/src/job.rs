//! Identity, states and reports of jobs.

use crate::clock::Timestamp;
use crate::id::hex_id;
use crate::transfer::Transfer;

hex_id! {
    /// A job's name: 128 random bits as 32 lower-case hexadecimal digits. Unguessable, though a
    /// verb on a job checks its owner all the same.
    JobId, NotAJobId, "job"
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Accepted and durable; data that it refers to is being fetched.
    Fetching,
    /// Accepted and durable; waits for its turn.
    Queued,
    /// Claimed by an engine; its program is being started or runs.
    Running,
    /// Ended as its description calls success; its results are there.
    Done,
    /// Ended otherwise; the fault says how.
    Failed,
    /// Ended because somebody asked for it.
    Killed,
    /// It cannot be proved whether or how the program ran. Never run again on its own.
    Unknown,
}

impl JobState {
    /// Its name on every face.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetching => "fetching",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Fetching,
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Killed,
        Self::Unknown,
    ];

    /// The job will not change any more.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Fetching | Self::Queued | Self::Running)
    }
}

/// What a job has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time of the program and the children it waited for, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Largest resident memory seen of the tree, in bytes.
    pub max_memory: u64,
    /// Bytes in the job's workspace and logs at its end.
    pub disk: u64,
}

/// All that `status` tells of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// The job.
    pub id: JobId,
    /// The service it belongs to.
    pub service: String,
    /// The operation it runs.
    pub operation: String,
    /// Where it stands.
    pub state: JobState,
    /// Share done, 0 to 1, if the program tells (the service file's progress pattern).
    pub progress: Option<f64>,
    /// A sentence: what it waits for, why it failed, who killed it and how.
    pub message: String,
    /// When it was accepted.
    pub submitted: Timestamp,
    /// When its program was started.
    pub started: Option<Timestamp>,
    /// When it reached its final state.
    pub ended: Option<Timestamp>,
    /// The program's exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the program, such as `SIGSEGV`.
    pub signal: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// How its processes were ended: `cgroup` or `sweep`; empty if nothing had to be.
    pub ended_by: String,
    /// Data that came or went by reference, in the order of the parameters.
    pub transfers: Vec<Transfer>,
}
