//! Message passing between the ranks of a communication domain (papers 001 and 002), with the semantics and the words
//! of the MPI standard (4.1). No runtime, no threads of its own.
//!
//! Reading order, from the caller to the wire:
//!
//! - [`communicator`]: point-to-point communication, making communicators, inter-communicators; [`group`]: ordered sets of ranks
//! - [`topology`]: who is whose neighbour
//! - [`collective`]: collective operations, each algorithm a schedule of steps; [`operation`]: what reductions do
//! - [`request`]: non-blocking and persistent operations, waiting and testing
//! - [`process`]: an MPI process: the lock, and who drives progress
//! - [`engine`]: eager and rendezvous protocol, credit, failures; no IO; [`matching`]: the two queues
//! - [`status`]: what a process tells of itself while it runs, and what a deadlock is
//! - [`launch`]: how a process that was started as a rank joins; [`credential`]: what proves that it may
//! - [`header`]: what every message carries; [`buffer`]: memory that a request uses
//! - [`transport`]: what carries frames: in this process, in shared memory, over TCP, as SOAP
//! - [`settings`], [`error`](mod@error)
//!
//! Why it is so: docs/decisions/0011 and 0018.

pub mod buffer;
pub mod collective;
pub mod communicator;
pub mod credential;
pub mod engine;
pub mod error;
pub mod group;
pub mod header;
pub mod launch;
pub mod matching;
pub mod operation;
pub mod process;
pub mod request;
pub mod settings;
pub mod status;
pub mod topology;
pub mod transport;

pub use communicator::{Communicator, InterCommunicator, Message};
pub use credential::Credential;
pub use engine::Status;
pub use error::{Error, Result};
pub use group::Group;
pub use header::{ANY_SOURCE, ANY_TAG, Context, DomainId, Header, PROC_NULL, Rank, Tag};
pub use operation::Operation;
pub use process::Process;
pub use settings::Settings;
