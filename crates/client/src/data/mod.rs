//! Data that moves by reference: brought to a server, fetched from anywhere, or offered by
//! ourselves while a call runs.
//!
//! Reading order:
//!
//! - [`digesting`]: digests of what passes by, and of files
//! - [`put`]: a file to a server, which gives a reference to it
//! - `upload`: uploads that go on where they broke
//! - [`get`](mod@get): what a reference refers to into a file
//! - [`revoke`](mod@revoke): a reference made good for nothing
//! - [`sources`]: a transport for each scheme
//! - `partial`: half files, and what tells how to go on with them
//! - [`offer`], `answer`: files that we serve ourselves

mod answer;
pub mod digesting;
pub mod get;
pub mod offer;
mod partial;
pub mod put;
pub mod revoke;
pub mod sources;
#[cfg(test)]
mod tests;
mod upload;

pub use get::{Download, DownloadTarget, get};
pub use offer::Offer;
pub use put::UploadTarget;
pub use revoke::revoke;
pub use sources::Sources;
