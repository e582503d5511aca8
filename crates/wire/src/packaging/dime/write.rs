//! Parts to records. A payload is one record, unless it is longer than a record can be or is a stream.

use std::collections::VecDeque;
use std::sync::Arc;

use fishplate_contract::Payload;

use super::record::FirstRecord;
use super::{ABSOLUTE_URI, ALIGNED, MEDIA_TYPE, RecordHeader, UNCHANGED, VERSION, padding};
use crate::encode::Encoding;
use crate::envelope::{ArrayForm, SoapVersion};
use crate::outgoing::Segment;
use crate::pack::{PackedMessage, SegmentBuilder, random_id};
use crate::packaging::{PackagingWriter, action_parameter};

/// Writes the envelope as the first record, then attachments in document order. References are bare
/// IDs, as draft-nielsen-dime-soap-01 has them; Axis 1.4 and gSOAP write and read the same. A message
/// without attachments is DIME too: whoever sent or asked for it reads it.
pub(in crate::packaging) struct DimeWriter {
    /// With their IDs, counted from one.
    attachments: Vec<(String, Payload)>,
    /// What tells this message's payloads from all others'.
    id: String,
    /// Most bytes of a record's data.
    most: u32,
}

impl Default for DimeWriter {
    fn default() -> Self {
        Self { attachments: Vec::new(), id: String::new(), most: u32::MAX }
    }
}

impl DimeWriter {
    /// Records of at most so many bytes of data, at least four.
    #[cfg(test)]
    pub(super) fn with_most(self, most: u32) -> Self {
        Self { most, ..self }
    }
}

impl PackagingWriter for DimeWriter {
    fn attributes(&mut self, payload: &Payload, root: &mut SegmentBuilder) {
        if self.id.is_empty() {
            self.id = random_id();
        }
        // A URI, as it has to be.
        let id = format!("uuid:{}:{}", self.id, self.attachments.len() + 1);
        root.push(&format!(" href=\"{id}\""));
        self.attachments.push((id, payload.clone()));
    }

    /// Always bytes: a record tells its length first, and that of elements is known last.
    fn arrays(&self, _asked: ArrayForm) -> ArrayForm {
        ArrayForm::Binary
    }

    fn value(&mut self, _payload: &Payload, _root: &mut SegmentBuilder) {}

    fn finish(
        self: Box<Self>,
        root: SegmentBuilder,
        version: SoapVersion,
        action: Option<&str>,
    ) -> PackedMessage {
        let count = self.attachments.len();
        let mut message = SegmentBuilder::default();
        let mut kind = RecordKind { format: ABSOLUTE_URI, name: version.namespace(), id: "" };
        let mut place = MessagePosition { first: true, last: count == 0 };
        push_payload(root, &kind, place, self.most, &mut message);
        for (at, (id, payload)) in self.attachments.iter().enumerate() {
            kind = RecordKind { format: MEDIA_TYPE, name: "application/octet-stream", id };
            place = MessagePosition { first: false, last: at + 1 == count };
            if matches!(payload, Payload::Stream(_)) {
                message.payload(payload, Encoding::Records(Arc::new(kind.first_record(place))));
                continue;
            }
            let mut content = SegmentBuilder::default();
            content.payload(payload, Encoding::Raw);
            push_payload(content, &kind, place, self.most, &mut message);
        }
        message.packed(format!("application/dime{}", action_parameter(version, action)))
    }
}

/// What a payload is.
struct RecordKind<'a> {
    format: u8,
    name: &'a str,
    id: &'a str,
}

impl RecordKind<'_> {
    /// The record that begins a payload of unknown length.
    fn first_record(&self, place: MessagePosition) -> FirstRecord {
        let header = RecordHeader {
            version: VERSION,
            begins: place.first,
            ends: place.last,
            type_format: self.format,
            ..RecordHeader::default()
        };
        FirstRecord { header, id: self.id.to_owned(), kind: self.name.to_owned() }
    }
}

/// Where in the message a payload stands.
#[derive(Clone, Copy)]
struct MessagePosition {
    first: bool,
    last: bool,
}

/// Appends a payload: one record if it fits in `most` bytes, else chunks of it.
fn push_payload(
    payload: SegmentBuilder,
    kind: &RecordKind<'_>,
    place: MessagePosition,
    most: u32,
    to: &mut SegmentBuilder,
) {
    let mut segments: VecDeque<Segment> = payload.into_segments().into();
    // Every length is known: arrays are binary here.
    let mut left: u64 = segments.iter().filter_map(Segment::len).sum();
    let mut begun = false;
    loop {
        let rest = u32::try_from(left).ok().filter(|rest| *rest <= most);
        // Chunks end where no padding is due.
        let data = rest.unwrap_or(most / ALIGNED * ALIGNED);
        left -= u64::from(data);
        let (name, id) = if begun { ("", "") } else { (kind.name, kind.id) };
        let header = RecordHeader {
            version: VERSION,
            begins: place.first && !begun,
            ends: place.last && rest.is_some(),
            chunked: rest.is_none(),
            type_format: if begun { UNCHANGED } else { kind.format },
            data,
            ..RecordHeader::default()
        };
        header.write_with(id, name, to.text());
        push_data(&mut segments, data.into(), to);
        push_padding(data, to);
        begun = true;
        if rest.is_some() {
            return;
        }
    }
}

fn push_padding(len: u32, to: &mut SegmentBuilder) {
    to.text().extend_from_slice(&[0; 3][..padding(len)]);
}

/// Moves the first bytes of a payload into the message.
fn push_data(from: &mut VecDeque<Segment>, mut left: u64, to: &mut SegmentBuilder) {
    while left > 0 {
        let Some(mut segment) = from.pop_front() else { return };
        let len = segment.len().unwrap_or_default();
        if len > left {
            from.push_front(split_off(&mut segment, left));
        }
        left -= len.min(left);
        match segment {
            Segment::Bytes(bytes) => to.bytes(bytes),
            data @ Segment::Data { .. } => to.segment(data),
        }
    }
}

/// Leaves the first bytes; gives the others. All is sent raw: values are attachments here.
fn split_off(segment: &mut Segment, at: u64) -> Segment {
    match segment {
        Segment::Bytes(bytes) => {
            let at = usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
            Segment::Bytes(bytes.split_off(at))
        }
        Segment::Data { payload, range, encoding } => {
            let middle = range.start + at;
            let rest = middle..range.end;
            range.end = middle;
            Segment::Data { payload: payload.clone(), range: rest, encoding: encoding.clone() }
        }
    }
}
