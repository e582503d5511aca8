//! SOAP 1.1 and 1.2. [`handle`](mod@handle) is the data's way through the rooms, one function an arrow.

mod backlog;
mod feed;
mod handle;
pub(crate) mod reading;

pub use handle::{SoapResponse, handle};
