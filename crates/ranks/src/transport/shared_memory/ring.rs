//! One direction of a pair: a ring of bytes with one writer and one reader.

#![expect(unsafe_code, reason = "bytes of memory that is shared")]

use std::sync::atomic::{Ordering, fence};

use crate::engine::record::bytes as bytes_of;
use crate::transport::shared_memory::segment::Segment;

/// A ring, and how far this process has come in it.
#[derive(Debug)]
struct Position {
    from: usize,
    to: usize,
    /// Bytes that this process has ever written or read.
    own: u64,
    /// What it knows that the other has.
    other: u64,
}

/// Its writer's end.
#[derive(Debug)]
pub(super) struct Writer(Position);

/// Its reader's end.
#[derive(Debug)]
pub(super) struct Reader {
    position: Position,
    /// Up to here the writer knows it.
    told: u64,
}

impl Writer {
    pub(super) fn new(from: usize, to: usize) -> Self {
        Self(Position { from, to, own: 0, other: 0 })
    }

    /// Copies what there is room for; how many bytes that was. [`Writer::publish`] shows them.
    pub(super) fn write(&mut self, segment: &Segment, bytes: &[u8]) -> usize {
        let position = &mut self.0;
        let capacity = segment.capacity();
        let used = |position: &Position| bytes_of(position.own.wrapping_sub(position.other));
        if capacity.saturating_sub(used(position)) < bytes.len() {
            position.other = segment.read(position.from, position.to).load(Ordering::Acquire);
        }
        let count = capacity.saturating_sub(used(position)).min(bytes.len());
        let mut copied = 0;
        while copied < count {
            let (place, room) = segment.bytes(position.from, position.to, position.own);
            let part = &bytes[copied..copied + room.min(count - copied)];
            // SAFETY: the reader is behind these bytes of the ring, and goes on to them when `written` says so; nobody else writes.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place, part.len()) };
            position.own = position.own.wrapping_add(part.len() as u64);
            copied += part.len();
        }
        count
    }

    /// Shows the reader what was written.
    pub(super) fn publish(&self, segment: &Segment) {
        segment.written(self.0.from, self.0.to).store(self.0.own, Ordering::Release);
    }

    /// The reader is to say when it has made room; whether there is some already.
    pub(super) fn starve(&self, segment: &Segment) -> bool {
        segment.starved(self.0.from, self.0.to).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.has_room(segment)
    }

    fn has_room(&self, segment: &Segment) -> bool {
        let read = segment.read(self.0.from, self.0.to).load(Ordering::Acquire);
        bytes_of(self.0.own.wrapping_sub(read)) < segment.capacity()
    }
}

impl Reader {
    pub(super) fn new(from: usize, to: usize) -> Self {
        Self { position: Position { from, to, own: 0, other: 0 }, told: 0 }
    }

    /// How many bytes can be read; `None` if the writer has written what it could not.
    pub(super) fn available(&mut self, segment: &Segment, wanted: usize) -> Option<usize> {
        let position = &mut self.position;
        let mut available = position.other.wrapping_sub(position.own);
        if available < wanted as u64 {
            position.other = segment.written(position.from, position.to).load(Ordering::Acquire);
            available = position.other.wrapping_sub(position.own);
        }
        usize::try_from(available).ok().filter(|&available| available <= segment.capacity())
    }

    /// Copies bytes that are available.
    pub(super) fn read(&mut self, segment: &Segment, into: &mut [u8]) {
        let position = &mut self.position;
        let mut copied = 0;
        while copied < into.len() {
            let (place, room) = segment.bytes(position.from, position.to, position.own);
            let part = room.min(into.len() - copied);
            // SAFETY: the writer has shown these bytes, and writes there again when `read` says so.
            unsafe { std::ptr::copy_nonoverlapping(place, into[copied..].as_mut_ptr(), part) };
            position.own = position.own.wrapping_add(part as u64);
            copied += part;
        }
    }

    /// Passes over bytes that are available.
    pub(super) fn skip(&mut self, count: usize) {
        self.position.own = self.position.own.wrapping_add(count as u64);
    }

    /// Bytes that the writer does not know to be free.
    pub(super) fn untold(&self) -> usize {
        bytes_of(self.position.own.wrapping_sub(self.told))
    }

    /// Tells the writer what was read; whether it waits for that.
    pub(super) fn release(&mut self, segment: &Segment) -> bool {
        let Position { from, to, own, .. } = self.position;
        if own == self.told {
            return false;
        }
        self.told = own;
        segment.read(from, to).store(own, Ordering::Release);
        fence(Ordering::SeqCst);
        let starved = segment.starved(from, to);
        starved.load(Ordering::Relaxed) != 0 && starved.swap(0, Ordering::Relaxed) != 0
    }
}
