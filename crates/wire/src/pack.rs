//! An envelope to a content type and segments to be sent.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Held;

use crate::envelope::Envelope;
use crate::packaging::Packaging;

/// A message ready to be sent.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Value of `Content-Type`.
    pub content_type: String,
    /// Value of `SOAPAction`, quoted; only for SOAP 1.1 requests.
    pub soap_action: Option<String>,
    /// The body, in order.
    pub segments: Vec<Segment>,
    /// Length of the body in bytes.
    pub len: u64,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Segment {
    /// These bytes.
    Bytes(Bytes),
    /// A whole file.
    File {
        /// The file.
        held: Arc<dyn Held>,
        /// How its bytes are sent.
        encoding: Encoding,
    },
}

/// How a file's bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// As base64 without line breaks ([`crate::Base64Encoder`]).
    Base64,
}

/// Packs an envelope. MTOM without any binary value becomes plain. `action` is for requests.
pub fn pack(envelope: &Envelope, packaging: Packaging, action: Option<&str>) -> Packed {
    todo!("{envelope:?} {packaging:?} {action:?}")
}
