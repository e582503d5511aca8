//! What payloads hold, and how files and people write it. No runtime, no jobs, no SOAP.
//!
//! Reading order:
//!
//! - [`units`]: durations and sizes
//! - [`disk`]: what a file system has left
//! - [`archive`]: directories as one payload
//! - [`array_file`]: arrays of numbers in files: text, raw, `.npy`
//! - [`dimension`]: lengths of axes by their names
//! - [`json`]: values as JSON; [`schema`]: parameters as JSON Schema

pub mod archive;
pub mod array_file;
pub mod dimension;
pub mod disk;
pub mod json;
pub mod schema;
pub mod units;
