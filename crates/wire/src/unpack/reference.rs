//! A reference in the place of a value: a `wsa:EndpointReference` (paper 000, Figure 7) of WS-Addressing
//! 1.0 or of August 2004. Length and digest of what is there are elements of ours in its Metadata, or
//! in the reference itself: the older version has no Metadata.

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{DataRef, Digest, Fault, FaultCode};

use crate::limits::exceeded;
use crate::name::{WSA, WSA_2004, XDESCR};
use crate::xml::{StartTag, unfit};

/// A reference as it is read.
#[derive(Default)]
pub(super) struct ReferenceBuilder {
    address: Option<String>,
    len: Option<u64>,
    digest: Option<Digest>,
}

/// An element whose text we want.
#[derive(Clone, Copy)]
pub(super) enum TextElement {
    Address,
    Length,
    Digest,
}

/// What an element in a reference is.
pub(super) enum ReferenceChild {
    Part(TextElement),
    Metadata,
    /// Somebody else's: passed over.
    Other,
}

/// Whether this tag begins a reference.
pub(super) fn begins(tag: &StartTag<'_>) -> bool {
    is_wsa(tag, "EndpointReference")
}

fn is_wsa(tag: &StartTag<'_>, local: &str) -> bool {
    tag.is(WSA, local) || tag.is(WSA_2004, local)
}

/// An element in a reference or in its metadata.
pub(super) fn start(tag: &StartTag<'_>, in_metadata: bool) -> ReferenceChild {
    if tag.is(XDESCR, "Length") {
        ReferenceChild::Part(TextElement::Length)
    } else if tag.is(XDESCR, "Digest") {
        ReferenceChild::Part(TextElement::Digest)
    } else if in_metadata {
        ReferenceChild::Other
    } else if is_wsa(tag, "Address") {
        ReferenceChild::Part(TextElement::Address)
    } else if is_wsa(tag, "Metadata") {
        ReferenceChild::Metadata
    } else {
        ReferenceChild::Other
    }
}

/// Appends to the text of a part.
pub(super) fn append(text: &mut String, more: &str, most: usize) -> Result<(), Fault> {
    if text.len() + more.len() > most {
        return Err(exceeded("header_length", most as u64, "bytes"));
    }
    text.push_str(more);
    Ok(())
}

impl ReferenceBuilder {
    /// A part has ended.
    pub(super) fn end(
        &mut self,
        parameter: &str,
        part: TextElement,
        text: &str,
    ) -> Result<(), Fault> {
        let text = trimmed(text);
        let told = match part {
            TextElement::Address => self.address(text),
            TextElement::Length => self.length(text),
            TextElement::Digest => self.digest(text),
        };
        told.map_err(|what| invalid(parameter, &what))
    }

    fn address(&mut self, text: &str) -> Result<(), String> {
        if self.address.is_some() || text.is_empty() {
            return Err("an EndpointReference has one Address, which is a URL".to_owned());
        }
        if text.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("cid:")) {
            return Err("an EndpointReference cannot refer to an attachment".to_owned());
        }
        if let Some(c) = unfit(text) {
            return Err(format!("the Address of its EndpointReference holds {c:?}"));
        }
        self.address = Some(text.to_owned());
        Ok(())
    }

    fn length(&mut self, text: &str) -> Result<(), String> {
        if self.len.is_some() {
            return Err("its EndpointReference tells two lengths".to_owned());
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let len = text.parse().ok().filter(|_| digits);
        self.len = Some(len.ok_or_else(|| {
            let text = shortened(text);
            format!("the Length in its EndpointReference is {text:?}, not a number of bytes")
        })?);
        Ok(())
    }

    fn digest(&mut self, text: &str) -> Result<(), String> {
        if self.digest.is_some() {
            return Err("its EndpointReference tells two digests".to_owned());
        }
        // One that can't be verified is refused: the sender relies on it.
        self.digest = Some(Digest::from_field(text).ok_or_else(|| {
            let text = shortened(text);
            format!(
                "the Digest in its EndpointReference is {text:?}: give sha-256=:BASE64: or \
                 sha-512=:BASE64: (RFC 9530), or leave it out"
            )
        })?);
        Ok(())
    }

    /// The reference is whole.
    pub(super) fn finish(self, parameter: &str) -> Result<DataRef, Fault> {
        let without = || invalid(parameter, "an EndpointReference without an Address");
        let url = self.address.ok_or_else(without)?;
        Ok(DataRef { url, len: self.len, digest: self.digest })
    }
}

fn invalid(parameter: &str, what: &str) -> Fault {
    let message = format!("parameter {parameter}: {what}");
    Fault::new(FaultCode::InvalidValue, message).parameter(parameter)
}
