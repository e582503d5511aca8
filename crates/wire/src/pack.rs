//! An envelope to a content type and segments to be sent.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Array, DataRef, Payload};

use crate::encode::Encoding;
use crate::envelope::{
    ArrayForm, Body, Child, Envelope, MessageArray, SoapFault, SoapVersion, ValueContent,
    XmlElement,
};
use crate::items::ItemFormat;
use crate::name::{QName, SOAP_11, SOAP_12, WSA, XDESCR, XML, XMLNS, XSI};
use crate::outgoing::Segment;
use crate::packaging::{Packaging, PackagingWriter, reply_writer, writer};
use crate::write::ReplyForm;
use crate::wsdl::DataView;
use crate::xml::{push_attribute, push_text};

/// A message ready to be sent.
#[derive(Clone, Debug)]
pub struct PackedMessage {
    /// Value of `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// Value of `SOAPAction`, quoted; only for SOAP 1.1 requests.
    pub soap_action: Option<String>,
    /// The body, in order.
    pub segments: Vec<Segment>,
    /// Length of the body in bytes; `None` if only sending it tells.
    pub len: Option<u64>,
}

impl PackedMessage {
    /// No message at all.
    pub fn nothing() -> Self {
        Self {
            content_type: Cow::Borrowed(""),
            soap_action: None,
            segments: Vec::new(),
            len: Some(0),
        }
    }
}

/// Packs the envelope of an answer.
pub fn pack_reply(envelope: &Envelope, form: &ReplyForm) -> PackedMessage {
    pack_by(envelope, reply_writer(form), form.data, None)
}

/// Packs an envelope. MTOM without any attachment becomes plain. `action` is for requests.
pub fn pack(envelope: &Envelope, packaging: Packaging, action: Option<&str>) -> PackedMessage {
    pack_by(envelope, writer(packaging), DataView::Plain, action)
}

fn pack_by(
    envelope: &Envelope,
    mut writer: Box<dyn PackagingWriter>,
    data: DataView,
    action: Option<&str>,
) -> PackedMessage {
    let mut root = SegmentBuilder { text: Vec::with_capacity(SMALL), segments: Vec::new() };
    write_envelope(envelope, &mut ValueForms { writer: &mut *writer, data }, &mut root);
    let mut packed = writer.finish(root, envelope.version, action);
    if envelope.version == SoapVersion::V11 {
        packed.soap_action = action.map(|action| format!("\"{action}\""));
    }
    packed
}

/// Thirty-two hexadecimal digits that nobody used before: boundaries, Content-IDs, MessageIDs.
pub(crate) fn random_id() -> String {
    // Not to be guessed: who knew a boundary could write parts of his own into a value. The generator is
    // the thread's own (ChaCha, seeded by the system), which saves a system call for each message.
    format!("{:032x}", rand::random::<u128>())
}

/// Collects segments: text in one buffer until something larger comes.
#[derive(Default)]
pub(crate) struct SegmentBuilder {
    text: Vec<u8>,
    segments: Vec<Segment>,
}

/// What most messages without files take.
const SMALL: usize = 512;

/// Bytes up to this length are copied into the text rather than made a segment of their own.
const COPIED: usize = 4 << 10;

/// A payload whose encoded form is not longer is encoded into the text at once: a small message
/// has a length and is one piece.
const RENDERED: usize = 128 << 10;

fn is_small(payload: &Payload, encoding: &Encoding) -> bool {
    payload.len().is_some_and(|len| encoding.most(len) <= RENDERED as u64)
}

impl SegmentBuilder {
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

    /// A payload, which is not a reference.
    pub(crate) fn payload(&mut self, payload: &Payload, encoding: Encoding) {
        match (payload, &encoding) {
            (Payload::Inline(_) | Payload::Pieces(_), Encoding::Raw) => {
                payload.pieces().unwrap_or_default().iter().for_each(|it| self.bytes(it.clone()));
            }
            (Payload::Inline(_) | Payload::Pieces(_), _) if is_small(payload, &encoding) => {
                let mut encoder = encoding.encoder();
                for piece in payload.pieces().unwrap_or_default() {
                    encoder.encode(piece, &mut self.text);
                }
                while !encoder.finish(RENDERED, &mut self.text) {}
            }
            _ => self.segment(Segment::of(payload, encoding)),
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
            let text = Segment::Bytes(std::mem::take(&mut self.text).into());
            if self.segments.is_empty() {
                // As a rule it is the only one.
                self.segments.reserve_exact(1);
            }
            self.segments.push(text);
        }
    }

    pub(crate) fn packed(self, content_type: impl Into<Cow<'static, str>>) -> PackedMessage {
        let segments = self.into_segments();
        let len = segments.iter().map(Segment::len).sum();
        PackedMessage { content_type: content_type.into(), soap_action: None, segments, len }
    }
}

/// How values are written.
struct ValueForms<'w> {
    writer: &'w mut dyn PackagingWriter,
    data: DataView,
}

impl ValueForms<'_> {
    /// Writes the rest of the start tag of a file or of an array's bytes, and what is in the element.
    fn write(&mut self, payload: &Payload, root: &mut SegmentBuilder) {
        if let Payload::Reference(reference) = payload {
            root.push(">");
            write_reference(reference, root);
            return;
        }
        match self.data {
            DataView::Plain => {
                self.writer.attributes(payload, root);
                root.push(">");
                self.writer.value(payload, root);
            }
            // Toolkits can't tell text from elements: it has an element of its own.
            DataView::Xdescr => {
                root.push("><x:Value");
                declare("x", XDESCR, root.text());
                self.writer.attributes(payload, root);
                root.push(">");
                self.writer.value(payload, root);
                root.push("</x:Value>");
            }
        }
    }
}

/// Paper 000, Figure 7. What is known of the data beside its address stands in the metadata.
fn write_reference(reference: &DataRef, root: &mut SegmentBuilder) {
    let DataRef { url, len, digest } = reference;
    root.push("<wsa:EndpointReference");
    declare("wsa", WSA, root.text());
    root.push("><wsa:Address>");
    push_text(url, root.text());
    root.push("</wsa:Address>");
    if len.is_some() || digest.is_some() {
        root.push("<wsa:Metadata");
        declare("x", XDESCR, root.text());
        root.push(">");
        if let Some(len) = len {
            root.push(&format!("<x:Length>{len}</x:Length>"));
        }
        if let Some(digest) = digest {
            root.push(&format!("<x:Digest>{digest}</x:Digest>"));
        }
        root.push("</wsa:Metadata>");
    }
    root.push("</wsa:EndpointReference>");
}

fn write_envelope(envelope: &Envelope, values: &mut ValueForms<'_>, root: &mut SegmentBuilder) {
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
        Body::Wrapper { name, children } => write_wrapper(name, children, values, root),
        Body::Fault(fault) if envelope.version == SoapVersion::V11 => write_fault_11(fault, root),
        Body::Fault(fault) => write_fault_12(fault, root),
        Body::Empty => {}
    }
    root.push("</soap:Body></soap:Envelope>");
}

fn write_wrapper(
    name: &QName,
    children: &[Child],
    values: &mut ValueForms<'_>,
    root: &mut SegmentBuilder,
) {
    let prefix = if name.namespace.is_empty() { "" } else { "w:" };
    root.push("<");
    root.push(prefix);
    root.push(&name.local);
    if !name.namespace.is_empty() {
        declare("w", &name.namespace, root.text());
    }
    root.push(">");
    for child in children {
        write_child(child, &name.namespace, values, root);
    }
    root.push("</");
    root.push(prefix);
    root.push(&name.local);
    root.push(">");
}

/// A value. Its element is in the wrapper's namespace (prefix `w`) or in none, or in another one
/// that is then declared here.
fn write_child(
    child: &Child,
    wrapper: &str,
    values: &mut ValueForms<'_>,
    root: &mut SegmentBuilder,
) {
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
    if matches!(child.content, ValueContent::Nil) {
        declare("xsi", XSI, root.text());
        root.push(" xsi:nil=\"true\"");
    }
    match &child.content {
        ValueContent::Array(numbers) => write_array(child, numbers, values, root),
        content => write_content(content, wrapper, values, root),
    }
    root.push("</");
    root.push(prefix);
    root.push(&child.name.local);
    root.push(">");
}

/// The rest of the start tag, and what is in the element.
fn write_content(
    content: &ValueContent,
    wrapper: &str,
    values: &mut ValueForms<'_>,
    root: &mut SegmentBuilder,
) {
    if let ValueContent::Data(payload) = content {
        values.write(payload, root);
        return;
    }
    root.push(">");
    match content {
        ValueContent::Text(text) => push_text(text, root.text()),
        ValueContent::Fields(fields) => {
            for field in fields {
                write_child(field, wrapper, values, root);
            }
        }
        ValueContent::Data(_)
        | ValueContent::Nil
        | ValueContent::Unexpected
        | ValueContent::Part(_)
        | ValueContent::Array(_) => {}
    }
}

/// The same for an array.
fn write_array(
    child: &Child,
    numbers: &MessageArray,
    values: &mut ValueForms<'_>,
    root: &mut SegmentBuilder,
) {
    let shape = numbers.shape.as_deref().unwrap_or_default();
    let ValueContent::Data(payload) = &*numbers.data else {
        root.push(">");
        return;
    };
    let refers = matches!(payload, Payload::Reference(_));
    if !refers && values.writer.arrays(numbers.form) == ArrayForm::Elements {
        let names = declare_items(&child.name.namespace, &numbers.names, root.text());
        root.push(">");
        let items = ItemFormat::new(numbers.element, shape, &names);
        root.payload(payload, Encoding::Items(Arc::new(items)));
        return;
    }
    let length = |length: &u64| match *length {
        Array::UNKNOWN => "*".to_owned(),
        known => known.to_string(),
    };
    let lengths: Vec<String> = shape.iter().map(length).collect();
    let (name, shape) = (numbers.element.name(), lengths.join(" "));
    root.push(&format!(" type=\"{name}\" shape=\"{shape}\""));
    values.write(payload, root);
}

/// Declares the namespace of an array's elements; gives the names of their tags, which are short:
/// there are millions of them.
fn declare_items(namespace: &str, names: &[QName], out: &mut Vec<u8>) -> Vec<String> {
    let first = names.first().map_or(namespace, |name| &name.namespace);
    if names.iter().all(|name| name.namespace == first) {
        if !first.is_empty() {
            out.extend_from_slice(b" xmlns=\"");
            push_attribute(first, out);
            out.push(b'"');
        }
        return names.iter().map(|name| name.local.clone()).collect();
    }
    let mut tags = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if name.namespace.is_empty() {
            tags.push(name.local.clone());
        } else {
            let prefix = format!("i{at}");
            declare(&prefix, &name.namespace, out);
            tags.push(format!("{prefix}:{}", name.local));
        }
    }
    tags
}

/// Writes the name of a fault code with the prefix `soap` for SOAP's own and a declared one else.
fn write_code(tag: &str, code: &QName, root: &mut SegmentBuilder) {
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
fn write_fault_11(fault: &SoapFault, root: &mut SegmentBuilder) {
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
fn write_fault_12(fault: &SoapFault, root: &mut SegmentBuilder) {
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

/// A small element as the top of a tree: its namespace becomes the default one, unless it is SOAP's,
/// so that a qualified name without a prefix in one of SOAP's is in no namespace.
fn write_element(element: &XmlElement, extra: &[(QName, String)], soap: &str, out: &mut Vec<u8>) {
    write_nested(element, extra, soap, "", out);
}

fn write_nested(
    element: &XmlElement,
    extra: &[(QName, String)],
    soap: &str,
    default: &str,
    out: &mut Vec<u8>,
) {
    let namespace = element.name.namespace.as_str();
    let of_soap = namespace == soap;
    let tag = if of_soap { "soap:" } else { "" };
    out.push(b'<');
    out.extend_from_slice(tag.as_bytes());
    out.extend_from_slice(element.name.local.as_bytes());
    if namespace != default && !of_soap {
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
        write_nested(child, &[], soap, if of_soap { default } else { namespace }, out);
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(tag.as_bytes());
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
