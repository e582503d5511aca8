//! DIME (draft-nielsen-dime-02) as SOAP uses it (draft-nielsen-dime-soap-01): the envelope is the
//! first payload, attachments follow. A payload is one record, or several with chunks of it. A record
//! is a header of twelve bytes, its options, ID and type, and its data, each padded to four bytes.

mod read;
mod record;
mod write;

pub(super) use read::DimeReader;
pub use record::{FirstRecord, RecordEncoder};
pub(super) use write::DimeWriter;

/// The version we speak.
const VERSION: u8 = 1;

/// Bytes of the fixed part of a record's header.
const HEADER: usize = 12;

/// Everything begins at a multiple of this.
const ALIGNED: u32 = 4;

/// How a type is told (section 3.2.5).
const UNCHANGED: u8 = 0;
const MEDIA_TYPE: u8 = 1;
const ABSOLUTE_URI: u8 = 2;
const NONE: u8 = 4;

/// The fixed part of a record's header (section 3). Lengths exclude padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecordHeader {
    version: u8,
    /// MB: the first record of the message.
    begins: bool,
    /// ME: the last one.
    ends: bool,
    /// CF: the payload goes on in the next one.
    chunked: bool,
    type_format: u8,
    options: u16,
    id: u16,
    kind: u16,
    data: u32,
}

impl RecordHeader {
    fn read(bytes: &[u8; HEADER]) -> Self {
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            version: bytes[0] >> 3,
            begins: bytes[0] & 0x04 != 0,
            ends: bytes[0] & 0x02 != 0,
            chunked: bytes[0] & 0x01 != 0,
            type_format: bytes[1] >> 4,
            options: two(2),
            id: two(4),
            kind: two(6),
            data: u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        }
    }

    fn write(self) -> [u8; HEADER] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let [o1, o2] = self.options.to_be_bytes();
        let [i1, i2] = self.id.to_be_bytes();
        let [k1, k2] = self.kind.to_be_bytes();
        let [d1, d2, d3, d4] = self.data.to_be_bytes();
        let first = self.version << 3
            | flag(self.begins, 0x04)
            | flag(self.ends, 0x02)
            | flag(self.chunked, 0x01);
        [first, self.type_format << 4, o1, o2, i1, i2, k1, k2, d1, d2, d3, d4]
    }

    /// Appends the header of a record with this ID and type, whose lengths it tells.
    fn write_with(self, id: &str, kind: &str, to: &mut Vec<u8>) {
        let header = Self { id: length(id), kind: length(kind), ..self };
        to.extend_from_slice(&header.write());
        for field in [id, kind] {
            to.extend_from_slice(field.as_bytes());
            to.resize(to.len() + padding(length(field).into()), 0);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "our types and IDs have some fifty bytes")]
fn length(field: &str) -> u16 {
    field.len() as u16
}

/// How many bytes of padding follow so many.
fn padding(len: u32) -> usize {
    (len.wrapping_neg() % ALIGNED) as usize
}

#[cfg(test)]
mod tests;
