//! The service file (`docs/reference/service-file.md`): the literal command line, and what a
//! command line can't say.
//!
//! Reading order:
//!
//! - [`diagnostic`]: what is wrong, where, and what would be right, as data
//! - [`description`]: what a service file says, once nothing is wrong with it
//! - [`check`]: from text to a description and everything there is to say about it
//! - [`table`], [`text`]: typed access to a file in TOML, for the policy of a server too
//! - [`files`]: many services from files and directories
//!
//! A file is checked as a whole: every mistake is reported at once, at its line and column.

mod check;
mod command;
pub mod description;
pub mod diagnostic;
mod files;
mod group;
mod list;
mod operation;
mod parameter;
mod service;
mod shape;
pub mod table;
pub mod text;
mod verify;
mod workspace;

pub use check::{CheckedService, check_command_line, check_file, check_text};
pub use description::{Container, Description, Group, Input, Invocation, ListForm, Output};
pub use diagnostic::{Diagnostic, DiagnosticReport, Severity, SourceText};
pub use files::{CONFIGURATION, ReadError, read};

#[cfg(test)]
mod tests;
