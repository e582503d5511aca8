//! Programs as jobs: from a command line with typed slots to an outcome that is not lost.
//!
//! Reading order:
//!
//! - [`plan`]: all that is needed to run one job anywhere, persisted with it
//! - [`executor`]: where plans run; [`executor::local`] on this machine
//! - [`conclusion`]: how a job ended, as it is persisted
//! - [`store`]: where records live; leases and fences

pub mod conclusion;
pub mod executor;
pub mod plan;
pub mod store;
