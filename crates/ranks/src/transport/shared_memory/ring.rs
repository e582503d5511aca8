//! One direction of a pair: a ring of records with one writer and one reader.
//!
//! A record is a word that says how many bytes follow, and these. It begins at a line of the processors' caches, and its word is written last.
//! The word behind it is 0 until the next record has been written. So who waits looks at the line that will bring the message: no counter
//! goes from one processor to the other before it. How much was read the writer looks up only when it knows of no room.

#![expect(unsafe_code, reason = "bytes of memory that is shared")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::engine::record::bytes as bytes_of;
use crate::transport::shared_memory::segment::Segment;

/// Of a cache: a record takes whole ones.
pub(super) const LINE: usize = 64;
/// Before the bytes of a record.
const WORD: usize = size_of::<u64>();

/// Bytes of the ring that a record of so many takes.
fn size_of_record(length: usize) -> usize {
    (WORD + length).next_multiple_of(LINE)
}

/// The longest record of a ring: the word behind it has to be somewhere.
pub(super) fn longest(segment: &Segment) -> usize {
    segment.capacity() - LINE - WORD
}

/// Its writer's end.
#[derive(Debug)]
pub(super) struct Writer {
    from: usize,
    to: usize,
    /// Bytes that were ever written, and those of them that it knows to be read.
    written: u64,
    read: u64,
}

/// Its reader's end.
#[derive(Debug)]
pub(super) struct Reader {
    from: usize,
    to: usize,
    /// Bytes that were ever read: who looks for work without a lock knows it too.
    read: Arc<AtomicU64>,
    /// Those of them that the writer can know to be read.
    told: u64,
}

impl Writer {
    pub(super) fn new(from: usize, to: usize) -> Self {
        Self { from, to, written: 0, read: 0 }
    }

    /// Writes a record of a head and as much of `rest` as there is room for; how much that was. `None` is no room for the head, or for
    /// a byte.
    pub(super) fn write(&mut self, segment: &Segment, head: &[u8], rest: &[u8]) -> Option<usize> {
        let length = head.len() + rest.len();
        if self.room(segment) < length {
            self.look(segment);
        }
        let length = length.min(self.room(segment));
        if length < head.len().max(1) {
            return None;
        }
        let rest = &rest[..length - head.len()];
        let word = segment.word(self.from, self.to, self.written);
        let start = self.written + WORD as u64;
        self.copy(segment, start, head);
        self.copy(segment, start + head.len() as u64, rest);
        self.written += size_of_record(length) as u64;
        segment.word(self.from, self.to, self.written).store(0, Ordering::Relaxed);
        word.store(length as u64, Ordering::Release);
        Some(rest.len())
    }

    fn copy(&self, segment: &Segment, at: u64, bytes: &[u8]) {
        let mut copied = 0;
        while copied < bytes.len() {
            let (place, room) = segment.bytes(self.from, self.to, at + copied as u64);
            let part = &bytes[copied..copied + room.min(bytes.len() - copied)];
            // SAFETY: the reader is behind these bytes of the ring, and goes on to them when the record's word says so; nobody else writes.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place, part.len()) };
            copied += part.len();
        }
    }

    /// The reader is to say when it has made room; whether there is room for a record of `least` bytes already.
    pub(super) fn starve(&mut self, segment: &Segment, least: usize) -> bool {
        segment.starved(self.from, self.to).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.look(segment);
        self.room(segment) >= least
    }

    /// Learns what was read.
    fn look(&mut self, segment: &Segment) {
        self.read = segment.read(self.from, self.to).load(Ordering::Acquire);
    }

    /// The longest record that it knows to have room.
    fn room(&self, segment: &Segment) -> usize {
        longest(segment).saturating_sub(bytes_of(self.written.wrapping_sub(self.read)))
    }
}

impl Reader {
    pub(super) fn new(from: usize, to: usize) -> Self {
        Self { from, to, read: Arc::default(), told: 0 }
    }

    /// How many bytes were read: see [`has_work`].
    pub(super) fn position(&self) -> Arc<AtomicU64> {
        self.read.clone()
    }

    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How long the next record is, if there is one; `None` if its writer has written what it could not.
    pub(super) fn next(&self, segment: &Segment) -> Option<usize> {
        let length = segment.word(self.from, self.to, self.read()).load(Ordering::Acquire);
        usize::try_from(length).ok().filter(|&length| length <= longest(segment))
    }

    /// Copies bytes of the next record, which has as many from `offset` on.
    pub(super) fn copy(&self, segment: &Segment, offset: usize, into: &mut [u8]) {
        let start = self.read() + (WORD + offset) as u64;
        let mut copied = 0;
        while copied < into.len() {
            let (place, room) = segment.bytes(self.from, self.to, start + copied as u64);
            let part = room.min(into.len() - copied);
            // SAFETY: the writer has shown these bytes, and writes there again when `read` says so.
            unsafe { std::ptr::copy_nonoverlapping(place, into[copied..].as_mut_ptr(), part) };
            copied += part;
        }
    }

    /// Goes on behind the next record, which is so long.
    pub(super) fn advance(&self, length: usize) {
        self.read.store(self.read() + size_of_record(length) as u64, Ordering::Relaxed);
    }

    /// Tells the writer what was read, if it waits for that or knows of little room; whether it waits.
    pub(super) fn release(&mut self, segment: &Segment) -> bool {
        let read = self.read();
        let untold = bytes_of(read - self.told);
        let starved = segment.starved(self.from, self.to);
        let is_little = untold < segment.capacity() / 8;
        if untold == 0 || is_little && starved.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.told = read;
        segment.read(self.from, self.to).store(read, Ordering::Release);
        fence(Ordering::SeqCst);
        starved.load(Ordering::Relaxed) != 0 && starved.swap(0, Ordering::Relaxed) != 0
    }
}

/// Whether a reader that is there has a record to read, or room of which its writer is to be told.
pub(super) fn has_work(segment: &Segment, from: usize, to: usize, read: &AtomicU64) -> bool {
    let read = read.load(Ordering::Relaxed);
    segment.word(from, to, read).load(Ordering::Acquire) != 0
        || segment.starved(from, to).load(Ordering::Relaxed) != 0
            && segment.read(from, to).load(Ordering::Relaxed) != read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_round_and_round() {
        let segment = Segment::open(Segment::create(2).unwrap(), 2).unwrap();
        let (mut writer, mut reader) = (Writer::new(0, 1), Reader::new(0, 1));
        let position = reader.position();
        let has_work = || has_work(&segment, 0, 1, &position);
        let longest = longest(&segment);
        let data: Vec<u8> = (0..=250).cycle().take(longest + 1).collect();
        for round in 1..400 {
            let length = 1 + round * 7919 % longest;
            let head = round % 60.min(length);
            assert!(!has_work());
            assert_eq!(reader.next(&segment), Some(0));
            let (first, second) = data[..length].split_at(head);
            assert_eq!(writer.write(&segment, first, second), Some(second.len()));
            assert!(has_work());
            // What is behind it has room as far as there is some, or not at all.
            let rest = longest.saturating_sub(size_of_record(length));
            assert_eq!(writer.write(&segment, &data[..rest + 1], b"more"), None);
            assert!(rest == 0 || writer.starve(&segment, rest));
            assert!(!writer.starve(&segment, rest + 1));
            if rest > 0 {
                assert_eq!(writer.write(&segment, &[], &data), Some(rest));
            }
            for length in [length, rest].into_iter().filter(|&length| length > 0) {
                assert_eq!(reader.next(&segment), Some(length));
                let mut got = vec![0; length];
                let (first, second) = got.split_at_mut(length / 2);
                reader.copy(&segment, 0, first);
                reader.copy(&segment, length / 2, second);
                assert_eq!(got, data[..length]);
                reader.advance(length);
            }
            assert!(has_work(), "the writer waits");
            assert!(reader.release(&segment));
            assert!(!reader.release(&segment), "it knows");
        }
        // A writer that counts what cannot be.
        segment.word(0, 1, position.load(Ordering::Relaxed)).store(u64::MAX, Ordering::Relaxed);
        assert_eq!(reader.next(&segment), None);
    }

    #[test]
    fn a_writer_that_waits_for_nothing_is_told_now_and_then() {
        let segment = Segment::open(Segment::create(2).unwrap(), 2).unwrap();
        let (mut writer, mut reader) = (Writer::new(0, 1), Reader::new(0, 1));
        let told = segment.read(0, 1);
        let mut before = 0;
        for _ in 0..100_000 {
            assert_eq!(writer.write(&segment, b"head", b"and rest"), Some(8), "it has room always");
            reader.advance(reader.next(&segment).unwrap());
            assert!(!reader.release(&segment));
            let now = told.load(Ordering::Relaxed);
            assert!(now == before || now - before >= segment.capacity() as u64 / 8);
            before = now;
        }
        assert!(before > 0);
    }
}
