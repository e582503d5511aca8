//! Programs as jobs: from a command line with typed slots to an outcome that is not lost.
//!
//! Reading order:
//!
//! - [`plan`]: all that is needed to run one job anywhere, persisted with it
//! - [`executor`]: where plans run; [`executor::local`] on this machine
//! - [`workspace`]: a job's directory, before, during and after its run

pub mod executor;
pub mod plan;
pub mod workspace;
