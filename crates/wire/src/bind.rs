//! A request's values to arguments, and a reply's to results.

use fishplate_contract::{Argument, Fault, JobId, Parameter};

use crate::envelope::Child;
use crate::unpack::Parcel;

/// The arguments among these parameters, in the caller's order. Scalars stay text; their values
/// are checked by [`Parameter::accept`].
///
/// # Errors
/// `UnexpectedParameter`, `MissingParameter`.
pub fn bind(
    operation: &str,
    parameters: &[Parameter],
    children: Vec<Child>,
) -> Result<Vec<Argument>, Fault> {
    todo!("{operation} {parameters:?} {children:?}")
}

/// An answer to a client.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The results, in the operation's order.
    pub outputs: Vec<Argument>,
    /// The job behind it, from our header.
    pub job: Option<JobId>,
}

/// The results in a parcel that a client got.
///
/// # Errors
/// The fault in the parcel as the server meant it; `MalformedMessage` if the answer is not what
/// the description says.
pub fn bind_reply(parcel: Parcel, outputs: &[Parameter]) -> Result<Reply, Fault> {
    todo!("{parcel:?} {outputs:?}")
}
