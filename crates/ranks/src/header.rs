//! What every message carries. An envelope of the operation `store` has an element for each field.

use std::fmt;

/// A rank: in the domain, or in a communicator.
pub type Rank = u32;
/// A message's tag: 0 and above.
pub type Tag = i32;

/// Receives from any rank of the communicator (`MPI_ANY_SOURCE`).
pub const ANY_SOURCE: Source = Source::Any;
/// Receives any tag (`MPI_ANY_TAG`).
pub const ANY_TAG: TagSelector = TagSelector::Any;
/// Nobody: what is sent there is gone at once, what is received from there is empty (`MPI_PROC_NULL`).
pub const PROC_NULL: ProcNull = ProcNull;

/// See [`PROC_NULL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcNull;

/// From whom a receive takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From this rank.
    Rank(Rank),
    /// From any.
    Any,
    /// From nobody.
    Null,
}

/// To whom a send goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To this rank.
    Rank(Rank),
    /// To nobody.
    Null,
}

/// Which tags a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSelector {
    /// This one.
    Tag(Tag),
    /// Any tag (`MPI_ANY_TAG`).
    Any,
}

impl From<Rank> for Source {
    fn from(rank: Rank) -> Self {
        Self::Rank(rank)
    }
}

impl From<ProcNull> for Source {
    fn from(_: ProcNull) -> Self {
        Self::Null
    }
}

impl From<Rank> for Destination {
    fn from(rank: Rank) -> Self {
        Self::Rank(rank)
    }
}

impl From<ProcNull> for Destination {
    fn from(_: ProcNull) -> Self {
        Self::Null
    }
}

impl From<Tag> for TagSelector {
    fn from(tag: Tag) -> Self {
        Self::Tag(tag)
    }
}

/// A communication domain's name: 128 bits that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DomainId([u8; 16]);

impl DomainId {
    /// The ID of these bits, which the caller drew at random.
    pub const fn from_bytes(bits: [u8; 16]) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DomainId({self})")
    }
}

/// A communicator's context: messages of one are never received in another (MPI 4.1, 7.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Context(pub u64);

impl Context {
    /// That of all ranks.
    pub const WORLD: Self = Self(0);

    /// The context that a communicator's leader makes with its counter. Counter 0 is the world's, 1 that of the
    /// rank alone.
    pub fn new(leader: Rank, counter: u32) -> Self {
        Self(u64::from(leader) << 33 | u64::from(counter) << 1)
    }

    /// The same communicator's context for collective operations.
    #[must_use]
    pub fn collective(self) -> Self {
        Self(self.0 | 1)
    }

    /// Whether it is for collective operations.
    pub fn is_collective(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A request of one process, as its peers name it. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

impl RequestId {
    /// A request that was complete when it began, and whose outcome says nothing.
    pub const DONE: Self = Self(Self::AT_ONCE);
    /// In the IDs of requests that are complete unless something is remembered of them.
    const AT_ONCE: u64 = 1 << 63;

    /// One of those, with this number.
    pub(crate) fn at_once(number: u64) -> Self {
        Self(number | Self::AT_ONCE)
    }

    /// Whether it is one of those.
    pub(crate) fn is_at_once(self) -> bool {
        self.0 & Self::AT_ONCE != 0
    }
}

/// A send's communication mode (MPI 4.1, 3.4). It matters to the receiver for synchronous sends only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Completes when the buffer may be used again.
    Standard = 0,
    /// Completes when its receive is matched.
    Synchronous = 1,
    /// Completes at once: the message is copied.
    Buffered = 2,
    /// The caller knows that the receive is posted.
    Ready = 3,
}

impl Mode {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::Standard, Self::Synchronous, Self::Buffered, Self::Ready];

    /// Its name in an envelope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Synchronous => "synchronous",
            Self::Buffered => "buffered",
            Self::Ready => "ready",
        }
    }
}

/// What a frame is to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message with its payload.
    Eager = 0,
    /// A message of `length` bytes, whose payload its sender keeps: the request `sender`.
    RequestToSend = 1,
    /// The receive `receiver` takes `length` bytes of the message of `sender`.
    ClearToSend = 2,
    /// The payload for `receiver`, or a part of it.
    Data = 3,
    /// The eager message of the synchronous send `sender` is matched.
    Matched = 4,
    /// So many bytes of eager messages have been received in all.
    Credit = 5,
    /// The rank in `tag` has failed.
    Failed = 6,
    /// The sender leaves the domain; its last frame.
    Leave = 7,
}

impl Kind {
    /// All of them, by number.
    pub const ALL: [Self; 8] = [
        Self::Eager,
        Self::RequestToSend,
        Self::ClearToSend,
        Self::Data,
        Self::Matched,
        Self::Credit,
        Self::Failed,
        Self::Leave,
    ];

    /// Its name in an envelope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::RequestToSend => "requestToSend",
            Self::ClearToSend => "clearToSend",
            Self::Data => "data",
            Self::Matched => "matched",
            Self::Credit => "credit",
            Self::Failed => "failed",
            Self::Leave => "leave",
        }
    }
}

/// All of it but the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The domain.
    pub domain: DomainId,
    /// The sender's rank in the domain.
    pub from: Rank,
    /// The receiver's rank in the domain.
    pub to: Rank,
    /// The communicator's context. Data has none: see [`Header::offset`].
    pub context: Context,
    /// The message's tag.
    pub tag: Tag,
    /// The frame's number among those of this pair, from 1.
    pub sequence: u64,
    /// How it was sent.
    pub mode: Mode,
    /// What it is.
    pub kind: Kind,
    /// Bytes; of what, `kind` says.
    pub length: u64,
    /// The sender's request, or 0.
    pub sender: RequestId,
    /// The receiver's request, or 0.
    pub receiver: RequestId,
}

impl Header {
    /// Bytes of a header between two of our own processes.
    pub const SIZE: usize = 72;

    /// Those of them that all headers from one rank to another begin with.
    pub const PAIR_SIZE: usize = 24;

    /// These bytes: domain, from-rank, to-rank.
    pub fn pair(domain: DomainId, from: Rank, to: Rank) -> [u8; Self::PAIR_SIZE] {
        let mut bytes = [0; Self::PAIR_SIZE];
        bytes[..16].copy_from_slice(domain.as_bytes());
        bytes[16..20].copy_from_slice(&from.to_le_bytes());
        bytes[20..].copy_from_slice(&to.to_le_bytes());
        bytes
    }

    /// Bytes of payload that follow it.
    pub fn payload_length(&self) -> u64 {
        if matches!(self.kind, Kind::Eager | Kind::Data) { self.length } else { 0 }
    }

    /// Of data: where in its message it begins, which the other kinds' context stands for.
    pub fn offset(&self) -> u64 {
        self.context.0
    }

    /// As bytes, little-endian, in the order of the fields.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let pair = Self::pair(self.domain, self.from, self.to);
        bytes[..Self::PAIR_SIZE].copy_from_slice(&pair);
        bytes[24..32].copy_from_slice(&self.context.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.tag.to_le_bytes());
        bytes[36] = self.mode as u8;
        bytes[37] = self.kind as u8;
        bytes[40..48].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.length.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.sender.0.to_le_bytes());
        bytes[64..72].copy_from_slice(&self.receiver.0.to_le_bytes());
        bytes
    }

    /// What [`Header::to_bytes`] wrote, or `None` if nobody could have written that.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
            let mut part = [0; N];
            part.copy_from_slice(&bytes[offset..offset + N]);
            part
        }
        Some(Self {
            domain: DomainId(at(bytes, 0)),
            from: u32::from_le_bytes(at(bytes, 16)),
            to: u32::from_le_bytes(at(bytes, 20)),
            context: Context(u64::from_le_bytes(at(bytes, 24))),
            tag: i32::from_le_bytes(at(bytes, 32)),
            mode: *Mode::ALL.get(usize::from(bytes[36]))?,
            kind: *Kind::ALL.get(usize::from(bytes[37]))?,
            sequence: u64::from_le_bytes(at(bytes, 40)),
            length: u64::from_le_bytes(at(bytes, 48)),
            sender: RequestId(u64::from_le_bytes(at(bytes, 56))),
            receiver: RequestId(u64::from_le_bytes(at(bytes, 64))),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_that_are_a_header_are_it_again(mut bytes in proptest::collection::vec(any::<u8>(), Header::SIZE)) {
            // What is no mode or kind is refused; most random bytes are.
            bytes[36] %= 5;
            bytes[37] %= 9;
            bytes[38..40].fill(0);
            let bytes: [u8; Header::SIZE] = bytes.try_into().unwrap();
            let header = Header::from_bytes(&bytes);
            prop_assert_eq!(header.is_some(), bytes[36] < 4 && bytes[37] < 8);
            if let Some(header) = header {
                prop_assert_eq!(header.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn contexts_of_different_leaders_and_counters_differ() {
        let all: std::collections::HashSet<_> = (0..9)
            .flat_map(|leader| (0..9).map(move |counter| Context::new(leader, counter)))
            .collect();
        assert_eq!(all.len(), 81);
        assert!(
            all.iter()
                .all(|context| !context.is_collective() && context.collective().is_collective())
        );
        assert_eq!(Context::new(0, 0), Context::WORLD);
    }
}
