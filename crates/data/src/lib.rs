//! Data by reference (paper 000, section 4.5): where it rests, how it moves, who may have it.
//!
//! Reading order:
//!
//! - [`progress`]: how far a transfer is
//! - [`settings`]: what the operator says of them
//! - [`transfer`]: the trait of transports, and one file a transport

pub mod progress;
pub mod settings;
pub mod transfer;

pub use progress::Progress;
