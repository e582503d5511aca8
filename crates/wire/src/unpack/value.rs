//! The value of a binary parameter: base64 text, an attachment, inline XML (paper 000, Figure 6)
//! or a reference (Figure 7).

use std::mem;

use bytes::Bytes;
use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{DataRef, Fault, FaultCode, Payload};

use super::collect::{Collector, JOINED, Room};
use crate::base64::Base64Decoder;
use crate::name::{WSA, WSA_2004, XDESCR, XOP};
use crate::spool::SpoolSink;
use crate::xml::{StartTag, is_space};

/// A binary value as it is read.
#[derive(Default)]
pub(super) struct Binary {
    /// Name of the parameter, for faults.
    pub(super) parameter: String,
    pub(super) collector: Collector,
    decoder: Base64Decoder,
    decoded: Vec<u8>,
    form: Form,
}

/// What stands for the bytes.
#[derive(Default)]
enum Form {
    /// Base64, or nothing yet.
    #[default]
    Text,
    /// `xop:Include`.
    Attachment(String),
    /// `xdescr:XMLData`.
    Xml,
    /// `wsa:EndpointReference`, with its address once it was read.
    Reference(Option<String>),
}

/// What an element within a binary value is.
pub(super) enum Within {
    Include,
    XmlData,
    EndpointReference,
}

impl Binary {
    pub(super) fn new(parameter: &str) -> Self {
        Self { parameter: parameter.to_owned(), ..Self::default() }
    }

    fn invalid(&self, message: impl std::fmt::Display) -> Fault {
        let message = format!("parameter {}: {message}", self.parameter);
        Fault::new(FaultCode::InvalidValue, message).parameter(&*self.parameter)
    }

    /// Text of the value itself.
    pub(super) fn text(
        &mut self,
        text: &str,
        room: &mut Room,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        if !matches!(self.form, Form::Text) {
            return match text.bytes().all(is_space) {
                true => Ok(()),
                false => Err(self.invalid("text beside the element that stands for the value")),
            };
        }
        let decoded = self.decoder.decode(text.as_bytes(), &mut self.decoded);
        decoded.map_err(|error| self.invalid(error))?;
        self.pass_on(room, sink);
        Ok(())
    }

    fn pass_on(&mut self, room: &mut Room, sink: &mut dyn SpoolSink) {
        if self.decoded.len() >= JOINED {
            self.collector.push(Bytes::from(mem::take(&mut self.decoded)), room, sink);
        } else {
            self.collector.push_slice(&self.decoded, room, sink);
            self.decoded.clear();
        }
    }

    /// An element in the value.
    pub(super) fn start(&mut self, tag: &StartTag<'_>) -> Result<Within, Fault> {
        if !matches!(self.form, Form::Text) || !self.decoder.is_empty() {
            return Err(self.invalid("more than one value"));
        }
        if tag.is(XOP, "Include") {
            self.form = Form::Attachment(self.include(tag)?);
            Ok(Within::Include)
        } else if tag.is(XDESCR, "XMLData") {
            self.form = Form::Xml;
            Ok(Within::XmlData)
        } else if tag.is(WSA, "EndpointReference") || tag.is(WSA_2004, "EndpointReference") {
            self.form = Form::Reference(None);
            Ok(Within::EndpointReference)
        } else {
            Err(self.invalid(format!(
                "the element {} cannot stand for a file: give base64 text, xop:Include, \
                 {{{XDESCR}}}XMLData with one element in it, or a wsa:EndpointReference",
                tag.name()
            )))
        }
    }

    /// Only parts of this message may be included: to fetch what a stranger names would make us
    /// call addresses for them (CVE-2022-46364, CVE-2024-28752).
    fn include(&self, tag: &StartTag<'_>) -> Result<String, Fault> {
        let href = trimmed(tag.attribute("", "href").unwrap_or_default());
        let scheme = href.get(..4).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("cid:") {
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
        Ok(format!("cid:{}", &href[4..]))
    }

    /// The address of the endpoint reference.
    pub(super) fn address(&mut self, address: &str) -> Result<(), Fault> {
        let address = trimmed(address);
        let twice = matches!(self.form, Form::Reference(Some(_)));
        if twice || address.is_empty() {
            return Err(self.invalid("an EndpointReference has one Address, which is a URL"));
        }
        if address.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("cid:")) {
            return Err(self.invalid("an EndpointReference cannot refer to an attachment"));
        }
        self.form = Form::Reference(Some(address.to_owned()));
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        room: &mut Room,
        sink: &mut dyn SpoolSink,
    ) -> Result<Payload, Fault> {
        match mem::take(&mut self.form) {
            Form::Text => {
                let decoded = self.decoder.finish(&mut self.decoded);
                decoded.map_err(|error| self.invalid(error))?;
                self.pass_on(room, sink);
                Ok(self.collector.finish(sink))
            }
            Form::Xml => Ok(self.collector.finish(sink)),
            Form::Attachment(url) | Form::Reference(Some(url)) => {
                Ok(Payload::Reference(DataRef { url }))
            }
            Form::Reference(None) => Err(self.invalid("an EndpointReference without an Address")),
        }
    }
}
