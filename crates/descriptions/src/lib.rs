//! Descriptions of programs that exist already, into service files and back: Boutiques descriptors
//! (schema 0.5) and CommandLineTools of the Common Workflow Language (1.0 to 1.2).
//!
//! Reading order:
//!
//! - [`report`]: what came of an import, and what a service file cannot say
//! - [`boutiques`]: descriptors, both ways
//! - [`cwl`]: CommandLineTools, both ways
//! - `service_file`: a service file while it is written
//! - `names`: identifiers as names of parameters
//! - `field`: what stands in a description, by its path
//! - `exported`: what both exports make of a service

pub mod boutiques;
pub mod cwl;
mod exported;
mod field;
mod names;
pub mod report;
mod service_file;
#[cfg(test)]
mod tests;

pub use exported::Exported;
pub use report::{Gap, ImportError, Imported};
