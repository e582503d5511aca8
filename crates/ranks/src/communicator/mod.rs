//! Communicators: a group of processes with a context of their own.
//!
//! - [`handle`]: what a communicator is
//! - `point_to_point`: sends, receives, probes; [`message`]: what a matched probe takes
//! - `create`: dup, split, create from a group; [`duplicate`]: dup without waiting
//! - [`partitioned`]: messages of parts
//! - [`inter`]: two groups that talk to each other

pub mod duplicate;
pub mod handle;
pub mod inter;
pub mod message;
pub mod partitioned;

mod create;
mod point_to_point;

pub use duplicate::{Duplicate, InterDuplicate};
pub use handle::Communicator;
pub use inter::InterCommunicator;
pub use message::Message;
