//! The configuration file of a server, `fishplate.toml`: all that the flags of `serve` say.
//!
//! - [`keys`]: what it may say, made of the flags themselves, so that no flag lacks its key
//! - [`file`]: reads and checks it; every mistake at once, at its line and column
//! - [`resolution`]: what is in force, of flags, environment, file and defaults
//!
//! What the file says is given to clap as if it stood on the command line, for each flag that does not
//! stand there: one reader, one set of types, one set of messages.

mod file;
mod keys;
mod resolution;

#[cfg(test)]
mod tests;

pub(crate) use file::ConfigurationFile;
pub(crate) use keys::{ValueKind, reference, with_values};
pub(crate) use resolution::{Origin, Resolution, Setting};
