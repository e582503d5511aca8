//! Data that moves by reference: brought to a server, fetched from anywhere, or offered by
//! ourselves while a call runs.
//!
//! Reading order:
//!
//! - [`digesting`]: digests of what passes by, and of files
//! - [`put`]: a file to a server, which gives a reference to it
//! - `upload`: uploads that go on where they broke
//! - [`get`]: what a reference refers to into a file
//! - [`sources`]: a transport for each scheme
//! - `part`: half files, and what tells how to go on with them
//! - [`offer`], `answer`: files that we serve ourselves

mod answer;
pub mod digesting;
pub mod get;
pub mod offer;
mod part;
pub mod put;
pub mod sources;
mod upload;

pub use get::{Got, Into, get};
pub use offer::Offer;
pub use put::Target;
pub use sources::Sources;
