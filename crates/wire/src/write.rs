//! Outcomes, faults and calls to envelopes.

use fishplate_contract::{Argument, CallOptions, Exposed, Fault, JobId};

use crate::addressing::Addressing;
use crate::envelope::{Envelope, SoapVersion};
use crate::name::QName;
use crate::packaging::Packaging;
use crate::unpack::Head;

/// How a request wants to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyForm {
    /// SOAP version of the request.
    pub version: SoapVersion,
    /// What the caller can read.
    pub packaging: Packaging,
    /// The addressing headers of the request; an answer relates to them.
    pub addressing: Addressing,
    /// Headers that had to be understood and are not; a `MustUnderstand` fault tells them.
    pub not_understood: Vec<QName>,
}

impl ReplyForm {
    /// The form of an answer to a request whose body was not read.
    pub fn of_head(head: &Head<'_>) -> Self {
        todo!("{head:?}")
    }
}

/// The envelope of results. Characters that XML cannot hold become U+FFFD.
pub fn write_reply(
    form: &ReplyForm,
    namespace: &str,
    exposed: &Exposed,
    outputs: &[Argument],
    job: Option<JobId>,
) -> Envelope {
    todo!("{form:?} {namespace} {exposed:?} {outputs:?} {job:?}")
}

/// The envelope of a fault. `namespace` is the service's, whose WSDL declares the detail; `None`
/// where no service is concerned.
pub fn write_fault(form: &ReplyForm, namespace: Option<&str>, fault: &Fault) -> Envelope {
    todo!("{form:?} {namespace:?} {fault}")
}

/// The HTTP status that carries a fault (SOAP 1.1 section 6.2, SOAP 1.2 part 2 table 20).
pub fn http_status(version: SoapVersion, fault: &Fault) -> u16 {
    todo!("{version:?} {fault}")
}

/// How a client calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestForm {
    /// Name of the wrapper element.
    pub wrapper: QName,
    /// SOAP version.
    pub version: SoapVersion,
    /// Our options.
    pub options: CallOptions,
}

/// The envelope of a call.
///
/// # Errors
/// `InvalidValue` if a text holds a character that XML cannot hold.
pub fn write_request(form: &RequestForm, arguments: &[Argument]) -> Result<Envelope, Fault> {
    todo!("{form:?} {arguments:?}")
}
