//! What a server and a runner say to each other over their socket: frames of a length (four
//! bytes, little end first) and JSON.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fishplate_contract::{JobId, LimitHit};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::executor::{ProgramExit, StartError};
use fishplate_programs::plan::Plan;
use fishplate_programs::program::command_line::ARGUMENTS_SIZE;

/// The version of this protocol. It is part of the socket's name, so that servers of different
/// versions on one data directory each have supervisors that understand them.
pub(super) const VERSION: u32 = 2;

/// An order that waited longer than this is not carried out, in milliseconds: whoever sent it may
/// have been taken for dead since.
pub(super) const ORDER_TIME: i64 = 10_000;

/// Largest frame: outputs that are values travel in it, each at most `value_size`.
const LARGEST_FRAME: usize = 1 << 30;

/// From a server to a runner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RunnerRequest<Order> {
    /// Run this.
    Start(Order),
    /// End what runs.
    Cancel,
}

/// A start, as a runner reads it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StartMessage {
    #[serde(with = "job_text")]
    pub(super) job: JobId,
    pub(super) fence: u64,
    pub(super) directory: PathBuf,
    /// When it was sent, in milliseconds since the boot.
    pub(super) sent: i64,
    /// Directory for control groups of jobs, if they are to be used.
    pub(super) cgroup: Option<PathBuf>,
    #[serde(with = "shared")]
    pub(super) plan: Rc<Plan>,
}

/// A start, as a server writes it.
#[derive(Debug, Serialize)]
pub(super) struct StartMessageRef<'a> {
    #[serde(with = "job_text")]
    pub(super) job: JobId,
    pub(super) fence: u64,
    pub(super) directory: &'a Path,
    pub(super) sent: i64,
    pub(super) cgroup: Option<&'a Path>,
    pub(super) plan: &'a Plan,
}

/// From a runner to a server.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum RunnerReply {
    /// The program runs, since this time in milliseconds since 1970.
    Started(i64),
    /// It has ended. Without a `Started` before it, it was started and has ended since.
    Ended(Box<ProgramExit>),
    /// It was not started.
    Refused(StartRefusal),
    /// It is started already, or somebody is about to: see the journal.
    Taken,
    /// This runner takes no more jobs; another will.
    Retired,
}

/// Why a job was certainly not started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum StartRefusal {
    ProgramMissing(String),
    StorageFull(String),
    Exhausted(String),
    /// With the limit's value.
    TooLong(String, String),
    NotStarted(String),
}

impl StartRefusal {
    /// The sentence in it.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::ProgramMissing(text)
            | Self::StorageFull(text)
            | Self::Exhausted(text)
            | Self::TooLong(text, _)
            | Self::NotStarted(text) => text,
        }
    }
}

impl From<StartRefusal> for StartError {
    fn from(refusal: StartRefusal) -> Self {
        match refusal {
            StartRefusal::ProgramMissing(text) => Self::ProgramMissing(text),
            StartRefusal::StorageFull(text) => Self::StorageFull(text),
            StartRefusal::Exhausted(text) => Self::Exhausted(text),
            StartRefusal::TooLong(message, value) => {
                let limit = LimitHit { name: ARGUMENTS_SIZE.to_owned(), value };
                Self::TooLong { message, limit }
            }
            StartRefusal::NotStarted(text) => Self::NotStarted(text),
        }
    }
}

/// Appends a frame to `to`.
pub(super) fn put<T: Serialize>(message: &T, to: &mut Vec<u8>) -> io::Result<()> {
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut *to, message)?;
    let length = u32::try_from(to.len() - start - 4)
        .ok()
        .filter(|length| *length as usize <= LARGEST_FRAME)
        .ok_or_else(|| io::Error::other("a message to or from a runner is too large"))?;
    to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Bytes as they come, frames as they are whole.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    bytes: Vec<u8>,
    taken: usize,
}

/// How much is read at once.
const CHUNK: usize = 16 << 10;

impl FrameReader {
    /// The next whole frame.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LARGEST_FRAME {
            return Err(io::Error::other("a message to or from a runner is too large"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + 4;
        self.taken = start + length;
        Ok(Some(&self.bytes[start..start + length]))
    }

    /// Room for more bytes; tell `FrameReader::filled` how many came.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * CHUNK {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(CHUNK);
        &mut self.bytes
    }

    /// Reads what there is, at most a chunk. Zero means the other side is gone.
    pub(super) fn read_from(&mut self, source: &mut impl Read) -> io::Result<usize> {
        let bytes = self.room();
        let before = bytes.len();
        bytes.resize(before + CHUNK, 0);
        let read = source.read(&mut bytes[before..]);
        bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }
}

mod shared {
    use super::{Deserialize as _, Deserializer, Plan, Rc, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(plan: &Rc<Plan>, to: S) -> Result<S::Ok, S::Error> {
        plan.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rc<Plan>, D::Error> {
        Plan::deserialize(from).map(Rc::new)
    }
}

mod job_text {
    use super::{Deserialize as _, Deserializer, JobId, Serializer};

    pub(super) fn serialize<S: Serializer>(job: &JobId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(job)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<JobId, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let mut wire = Vec::new();
        for reply in [RunnerReply::Started(7), RunnerReply::Taken, RunnerReply::Retired] {
            put(&reply, &mut wire).unwrap();
        }
        let mut frames = FrameReader::default();
        let mut seen: Vec<RunnerReply> = Vec::new();
        for byte in wire {
            frames.read_from(&mut [byte].as_slice()).unwrap();
            while let Some(frame) = frames.next().unwrap() {
                seen.push(serde_json::from_slice(frame).unwrap());
            }
        }
        assert_eq!(seen, [RunnerReply::Started(7), RunnerReply::Taken, RunnerReply::Retired]);
    }

    #[test]
    fn a_length_without_reason_is_refused() {
        let mut frames = FrameReader::default();
        frames.read_from(&mut [0xff; 8].as_slice()).unwrap();
        assert!(frames.next().is_err());
    }
}
