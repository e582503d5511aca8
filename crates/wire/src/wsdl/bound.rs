//! How a binding puts messages on the wire.

use fishplate_contract::Service;

use super::markup::Markup;
use super::view::PackagingBinding;
use super::xdescr::HEADERS_MESSAGE;
use crate::name::{WSDL_DIME, WSDL_MIME};

/// One binding of a WSDL.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum BindingDefinition {
    /// SOAP 1.1, plain or MTOM.
    Soap11,
    /// SOAP 1.2, plain or MTOM.
    Soap12,
    /// SOAP 1.1 with Attachments.
    Swa,
    /// SOAP 1.1 in DIME.
    Dime,
}

/// All parts of a message are told: the envelope, and what it refers to.
const CLOSED_LAYOUT: &str = "http://schemas.xmlsoap.org/ws/2002/04/dime/closed-layout";

impl BindingDefinition {
    /// The bindings of a view, the most general first.
    pub(super) fn of(binding: PackagingBinding) -> &'static [Self] {
        match binding {
            PackagingBinding::Soap => &[Self::Soap11, Self::Soap12],
            PackagingBinding::Swa => &[Self::Swa],
            PackagingBinding::Dime => &[Self::Dime],
        }
    }

    /// The declaration of its own prefix.
    pub(super) fn declaration(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Soap11 | Self::Soap12 => None,
            Self::Swa => Some(("xmlns:mime", WSDL_MIME)),
            Self::Dime => Some(("xmlns:dime", WSDL_DIME)),
        }
    }

    /// Name of an element of the extension for SOAP, by that name without its prefix.
    pub(super) fn element(self, local: &'static str) -> &'static str {
        match (self, local) {
            (Self::Soap12, "binding") => "soap12:binding",
            (Self::Soap12, "operation") => "soap12:operation",
            (Self::Soap12, "body") => "soap12:body",
            (Self::Soap12, "header") => "soap12:header",
            (Self::Soap12, "fault") => "soap12:fault",
            (Self::Soap12, _) => "soap12:address",
            (_, "binding") => "soap:binding",
            (_, "operation") => "soap:operation",
            (_, "body") => "soap:body",
            (_, "header") => "soap:header",
            (_, "fault") => "soap:fault",
            (_, _) => "soap:address",
        }
    }

    /// Name of the binding and of its port.
    pub(super) fn name(self, service: &Service) -> String {
        let bound = match self {
            Self::Soap11 => "Soap11",
            Self::Soap12 => "Soap12",
            Self::Swa => "Swa",
            Self::Dime => "Dime",
        };
        format!("{}{bound}", service.name)
    }

    /// Writes how the messages of a direction are made up.
    pub(super) fn write_message(self, to: &mut Markup, headers: &[&str]) {
        match self {
            Self::Soap11 | Self::Soap12 => self.write_envelope(to, headers),
            Self::Swa => {
                to.open("mime:multipartRelated", &[]);
                to.open("mime:part", &[]);
                self.write_envelope(to, headers);
                to.close();
                to.close();
            }
            Self::Dime => {
                to.empty("dime:message", &[("layout", CLOSED_LAYOUT), ("wsdl:required", "true")]);
                self.write_envelope(to, headers);
            }
        }
    }

    fn write_envelope(self, to: &mut Markup, headers: &[&str]) {
        to.empty(self.element("body"), &[("use", "literal")]);
        let message = format!("tns:{HEADERS_MESSAGE}");
        for header in headers {
            let attributes = [("message", &*message), ("part", header), ("use", "literal")];
            to.empty(self.element("header"), &attributes);
        }
    }
}
