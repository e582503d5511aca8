//! Between processes of one host, through memory that they share: a ring of records for each pair and direction, in one memory file. Between these and
//! processes of other hosts, over TCP.
//!
//! A frame is its header and its payload, in several records if it is long. A payload is copied twice, out of the
//! sender's buffer and into the receiver's, both at once. Who finds nothing to do sleeps in `epoll_wait`, and is woken by an
//! event of its own, which is written only if it sleeps. TCP connections stand beside it, by which the death of a
//! process is noticed.
//!
//! - [`segment`]: the memory, and the events
//! - `ring`: one direction of a pair
//! - `transport`: all of them together

pub mod segment;

mod ring;
mod transport;

pub use segment::Segment;
pub use transport::SharedMemory;
