//! How a process that a launcher started as a rank joins its domain; the part that PMI has for other implementations of MPI.
//!
//! - [`environment`]: what the launcher tells a process in its environment
//! - [`rendezvous`]: how ranks learn each other's addresses: each tells the launcher its own, and gets all once all have come
//! - [`descriptors`]: how memory that ranks of one host share goes to them
//! - `reporter`: how a rank tells its launcher what it waits for
//! - [`lines`]: lines that come in pieces, for those who listen to ranks
//! - [`client`]: joining, leaving, aborting
//!
//! A process without such an environment is a domain of one rank, the standard's singleton.

pub mod client;
pub mod descriptors;
pub mod environment;
pub mod lines;
pub mod rendezvous;

mod reporter;

pub use client::Client;
pub use environment::{LaunchEnvironment, TransportKind};
