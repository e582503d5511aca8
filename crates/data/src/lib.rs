//! Data by reference (paper 000, section 4.5): where it rests, how it moves, who may have it.
//!
//! Reading order:
//!
//! - [`progress`]: how far a transfer is
//! - [`transfer`]: the trait of transports, and one file a transport
//! - [`policy`]: which addresses may be asked

pub mod policy;
pub mod progress;
pub mod transfer;

pub use policy::{Network, Policy, PolicySettings};
pub use progress::Progress;
