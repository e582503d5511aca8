//! The text of a `store` between two of our own ranks. All of it is fixed but numbers, which have as many digits as the largest one, and
//! two words, which are filled up with spaces behind their elements. So it is written by copying, and read by comparing.
//!
//! What is read so is what the full parser would read; what differs in a byte goes to that.

use crate::header::{Context, DomainId, Header, Kind, Mode, Rank, RequestId};
use crate::transport::soap::operations::NAMESPACE;

/// Digits of the largest `u32` and `u64`, and of an `i32` with its sign.
const SHORT: usize = 10;
const SIGNED: usize = 11;
const LONG: usize = 20;
/// The longest element of each word.
const MODE: usize = "<mode>synchronous</mode>".len();
const KIND: usize = "<kind>requestToSend</kind>".len();

/// Fields, in their order.
const FROM: usize = 0;
const CONTEXT: usize = 1;
const TAG: usize = 2;
const SEQUENCE: usize = 3;
const MODE_AT: usize = 4;
const KIND_AT: usize = 5;
const LENGTH: usize = 6;
const SENDER: usize = 7;
const RECEIVER: usize = 8;
const FIELDS: usize = 9;

/// What stands around a payload, for messages to one rank with one boundary.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    domain: DomainId,
    to: Rank,
    text: Vec<u8>,
    /// Where each field begins, and how long it is.
    fields: [(usize, usize); FIELDS],
    tail: Vec<u8>,
}

impl Layout {
    /// `boundary` separates the parts of each message.
    pub(super) fn new(domain: DomainId, to: Rank, boundary: &str) -> Self {
        let mut layout = Self {
            domain,
            to,
            text: root(boundary, "store").into_bytes(),
            fields: [(0, 0); FIELDS],
            tail: format!("\r\n--{boundary}--\r\n").into_bytes(),
        };
        layout.push(&format!("<domain>{domain}</domain><fromRank>"));
        layout.field(FROM, SHORT);
        layout.push(&format!("</fromRank><toRank>{to}</toRank><context>"));
        layout.field(CONTEXT, LONG);
        layout.push("</context><tag>");
        layout.field(TAG, SIGNED);
        layout.push("</tag><sequence>");
        layout.field(SEQUENCE, LONG);
        layout.push("</sequence>");
        layout.field(MODE_AT, MODE);
        layout.field(KIND_AT, KIND);
        layout.push("<length>");
        layout.field(LENGTH, LONG);
        layout.push("</length><sender>");
        layout.field(SENDER, LONG);
        layout.push("</sender><receiver>");
        layout.field(RECEIVER, LONG);
        layout.push("</receiver>");
        layout.push(&attachment(boundary, "store"));
        layout
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn field(&mut self, field: usize, width: usize) {
        self.fields[field] = (self.text.len(), width);
        self.text.resize(self.text.len() + width, b'0');
    }

    /// Bytes before a payload.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// What stands behind a payload.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Bytes of a message with a payload of so many.
    pub(super) fn message_length(&self, payload: u64) -> u64 {
        payload.saturating_add((self.text.len() + self.tail.len()) as u64)
    }

    /// Appends what stands before a payload.
    pub(super) fn write(&self, header: &Header, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.text);
        let text = &mut into[start..];
        let mut number = |field: usize, value: u64| {
            let (at, width) = self.fields[field];
            write_number(&mut text[at..at + width], value);
        };
        number(FROM, header.from.into());
        number(CONTEXT, header.context.0);
        number(TAG, header.tag.unsigned_abs().into());
        number(SEQUENCE, header.sequence);
        number(LENGTH, header.length);
        number(SENDER, header.sender.0);
        number(RECEIVER, header.receiver.0);
        // Those of our own protocol.
        if header.tag < 0 {
            text[self.fields[TAG].0] = b'-';
        }
        let mut word = |field: usize, element: &str, name: &str| {
            let (at, width) = self.fields[field];
            let mut rest = &mut text[at..at + width];
            for part in ["<", element, ">", name, "</", element, ">"] {
                let (to, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
                to.copy_from_slice(part.as_bytes());
                rest = behind;
            }
            rest.fill(b' ');
        };
        word(MODE_AT, "mode", header.mode.name());
        word(KIND_AT, "kind", header.kind.name());
    }

    /// What [`Layout::write`] wrote, or `None` if it did not.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..self.text.len())?;
        let mut at = 0;
        for (start, width) in self.fields {
            if bytes[at..start] != self.text[at..start] {
                return None;
            }
            at = start + width;
        }
        if bytes[at..] != self.text[at..] {
            return None;
        }
        let field = |field: usize| {
            let (start, width) = self.fields[field];
            &bytes[start..start + width]
        };
        let number = |at: usize| read_number(field(at));
        Some(Header {
            domain: self.domain,
            from: number(FROM)?.try_into().ok()?,
            to: self.to,
            context: Context(number(CONTEXT)?),
            tag: read_signed(field(TAG))?,
            sequence: number(SEQUENCE)?,
            mode: Mode::ALL
                .into_iter()
                .find(|mode| is_word(field(MODE_AT), "mode", mode.name()))?,
            kind: Kind::ALL
                .into_iter()
                .find(|kind| is_word(field(KIND_AT), "kind", kind.name()))?,
            length: number(LENGTH)?,
            sender: RequestId(number(SENDER)?),
            receiver: RequestId(number(RECEIVER)?),
        })
    }
}

/// The beginning of a message, up to the first argument.
pub(super) fn root(boundary: &str, operation: &str) -> String {
    format!(
        "--{boundary}\r\n\
         Content-Type: application/xop+xml; charset=utf-8; type=\"text/xml\"\r\n\
         Content-Transfer-Encoding: binary\r\n\
         Content-ID: <root>\r\n\r\n\
         <s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>\
         <{operation} xmlns=\"{NAMESPACE}\">"
    )
}

/// The last argument, the end of the envelope, and what stands before a payload.
pub(super) fn attachment(boundary: &str, operation: &str) -> String {
    format!(
        "<data><xop:Include xmlns:xop=\"http://www.w3.org/2004/08/xop/include\" href=\"cid:data\"/>\
         </data></{operation}></s:Body></s:Envelope>\r\n\
         --{boundary}\r\n\
         Content-Type: application/octet-stream\r\n\
         Content-Transfer-Encoding: binary\r\n\
         Content-ID: <data>\r\n\r\n"
    )
}

/// Value of `Content-Type`.
pub(super) fn content_type(boundary: &str) -> String {
    format!(
        "multipart/related; boundary=\"{boundary}\"; type=\"application/xop+xml\"; start=\"<root>\"; \
         start-info=\"text/xml\""
    )
}

/// Over zeros.
pub(super) fn write_number(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        if value == 0 {
            return;
        }
        let last = (value % 10) as u8;
        *digit = b'0' + last;
        value /= 10;
    }
}

pub(super) fn read_number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

fn read_signed(digits: &[u8]) -> Option<i32> {
    let (sign, digits) = match digits.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, digits),
    };
    let value = i64::try_from(read_number(digits)?).ok()?;
    i32::try_from(sign * value).ok().filter(|value| sign > 0 || *value < 0)
}

fn is_word(field: &[u8], element: &str, name: &str) -> bool {
    let rest = field.strip_prefix(b"<").and_then(|rest| rest.strip_prefix(element.as_bytes()));
    let rest = rest.and_then(|rest| rest.strip_prefix(b">")?.strip_prefix(name.as_bytes()));
    let rest = rest.and_then(|rest| rest.strip_prefix(b"</")?.strip_prefix(element.as_bytes()));
    let rest = rest.and_then(|rest| rest.strip_prefix(b">"));
    rest.is_some_and(|rest| rest.iter().all(|&byte| byte == b' '))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::credential::Credential;
    use crate::settings::Settings;
    use crate::transport::soap::client_call::{ClientCall, Request};
    use crate::transport::soap::http::RequestHead;
    use crate::transport::soap::operations::Operations;
    use crate::transport::soap::reception::Reception;

    const DOMAIN: DomainId = DomainId::from_bytes([0xd0; 16]);

    fn any_header() -> impl Strategy<Value = Header> {
        let numbers = (any::<u32>(), any::<u64>(), any::<i32>(), any::<u64>(), any::<u64>());
        (numbers, 0..4usize, 0..8usize, any::<u64>(), any::<u64>()).prop_map(
            |((from, context, tag, sequence, length), mode, kind, sender, receiver)| Header {
                domain: DOMAIN,
                from,
                to: 5,
                context: Context(context),
                tag,
                sequence,
                mode: Mode::ALL[mode],
                kind: Kind::ALL[kind],
                length,
                sender: RequestId(sender),
                receiver: RequestId(receiver),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in any_header()) {
            let layout = Layout::new(DOMAIN, 5, "b");
            let mut bytes = Vec::new();
            layout.write(&header, &mut bytes);
            prop_assert_eq!(bytes.len(), layout.length());
            prop_assert_eq!(layout.read(&bytes), Some(header));
        }

        #[test]
        fn what_differs_in_a_byte_is_another_header_or_none(header in any_header(), at: prop::sample::Index, by in 1u8..) {
            let layout = Layout::new(DOMAIN, 5, "b");
            let mut bytes = Vec::new();
            layout.write(&header, &mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let read = layout.read(&bytes);
            prop_assert_ne!(read, Some(header));
            let in_field = layout.fields.iter().any(|(start, width)| (*start..start + width).contains(&at));
            prop_assert!(in_field || read.is_none());
        }
    }

    proptest! {
        /// Foreign toolkits, and our own parser, read the same in it.
        #[test]
        fn it_is_the_envelope_that_the_wsdl_describes(mut header in any_header(), payload: Vec<u8>) {
            header.from %= 9;
            header.sequence = 1 + header.sequence % (1 << 62);
            if header.payload_length() > 0 || matches!(header.kind, Kind::Eager | Kind::Data) {
                header.length = payload.len() as u64;
            }
            let data = if matches!(header.kind, Kind::Eager | Kind::Data) { &payload[..] } else { &[] };
            let layout = Layout::new(DOMAIN, 5, "of-a-test");
            let mut message = Vec::new();
            layout.write(&header, &mut message);
            message.extend_from_slice(data);
            message.extend_from_slice(layout.tail());
            prop_assert_eq!(message.len() as u64, layout.message_length(header.payload_length()));
            let operations = Operations::new();
            let head = RequestHead {
                content_type: content_type("of-a-test"),
                ..RequestHead::default()
            };
            let settings = Settings::default();
            let credential = Credential::from_bytes([0; 32]);
            let mut reception = Reception::new(DOMAIN, 5, credential, &settings);
            let mut call = ClientCall::new(&head, &operations).unwrap();
            call.feed(&message, &mut reception).unwrap();
            let Request::Store { arguments, .. } = call.finish(&operations).unwrap() else {
                return Err(TestCaseError::fail("it is no store"));
            };
            let stored = arguments.stored("store", (DOMAIN, 5), 9).unwrap();
            prop_assert_eq!(stored.header, header);
            prop_assert_eq!(&stored.data[..], data);
        }
    }

    #[test]
    fn what_is_cut_off_is_none() {
        let layout = Layout::new(DOMAIN, 5, "b");
        assert_eq!(layout.read(&layout.text[..layout.length() - 1]), None);
        assert_eq!(read_number(b"18446744073709551616"), None);
    }
}
