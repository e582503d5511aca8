//! A parcel to a checked request.

use fishplate_contract::{CallOptions, Fault};

use crate::addressing::Addressing;
use crate::envelope::{Child, SoapVersion};
use crate::name::QName;
use crate::packaging::Packaging;
use crate::unpack::Parcel;

/// A request whose headers are in order.
#[derive(Clone, Debug)]
pub struct Request {
    /// SOAP version.
    pub version: SoapVersion,
    /// Name of the wrapper element: what is asked for. That it exists is for the caller to check.
    pub wrapper: QName,
    /// The values, not yet checked.
    pub children: Vec<Child>,
    /// Our options.
    pub options: CallOptions,
    /// The addressing headers.
    pub addressing: Addressing,
    /// SOAPAction or the action parameter, unquoted.
    pub action: Option<String>,
    /// How it was packaged.
    pub packaging: Packaging,
}

/// Checks the headers of a parcel that a server got.
///
/// # Errors
/// `MustUnderstand`, `InvalidAddressing`, `ActionMismatch`, or `MalformedMessage` if the body
/// holds no call.
pub fn read(parcel: Parcel) -> Result<Request, Fault> {
    todo!("{parcel:?}")
}
