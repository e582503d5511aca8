//! The envelope as it is read: a stack of frames, one for each element that is open.

use std::sync::Arc;

use fishplate_contract::lexical::shortened;
use fishplate_contract::{DataType, Fault, FaultCode, Parameter, Payload};

use super::ExpectedTypes;
use super::array::{ArrayBuilder, ArrayChild};
use super::collect::MemoryBudget;
use super::fragment::{push_content, push_end, push_start};
use super::reference::{self, ReferenceChild, TextElement};
use super::value::{BinaryBuilder, BinaryChild};
use crate::bind;
use crate::envelope::{
    ArrayForm, Body, Child, Envelope, HeaderBlock, SoapFault, SoapVersion, ValueContent, XmlElement,
};
use crate::headers::security::SecurityHeader;
use crate::headers::{options, security, table};
use crate::limits::{WireLimits, exceeded};
use crate::name::{QName, SOAP_11, SOAP_12};
use crate::spool::SpoolSink;
use crate::write::ReplyForm;
use crate::xml::{Handler, RunNames, StartTag, end_tag_len, is_space, unfit};

/// How an element is encoded: an attribute of SOAP 1.2 (part 1 section 5.1.1).
const ENCODING_STYLE: &str = "encodingStyle";

/// Of simple values this is what the schema says.
const SOAP_ENCODING_12: &str = "http://www.w3.org/2003/05/soap-encoding";

/// No claim is made.
const NO_ENCODING_12: &str = "http://www.w3.org/2003/05/soap-envelope/encoding/none";

/// What was read so far.
pub(super) struct EnvelopeBuilder {
    expect: Box<dyn ExpectedTypes + Send>,
    limits: WireLimits,
    /// Elements kept of headers and of a fault's detail.
    elements: usize,
    frames: Vec<OpenElement>,
    version: Option<SoapVersion>,
    /// There was a Header.
    headed: bool,
    headers: Vec<HeaderBlock>,
    wrapper: Option<QName>,
    body: Option<Body>,
    bodied: bool,
    /// The binary value at hand; only one is open at a time.
    binary: BinaryBuilder,
    /// The array at hand.
    array: Option<Box<ArrayBuilder>>,
    /// What arrays are in.
    arrays: Option<ArrayForm>,
    /// Bytes of the root part that went into payloads.
    payload_bytes: u64,
    /// Files may be given while they arrive, where their parameters say so.
    streams: bool,
    /// Values of such parameters, by their elements' names.
    streamed: Vec<QName>,
    /// There is a file that is read as a stream, but given whole: memory would only delay it.
    spools: bool,
}

/// An element that is open.
enum OpenElement {
    Envelope,
    Header,
    Body,
    /// The wrapper or a record: a list of values.
    Values(BuiltValues),
    /// A scalar.
    Scalar {
        child: Child,
        text: String,
    },
    /// A binary value; the rest of it is [`EnvelopeBuilder::binary`].
    Binary(Child),
    /// An array; the rest of it is [`EnvelopeBuilder::array`].
    Array(Child),
    /// An element of it.
    Item,
    /// Within a binary value or an array: takes no content.
    Include,
    /// Within a binary value: one element.
    XmlData {
        seen: bool,
    },
    /// Within that: any XML.
    Fragment,
    /// Within a binary value or an array: `xdescr:Value`, which holds it.
    ValueElement,
    /// Within a binary value or an array.
    EndpointReference,
    /// Within that.
    Metadata,
    /// Within either.
    ReferencePart {
        part: TextElement,
        text: String,
    },
    /// A header block or a fault, or an element of one. `whole` keeps its content.
    Element {
        element: XmlElement,
        role: Option<String>,
        must_understand: bool,
        whole: bool,
    },
    /// Passed over with all it holds.
    Skipped,
}

struct BuiltValues {
    /// As a child of the record around it; the wrapper's own name for the wrapper.
    child: Child,
    parameters: Arc<[Parameter]>,
    namespace: String,
    children: Vec<Child>,
    /// What belongs to no parameter is passed over; one is enough to refuse the message.
    unexpected: bool,
}

/// A builder with what it needs while a chunk is read.
pub(super) struct BuilderInput<'a> {
    pub(super) builder: &'a mut EnvelopeBuilder,
    pub(super) budget: &'a mut MemoryBudget,
    pub(super) sink: &'a mut dyn SpoolSink,
}

fn malformed(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::MalformedMessage, message)
}

fn append(text: &mut String, more: &str, most: usize) -> Result<(), Fault> {
    if text.len() + more.len() > most {
        return Err(exceeded("text_size", most as u64, "bytes"));
    }
    text.push_str(more);
    Ok(())
}

impl EnvelopeBuilder {
    pub(super) fn new(expect: Box<dyn ExpectedTypes + Send>, limits: &WireLimits) -> Self {
        Self {
            expect,
            limits: limits.clone(),
            elements: 0,
            frames: Vec::new(),
            version: None,
            headed: false,
            headers: Vec::new(),
            wrapper: None,
            body: None,
            bodied: false,
            binary: BinaryBuilder::default(),
            array: None,
            arrays: None,
            payload_bytes: 0,
            streams: false,
            streamed: Vec::new(),
            spools: false,
        }
    }

    /// Gives files while they arrive, where their parameters say so.
    pub(super) fn stream(&mut self) {
        self.streams = true;
    }

    /// A file that is given whole is read as a stream: it need not be in memory.
    pub(super) fn spools(&self) -> bool {
        self.spools
    }

    /// The URL of the only part that is still missing, if the root has ended and the part is the value of
    /// a parameter whose file may be given while it arrives.
    pub(super) fn streamed_part(&self, has: impl Fn(&str) -> bool) -> Option<&str> {
        let Some(Body::Wrapper { children, .. }) = &self.body else { return None };
        let missing = |child: &'_ Child| match &child.content {
            ValueContent::Fields(_) => None,
            ValueContent::Array(numbers) => numbers.data.part().map(str::to_owned),
            content => content.part().map(str::to_owned),
        };
        let mut left = children.iter().filter(|child| missing(child).is_some_and(|url| !has(&url)));
        match (left.next(), left.next()) {
            (Some(child), None) if self.streamed.contains(&child.name) => child.content.part(),
            _ => None,
        }
    }

    /// A value in its text is being given while it arrives.
    pub(super) fn streams_text(&self) -> bool {
        self.binary.collector.is_streamed() && self.binary.is_text()
    }

    /// The envelope, though the value at hand has not ended: `payload` stands for it. (If the root has
    /// ended, its value stands for itself.)
    pub(super) fn envelope_ahead(&self, payload: &Payload) -> Option<Envelope> {
        let body = match (&self.body, &self.frames[..]) {
            (Some(body), _) => body.clone(),
            (
                None,
                [.., OpenElement::Values(values), OpenElement::Binary(child)]
                | [
                    ..,
                    OpenElement::Values(values),
                    OpenElement::Binary(child),
                    OpenElement::ValueElement,
                ],
            ) => {
                let content = ValueContent::Data(payload.clone());
                let at_hand = Child { content, ..child.clone() };
                let children = values.children.iter().cloned().chain([at_hand]).collect();
                Body::Wrapper { name: values.child.name.clone(), children }
            }
            _ => return None,
        };
        Some(Envelope { version: self.version?, headers: self.headers.clone(), body })
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub(super) fn wrapper(&self) -> Option<&QName> {
        self.wrapper.as_ref()
    }

    /// All header blocks are here.
    pub(super) fn has_headers(&self) -> bool {
        self.bodied
    }

    /// Takes what WS-Security says out of them.
    pub(super) fn take_security(&mut self) -> Result<Option<SecurityHeader>, Fault> {
        security::take(self.version.unwrap_or(SoapVersion::V11), &mut self.headers)
    }

    /// Tells what is known by now of how to answer.
    pub(super) fn inform(&self, form: &mut ReplyForm) {
        if let Some(version) = self.version {
            form.version = version;
        }
        form.headers.clone_from(&self.headers);
        form.arrays = options::arrays(&self.headers).or(form.arrays).or(self.arrays);
    }

    /// The envelope, once the document has ended.
    pub(super) fn envelope(&mut self) -> Result<Envelope, Fault> {
        let version = self.version.ok_or_else(|| malformed("the message has no envelope"))?;
        if !self.bodied {
            return Err(malformed("the envelope has no Body"));
        }
        let headers = std::mem::take(&mut self.headers);
        Ok(Envelope { version, headers, body: self.body.take().unwrap_or(Body::Empty) })
    }

    fn start_envelope(&mut self, tag: &StartTag<'_>) -> Result<OpenElement, Fault> {
        self.version = Some(match tag.namespace {
            SOAP_11 if tag.local == "Envelope" => SoapVersion::V11,
            SOAP_12 if tag.local == "Envelope" => SoapVersion::V12,
            other if tag.local == "Envelope" => {
                let message = format!(
                    "an envelope of the namespace {other:?} is of no SOAP version that is spoken \
                     here: use {SOAP_11} (1.1) or {SOAP_12} (1.2)"
                );
                return Err(Fault::new(FaultCode::VersionMismatch, message));
            }
            _ => {
                let name = tag.name();
                return Err(malformed(format!("the root element is {name}, not an Envelope")));
            }
        });
        // SOAP 1.1 section 4.1.1, SOAP 1.2 part 1 section 5.1.
        if let Some(bare) = tag.attributes.iter().find(|attribute| attribute.namespace.is_empty()) {
            let message = format!(
                "the Envelope has the attribute {}, which is in no namespace: leave it out",
                bare.raw
            );
            return Err(malformed(message));
        }
        self.reject_encoding(tag)?;
        Ok(OpenElement::Envelope)
    }

    /// SOAP 1.2 part 1 section 5.1.1: an element of SOAP itself has no encodingStyle. (SOAP 1.1 allows
    /// it anywhere, and SOAP::Lite puts it on each Envelope.)
    fn reject_encoding(&self, tag: &StartTag<'_>) -> Result<(), Fault> {
        match tag.attribute(SOAP_12, ENCODING_STYLE) {
            Some(_) if self.version == Some(SoapVersion::V12) => Err(malformed(format!(
                "encodingStyle may not stand on {}: it belongs to the elements in Body and Header",
                tag.local
            ))),
            _ => Ok(()),
        }
    }

    /// Whether an element is encoded as it is understood here, which is as its schema says.
    fn check_encoding(&self, tag: &StartTag<'_>) -> Result<(), Fault> {
        let style = tag.attribute(SOAP_12, ENCODING_STYLE).map(str::trim);
        match style.filter(|_| self.version == Some(SoapVersion::V12)) {
            None | Some("" | SOAP_ENCODING_12 | NO_ENCODING_12) => Ok(()),
            Some(other) => {
                let message = format!(
                    "the element {} is encoded as {:?}, which is not understood here: leave \
                     encodingStyle out",
                    tag.name(),
                    shortened(other)
                );
                Err(Fault::new(FaultCode::DataEncodingUnknown, message))
            }
        }
    }

    fn start_in_envelope(&mut self, tag: &StartTag<'_>) -> Result<OpenElement, Fault> {
        let soap = self.version.map_or("", SoapVersion::namespace);
        if tag.is(soap, "Body") {
            if std::mem::replace(&mut self.bodied, true) {
                return Err(malformed("the envelope has two bodies"));
            }
            self.reject_encoding(tag)?;
            return Ok(OpenElement::Body);
        }
        if tag.is(soap, "Header") {
            if self.bodied {
                return Err(malformed("the envelope has its Header after its Body"));
            }
            if std::mem::replace(&mut self.headed, true) {
                return Err(malformed("the envelope has two Headers"));
            }
            self.reject_encoding(tag)?;
            return Ok(OpenElement::Header);
        }
        // SOAP 1.1 has room for more there (section 4.1.1), SOAP 1.2 has none.
        if self.bodied && self.version == Some(SoapVersion::V11) {
            return Ok(OpenElement::Skipped);
        }
        let side = if self.bodied { "after" } else { "before" };
        Err(malformed(format!("the envelope holds {} {side} its Body", tag.name())))
    }

    /// A header block. Only those that we understand are kept whole.
    fn start_header(&mut self, tag: &StartTag<'_>) -> Result<OpenElement, Fault> {
        let soap = self.version.unwrap_or(SoapVersion::V11);
        let role = if soap == SoapVersion::V11 { "actor" } else { "role" };
        let must_understand = match tag.attribute(soap.namespace(), "mustUnderstand").map(str::trim)
        {
            Some("1" | "true") => true,
            None | Some("" | "0" | "false") => false,
            Some(other) => {
                return Err(malformed(format!(
                    "mustUnderstand of the header {} is {:?}; it is 0 or 1",
                    tag.name(),
                    shortened(other)
                )));
            }
        };
        self.check_encoding(tag)?;
        let whole = table::keeps(tag.namespace);
        Ok(OpenElement::Element {
            element: self.element(tag, whole)?,
            role: tag.attribute(soap.namespace(), role).map(str::to_owned),
            must_understand,
            whole,
        })
    }

    fn element(&mut self, tag: &StartTag<'_>, whole: bool) -> Result<XmlElement, Fault> {
        self.elements += 1;
        let most = self.limits.header_elements;
        if self.elements > most {
            return Err(exceeded("header_elements", most as u64, "in a message"));
        }
        let mut element = XmlElement { name: tag.name(), ..XmlElement::default() };
        if whole {
            let attributes = tag.attributes.iter().map(|attribute| {
                let name = QName::new(attribute.namespace, attribute.local);
                (name, attribute.value.clone().into_owned())
            });
            element.attributes = attributes.collect();
        }
        Ok(element)
    }

    fn start_body(&mut self, tag: &StartTag<'_>) -> Result<OpenElement, Fault> {
        if self.wrapper.is_some() {
            return Err(malformed(format!("the Body holds a second element, {}", tag.name())));
        }
        let name = tag.name();
        self.wrapper = Some(name.clone());
        if tag.is(self.version.map_or("", SoapVersion::namespace), "Fault") {
            let element = self.element(tag, true)?;
            return Ok(OpenElement::Element {
                element,
                role: None,
                must_understand: false,
                whole: true,
            });
        }
        self.check_encoding(tag)?;
        let parameters = self.expect.parameters(&name);
        Ok(OpenElement::Values(BuiltValues {
            namespace: name.namespace.clone(),
            child: Child { name, label: None, content: ValueContent::Nil },
            unexpected: parameters.is_none(),
            parameters: parameters.unwrap_or_default(),
            children: Vec::new(),
        }))
    }

    /// An element among the values.
    fn start_value(&mut self, tag: &StartTag<'_>) -> Result<OpenElement, Fault> {
        self.check_encoding(tag)?;
        let Some(OpenElement::Values(values)) = self.frames.last_mut() else {
            return Ok(OpenElement::Skipped);
        };
        let ours = tag.namespace.is_empty() || tag.namespace == values.namespace;
        let mut parameters = values.parameters.iter();
        let parameter = parameters.find(|parameter| ours && parameter.name == tag.local);
        let mut child = Child { name: tag.name(), label: None, content: ValueContent::Unexpected };
        let Some(parameter) = parameter else {
            if !std::mem::replace(&mut values.unexpected, true) {
                values.children.push(child);
            }
            return Ok(OpenElement::Skipped);
        };
        let twice = |has: &Child| has.name.local == tag.local;
        if !parameter.repeated && values.children.iter().any(twice) {
            return Err(bind::twice(&parameter.name));
        }
        let href = tag.attribute("", "href");
        let referable = parameter.data_type.is_binary() || parameter.data_type.as_array().is_some();
        if href.is_some() && !referable {
            let message =
                format!("parameter {} refers to its value by href; give the value", parameter.name);
            return Err(Fault::new(FaultCode::InvalidValue, message).parameter(&*parameter.name));
        }
        if parameter.repeated {
            child.label = tag.attribute("", "name").map(str::to_owned);
        }
        if tag.is_nil() {
            child.content = ValueContent::Nil;
            values.children.push(child);
            return Ok(OpenElement::Skipped);
        }
        let streamed = self.streams
            && parameter.streamed
            && !parameter.repeated
            && !options::has_key(&self.headers);
        if streamed {
            self.streamed.push(child.name.clone());
        } else {
            self.spools |= self.streams && parameter.streamed;
        }
        Ok(match &parameter.data_type {
            DataType::Raw | DataType::Xml | DataType::Dir => {
                let has = |of: &Parameter| {
                    of.name == parameter.name
                        || values.children.iter().any(|child| child.name.local == of.name)
                };
                let last = streamed && values.parameters.iter().all(has);
                // Where no value may follow, this one need not be whole to be given.
                let ahead = last && !values.unexpected && values.children.iter().all(is_here);
                self.binary = BinaryBuilder::new(&parameter.name, ahead);
                // SOAP with Attachments refers to a part from the element itself.
                if let Some(href) = href {
                    self.binary.attach(href);
                }
                OpenElement::Binary(child)
            }
            DataType::Array(of) => {
                let array = ArrayBuilder::new(&parameter.name, of, tag, &self.limits)?;
                self.array = Some(Box::new(array));
                OpenElement::Array(child)
            }
            DataType::Record(fields) => OpenElement::Values(BuiltValues {
                child,
                parameters: fields.as_slice().into(),
                namespace: values.namespace.clone(),
                children: Vec::new(),
                unexpected: false,
            }),
            _ => OpenElement::Scalar { child, text: String::new() },
        })
    }

    /// The file or the bytes of the array at hand.
    fn binary_at_hand(&mut self) -> &mut BinaryBuilder {
        match &mut self.array {
            Some(array) => &mut array.binary,
            None => &mut self.binary,
        }
    }

    /// A value is whole.
    fn end_value(&mut self, child: Child) {
        if let Some(OpenElement::Values(values)) = self.frames.last_mut() {
            values.children.push(child);
        }
    }

    fn end_element(&mut self, ended: HeaderBlock) -> Result<(), Fault> {
        if let Some(c) = unfit(&ended.element.text) {
            return Err(malformed(format!("a character that XML cannot hold: {c:?}")));
        }
        match self.frames.last_mut() {
            Some(OpenElement::Element { element, .. }) => element.children.push(ended.element),
            Some(OpenElement::Header) => self.headers.push(ended),
            _ => self.body = Some(Body::Fault(soap_fault(&ended.element))),
        }
        Ok(())
    }
}

impl Handler for BuilderInput<'_> {
    fn start(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        let builder = &mut *self.builder;
        let frame = match builder.frames.last_mut() {
            None => builder.start_envelope(tag)?,
            Some(OpenElement::Envelope) => builder.start_in_envelope(tag)?,
            Some(OpenElement::Header) => builder.start_header(tag)?,
            Some(OpenElement::Body) => builder.start_body(tag)?,
            Some(OpenElement::Values(_)) => builder.start_value(tag)?,
            Some(OpenElement::Scalar { child, .. }) => {
                let name = &child.name.local;
                let message = if reference::begins(tag) {
                    format!("parameter {name} is text, which goes by value only: give the value")
                } else {
                    format!("parameter {name} is text, not {}", tag.name())
                };
                return Err(Fault::new(FaultCode::InvalidValue, message).parameter(&**name));
            }
            Some(OpenElement::Binary(_)) => match builder.binary.start(tag)? {
                BinaryChild::Include => OpenElement::Include,
                BinaryChild::Value => OpenElement::ValueElement,
                BinaryChild::XmlData => OpenElement::XmlData { seen: false },
                BinaryChild::EndpointReference => OpenElement::EndpointReference,
            },
            Some(OpenElement::Array(_) | OpenElement::Item) => match builder.array.as_mut() {
                None => OpenElement::Skipped,
                Some(array) => match array.start(tag)? {
                    ArrayChild::Include => OpenElement::Include,
                    ArrayChild::Value => OpenElement::ValueElement,
                    ArrayChild::EndpointReference => OpenElement::EndpointReference,
                    ArrayChild::Item => {
                        builder.payload_bytes += tag.len as u64;
                        OpenElement::Item
                    }
                },
            },
            Some(OpenElement::XmlData { seen }) => {
                if std::mem::replace(seen, true) {
                    return Err(malformed("XMLData holds more than one element"));
                }
                self.fragment(tag.len, |out| push_start(tag, true, out));
                OpenElement::Fragment
            }
            Some(OpenElement::Fragment) => {
                self.fragment(tag.len, |out| push_start(tag, false, out));
                OpenElement::Fragment
            }
            Some(OpenElement::ValueElement) => {
                builder.binary_at_hand().start(tag)?;
                OpenElement::Include
            }
            Some(OpenElement::EndpointReference) => in_reference(tag, false),
            Some(OpenElement::Metadata) => in_reference(tag, true),
            Some(OpenElement::Element { whole: true, .. }) => OpenElement::Element {
                element: builder.element(tag, true)?,
                role: None,
                must_understand: false,
                whole: true,
            },
            Some(OpenElement::Include | OpenElement::ReferencePart { .. }) => {
                return Err(malformed(format!("{} where nothing may stand", tag.name())));
            }
            Some(OpenElement::Element { .. } | OpenElement::Skipped) => OpenElement::Skipped,
        };
        self.builder.frames.push(frame);
        Ok(())
    }

    fn end(&mut self, raw: &str) -> Result<(), Fault> {
        let builder = &mut *self.builder;
        match builder.frames.pop() {
            Some(OpenElement::Values(BuiltValues { mut child, children, .. })) => {
                if matches!(builder.frames.last(), Some(OpenElement::Body)) {
                    builder.body = Some(Body::Wrapper { name: child.name, children });
                } else {
                    child.content = ValueContent::Fields(children);
                    builder.end_value(child);
                }
            }
            Some(OpenElement::Scalar { mut child, text }) => {
                if let Some(c) = unfit(&text) {
                    let name = &child.name.local;
                    return Err(malformed(format!(
                        "parameter {name} holds a character that XML cannot hold: {c:?}"
                    )));
                }
                child.content = ValueContent::Text(text);
                builder.end_value(child);
            }
            Some(OpenElement::Binary(mut child)) => {
                let binary = std::mem::take(&mut builder.binary);
                child.content = binary.finish(self.budget, self.sink)?;
                builder.end_value(child);
            }
            Some(OpenElement::Array(mut child)) => {
                if let Some(array) = builder.array.take() {
                    let numbers = array.finish(self.budget, self.sink)?;
                    if !matches!(*numbers.data, ValueContent::Data(Payload::Reference(_))) {
                        builder.arrays.get_or_insert(numbers.form);
                    }
                    child.content = ValueContent::Array(numbers);
                    builder.end_value(child);
                }
            }
            Some(OpenElement::Item) => {
                builder.payload_bytes += end_tag_len(raw) as u64;
                if let Some(array) = &mut builder.array {
                    array.end_item(self.budget, self.sink)?;
                }
            }
            Some(OpenElement::XmlData { seen: false }) => {
                return Err(malformed("XMLData holds no element"));
            }
            Some(OpenElement::Fragment) => {
                self.fragment(end_tag_len(raw), |out| push_end(raw, out));
            }
            Some(OpenElement::ValueElement) => builder.binary_at_hand().end_value(),
            Some(OpenElement::ReferencePart { part, text }) => {
                builder.binary_at_hand().end_part(part, &text)?;
            }
            Some(OpenElement::Element { element, role, must_understand, .. }) => {
                builder.end_element(HeaderBlock { must_understand, role, element })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        let builder = &mut *self.builder;
        let most = builder.limits.text_size;
        match builder.frames.last_mut() {
            Some(OpenElement::Scalar { text: so_far, .. }) => append(so_far, text, most),
            Some(OpenElement::ReferencePart { text: so_far, .. }) => {
                reference::append(so_far, text, builder.limits.header_length)
            }
            Some(OpenElement::Element { element, whole: true, .. }) => {
                append(&mut element.text, text, most)
            }
            Some(OpenElement::Element { .. } | OpenElement::Skipped) => Ok(()),
            Some(OpenElement::Binary(_) | OpenElement::ValueElement) => {
                builder.payload_bytes += text.len() as u64;
                builder.binary_at_hand().text(text, self.budget, self.sink)
            }
            Some(OpenElement::Array(_) | OpenElement::Item) => {
                builder.payload_bytes += text.len() as u64;
                match &mut builder.array {
                    Some(array) => array.text(text, self.budget, self.sink),
                    None => Ok(()),
                }
            }
            Some(OpenElement::Fragment) => {
                if let Some(c) = unfit(text) {
                    return Err(malformed(format!("a character that XML cannot hold: {c:?}")));
                }
                self.fragment(text.len(), |out| push_content(text, out));
                Ok(())
            }
            _ if text.bytes().all(is_space) => Ok(()),
            _ => Err(malformed(format!(
                "text where only elements may stand: {:?}",
                shortened(text.trim())
            ))),
        }
    }

    fn comment(&mut self, piece: &str) -> Result<(), Fault> {
        match self.builder.frames.last() {
            Some(OpenElement::Fragment) => {
                self.fragment(piece.len(), |out| out.extend_from_slice(piece.as_bytes()));
            }
            Some(OpenElement::Item) => self.builder.payload_bytes += piece.len() as u64,
            _ => {}
        }
        Ok(())
    }

    fn takes_raw_text(&self) -> bool {
        let last = self.builder.frames.last();
        let values = matches!(last, Some(OpenElement::Binary(_) | OpenElement::ValueElement));
        values || matches!(last, Some(OpenElement::Array(_) | OpenElement::Item))
    }

    fn takes_runs(&self) -> bool {
        let in_array =
            matches!(self.builder.frames.last(), Some(OpenElement::Array(_) | OpenElement::Item));
        in_array && self.builder.array.as_ref().is_some_and(|array| array.takes_runs())
    }

    fn run(&mut self, run: &RunNames<'_>, text: &str) -> Result<usize, Fault> {
        let Some(array) = &mut self.builder.array else { return Ok(0) };
        let read = array.run(run, text, self.budget, self.sink)?;
        self.builder.payload_bytes += read as u64;
        Ok(read)
    }

    fn counts_children(&self) -> bool {
        let last = self.builder.frames.last();
        !matches!(last, Some(OpenElement::Fragment | OpenElement::Array(_) | OpenElement::Item))
    }
}

impl BuilderInput<'_> {
    /// Appends to the payload what stands for so many bytes of the message.
    fn fragment(&mut self, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.builder.payload_bytes += bytes as u64;
        let mut out = Vec::new();
        write(&mut out);
        self.builder.binary.collector.push_own(out, self.budget, self.sink);
    }
}

/// It refers to no part, which would still be to come.
fn is_here(child: &Child) -> bool {
    match &child.content {
        ValueContent::Array(numbers) => numbers.data.part().is_none(),
        content => content.part().is_none(),
    }
}

fn in_reference(tag: &StartTag<'_>, in_metadata: bool) -> OpenElement {
    match reference::start(tag, in_metadata) {
        ReferenceChild::Part(part) => OpenElement::ReferencePart { part, text: String::new() },
        ReferenceChild::Metadata => OpenElement::Metadata,
        ReferenceChild::Other => OpenElement::Skipped,
    }
}

/// A fault of either version, as data.
fn soap_fault(element: &XmlElement) -> SoapFault {
    if let Some(code) = element.child("Code") {
        let mut subcodes = Vec::new();
        let mut inner = code.child("Subcode");
        while let Some(subcode) = inner {
            subcodes.extend(subcode.child("Value").map(code_name));
            inner = subcode.child("Subcode");
        }
        let reason = element.child("Reason").and_then(|reason| reason.child("Text"));
        return SoapFault {
            code: code.child("Value").map(code_name).unwrap_or_default(),
            subcodes,
            reason: reason.map(|text| text.text.trim().to_owned()).unwrap_or_default(),
            detail: element.child("Detail").map(|d| d.children.clone()).unwrap_or_default(),
        };
    }
    let reason = element.child("faultstring").map(|reason| reason.text.trim().to_owned());
    SoapFault {
        code: element.child("faultcode").map(code_name).unwrap_or_default(),
        subcodes: Vec::new(),
        reason: reason.unwrap_or_default(),
        detail: element.child("detail").map(|d| d.children.clone()).unwrap_or_default(),
    }
}

/// A fault code. Its prefix is only good within the message, and the local names are distinct: the
/// namespace is left out.
fn code_name(element: &XmlElement) -> QName {
    let text = element.text.trim();
    QName::new("", text.rsplit(':').next().unwrap_or(text))
}
