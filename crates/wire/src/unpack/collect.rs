//! Payloads as they come: small ones stay in memory, larger ones go to the sink, and one may go on to
//! whoever reads it while it arrives.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{FileHandle, Payload};

use crate::limits::WireLimits;
use crate::spool::SpoolSink;

/// How much of a message may still be held in memory.
pub(super) struct MemoryBudget {
    /// Of one payload.
    inline_size: usize,
    /// Of all payloads, what is left.
    left: usize,
    /// Of all payloads, what is held.
    used: usize,
    /// Nothing more is to be held.
    closed: bool,
    /// What is held of a payload is one block.
    contiguous: bool,
    /// Of a URL that refers to a part.
    name_length: usize,
    /// Bytes of the chunk at hand, all of which a slice of it keeps in memory.
    chunk: usize,
    /// Of the payload that is read while it arrives, what came since somebody looked.
    streamed: Vec<Bytes>,
    /// Somebody reads it.
    given: bool,
}

impl MemoryBudget {
    pub(super) fn new(limits: &WireLimits) -> Self {
        Self {
            inline_size: limits.inline_size,
            left: limits.inline_total,
            used: 0,
            closed: false,
            contiguous: false,
            name_length: limits.header_length,
            chunk: 0,
            streamed: Vec::new(),
            given: false,
        }
    }

    /// Holds each payload in one block.
    pub(super) fn make_contiguous(&mut self) {
        self.contiguous = true;
    }

    /// Somebody reads a payload while it arrives.
    pub(super) fn give(&mut self) {
        self.given = true;
    }

    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    /// What came of the payload that is read while it arrives.
    pub(super) fn take_streamed(&mut self) -> Vec<Bytes> {
        mem::take(&mut self.streamed)
    }

    /// A chunk of so many bytes has come.
    pub(super) fn begin_chunk(&mut self, bytes: usize) {
        self.chunk = bytes;
    }

    /// Bytes of payloads that are held in memory.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Holds no more than is held already: a payload to which more comes is spooled.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Spools payloads as early as by default, however much its limits would hold in memory.
    pub(super) fn narrow(&mut self) {
        self.inline_size = self.inline_size.min(WRITTEN);
    }

    fn has_room(&self, more: usize) -> bool {
        !self.closed && more <= self.left
    }

    fn take(&mut self, bytes: usize) {
        self.left -= bytes;
        self.used += bytes;
    }

    fn give_back(&mut self, bytes: usize) {
        self.left += bytes;
        self.used -= bytes;
    }

    /// Most bytes of a URL that refers to a part.
    pub(super) fn name_length(&self) -> usize {
        self.name_length
    }
}

/// One payload.
#[derive(Default)]
pub(super) struct PayloadCollector {
    /// What is kept as it came, as long as all of it is in memory.
    pieces: Vec<Bytes>,
    /// Bytes in `pieces`.
    kept: usize,
    /// What came in small pieces: it waits to be joined with the next. Of a payload that is one block, all of it
    /// from the second piece on.
    joined: Vec<u8>,
    held: Option<Arc<dyn FileHandle>>,
    /// It is read while it arrives: nothing of it is kept.
    streamed: bool,
}

/// Pieces below this length are joined; larger ones are passed on as they are, never copied, unless they shall be
/// one block.
pub(super) const JOINED: usize = 4 << 10;

/// Joined pieces become one of this length, unless they shall be one block.
pub(super) const WRITTEN: usize = 64 << 10;

impl PayloadCollector {
    /// Of a payload that is read while it arrives.
    pub(super) fn streamed() -> Self {
        Self { streamed: true, ..Self::default() }
    }

    pub(super) fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// Whether nothing was appended so far.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_none() && self.kept + self.joined.len() == 0
    }

    /// Appends a slice of the chunk at hand. It is kept or passed on without copying if it is large;
    /// but never a small slice that keeps a much larger chunk in memory.
    pub(super) fn push(
        &mut self,
        piece: Bytes,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) {
        if self.streamed {
            budget.streamed.push(piece);
            return;
        }
        self.make_room(piece.len(), budget, sink);
        let large = piece.len() >= JOINED;
        if large && (self.held.is_some() || piece.len() >= budget.chunk / 2) {
            self.keep(piece, budget, sink);
        } else {
            self.join(&piece, budget, sink);
        }
    }

    /// Appends bytes that nothing else keeps in memory.
    pub(super) fn push_own(
        &mut self,
        piece: Vec<u8>,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) {
        if self.streamed {
            budget.streamed.push(piece.into());
            return;
        }
        self.make_room(piece.len(), budget, sink);
        if piece.len() >= JOINED {
            self.keep(piece.into(), budget, sink);
        } else {
            self.join(&piece, budget, sink);
        }
    }

    /// Appends a small piece.
    pub(super) fn push_slice(
        &mut self,
        piece: &[u8],
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) {
        if self.streamed {
            budget.streamed.push(Bytes::copy_from_slice(piece));
            return;
        }
        self.make_room(piece.len(), budget, sink);
        self.join(piece, budget, sink);
    }

    /// Spools what there is if more of it would not stay in memory.
    fn make_room(&mut self, more: usize, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        let here = self.kept + self.joined.len();
        let stays = more == 0 || (here + more <= budget.inline_size && budget.has_room(more));
        if self.held.is_some() || stays {
            return;
        }
        budget.give_back(here);
        let held = sink.create();
        for piece in self.pieces.drain(..) {
            sink.write(&held, piece);
        }
        self.kept = 0;
        self.held = Some(held);
        self.flush(sink);
    }

    /// What is here is to be one block.
    fn is_block(&self, budget: &MemoryBudget) -> bool {
        budget.contiguous && self.held.is_none()
    }

    fn keep(&mut self, piece: Bytes, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        if self.is_block(budget) && !self.is_empty() {
            return self.join(&piece, budget, sink);
        }
        self.flush(sink);
        match &self.held {
            Some(held) => sink.write(held, piece),
            None => {
                budget.take(piece.len());
                self.kept += piece.len();
                self.pieces.push(piece);
            }
        }
    }

    fn join(&mut self, piece: &[u8], budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        let block = self.is_block(budget);
        if block && let Some(first) = self.pieces.pop() {
            self.kept = 0;
            self.joined = first.into();
        }
        self.joined.extend_from_slice(piece);
        if self.held.is_none() {
            budget.take(piece.len());
        }
        if self.joined.len() >= WRITTEN && !block {
            self.flush(sink);
        }
    }

    /// Makes a piece of what waits.
    fn flush(&mut self, sink: &mut dyn SpoolSink) {
        if self.joined.is_empty() {
            return;
        }
        let piece = Bytes::from(mem::take(&mut self.joined));
        match &self.held {
            Some(held) => sink.write(held, piece),
            None => {
                self.kept += piece.len();
                self.pieces.push(piece);
            }
        }
    }

    pub(super) fn finish(mut self, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) -> Payload {
        // It was over before anybody could read it.
        if self.streamed && !budget.given {
            self.pieces = budget.take_streamed();
        }
        if self.is_block(budget) {
            self.joined.shrink_to_fit();
        }
        self.flush(sink);
        match self.held {
            Some(held) => Payload::Spooled(held),
            None if self.pieces.len() <= 1 => {
                Payload::Inline(self.pieces.pop().unwrap_or_default())
            }
            None if budget.contiguous => Payload::Inline(self.pieces.concat().into()),
            None => Payload::Pieces(self.pieces.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Unused;

    impl SpoolSink for Unused {
        fn create(&mut self) -> Arc<dyn FileHandle> {
            panic!("all of it stays in memory")
        }

        fn write(&mut self, _to: &Arc<dyn FileHandle>, _data: Bytes) {}
    }

    fn budget() -> MemoryBudget {
        let most = 1 << 20;
        MemoryBudget::new(&WireLimits {
            inline_size: most,
            inline_total: most,
            ..WireLimits::default()
        })
    }

    #[test]
    fn large_pieces_stay_where_they_are_and_small_ones_are_joined() {
        let mut budget = budget();
        let mut collector = PayloadCollector::default();
        let chunk = Bytes::from(vec![7; 20_000]);
        budget.begin_chunk(chunk.len());
        collector.push(chunk.slice(..4), &mut budget, &mut Unused);
        collector.push_slice(b"ab", &mut budget, &mut Unused);
        collector.push(chunk.slice(4..), &mut budget, &mut Unused);
        collector.push_own(vec![8; JOINED], &mut budget, &mut Unused);
        let payload = collector.finish(&mut budget, &mut Unused);
        let pieces = payload.pieces().unwrap();
        let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [6, 19_996, JOINED]);
        assert_eq!(pieces[1].as_ptr(), chunk[4..].as_ptr());
        assert_eq!(budget.left, (1 << 20) - 20_002 - JOINED);
        assert_eq!(budget.used(), 20_002 + JOINED);
    }

    #[test]
    fn what_is_to_be_contiguous_is_one_block_and_no_copy_if_it_came_at_once() {
        let chunk = Bytes::from(vec![7; 100_000]);
        for more in 0..3 {
            let mut budget = budget();
            budget.make_contiguous();
            let mut collector = PayloadCollector::default();
            budget.begin_chunk(chunk.len());
            collector.push(chunk.slice(4..), &mut budget, &mut Unused);
            for _ in 0..more {
                collector.push_own(vec![8; JOINED], &mut budget, &mut Unused);
                collector.push_slice(b"ab", &mut budget, &mut Unused);
                collector.push(chunk.clone(), &mut budget, &mut Unused);
            }
            let len = 99_996 + more * (JOINED + 100_002);
            assert_eq!((budget.used(), budget.left), (len, (1 << 20) - len));
            let Payload::Inline(bytes) = collector.finish(&mut budget, &mut Unused) else {
                panic!("{more}: it is in pieces")
            };
            assert_eq!(bytes.as_ptr() == chunk[4..].as_ptr(), more == 0);
            let rest = [vec![8; JOINED], b"ab".to_vec(), chunk.to_vec()].concat();
            assert!(bytes == [chunk[4..].to_vec(), rest.repeat(more)].concat(), "{more}");
        }
    }

    #[test]
    fn a_block_that_grows_too_large_is_spooled() {
        let (mut budget, mut spool) = (budget(), SpoolFile::default());
        budget.make_contiguous();
        let (chunk, mut collector) = (Bytes::from(vec![7; 400_000]), PayloadCollector::default());
        budget.begin_chunk(chunk.len());
        (0..3).for_each(|_| collector.push(chunk.clone(), &mut budget, &mut spool));
        assert_eq!((budget.used(), budget.left), (0, 1 << 20));
        assert!(matches!(collector.finish(&mut budget, &mut spool), Payload::Spooled(_)));
        assert!(spool.0 == [7; 1_200_000]);
    }

    #[derive(Default)]
    struct SpoolFile(Vec<u8>);

    impl SpoolSink for SpoolFile {
        fn create(&mut self) -> Arc<dyn FileHandle> {
            Arc::new(Named)
        }

        fn write(&mut self, _to: &Arc<dyn FileHandle>, data: Bytes) {
            self.0.extend_from_slice(&data);
        }
    }

    #[derive(Debug)]
    struct Named;

    impl FileHandle for Named {
        fn path(&self) -> &std::path::Path {
            "payload".as_ref()
        }

        fn len(&self) -> u64 {
            0
        }

        fn keep(&self) {}
    }

    #[test]
    fn once_it_is_closed_what_grows_is_spooled_and_what_was_read_stays() {
        let (mut budget, mut spool) = (budget(), SpoolFile::default());
        let (mut whole, mut growing) = (PayloadCollector::default(), PayloadCollector::default());
        whole.push_slice(b"whole", &mut budget, &mut spool);
        growing.push_slice(b"gro", &mut budget, &mut spool);
        assert_eq!(budget.used(), 8);
        budget.close();
        growing.push_slice(b"wing", &mut budget, &mut spool);
        assert_eq!(budget.used(), 5);
        assert!(matches!(growing.finish(&mut budget, &mut spool), Payload::Spooled(_)));
        assert_eq!(spool.0, b"growing");
        assert!(
            matches!(whole.finish(&mut budget, &mut spool), Payload::Inline(bytes) if bytes == b"whole"[..])
        );
    }

    #[test]
    fn a_slice_does_not_keep_a_much_larger_chunk() {
        let mut budget = budget();
        let mut collector = PayloadCollector::default();
        let chunk = Bytes::from(vec![7; 100_000]);
        budget.begin_chunk(chunk.len());
        collector.push(chunk.slice(..JOINED), &mut budget, &mut Unused);
        let Payload::Inline(bytes) = collector.finish(&mut budget, &mut Unused) else { panic!() };
        assert_ne!(bytes.as_ptr(), chunk.as_ptr());
    }
}
