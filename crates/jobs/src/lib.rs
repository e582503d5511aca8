//! Programs as jobs: from a command line with typed slots to an outcome that is not lost.
//!
//! Reading order:
//!
//! - [`template`]: the literal command line with typed slots
//! - [`plan`]: all that is needed to run one job anywhere, persisted with it
//! - [`executor`]: where plans run; [`executor::local`] on this machine

pub mod executor;
pub mod plan;
pub mod template;
