//! A payload whose length nobody knows, as chunks: a record each (draft-nielsen-dime-02, section 2.2).

use std::sync::Arc;

use super::{ALIGNED, RecordHeader, UNCHANGED, padding};

/// The record that begins such a payload: all but the length of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRecord {
    pub(super) header: RecordHeader,
    pub(super) id: String,
    pub(super) kind: String,
}

/// Writes the records. The last bytes wait, so that the last record has some: an empty one is allowed, but
/// hardly any other writer makes it.
#[derive(Debug)]
pub struct RecordEncoder {
    first: Arc<FirstRecord>,
    begun: bool,
    ended: bool,
    /// One byte to four, once there were any.
    waiting: Vec<u8>,
}

impl RecordEncoder {
    pub(crate) fn new(first: Arc<FirstRecord>) -> Self {
        Self { first, begun: false, ended: false, waiting: Vec::new() }
    }

    /// Appends a record of all these bytes but the last.
    pub(crate) fn encode(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        let all = self.waiting.len() + bytes.len();
        // Chunks end where no padding is due.
        let data = all.saturating_sub(1) / ALIGNED as usize * ALIGNED as usize;
        if data == 0 {
            self.waiting.extend_from_slice(bytes);
            return;
        }
        let (now, later) = bytes.split_at(data - self.waiting.len());
        let waiting = std::mem::replace(&mut self.waiting, later.to_vec());
        to.reserve(data + 128);
        let (first, rest) = now.split_at(now.len().min(LARGEST - waiting.len()));
        self.record(&waiting, first, true, to);
        for chunk in rest.chunks(LARGEST) {
            self.record(&[], chunk, true, to);
        }
    }

    /// Appends the last record, once.
    pub(crate) fn finish(&mut self, to: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.ended, true) {
            let last = std::mem::take(&mut self.waiting);
            self.record(&last, &[], false, to);
        }
    }

    /// Appends a record of the bytes that waited and those that came.
    fn record(&mut self, waiting: &[u8], came: &[u8], more: bool, to: &mut Vec<u8>) {
        let FirstRecord { header, id, kind } = &*self.first;
        let begun = std::mem::replace(&mut self.begun, true);
        let (id, kind) = if begun { ("", "") } else { (id.as_str(), kind.as_str()) };
        let header = RecordHeader {
            begins: header.begins && !begun,
            ends: header.ends && !more,
            chunked: more,
            type_format: if begun { UNCHANGED } else { header.type_format },
            data: u32::try_from(waiting.len() + came.len()).unwrap_or_default(),
            ..*header
        };
        header.write_with(id, kind, to);
        to.extend_from_slice(waiting);
        to.extend_from_slice(came);
        to.resize(to.len() + padding(header.data), 0);
    }
}

/// Most data of a record.
pub(super) const LARGEST: usize = 1 << 20;
