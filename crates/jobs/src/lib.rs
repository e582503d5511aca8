//! Plans as jobs: from a plan to an outcome that is not lost.
//!
//! Reading order:
//!
//! - [`executor`]: where plans run; [`executor::local`] on this machine
//! - [`completion`]: how a job ended, as it is persisted
//! - [`stager`]: data by reference, as the engine needs it done
//! - [`function`]: functions of this process as services
//! - [`store`]: where records live; leases and fences
//! - [`process`]: processes of this machine, by names that tell whether they live
//! - [`workspace`]: a job's directory, before, during and after its run
//! - [`backup`]: jobs in another place
//! - [`lost`]: directories whose record was lost
//! - [`engine`]: fetches, claims, starts, observes, sends, concludes; the verbs on jobs

pub mod backup;
pub mod completion;
pub mod engine;
pub mod executor;
pub mod function;
pub mod lost;
pub mod process;
#[cfg(test)]
#[path = "../../../tests/skipped.rs"]
mod skipped;
pub mod stager;
pub mod store;
pub mod workspace;
