//! Qualified names and the namespaces we know.

use std::fmt;

/// A name in a namespace. An empty namespace is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QName {
    /// URI of the namespace.
    pub namespace: String,
    /// Local part.
    pub local: String,
}

impl QName {
    /// A name in a namespace.
    pub fn new(namespace: impl Into<String>, local: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), local: local.into() }
    }

    /// Whether it is this name.
    pub fn is(&self, namespace: &str, local: &str) -> bool {
        self.local == local && self.namespace == namespace
    }
}

impl fmt::Display for QName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.local)
        } else {
            write!(f, "{{{}}}{}", self.namespace, self.local)
        }
    }
}

/// SOAP 1.1 envelope.
pub const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
/// SOAP 1.2 envelope.
pub const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";
/// XOP include.
pub const XOP: &str = "http://www.w3.org/2004/08/xop/include";
/// WS-Addressing 1.0 (REC 2006-05-09).
pub const WSA: &str = "http://www.w3.org/2005/08/addressing";
/// WS-Addressing of August 2004.
pub const WSA_2004: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
/// XML Schema.
pub const XSD: &str = "http://www.w3.org/2001/XMLSchema";
/// XML Schema instance (`xsi:nil`).
pub const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Describing media content of binary data in XML.
pub const XMIME: &str = "http://www.w3.org/2005/05/xmlmime";
/// WSDL 1.1.
pub const WSDL: &str = "http://schemas.xmlsoap.org/wsdl/";
/// WSDL 1.1 binding to SOAP 1.1.
pub const WSDL_SOAP_11: &str = "http://schemas.xmlsoap.org/wsdl/soap/";
/// WSDL 1.1 binding to SOAP 1.2.
pub const WSDL_SOAP_12: &str = "http://schemas.xmlsoap.org/wsdl/soap12/";
/// WSDL 1.1 binding to MIME.
pub const WSDL_MIME: &str = "http://schemas.xmlsoap.org/wsdl/mime/";
/// WSDL extension for SOAP in DIME.
pub const WSDL_DIME: &str = "http://schemas.xmlsoap.org/ws/2002/04/dime/wsdl/";
/// WS-I Attachments Profile 1.0: the type `swaRef` (section 4.4).
pub const SWA_REF: &str = "http://ws-i.org/profiles/basic/1.1/xsd";
/// The `xml` prefix.
pub const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// The `xmlns` prefix.
pub const XMLNS: &str = "http://www.w3.org/2000/xmlns/";
/// Ours: data in the message or elsewhere (paper 000, section 4.5).
pub const XDESCR: &str = "urn:fishplate:xdescr:1";
/// WS-Security 1.0 and 1.1 (OASIS WSS): what secures a message.
pub const WSSE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
/// WS-Security: times.
pub const WSU: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
/// WS-Context 1.0 (OASIS WS-CAF).
pub const WSCTX: &str = "http://docs.oasis-open.org/ws-caf/2005/10/wsctx";
/// Ours: what the identifier of a context that is a session begins with.
pub const SESSION_URN: &str = "urn:fishplate:session:";
/// Ours: options beside the arguments, as SOAP headers.
pub const OPTIONS: &str = "urn:fishplate:options:1";
/// Ours: fault codes, and the fault detail where no service is concerned.
pub const FAULT: &str = "urn:fishplate:fault:1";
/// Ours: what a schema cannot say of a parameter, in `xs:appinfo`.
pub const PARAMETER: &str = "urn:fishplate:parameter:1";
