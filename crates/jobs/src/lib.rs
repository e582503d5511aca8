//! Programs as jobs: from a command line with typed slots to an outcome that is not lost.
//!
//! Reading order:
//!
//! - [`template`]: the literal command line with typed slots
//! - [`descriptor`]: the service file: what a command line can't say
//! - `arguments`: a call's arguments, checked
//! - [`program`]: a described program; a call becomes a plan
//! - `output_name`: outputs that are named after an input's value
//! - [`output_choices`]: how a caller wants the outputs
//! - [`plan`]: all that is needed to run one job anywhere, persisted with it
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

mod arguments;
pub mod backup;
pub mod completion;
pub mod descriptor;
pub mod engine;
pub mod executor;
pub mod function;
pub mod lost;
pub mod output_choices;
mod output_name;
pub mod plan;
pub mod process;
pub mod program;
#[cfg(test)]
#[path = "../../../tests/skipped.rs"]
mod skipped;
pub mod stager;
pub mod store;
pub mod template;
pub mod workspace;
