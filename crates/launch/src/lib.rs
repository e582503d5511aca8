//! Starts the ranks of a communication domain on this machine, as `mpiexec` does: their processes, the rendezvous at which
//! they find each other, their output, their end.
//!
//! Reading order:
//!
//! - [`launch`]: what is started, and how it ended
//! - [`launcher`]: one loop over signals, output and the rendezvous until all have ended
//! - `process`: a rank's process; `descendants`: all that it started; `open_files`: how many the launcher may have
//! - `rendezvous`: the launcher's side of [`fishplate_ranks::launch::rendezvous`]
//! - [`output`]: whole lines of all ranks, with labels
//! - [`endpoints`]: the file by which SOAP clients find the ranks
//! - [`library`]: where `libmpi_abi.so.1` is
//!
//! No runtime, no threads. A program that passes no messages is started likewise.

pub mod endpoints;
pub mod launch;
pub mod launcher;
pub mod library;
pub mod output;

mod descendants;
mod open_files;
mod process;
mod rendezvous;

pub use endpoints::EndpointsFile;
pub use launch::{Cause, Launch, LaunchError, Program, RankReport, Report};
pub use launcher::run;
pub use output::Sink;
