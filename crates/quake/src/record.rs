//! What was seen: the files of a run, and the types that parts of QUAKE hand each other.
//!
//! A run of an experiment is a directory:
//!
//! ```text
//! experiment.toml            as it was read, seed included
//! inputs.json                the digest of each file that it names
//! lock                       locked while a run writes here
//! cells/CELL/REPETITION/     one cell, once: CELL as in `Cell::name`, REPETITION from 1
//!     cell.json              [`Cell`]
//!     load.jsonl             [`LoadSecond`] a line, of each agent
//!     system.jsonl           [`SystemSecond`] a line
//!     events.jsonl           [`Event`] a line
//!     requests.bin           what became of each request, for audits
//!     log/PROCESS            what processes of the system wrote
//!     outcome.json           [`CellOutcome`]; it is there when the cell is complete, and not before
//! report.html, results.csv, series.csv, requests.csv, results.json
//! ```
//!
//! Times are seconds since the common start of the cell, by the manager's clock. [`RunDirectory`] reads and writes
//! the files, [`MergedSecond`] adds up what agents saw, [`histogram`] is the text that histograms have in them.

pub(crate) mod directory;
pub mod histogram;
mod merged;
mod plausibility;

use std::collections::BTreeMap;
use std::iter::Sum;
use std::time::Duration;

pub use directory::{CellDirectory, CellWriter, Lines, RecordError, RunDirectory};
pub use merged::{MergedSecond, Quantiles, corrected};

use serde::{Deserialize, Serialize};

/// A configuration of the system, once.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cell {
    /// The matrix's values, by name.
    pub values: BTreeMap<String, String>,
    /// From 1.
    pub repetition: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As in [`Outcomes`], likewise all others.
    Right,
    /// Too late.
    Late,
    /// WRONG.
    Wrong,
    /// ERROR.
    Error,
    /// REFUSED.
    Refused,
    /// No connection.
    Unreachable,
    /// Broken before its end.
    Broken,
    /// No answer.
    Unanswered,
    /// Left by the client.
    Abandoned,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Right,
        Self::Late,
        Self::Wrong,
        Self::Error,
        Self::Refused,
        Self::Unreachable,
        Self::Broken,
        Self::Unanswered,
        Self::Abandoned,
    ];

    /// Whether the server has done what was asked; none if nobody knows.
    pub fn is_done(self) -> Option<bool> {
        match self {
            Self::Right | Self::Late => Some(true),
            Self::Unreachable => Some(false),
            Self::Wrong
            | Self::Error
            | Self::Refused
            | Self::Broken
            | Self::Unanswered
            | Self::Abandoned => None,
        }
    }

    /// In a word, as records write it.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// What became of requests. Every request that was begun is in exactly one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Outcomes {
    /// Answered rightly within the deadline: goodput counts these alone.
    pub right: u64,
    /// Answered rightly, too late.
    pub late: u64,
    /// Answered with success, and not right (WRONG).
    pub wrong: u64,
    /// A fault, or a status of 4xx or 5xx that is no refusal (ERROR).
    pub error: u64,
    /// 503 or 429, or a fault that says that the server is busy: deliberate (REFUSED).
    pub refused: u64,
    /// No connection.
    pub unreachable: u64,
    /// The connection broke before the answer's end.
    pub broken: u64,
    /// No answer within ten deadlines; the client went on. At the end of the load, none within one.
    pub unanswered: u64,
    /// Sent in part only, as the experiment says (a half request): it tells nothing of the server.
    #[serde(default)]
    pub abandoned: u64,
}

impl Outcomes {
    /// How many had this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        let mut counts = *self;
        *counts.count_mut(outcome)
    }

    /// The same, to be changed.
    pub fn count_mut(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Right => &mut self.right,
            Outcome::Late => &mut self.late,
            Outcome::Wrong => &mut self.wrong,
            Outcome::Error => &mut self.error,
            Outcome::Refused => &mut self.refused,
            Outcome::Unreachable => &mut self.unreachable,
            Outcome::Broken => &mut self.broken,
            Outcome::Unanswered => &mut self.unanswered,
            Outcome::Abandoned => &mut self.abandoned,
        }
    }

    /// All that ended.
    pub fn total(&self) -> u64 {
        Outcome::ALL.iter().map(|outcome| self.count(*outcome)).sum()
    }
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        for outcome in Outcome::ALL {
            *self.count_mut(outcome) += other.count(outcome);
        }
    }
}

/// A second of an agent's load. `latency` counts from when a request should have begun (coordinated omission
/// corrected), `service` from when it did; both in microseconds, of right and late answers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct LoadSecond {
    /// Which agent, from 0.
    pub agent: u32,
    /// Since the common start; answers count in the second in which they ended.
    pub second: u32,
    /// Requests begun.
    pub begun: u64,
    /// Requests that should have begun and did not, because the agent could not (its most requests are under way).
    pub held_back: u64,
    /// Clients that go on making requests at its end: none once all requests are made, and none in a second in which the
    /// agent itself was away (it, or its host, stood still).
    #[serde(default)]
    pub clients: u32,
    /// Requests under way at its end.
    #[serde(default)]
    pub under_way: u64,
    /// Those among them that were due longer ago than the deadline.
    #[serde(default)]
    pub overdue: u64,
    /// What became of those that ended.
    pub outcomes: Outcomes,
    /// The same, by operation.
    pub operations: BTreeMap<String, Outcomes>,
    /// An HDR histogram (V2, deflated, base64); empty if nothing was answered.
    pub latency: String,
    /// The same, without the correction.
    pub service: String,
    /// How long requests without an answer had been due when they were given up (held back, unanswered, broken, unreachable):
    /// a histogram likewise, of no less than the deadline, before which nobody can say that an answer is too late.
    #[serde(default)]
    pub without_answer: String,
    /// How long refused requests waited for their refusal: a histogram likewise.
    #[serde(default)]
    pub refusal: String,
    /// Answers that opened a session (`Set-Cookie`) which their client, keeping no cookies, will never use again.
    #[serde(default)]
    pub dropped_sessions: u64,
    /// Bytes sent and received.
    pub bytes: (u64, u64),
    /// The longest that a request began after its time because the agent was late, in microseconds.
    pub lag: u64,
    /// The agent's own processor time, in microseconds.
    pub processor: u64,
    /// The agent's own resident memory, in bytes.
    pub memory: u64,
    /// Some of the second's explicit errors, in words: at most 3.
    pub said: Vec<String>,
    /// The numbers of requests whose answers were wrong, as far as they are named (`limits.named_requests`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_requests: Vec<u64>,
}

/// A second on the host of the system under test.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct SystemSecond {
    /// Since the common start.
    pub second: u32,
    /// The processes of the system, by the experiment's names; their children are counted with them.
    pub processes: BTreeMap<String, ProcessSample>,
    /// What they could still have by limits of their own, as of the same seconds in which connections are counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headroom: BTreeMap<String, Headroom>,
    /// Connections to the server's port that are established, as of the last count: one in ten seconds.
    pub connections: u64,
    /// The host's memory that is available, in bytes.
    pub memory_available: u64,
    /// Free on the file system of the cell's directory, in bytes.
    pub disk_free: u64,
    /// The host's processor time that was used, of all there is, 0 to 1.
    pub processor: f64,
    /// The probe's last answer: its time in microseconds, or what was wrong.
    pub probe: Option<Result<u64, String>>,
    /// What the watching itself used, in microseconds of processor time.
    pub watching: u64,
}

/// A process and its children.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ProcessSample {
    /// Of the process itself; another one after a restart.
    pub pid: u32,
    /// What all of them use.
    #[serde(flatten)]
    pub all: Resources,
    /// Of the process itself and of those children that have lived for [`LASTING`]: what a program leaves that ran for one
    /// call is none of its server's, and those that happen to run in a second hide what the server keeps.
    #[serde(default)]
    pub lasting: Option<Resources>,
    /// Processor time in this second, in microseconds.
    pub processor: u64,
}

/// From which age on a child counts as one that stays.
pub const LASTING: Duration = Duration::from_secs(5);

/// What processes use.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Resources {
    /// Anonymous memory, in bytes: what is resident, less what is of files or shared, which would count twice for
    /// children.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Sum for Resources {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, of| Self {
            memory: sum.memory + of.memory,
            threads: sum.threads + of.threads,
            descriptors: sum.descriptors + of.descriptors,
        })
    }
}

/// What a process and its children could still have before one of them reaches a limit of its own, and which; none if there
/// is no limit.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Headroom {
    /// Bytes of memory.
    pub memory: Option<(u64, String)>,
    /// Descriptors.
    pub descriptors: Option<(u64, String)>,
}

/// Something that happened.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Event {
    /// Seconds since the common start; negative before it.
    pub at: f64,
    /// What happened.
    pub what: Happening,
}

/// What can happen in a cell.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Happening {
    /// A process of the system was started.
    Started {
        /// Its name.
        process: String,
        /// Its ID.
        pid: u32,
    },
    /// The probe was answered for the first time since the start.
    Ready,
    /// A process ended.
    Ended {
        /// Its name.
        process: String,
        /// Its exit code, or
        code: Option<i32>,
        /// the signal that ended it.
        signal: Option<i32>,
        /// Whether the kernel ended it for want of memory.
        out_of_memory: bool,
    },
    /// A fault was injected.
    Fault {
        /// What was done, to which process.
        action: crate::experiment::FaultAction,
        /// The process.
        process: String,
    },
    /// A fault that was told before could not be injected.
    FaultFailed {
        /// What was to be done.
        action: crate::experiment::FaultAction,
        /// To which process.
        process: String,
        /// Why it was not, in words.
        why: String,
    },
    /// A stress began (`on`) or ended.
    Stress {
        /// The resource, by the experiment's word.
        resource: String,
        /// Whether it began.
        on: bool,
        /// What could not be had of it, in words.
        short: Option<String>,
    },
    /// The system failed.
    Failure(Failure),
    /// The first right answer after a failure.
    Answered,
    /// Goodput is back at 90 % of the baseline.
    Recovered,
    /// It was restarted before it failed.
    Rejuvenated {
        /// Why, in words.
        because: String,
    },
    /// An agent was lost.
    AgentLost {
        /// The agent's number.
        agent: u32,
    },
}

/// How a server fails (QUAKE's classes), the gravest first: what serves no more, what lies, what serves badly, what says so.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureClass {
    /// The process is gone, or its port refuses.
    Crash,
    /// It lives and gives no answer, and uses no processor time.
    Hang,
    /// It accepts, and goodput is below 1 % of the baseline while load is offered.
    Zombie,
    /// It answers with success, and not right.
    Wrong,
    /// Goodput is below 20 % of the baseline.
    Degraded,
    /// It answers with faults.
    Error,
    /// It refuses, deliberately.
    Refused,
}

/// A failure, as the watchdog saw it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failure {
    /// Of which class.
    pub class: FailureClass,
    /// Since when, by what was seen: seconds since the common start. `Event::at` is when it was said.
    pub since: f64,
    /// Answers that had been right until it was said.
    pub after_requests: u64,
    /// What speaks for it, in words: figures, a line of the log, the signal.
    pub cause: String,
    /// Whether there still were right answers in each second until it was said.
    #[serde(default)]
    pub still_answers: bool,
}

/// What a cell came to.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CellOutcome {
    /// Why it ended, in words.
    pub ended: String,
    /// How long it took, in seconds since the common start.
    pub seconds: f64,
    /// All requests of all agents.
    pub outcomes: Outcomes,
    /// The baseline: right answers a second, the median of the first seconds after the warm-up.
    pub baseline: f64,
    /// The audit, if there was one.
    pub audit: Option<AuditOutcome>,
    /// Where: processor, cores, memory, kernel, versions.
    pub environment: BTreeMap<String, String>,
    /// Offset of each agent's clock to the manager's, in seconds, and how sure it is.
    pub clocks: Vec<(f64, f64)>,
}

/// What the server holds against what its clients saw.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuditOutcome {
    /// Requests that were answered rightly.
    pub answered: u64,
    /// Of those, that the server has not done.
    pub lost: u64,
    /// That it has done more than once.
    pub doubled: u64,
    /// That it has done and nobody sent.
    pub invented: u64,
    /// They, one by one (`lost 5`): of each kind no more than `limits.named_requests`.
    pub examples: Vec<String>,
}
