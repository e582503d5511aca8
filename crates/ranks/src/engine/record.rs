//! What the engine remembers of requests and of messages without a receive.

use crate::buffer::ReceiveBuffer;
use crate::engine::frame::Payload;
use crate::error::Result;
use crate::group::Group;
use crate::header::{Header, Mode, Rank, RequestId, Tag};
use crate::matching::{MessageId, Pattern};

/// What a receive got (MPI 4.1, 3.2.5). `source` is a rank of the domain here, of the communicator above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who sent it; `None` for `PROC_NULL`, a send, or a cancelled receive.
    pub source: Option<Rank>,
    /// Its tag; `None` likewise.
    pub tag: Option<Tag>,
    /// Its length in bytes.
    pub length: usize,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// Of what had no message: a send, `PROC_NULL`.
    pub const EMPTY: Self = Self { source: None, tag: None, length: 0, cancelled: false };

    /// With the source as a communicator numbers it.
    #[must_use]
    pub fn within(self, group: &Group) -> Self {
        Self { source: self.source.and_then(|rank| group.rank_of(rank)), ..self }
    }

    /// How many elements of this size it had, if that is a whole number (`MPI_Get_count`).
    pub fn count(&self, size: usize) -> Option<usize> {
        (size > 0 && self.length.is_multiple_of(size)).then(|| self.length / size)
    }
}

/// What a probe sees of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sent it, in the domain.
    pub source: Rank,
    /// Its tag.
    pub tag: Tag,
    /// Its length in bytes.
    pub length: usize,
}

impl Envelope {
    pub(crate) fn of(header: &Header) -> Self {
        Self { source: header.from, tag: header.tag, length: bytes(header.length) }
    }

    pub(crate) fn status(self) -> Status {
        Status {
            source: Some(self.source),
            tag: Some(self.tag),
            length: self.length,
            cancelled: false,
        }
    }
}

/// A length of the wire in memory: we are on 64 bits, and what is longer could not be received.
pub(crate) fn bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// What a payload that arrives is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a receive.
    Receive(RequestId),
    /// A part of what a receive waits for.
    Part(RequestId),
    /// For an unexpected message.
    Message(MessageId),
    /// It came before its turn.
    Early,
    /// It comes a second time, while the first is arriving: whichever is whole first is received.
    Copy,
    /// For nobody.
    Nothing,
}

/// A request.
#[derive(Debug)]
pub(crate) enum Record {
    Send(SendRecord),
    Receive(ReceiveRecord),
    /// Something made of others, which whoever made it completes.
    Compound,
    Complete(Result<Status>),
}

impl ReceiveRecord {
    /// Bytes of its message that it takes.
    pub(crate) fn wanted(&self) -> usize {
        self.matched.map_or(0, |envelope| envelope.length.min(self.capacity))
    }
}

impl Record {
    /// A send that has to arrive though nobody waits for it: a buffered one, or one that was released.
    pub(crate) fn is_owed(&self) -> bool {
        matches!(self, Self::Send(send) if send.released && !send.abandoned)
    }
}

#[derive(Debug)]
pub(crate) struct SendRecord {
    pub(crate) to: Rank,
    pub(crate) tag: Tag,
    pub(crate) mode: Mode,
    /// What is sent when it is cleared to; taken then.
    pub(crate) payload: Option<Payload>,
    /// Its payload is under way.
    pub(crate) in_flight: bool,
    /// Frames of it that the receiver has to have yet, once it is.
    pub(crate) frames: usize,
    /// It need not arrive: its operation failed.
    pub(crate) abandoned: bool,
    /// Nobody asks for its outcome.
    pub(crate) released: bool,
}

#[derive(Debug)]
pub(crate) struct ReceiveRecord {
    pub(crate) pattern: Pattern,
    /// Where it goes; taken while it arrives, unless by parts.
    pub(crate) buffer: Option<ReceiveBuffer>,
    pub(crate) capacity: usize,
    /// Bytes of parts that have come or are arriving, and of those that are here.
    pub(crate) begun: usize,
    pub(crate) arrived: usize,
    /// The message that it got.
    pub(crate) matched: Option<Envelope>,
    /// Nobody asks for its outcome, and its buffer is gone.
    pub(crate) released: bool,
}

/// A message that came before its receive.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    /// An eager payload, once it is here.
    pub(crate) body: Option<Vec<u8>>,
    /// The receive that will get it when it is here.
    pub(crate) claimed: Option<RequestId>,
}
