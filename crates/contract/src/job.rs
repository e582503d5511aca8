//! Identity, states and reports of jobs.

use crate::call::Argument;
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

/// What `kill` did.
#[derive(Clone, Debug, PartialEq)]
pub struct KillResult {
    /// The job's state now.
    pub state: JobState,
    /// What was done, and how.
    pub message: String,
}

/// A stream of a job's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The bytes as UTF-8; what is not is replaced.
    pub text: String,
    /// The offset to ask for next, in bytes.
    pub next: u64,
    /// The job has ended and this was the rest.
    pub end: bool,
}

/// Which jobs are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only those in this state.
    pub state: Option<JobState>,
    /// How many at the most; the server's default is 100.
    pub limit: Option<u32>,
    /// The last job of the page before.
    pub after: Option<JobId>,
}

impl JobFilter {
    /// The same as the arguments of the verb `jobs`.
    pub fn arguments(&self) -> Vec<Argument> {
        let told = [
            ("state", self.state.map(|state| state.name().to_owned())),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("after", self.after.map(|after| after.to_string())),
        ];
        let told = told.into_iter().filter_map(|(name, text)| Some((name, text?)));
        told.map(|(name, text)| Argument::text(name, text)).collect()
    }
}

/// Some of the caller's jobs, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobReport>,
    /// There are more after these.
    pub more: bool,
}
