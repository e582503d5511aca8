//! The value of a binary parameter: base64 text, as it is or in an element of its own, a part of the
//! message, inline XML (paper 000, Figure 6) or a reference (Figure 7).

use std::mem;

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{Fault, FaultCode, Payload};

use super::collect::{JOINED, MemoryBudget, PayloadCollector, WRITTEN};
use super::reference::{self, ReferenceBuilder};
use crate::base64::Base64Decoder;
use crate::envelope::ValueContent;
use crate::limits::exceeded;
use crate::media::CID;
use crate::name::{XDESCR, XOP};
use crate::spool::SpoolSink;
use crate::xml::{StartTag, is_space};

/// A binary value as it is read.
#[derive(Default)]
pub(super) struct BinaryBuilder {
    /// Name of the parameter, for faults.
    pub(super) parameter: String,
    pub(super) collector: PayloadCollector,
    decoder: Base64Decoder,
    decoded: Vec<u8>,
    /// The text is base64 for certain.
    told: bool,
    /// What the text began with, while it may still be a URL.
    lead: String,
    form: Form,
    value: ValueElement,
}

/// The element `xdescr:Value` around what stands for the bytes.
#[derive(Clone, Copy, Default, PartialEq)]
enum ValueElement {
    /// There is none so far.
    #[default]
    Absent,
    Open,
    /// It has ended: nothing comes after it.
    Closed,
}

/// What stands for the bytes.
#[derive(Default)]
enum Form {
    /// Base64, or nothing yet.
    #[default]
    Text,
    /// A part of the message.
    Part(PartName),
    /// `xdescr:XMLData`.
    Xml,
    /// `wsa:EndpointReference`.
    Reference(ReferenceBuilder),
}

/// What refers to a part.
struct PartName {
    /// The URL in `href`; empty if the text refers to the part.
    url: String,
    /// The text, which may repeat it.
    text: String,
}

const BESIDE: &str = "text beside the element that stands for the value";

/// What an element within a binary value is.
pub(super) enum BinaryChild {
    Include,
    Value,
    XmlData,
    EndpointReference,
}

impl BinaryBuilder {
    /// The value of this parameter; with `streamed` its text may be given while it arrives.
    pub(super) fn new(parameter: &str, streamed: bool) -> Self {
        let collector =
            if streamed { PayloadCollector::streamed() } else { PayloadCollector::default() };
        Self { parameter: parameter.to_owned(), collector, ..Self::default() }
    }

    /// It has turned out to be base64.
    pub(super) fn is_text(&self) -> bool {
        self.told
    }

    fn invalid(&self, message: impl std::fmt::Display) -> Fault {
        let message = format!("parameter {}: {message}", self.parameter);
        Fault::new(FaultCode::InvalidValue, message).parameter(&*self.parameter)
    }

    /// Text of the value itself.
    pub(super) fn text(
        &mut self,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        match &mut self.form {
            _ if self.value == ValueElement::Closed && text.bytes().all(is_space) => Ok(()),
            _ if self.value == ValueElement::Closed => Err(self.invalid(BESIDE)),
            Form::Text if self.told => self.decode(text, budget, sink),
            Form::Text => self.tell(text, budget, sink),
            Form::Part(name) => name.append(text, budget.name_length()),
            Form::Xml | Form::Reference(_) if text.bytes().all(is_space) => Ok(()),
            _ => Err(self.invalid(BESIDE)),
        }
    }

    /// Tells a `cid:` URL (`swaRef`, WS-I Attachments Profile 1.0, section 4.4) from base64, which
    /// knows no colon.
    fn tell(
        &mut self,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        let begun = text.bytes().position(|byte| !is_space(byte)).unwrap_or(text.len());
        let text = if self.lead.is_empty() { &text[begun..] } else { text };
        let scheme = &CID.as_bytes()[self.lead.len()..];
        let pairs = scheme.iter().zip(text.bytes());
        let same = pairs.take_while(|(one, other)| other.eq_ignore_ascii_case(one)).count();
        let (more, rest) = text.split_at(same);
        self.lead.push_str(more);
        if self.lead.len() == CID.len() {
            let mut name = PartName { url: String::new(), text: CID.to_owned() };
            name.append(rest, budget.name_length())?;
            self.form = Form::Part(name);
            return Ok(());
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.told = true;
        let lead = mem::take(&mut self.lead);
        self.decode(&lead, budget, sink)?;
        self.decode(rest, budget, sink)
    }

    /// Passes on what it decodes in pieces of one length: memory that one message gives back fits the next.
    fn decode(
        &mut self,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        let mut text = text.as_bytes();
        while !text.is_empty() {
            // Of the characters before up to three wait in the decoder.
            let room = (WRITTEN - self.decoded.len()) / 3 - 1;
            let (now, rest) = text.split_at(text.len().min(room * 4));
            text = rest;
            let most = now.len() / 4 * 3 + 3;
            let first = self.decoded.capacity() == 0 && self.collector.is_empty();
            let needed = if first { most } else { WRITTEN - self.decoded.len() };
            self.decoded.reserve_exact(needed);
            let decoded = self.decoder.decode(now, &mut self.decoded);
            decoded.map_err(|error| self.invalid(error))?;
            if self.decoded.len() + 6 > WRITTEN || self.collector.is_streamed() {
                self.pass_on(budget, sink);
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        if self.decoded.len() >= JOINED {
            self.decoded.shrink_to_fit();
            self.collector.push_own(mem::take(&mut self.decoded), budget, sink);
        } else {
            self.collector.push_slice(&self.decoded, budget, sink);
            self.decoded.clear();
        }
    }

    /// An element in the value.
    pub(super) fn start(&mut self, tag: &StartTag<'_>) -> Result<BinaryChild, Fault> {
        let empty =
            self.lead.is_empty() && self.decoder.is_empty() && self.value != ValueElement::Closed;
        if !matches!(self.form, Form::Text) || !empty {
            return Err(self.invalid("more than one value"));
        }
        if tag.is(XOP, "Include") {
            let href = tag.attribute("", "href").unwrap_or_default();
            if !part_url(href).starts_with(CID) {
                let message = format!(
                    "parameter {}: xop:Include refers to {:?}; it may only refer to a part of this \
                     message (href=\"cid:...\")",
                    self.parameter,
                    shortened(href)
                );
                return Err(
                    Fault::new(FaultCode::ForbiddenContent, message).parameter(&*self.parameter)
                );
            }
            self.attach(href);
            Ok(BinaryChild::Include)
        } else if self.value == ValueElement::Open {
            Err(self.invalid(format!("the element {} within Value", tag.name())))
        } else if tag.is(XDESCR, "Value") {
            self.value = ValueElement::Open;
            if let Some(href) = tag.attribute("", "href") {
                self.attach(href);
            }
            Ok(BinaryChild::Value)
        } else if tag.is(XDESCR, "XMLData") {
            self.form = Form::Xml;
            // Its end is not known before it has come.
            self.collector = PayloadCollector::default();
            Ok(BinaryChild::XmlData)
        } else if reference::begins(tag) {
            self.form = Form::Reference(ReferenceBuilder::default());
            Ok(BinaryChild::EndpointReference)
        } else {
            Err(self.invalid(format!(
                "the element {} cannot stand for a file: give base64 text, xop:Include, one of \
                 these in {{{XDESCR}}}Value, {{{XDESCR}}}XMLData with one element in it, or a \
                 wsa:EndpointReference",
                tag.name()
            )))
        }
    }

    /// A part of this message stands for the value (`href` of the value's element or of
    /// `xop:Include`). Whether there is such a part is known when the message has ended.
    pub(super) fn attach(&mut self, href: &str) {
        self.form = Form::Part(PartName { url: part_url(href), text: String::new() });
    }

    /// The element around the value has ended.
    pub(super) fn end_value(&mut self) {
        self.value = ValueElement::Closed;
    }

    /// A part of the endpoint reference has ended.
    pub(super) fn end_part(
        &mut self,
        part: reference::TextElement,
        text: &str,
    ) -> Result<(), Fault> {
        match &mut self.form {
            Form::Reference(builder) => builder.end(&self.parameter, part, text),
            _ => Ok(()),
        }
    }

    pub(super) fn finish(
        mut self,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<ValueContent, Fault> {
        match mem::take(&mut self.form) {
            Form::Text => {
                let lead = mem::take(&mut self.lead);
                self.decode(&lead, budget, sink)?;
                let decoded = self.decoder.finish(&mut self.decoded);
                decoded.map_err(|error| self.invalid(error))?;
                self.pass_on(budget, sink);
                Ok(ValueContent::Data(self.collector.finish(budget, sink)))
            }
            Form::Xml => Ok(ValueContent::Data(self.collector.finish(budget, sink))),
            Form::Part(PartName { url, text }) => {
                let text = part_url(&text);
                match (url.is_empty(), text.is_empty()) {
                    (true, _) => Ok(ValueContent::Part(text)),
                    (false, empty) if empty || text == url => Ok(ValueContent::Part(url)),
                    _ => Err(self.invalid("its href and its text are not the same URL")),
                }
            }
            Form::Reference(builder) => {
                Ok(ValueContent::Data(Payload::Reference(builder.finish(&self.parameter)?)))
            }
        }
    }
}

impl PartName {
    fn append(&mut self, text: &str, most: usize) -> Result<(), Fault> {
        if self.text.len() + text.len() > most {
            return Err(exceeded("header_length", most as u64, "bytes"));
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// A URL that refers to a part, its scheme in lower case if it is `cid:`.
fn part_url(href: &str) -> String {
    let href = trimmed(href);
    match href.get(..CID.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(CID) => format!("{CID}{}", &href[CID.len()..]),
        _ => href.to_owned(),
    }
}
