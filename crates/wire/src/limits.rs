//! What a message may not exceed. Every limit has a name, a default and a test; a refusal is a
//! fault that names the limit and its value.

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Fault, FaultCode};

/// Limits on messages coming in. The names are those of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of a whole message, attachments included. None by default: what is large is spooled,
    /// and the disk and the quota bound it.
    pub message_size: Option<u64>,
    /// Bytes of the XML outside decoded payloads.
    pub envelope_size: u64,
    /// Elements within each other.
    pub xml_depth: usize,
    /// Attributes of an element, namespace declarations included.
    pub attributes: usize,
    /// Namespace declarations in scope at once.
    pub namespaces: usize,
    /// Child elements of an element.
    pub children: usize,
    /// Elements that are kept of header blocks, and of a fault's detail.
    pub header_elements: usize,
    /// Bytes of a text value, as UTF-8.
    pub text_size: usize,
    /// Bytes of one tag.
    pub tag_size: usize,
    /// Parts of a multipart message or payloads of a DIME message, the root included.
    pub parts: usize,
    /// Header fields of a part.
    pub part_headers: usize,
    /// Bytes of one header field of a part, of a DIME record's options, ID or type, of a
    /// reference to a part in the text of a value, and of each text in a reference to elsewhere.
    pub header_length: usize,
    /// Bytes of a payload that are kept in memory; a larger one is spooled.
    pub inline_size: usize,
    /// Bytes of all payloads of a message that are kept in memory; beyond that small ones are
    /// spooled too.
    pub inline_total: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            message_size: DEFAULTS.message_size,
            envelope_size: DEFAULTS.envelope_size,
            xml_depth: DEFAULTS.xml_depth,
            attributes: DEFAULTS.attributes,
            namespaces: DEFAULTS.namespaces,
            children: DEFAULTS.children,
            header_elements: DEFAULTS.header_elements,
            text_size: DEFAULTS.text_size,
            tag_size: DEFAULTS.tag_size,
            parts: DEFAULTS.parts,
            part_headers: DEFAULTS.part_headers,
            header_length: DEFAULTS.header_length,
            inline_size: DEFAULTS.inline_size,
            inline_total: DEFAULTS.inline_total,
        }
    }
}

/// The refusal of what exceeds a limit.
pub(crate) fn exceeded(name: &str, value: u64, unit: &str) -> Fault {
    let value = if unit.is_empty() { value.to_string() } else { format!("{value} {unit}") };
    let message = format!("the message exceeds the limit {name} of {value}");
    Fault::new(FaultCode::MessageTooLarge, message).limit(name, value)
}
