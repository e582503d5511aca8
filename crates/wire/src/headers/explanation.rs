//! What SOAP tells of a fault in headers: in SOAP 1.2 which blocks were not understood and which versions
//! are spoken (part 1, sections 5.4.7 and 5.4.8); in SOAP 1.1 the detail of a fault that is about
//! headers, which may not stand in the body (section 4.4).

use fishplate_contract::FaultCode;

use super::table::{self, HeaderKind, HeaderReply};
use crate::detail;
use crate::envelope::{HeaderBlock, SoapVersion, XmlElement};
use crate::name::{FAULT, QName, SOAP_11, SOAP_12, XMLNS};
use crate::write::ReplyForm;

pub(crate) struct Explanation;

impl HeaderKind for Explanation {
    fn namespaces(&self) -> &'static [&'static str] {
        &[FAULT]
    }

    /// It is of answers only.
    fn understands(&self, _: &XmlElement) -> bool {
        false
    }

    fn answer(&self, form: &ReplyForm, answer: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        let HeaderReply::Fault(fault) = *answer else { return Vec::new() };
        let elements = match (form.version, fault.code) {
            (SoapVersion::V11, code) if form.is_about_headers(code) => {
                vec![detail::write(FAULT, fault)]
            }
            (SoapVersion::V12, FaultCode::MustUnderstand) => {
                let names = table::not_understood(form.version, &form.headers);
                names.map(|name| naming("NotUnderstood", name)).collect()
            }
            (SoapVersion::V12, FaultCode::VersionMismatch) => {
                let supported = |namespace: &str| {
                    naming("SupportedEnvelope", &QName::new(namespace, "Envelope"))
                };
                vec![XmlElement {
                    name: QName::new(SOAP_12, "Upgrade"),
                    children: [SOAP_12, SOAP_11].map(supported).into(),
                    ..XmlElement::default()
                }]
            }
            _ => Vec::new(),
        };
        elements.into_iter().map(HeaderBlock::optional).collect()
    }
}

/// An element whose attribute `qname` is this name.
fn naming(local: &str, name: &QName) -> XmlElement {
    let mut attributes = Vec::new();
    let qname = if name.namespace.is_empty() {
        name.local.clone()
    } else {
        attributes.push((QName::new(XMLNS, "q"), name.namespace.clone()));
        format!("q:{}", name.local)
    };
    attributes.push((QName::new("", "qname"), qname));
    XmlElement { name: QName::new(SOAP_12, local), attributes, ..XmlElement::default() }
}
