//! What a manager and its agents say to each other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::ClockReading;
use crate::audit::UnloggedRequests;
use crate::experiment::{Fault, Limits, Stress, System};
use crate::load::{LoadEnd, LoadPlan};
use crate::record::{Happening, LoadSecond, SystemSecond};

/// What an agent is for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It makes requests.
    Client,
    /// It starts, watches and ends the system under test, on its host.
    System,
}

impl Role {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client agent",
            Self::System => "agent of the system",
        }
    }
}

/// What a manager tells an agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ManagerMessage {
    /// The agent is one of this run. Its first line.
    Welcome {
        /// How long the manager may say nothing before it is lost.
        lost_after: Duration,
    },
    /// Tell your clocks; ours showed this.
    Clock(ClockReading),
    /// To a client agent.
    Load(LoadCommand),
    /// To the agent of the system: something to do, under a number.
    System(u64, SystemCommand),
    /// The run is over.
    Leave,
}

/// What a client agent is told.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoadCommand {
    /// Be ready for this.
    Prepare {
        /// What is to be done, by all agents together.
        plan: Box<LoadPlan>,
        /// Which of them it is, from 0.
        agent: u32,
        /// How many there are.
        agents: u32,
        /// Whether the manager wants to know what became of each request.
        log: bool,
    },
    /// Begin when your steady clock shows this.
    Start(i64),
    /// Begin no more requests, and end.
    Stop,
}

/// What the agent of the system is told.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SystemCommand {
    /// So many free ports.
    Ports(u16),
    /// A cell begins: make the system ready for it. What was before is ended.
    Configure {
        /// With braces.
        system: Box<System>,
        /// What stands in their place.
        values: BTreeMap<String, String>,
        /// The cell's directory, if it is on the manager's host; else the agent makes one.
        directory: Option<PathBuf>,
        /// A probe that is not answered for so long has no answer.
        hang_after: Duration,
        /// What bounds programs and files.
        limits: Box<Limits>,
    },
    /// Start its processes, and wait until the probe is answered.
    Start,
    /// With this load's requests it is asked whether it lives, if the experiment says no other probe.
    Ask(Box<LoadPlan>),
    /// Tell each second from now on, and disturb it; the common start is when your steady clock shows this.
    Watch(i64, Box<Disturbance>),
    /// End a process and start it again, or all.
    Restart(Option<String>),
    /// What the process said last.
    LastWords(String),
    /// Probe no more, run this, and send what it writes.
    Output(Vec<String>),
    /// End its processes and all stress; send what they wrote, if the manager can't read it.
    Stop,
}

/// What is done to a system on its host while it is loaded.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Disturbance {
    /// To its processes.
    pub(crate) faults: Vec<Fault>,
    /// To its resources.
    pub(crate) stress: Vec<Stress>,
    /// For what is random in that.
    pub(crate) seed: u64,
}

/// What an agent tells its manager.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentMessage {
    /// Who it is. Its first line.
    Join {
        /// What it is for.
        role: Role,
        /// Its host, in words.
        host: String,
        /// Facts of its host, by name.
        environment: BTreeMap<String, String>,
    },
    /// Its clocks; those of the manager, as they came.
    Clock {
        /// The manager's.
        asked: ClockReading,
        /// Its own.
        shown: ClockReading,
    },
    /// The plan can be run.
    Prepared,
    /// A second of load.
    Load(Box<LoadSecond>),
    /// The load ended.
    LoadEnded(Result<LoadEnd, String>),
    /// Its log was sent, if that was asked for.
    LogSent(Result<(), String>),
    /// A second of the system.
    System(Box<SystemSecond>),
    /// Something happened to the system.
    Event {
        /// What its steady clock showed.
        at: i64,
        /// What happened.
        what: Happening,
    },
    /// What a command came to.
    Done(u64, Result<SystemAnswer, String>),
    /// A part of a file.
    Part {
        /// The file that it is a part of.
        of: FileKind,
        /// In base64.
        bytes: String,
    },
}

/// What a command to the agent of the system gives.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SystemAnswer {
    /// It was done.
    Nothing,
    /// Free ports.
    Ports(Vec<u16>),
    /// The cell's directory.
    Directory(PathBuf),
    /// The output was sent; what became of probes until then, and there are no more.
    Probed(UnloggedRequests),
    /// What a process said, if anything.
    Words(Option<String>),
}

/// A file that an agent sends.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileKind {
    /// What became of each request.
    Requests,
    /// What a process of the system wrote.
    Log(String),
    /// What a command wrote.
    Output,
}
