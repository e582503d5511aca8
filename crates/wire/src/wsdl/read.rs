//! A WSDL to a description: ours, and reasonable foreign ones.

use fishplate_contract::Exposed;

use crate::envelope::SoapVersion;
use crate::name::QName;

/// What a client needs to know of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Short name.
    pub name: String,
    /// Target namespace.
    pub namespace: String,
    /// Full name.
    pub title: String,
    /// What it does.
    pub documentation: String,
    /// Its operations, in the WSDL's order.
    pub operations: Vec<DescribedOperation>,
    /// Where it is, SOAP 1.1 first.
    pub addresses: Vec<(SoapVersion, String)>,
    /// The server is ours: it reads MTOM and our headers.
    pub ours: bool,
}

/// An operation as its WSDL describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedOperation {
    /// Name, verb, documentation and signature.
    pub exposed: Exposed,
    /// soapAction; may be empty.
    pub action: String,
    /// Wrapper element of the request.
    pub request: QName,
    /// Wrapper element of the response.
    pub response: QName,
    /// Element of the declared fault's detail.
    pub fault: Option<QName>,
}

/// Why a WSDL cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WsdlError {
    /// It is not XML.
    #[error("the description is not XML: {0}")]
    NotXml(String),
    /// It is not WSDL 1.1, or a part of it is missing.
    #[error("the description is not usable: {0}")]
    Unusable(String),
}

/// Reads a WSDL 1.1.
///
/// # Errors
/// [`WsdlError`] if it is none, or not document/literal wrapped.
pub fn read(text: &str) -> Result<Description, WsdlError> {
    todo!("{text}")
}

impl Description {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&DescribedOperation> {
        self.operations.iter().find(|operation| operation.exposed.name == name)
    }

    /// The address for a SOAP version.
    pub fn address(&self, version: SoapVersion) -> Option<&str> {
        self.addresses.iter().find(|(of, _)| *of == version).map(|(_, address)| address.as_str())
    }
}
