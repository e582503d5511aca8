//! How a payload's bytes become the bytes that are sent: as they are, as base64, as an array's elements, as
//! chunks with their lengths. Sans-IO: whoever sends feeds what it read and sends what comes out.

use std::sync::Arc;

use crate::base64::Base64Encoder;
use crate::items::{ItemFormat, ItemsEncoder};
use crate::packaging::{FirstRecord, RecordEncoder};

/// How a payload's bytes are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// As base64 without line breaks ([`Base64Encoder`]).
    Base64,
    /// As the elements of an array.
    Items(Arc<ItemFormat>),
    /// As DIME records, each of a chunk.
    Records(Arc<FirstRecord>),
}

impl Encoding {
    /// Length of what so many bytes become; `None` if only encoding them tells.
    pub fn len(&self, bytes: u64) -> Option<u64> {
        match self {
            Self::Raw => Some(bytes),
            Self::Base64 => Some(Base64Encoder::encoded_len(bytes)),
            Self::Items(_) | Self::Records(_) => None,
        }
    }

    /// Most bytes that so many bytes become.
    pub(crate) fn most(&self, bytes: u64) -> u64 {
        match self {
            Self::Raw => bytes,
            Self::Base64 => Base64Encoder::encoded_len(bytes),
            Self::Items(items) => items.most(),
            Self::Records(_) => u64::MAX,
        }
    }

    /// How many bytes become about as many as `wanted`, at least one.
    pub(crate) fn bytes_for(&self, wanted: usize) -> usize {
        let bytes = match self {
            Self::Raw | Self::Records(_) => wanted,
            Self::Base64 => wanted / 4 * 3,
            Self::Items(items) => items.bytes_for(wanted),
        };
        bytes.max(1)
    }

    /// What encodes one payload.
    pub fn encoder(&self) -> Encoder {
        match self {
            Self::Raw => Encoder::Raw,
            Self::Base64 => Encoder::Base64(Base64Encoder::default()),
            Self::Items(items) => Encoder::Items(Box::new(ItemsEncoder::new(items.clone()))),
            Self::Records(first) => Encoder::Records(RecordEncoder::new(first.clone())),
        }
    }
}

/// Encodes one payload, piece by piece.
#[derive(Debug)]
pub enum Encoder {
    /// As they are.
    Raw,
    /// As base64.
    Base64(Base64Encoder),
    /// As the elements of an array.
    Items(Box<ItemsEncoder>),
    /// As DIME records.
    Records(RecordEncoder),
}

impl Encoder {
    /// Appends what these bytes become; some may wait for the next.
    pub fn encode(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Raw => to.extend_from_slice(bytes),
            Self::Base64(encoder) => {
                to.reserve(bytes.len() / 3 * 4 + 8);
                encoder.encode(bytes, to);
            }
            Self::Items(encoder) => encoder.encode(bytes, to),
            Self::Records(encoder) => encoder.encode(bytes, to),
        }
    }

    /// Appends what is left, now that there are no more bytes; about as many as `wanted` at once.
    /// Tells whether that was all.
    pub fn finish(&mut self, wanted: usize, to: &mut Vec<u8>) -> bool {
        match self {
            Self::Raw => {}
            Self::Base64(encoder) => std::mem::take(encoder).finish(to),
            Self::Items(encoder) => return encoder.finish(wanted, to),
            Self::Records(encoder) => encoder.finish(to),
        }
        true
    }

    /// What was encoded ends where it may not: within a number, or a row.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Items(encoder) if encoder.is_cut())
    }
}
