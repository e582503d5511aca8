//! What engine and transport exchange.

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::engine::record::{Purpose, bytes as bytes_of};
use crate::header::{Header, RequestId};

/// A payload on its way out.
#[derive(Debug)]
pub enum Payload {
    /// No bytes.
    Empty,
    /// A copy of the caller's.
    Owned(Vec<u8>),
    /// The caller's memory: until its request is told that it was sent, or, of a frame without a request, until
    /// [`crate::transport::Transport::send`] returns. The process hands all frames over before a call of its caller returns, and before a
    /// schedule passes a wait.
    Borrowed(SendBuffer),
}

impl Payload {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Owned(bytes) => bytes,
            Self::Borrowed(buffer) => buffer.bytes(),
        }
    }

    /// Some of them.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Owned(bytes) => Self::Owned(bytes[range].into()),
            Self::Borrowed(buffer) => Self::Borrowed(buffer.part(range)),
        }
    }

    /// Makes it independent of the caller's memory.
    pub fn detach(&mut self) {
        self.detach_into(Vec::new);
    }

    /// The same, with memory that was used before.
    pub fn detach_into(&mut self, memory: impl FnOnce() -> Vec<u8>) {
        if let Self::Borrowed(buffer) = self {
            let mut bytes = memory();
            bytes.clear();
            bytes.extend_from_slice(buffer.bytes());
            *self = Self::Owned(bytes);
        }
    }
}

/// A header and its payload, for a transport to carry to `header.to`.
#[derive(Debug)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// The payload, of [`Header::payload_length`] bytes.
    pub payload: Payload,
    /// Who is to be told ([`crate::Engine::sent`](super::Engine::sent)) when the receiver has all of this frame.
    pub request: Option<RequestId>,
    /// An eager send that is complete if the frame is carried at once ([`crate::Engine::delay`](super::Engine::delay)).
    pub eager: Option<RequestId>,
}

/// Where a payload goes.
#[derive(Debug)]
pub(crate) enum PayloadBuffer {
    /// Into the posted buffer.
    Posted(ReceiveBuffer),
    /// Into new memory, which is had when the first of it is read.
    Fresh(Vec<u8>),
    /// It is not wanted.
    Nowhere,
}

/// A frame whose payload is arriving: it is filled by a transport and given back to the engine.
#[derive(Debug)]
#[must_use = "a target that is not finished is a lost message"]
pub struct ReceiveTarget {
    pub(crate) header: Header,
    pub(crate) place: PayloadBuffer,
    pub(crate) purpose: Purpose,
}

impl ReceiveTarget {
    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Memory for the payload from `offset` to its end, or `None` if it is not wanted: then its bytes are
    /// read and dropped.
    pub fn rest(&mut self, offset: usize) -> Option<&mut [u8]> {
        match &mut self.place {
            PayloadBuffer::Posted(buffer) => Some(&mut buffer.bytes()[offset..]),
            PayloadBuffer::Fresh(bytes) => {
                if bytes.is_empty() {
                    *bytes = vec![0; bytes_of(self.header.payload_length())];
                }
                Some(&mut bytes[offset..])
            }
            PayloadBuffer::Nowhere => None,
        }
    }

    /// No receive was posted for the message.
    pub fn is_unexpected(&self) -> bool {
        matches!(self.purpose, Purpose::Message(_))
    }

    /// Stops using the memory of this request.
    pub fn detach(&mut self, request: RequestId) {
        let is_for =
            matches!(self.purpose, Purpose::Receive(it) | Purpose::Part(it) if it == request);
        if is_for && matches!(self.place, PayloadBuffer::Posted(_)) {
            self.place = PayloadBuffer::Nowhere;
        }
    }
}
