//! What a process knows of another.

use std::collections::BTreeMap;

use crate::engine::frame::ReceiveTarget;

/// Whether another process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// As far as we know.
    Alive,
    /// It left in order.
    Left,
    /// It failed.
    Failed,
}

/// What has become of a frame whose turn has not come.
#[derive(Debug)]
pub(crate) enum Early {
    /// Its payload is arriving.
    Arriving,
    /// It is here.
    Whole(ReceiveTarget),
    /// It is a part of a message, and in its buffer.
    Received,
}

/// Another process (or this one, which sends to itself too).
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) state: PeerState,
    /// Payloads up to this go to it at once, with credit.
    pub(crate) eager_limit: usize,
    /// Connections that carry the parts of a long message to it side by side.
    pub(crate) streams: usize,
    /// Messages that were sent to it, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The last sequence number sent to it.
    pub(crate) sent: u64,
    /// The last sequence number from it whose turn has come.
    pub(crate) begun: u64,
    /// Frames from it that came before their turn, and parts of messages until they are received.
    pub(crate) early: BTreeMap<u64, Early>,
    /// Credit used of what it grants us, in bytes since the beginning.
    pub(crate) credit_used: u64,
    /// Credit that it has given back, in bytes since the beginning.
    pub(crate) credit_returned: u64,
    /// Credit of its own that it has used, in bytes since the beginning.
    pub(crate) accepted: u64,
    /// Credit of its own that we have received, in bytes since the beginning.
    pub(crate) received: u64,
    /// What of `received` it has been told.
    pub(crate) announced: u64,
}

impl Peer {
    pub(crate) fn new(eager_limit: usize) -> Self {
        Self {
            state: PeerState::Alive,
            eager_limit,
            streams: 1,
            messages: 0,
            bytes: 0,
            sent: 0,
            begun: 0,
            early: BTreeMap::new(),
            credit_used: 0,
            credit_returned: 0,
            accepted: 0,
            received: 0,
            announced: 0,
        }
    }
}
