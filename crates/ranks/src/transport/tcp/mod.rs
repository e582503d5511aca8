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

use crate::header::Header;

pub use transport::Tcp;

/// From so many bytes on a payload has [`LONG_HEAD`] bytes before it: its header and zeros.
const LONG: u64 = 32 << 10;
/// A kernel copies a payload behind its header into a page. AMD's processors of today copy several times as slowly where source and target are about
/// as far into their pages (`rep movsb`; decision 0011 has figures), and memory of programs often begins some tens of bytes into one, as a header ends there.
const LONG_HEAD: usize = 1 << 10;

/// Bytes before the payload of a frame.
fn head_length(header: &Header) -> usize {
    if header.payload_length() < LONG { Header::SIZE } else { LONG_HEAD }
}
