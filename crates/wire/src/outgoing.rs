//! The body of a packed message as it is sent: a list of segments, pulled piece by piece. What is
//! in a file is asked for, so that whoever drives it reads it where and when it likes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Held, Payload};

use crate::encode::{Encoder, Encoding};

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Segment {
    /// These bytes.
    Bytes(Bytes),
    /// Bytes of a payload, which is not a reference.
    Data {
        /// The payload.
        payload: Payload,
        /// Which of its bytes.
        range: Range<u64>,
        /// How they are sent.
        encoding: Encoding,
    },
}

impl Segment {
    /// All bytes of a payload.
    pub fn of(payload: &Payload, encoding: Encoding) -> Self {
        let range = 0..payload.len().unwrap_or_default();
        Self::Data { payload: payload.clone(), range, encoding }
    }

    /// Length in bytes as it is sent; `None` if only sending it tells.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Data { range, encoding, .. } => {
                encoding.len(range.end.saturating_sub(range.start))
            }
        }
    }

    /// It holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Its bytes, or those it is made of, are in memory.
    pub fn is_in_memory(&self) -> bool {
        match self {
            Self::Bytes(_) => true,
            Self::Data { payload, .. } => payload.pieces().is_some(),
        }
    }
}

/// What is next.
#[derive(Debug)]
pub enum Step {
    /// Send these bytes.
    Send(Bytes),
    /// Read these bytes of a file and give them to [`Outgoing::took`].
    Read {
        /// The file.
        held: Arc<dyn Held>,
        /// First byte.
        at: u64,
        /// How many: no fewer, because the length of the message may have been told.
        len: usize,
    },
}

/// A body as it is sent.
#[derive(Debug)]
pub struct Outgoing {
    segments: VecDeque<Segment>,
    /// The payload at hand.
    data: Option<Data>,
    chunk: usize,
}

#[derive(Debug)]
struct Data {
    payload: Payload,
    left: Range<u64>,
    /// The piece at hand of a payload in memory, and how much of it was sent.
    piece: usize,
    sent: usize,
    encoding: Encoding,
    encoder: Encoder,
}

impl Outgoing {
    /// The body that these segments make up, in chunks of about that length.
    pub fn new(segments: impl IntoIterator<Item = Segment>, chunk: usize) -> Self {
        Self { segments: segments.into_iter().collect(), data: None, chunk: chunk.max(1) }
    }

    /// Nothing of it is in a file: it never asks to read.
    pub fn is_in_memory(&self) -> bool {
        let at_hand = self.data.as_ref().is_none_or(|data| data.payload.pieces().is_some());
        at_hand && self.segments.iter().all(Segment::is_in_memory)
    }

    /// What is next; `None` at the end.
    pub fn step(&mut self) -> Option<Step> {
        loop {
            if let Some(data) = &mut self.data {
                match data.step(self.chunk) {
                    Some(step) => return Some(step),
                    None => self.data = None,
                }
            }
            match self.segments.pop_front()? {
                Segment::Bytes(bytes) if bytes.is_empty() => {}
                Segment::Bytes(bytes) => return Some(Step::Send(bytes)),
                Segment::Data { payload, range, encoding } => {
                    self.data = Some(Data::new(payload, range, encoding));
                }
            }
        }
    }

    /// The bytes that the last step asked for, as they are to be sent; may be none yet.
    pub fn took(&mut self, bytes: Vec<u8>) -> Bytes {
        match &mut self.data {
            None | Some(Data { encoder: Encoder::Raw, .. }) => bytes.into(),
            Some(data) => {
                let mut to = Vec::new();
                data.encoder.encode(&bytes, &mut to);
                to.into()
            }
        }
    }
}

impl Data {
    fn new(payload: Payload, left: Range<u64>, encoding: Encoding) -> Self {
        let encoder = encoding.encoder();
        let mut data = Self { payload, left, piece: 0, sent: 0, encoding, encoder };
        let mut skip = data.left.start;
        for piece in data.payload.pieces().unwrap_or_default() {
            let len = piece.len() as u64;
            if skip < len {
                break;
            }
            skip -= len;
            data.piece += 1;
        }
        data.sent = usize::try_from(skip).unwrap_or_default();
        data
    }

    fn step(&mut self, chunk: usize) -> Option<Step> {
        let raw = matches!(self.encoder, Encoder::Raw);
        loop {
            let left = self.left.end.saturating_sub(self.left.start);
            if left == 0 {
                return self.finish(chunk);
            }
            if let Payload::Spooled(held) = &self.payload {
                let len = usize::try_from(left).unwrap_or(chunk).min(chunk);
                let at = self.left.start;
                self.left.start += len as u64;
                return Some(Step::Read { held: held.clone(), at, len });
            }
            let most = if raw { usize::MAX } else { self.encoding.bytes_for(chunk) };
            let piece = self.next_piece(most)?;
            if raw {
                return Some(Step::Send(piece));
            }
            let mut to = Vec::new();
            self.encoder.encode(&piece, &mut to);
            // A piece may be too short to become anything yet.
            if !to.is_empty() {
                return Some(Step::Send(to.into()));
            }
        }
    }

    fn finish(&mut self, chunk: usize) -> Option<Step> {
        let mut to = Vec::new();
        while !self.encoder.finish(chunk, &mut to) && to.is_empty() {}
        (!to.is_empty()).then(|| Step::Send(to.into()))
    }

    /// The next bytes of a payload in memory, as many as stand in one piece.
    fn next_piece(&mut self, most: usize) -> Option<Bytes> {
        let pieces = self.payload.pieces()?;
        while pieces.get(self.piece)?.len() == self.sent {
            self.piece += 1;
            self.sent = 0;
        }
        let piece = &pieces[self.piece];
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let take = (piece.len() - self.sent).min(left).min(most);
        let taken = piece.slice(self.sent..self.sent + take);
        self.sent += take;
        self.left.start += take as u64;
        Some(taken)
    }
}
