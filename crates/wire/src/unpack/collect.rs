//! Payloads as they come: small ones stay in memory, larger ones go to the sink.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Held, Payload};

use crate::limits::WireLimits;
use crate::spool::SpoolSink;

/// How much of a message may still be held in memory.
pub(super) struct Room {
    /// Of one payload.
    inline_size: usize,
    /// Of all payloads, what is left.
    left: usize,
    /// Of a URL that refers to a part.
    name_length: usize,
}

impl Room {
    pub(super) fn new(limits: &WireLimits) -> Self {
        Self {
            inline_size: limits.inline_size,
            left: limits.inline_total,
            name_length: limits.header_length,
        }
    }

    /// Most bytes of a URL that refers to a part.
    pub(super) fn name_length(&self) -> usize {
        self.name_length
    }
}

/// One payload.
#[derive(Default)]
pub(super) struct Collector {
    /// The whole pieces so far, as long as all of it is small enough to be kept.
    pieces: Vec<Bytes>,
    /// Bytes of those pieces.
    kept: usize,
    /// What follows them; once the payload is spooled, what waits to be written.
    bytes: Vec<u8>,
    held: Option<Arc<dyn Held>>,
}

/// Pieces below this length are joined before they are written; larger ones are passed on as they
/// are, never copied.
pub(super) const JOINED: usize = 4 << 10;

/// Joined pieces are written at this length.
const WRITTEN: usize = 32 << 10;

/// In memory, pieces from this length on are kept as they are, never copied. Smaller ones are
/// copied: a piece keeps the whole chunk alive that it is a slice of, and chunks of a connection have
/// up to half a mebibyte.
const KEPT: usize = 64 << 10;

impl Collector {
    /// Appends a piece, which is passed on without copying if it is large.
    pub(super) fn push(&mut self, piece: Bytes, room: &mut Room, sink: &mut dyn SpoolSink) {
        match &self.held {
            Some(held) if piece.len() >= JOINED => {
                if !self.bytes.is_empty() {
                    sink.write(held, std::mem::take(&mut self.bytes).into());
                }
                sink.write(held, piece);
            }
            None if self.overflows(piece.len(), room) => {
                self.spill(room, sink);
                self.push(piece, room, sink);
            }
            None if piece.len() >= KEPT => {
                room.left -= piece.len();
                self.keep();
                self.kept += piece.len();
                self.pieces.push(piece);
            }
            _ => self.join(&piece, room, sink),
        }
    }

    /// Appends a small piece.
    pub(super) fn push_slice(&mut self, piece: &[u8], room: &mut Room, sink: &mut dyn SpoolSink) {
        if self.held.is_none() && self.overflows(piece.len(), room) {
            self.spill(room, sink);
        }
        self.join(piece, room, sink);
    }

    fn overflows(&self, more: usize, room: &Room) -> bool {
        more > 0 && (self.kept + self.bytes.len() + more > room.inline_size || more > room.left)
    }

    fn join(&mut self, piece: &[u8], room: &mut Room, sink: &mut dyn SpoolSink) {
        self.bytes.extend_from_slice(piece);
        match &self.held {
            None => {
                room.left -= piece.len();
                if self.bytes.len() >= KEPT {
                    self.keep();
                }
            }
            Some(held) if self.bytes.len() >= WRITTEN => {
                sink.write(held, std::mem::take(&mut self.bytes).into());
            }
            Some(_) => {}
        }
    }

    /// Makes a piece of what was joined.
    fn keep(&mut self) {
        if !self.bytes.is_empty() {
            self.kept += self.bytes.len();
            self.pieces.push(std::mem::take(&mut self.bytes).into());
        }
    }

    fn spill(&mut self, room: &mut Room, sink: &mut dyn SpoolSink) {
        self.keep();
        room.left += std::mem::take(&mut self.kept);
        let held = sink.create();
        for piece in std::mem::take(&mut self.pieces) {
            sink.write(&held, piece);
        }
        self.held = Some(held);
    }

    pub(super) fn finish(mut self, sink: &mut dyn SpoolSink) -> Payload {
        match self.held.take() {
            None => {
                self.keep();
                match self.pieces.len() {
                    0 | 1 => Payload::Inline(self.pieces.pop().unwrap_or_default()),
                    _ => Payload::Pieces(self.pieces.into()),
                }
            }
            Some(held) => {
                if !self.bytes.is_empty() {
                    sink.write(&held, self.bytes.into());
                }
                Payload::Spooled(held)
            }
        }
    }
}
