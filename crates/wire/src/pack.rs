//! An envelope to a content type and segments to be sent.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Held, Payload};

use crate::base64::Base64Encoder;
use crate::envelope::{Body, Child, Content, Element, Envelope, SoapFault, SoapVersion};
use crate::name::{QName, SOAP_11, SOAP_12, WSA, XML, XMLNS, XSI};
use crate::packaging::{Packaging, Writer, writer};
use crate::xml::{push_attribute, push_text};

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
    /// A file, or a run of its bytes.
    File {
        /// The file.
        held: Arc<dyn Held>,
        /// Which of its bytes.
        range: Range<u64>,
        /// How they are sent.
        encoding: Encoding,
    },
}

impl Segment {
    /// Length in bytes as it is sent.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { range, encoding: Encoding::Raw, .. } => range.end - range.start,
            Self::File { range, encoding: Encoding::Base64, .. } => {
                Base64Encoder::encoded_len(range.end - range.start)
            }
        }
    }

    /// It holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a file's bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// As base64 without line breaks ([`crate::Base64Encoder`]).
    Base64,
}

/// Packs an envelope. MTOM without any attachment becomes plain. `action` is for requests.
pub fn pack(envelope: &Envelope, packaging: Packaging, action: Option<&str>) -> Packed {
    let mut writer = writer(packaging);
    let mut root = Composer::default();
    write_envelope(envelope, &mut *writer, &mut root);
    let mut packed = writer.finish(root, envelope.version, action);
    if envelope.version == SoapVersion::V11 {
        packed.soap_action = action.map(|action| format!("\"{action}\""));
    }
    packed
}

/// Thirty-two hexadecimal digits that nobody used before: boundaries, Content-IDs, MessageIDs.
pub(crate) fn random_id() -> String {
    let mut bits = [0; 16];
    // Without a source of randomness the program cannot run at all; std's hash maps panic as well.
    #[expect(clippy::expect_used, reason = "the kernel always has random bits after boot")]
    getrandom::fill(&mut bits).expect("the system gives random bits");
    format!("{:032x}", u128::from_be_bytes(bits))
}

/// Collects segments: text in one buffer until something larger comes.
#[derive(Default)]
pub(crate) struct Composer {
    text: Vec<u8>,
    segments: Vec<Segment>,
}

/// Bytes up to this length are copied into the text rather than made a segment of their own.
const COPIED: usize = 4 << 10;

impl Composer {
    /// Where text is appended.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: Bytes) {
        if bytes.len() <= COPIED {
            self.text.extend_from_slice(&bytes);
        } else {
            self.segment(Segment::Bytes(bytes));
        }
    }

    pub(crate) fn file(&mut self, held: Arc<dyn Held>, encoding: Encoding) {
        let range = 0..held.len();
        self.segment(Segment::File { held, range, encoding });
    }

    /// Bytes that are here, as they are.
    pub(crate) fn payload(&mut self, payload: &Payload) {
        match payload {
            Payload::Inline(bytes) => self.bytes(bytes.clone()),
            Payload::Pieces(pieces) => pieces.iter().for_each(|piece| self.bytes(piece.clone())),
            Payload::Spooled(held) => self.file(held.clone(), Encoding::Raw),
            // Written by whoever calls: a reference looks the same in every packaging.
            Payload::Reference(_) => {}
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        for segment in other.segments {
            self.segment(segment);
        }
        self.bytes(other.text.into());
    }

    /// What was composed, in order.
    pub(crate) fn into_segments(mut self) -> Vec<Segment> {
        self.flush();
        self.segments
    }

    pub(crate) fn segment(&mut self, segment: Segment) {
        self.flush();
        self.segments.push(segment);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.segments.push(Segment::Bytes(std::mem::take(&mut self.text).into()));
        }
    }

    pub(crate) fn packed(self, content_type: String) -> Packed {
        let segments = self.into_segments();
        let len = segments.iter().map(Segment::len).sum();
        Packed { content_type, soap_action: None, segments, len }
    }
}

fn write_envelope(envelope: &Envelope, writer: &mut dyn Writer, root: &mut Composer) {
    let soap = envelope.version.namespace();
    root.push("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<soap:Envelope xmlns:soap=\"");
    root.push(soap);
    root.push("\">");
    if !envelope.headers.is_empty() {
        root.push("<soap:Header>");
        for header in &envelope.headers {
            let mut extra = Vec::new();
            if header.must_understand {
                extra.push((QName::new(soap, "mustUnderstand"), "1".to_owned()));
            }
            write_element(&header.element, &extra, soap, root.text());
        }
        root.push("</soap:Header>");
    }
    root.push("<soap:Body>");
    match &envelope.body {
        Body::Wrapper { name, children } => write_wrapper(name, children, writer, root),
        Body::Fault(fault) if envelope.version == SoapVersion::V11 => write_fault_11(fault, root),
        Body::Fault(fault) => write_fault_12(fault, root),
        Body::Empty => {}
    }
    root.push("</soap:Body></soap:Envelope>");
}

fn write_wrapper(name: &QName, children: &[Child], writer: &mut dyn Writer, root: &mut Composer) {
    let tag = format!("w:{}", name.local);
    let tag = if name.namespace.is_empty() { name.local.as_str() } else { tag.as_str() };
    root.push("<");
    root.push(tag);
    if !name.namespace.is_empty() {
        declare("w", &name.namespace, root.text());
    }
    root.push(">");
    for child in children {
        write_child(child, &name.namespace, writer, root);
    }
    root.push("</");
    root.push(tag);
    root.push(">");
}

/// A value. Its element is in the wrapper's namespace (prefix `w`) or in none, or in another one
/// that is then declared here.
fn write_child(child: &Child, wrapper: &str, writer: &mut dyn Writer, root: &mut Composer) {
    let namespace = &child.name.namespace;
    let prefix = match namespace {
        none if none.is_empty() => "",
        own if own == wrapper => "w:",
        _ => "v:",
    };
    root.push("<");
    root.push(prefix);
    root.push(&child.name.local);
    if prefix == "v:" {
        declare("v", namespace, root.text());
    }
    if let Some(label) = &child.label {
        root.push(" name=\"");
        push_attribute(label, root.text());
        root.push("\"");
    }
    if matches!(child.content, Content::Nil) {
        declare("xsi", XSI, root.text());
        root.push(" xsi:nil=\"true\"");
    }
    if let Content::Data(
        payload @ (Payload::Inline(_) | Payload::Pieces(_) | Payload::Spooled(_)),
    ) = &child.content
    {
        writer.attributes(payload, root);
    }
    root.push(">");
    match &child.content {
        Content::Text(text) => push_text(text, root.text()),
        Content::Data(Payload::Reference(reference)) => {
            root.push("<wsa:EndpointReference");
            declare("wsa", WSA, root.text());
            root.push("><wsa:Address>");
            push_text(&reference.url, root.text());
            root.push("</wsa:Address></wsa:EndpointReference>");
        }
        Content::Data(payload) => writer.value(payload, root),
        Content::Fields(fields) => {
            for field in fields {
                write_child(field, wrapper, writer, root);
            }
        }
        Content::Nil | Content::Unexpected | Content::Part(_) => {}
    }
    root.push("</");
    root.push(prefix);
    root.push(&child.name.local);
    root.push(">");
}

/// Writes the name of a fault code with the prefix `soap` for SOAP's own and a declared one else.
fn write_code(tag: &str, code: &QName, root: &mut Composer) {
    root.push("<");
    root.push(tag);
    let soap = code.namespace == SOAP_11 || code.namespace == SOAP_12;
    if !soap && !code.namespace.is_empty() {
        declare("code", &code.namespace, root.text());
    }
    root.push(if soap {
        ">soap:"
    } else if code.namespace.is_empty() {
        ">"
    } else {
        ">code:"
    });
    root.push(&code.local);
    root.push("</");
    root.push(tag);
    root.push(">");
}

/// SOAP 1.1 section 4.4: the children are in no namespace.
fn write_fault_11(fault: &SoapFault, root: &mut Composer) {
    root.push("<soap:Fault>");
    write_code("faultcode", &fault.code, root);
    root.push("<faultstring xml:lang=\"en\">");
    push_text(&fault.reason, root.text());
    root.push("</faultstring>");
    if !fault.detail.is_empty() {
        root.push("<detail>");
        for element in &fault.detail {
            write_element(element, &[], SOAP_11, root.text());
        }
        root.push("</detail>");
    }
    root.push("</soap:Fault>");
}

/// SOAP 1.2 part 1 section 5.4.
fn write_fault_12(fault: &SoapFault, root: &mut Composer) {
    root.push("<soap:Fault><soap:Code>");
    write_code("soap:Value", &fault.code, root);
    for subcode in &fault.subcodes {
        root.push("<soap:Subcode>");
        write_code("soap:Value", subcode, root);
    }
    for _ in &fault.subcodes {
        root.push("</soap:Subcode>");
    }
    root.push("</soap:Code><soap:Reason><soap:Text xml:lang=\"en\">");
    push_text(&fault.reason, root.text());
    root.push("</soap:Text></soap:Reason>");
    if !fault.detail.is_empty() {
        root.push("<soap:Detail>");
        for element in &fault.detail {
            write_element(element, &[], SOAP_12, root.text());
        }
        root.push("</soap:Detail>");
    }
    root.push("</soap:Fault>");
}

/// A small element as the top of a tree: its namespace becomes the default one.
fn write_element(element: &Element, extra: &[(QName, String)], soap: &str, out: &mut Vec<u8>) {
    write_nested(element, extra, soap, "", out);
}

fn write_nested(
    element: &Element,
    extra: &[(QName, String)],
    soap: &str,
    default: &str,
    out: &mut Vec<u8>,
) {
    let namespace = element.name.namespace.as_str();
    out.push(b'<');
    out.extend_from_slice(element.name.local.as_bytes());
    if namespace != default {
        out.extend_from_slice(b" xmlns=\"");
        push_attribute(namespace, out);
        out.push(b'"');
    }
    for (at, (name, value)) in element.attributes.iter().chain(extra).enumerate() {
        let prefix = match name.namespace.as_str() {
            "" => String::new(),
            XML => "xml:".to_owned(),
            XMLNS => "xmlns:".to_owned(),
            own if own == soap => "soap:".to_owned(),
            other => {
                let prefix = format!("a{at}");
                declare(&prefix, other, out);
                prefix + ":"
            }
        };
        out.push(b' ');
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(name.local.as_bytes());
        out.extend_from_slice(b"=\"");
        push_attribute(value, out);
        out.push(b'"');
    }
    out.push(b'>');
    push_text(&element.text, out);
    for child in &element.children {
        write_nested(child, &[], soap, namespace, out);
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(element.name.local.as_bytes());
    out.push(b'>');
}

fn declare(prefix: &str, namespace: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b" xmlns:");
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(b"=\"");
    push_attribute(namespace, out);
    out.push(b'"');
}
