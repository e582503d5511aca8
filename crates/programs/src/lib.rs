//! Described programs: from a service file with a command line of typed slots to a call's plan.
//!
//! Reading order:
//!
//! - [`template`]: the literal command line with typed slots
//! - [`descriptor`]: the service file: what a command line can't say
//! - [`arguments`]: a call's arguments, checked
//! - [`program`]: a described program; a call becomes a plan
//! - `output_name`: outputs that are named after an input's value
//! - [`output_choices`]: how a caller wants the outputs
//! - [`plan`]: all that is needed to run one job anywhere, persisted with it

pub mod arguments;
pub mod descriptor;
pub mod output_choices;
mod output_name;
pub mod plan;
pub mod program;
pub mod template;
