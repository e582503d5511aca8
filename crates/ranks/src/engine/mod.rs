//! The protocol of one process with all others: eager and rendezvous messages, credit, order, failures. No IO, no clock, no lock.
//!
//! In go sends, receives, and frames from a transport; out come frames for it, and requests that are complete.
//!
//! - [`frame`]: what is exchanged with a transport
//! - [`peer`]: what is known of each other process
//! - [`record`]: requests and unexpected messages
//! - `send`, `receive`, `arrive`, `failure`: what happens; `waiting`: what does not, yet

pub mod frame;
pub(crate) mod id_hasher;
pub mod peer;
pub mod record;

mod arrive;
mod failure;
mod receive;
mod send;
mod state;
mod waiting;

#[cfg(test)]
mod tests;

pub use frame::{Frame, Payload, ReceiveTarget};
pub use record::{Envelope, Status};
pub use send::SendArguments;
pub use state::Engine;
