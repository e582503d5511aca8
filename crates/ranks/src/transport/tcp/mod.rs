//! Direct TCP connections between the processes of a domain, dialled by its sender: one a direction, and between sites several, which share the
//! parts of long messages (`parallel_streams`).
//!
//! A connection begins with a challenge of the receiver (magic, nonce), the sender's greeting (magic, domain ID, from-rank, to-rank, stream,
//! instance, nonce, proof) and the answer (magic, last sequence number received over this stream, proof). Then frames go one way, cumulative sequence
//! numbers (8 bytes each) the other. After a break the sender dials again and repeats what was not acknowledged.
//!
//! - `outgoing`: what a sender says and hears
//! - `incoming`: what is received and acknowledged
//! - `transport`: all of them together

mod greeting;
mod incoming;
mod outgoing;
mod transport;

pub use transport::Tcp;
