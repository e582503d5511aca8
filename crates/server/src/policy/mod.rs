//! Who may do what: rules of a file, which the authoriser of [`dispatch`](crate::dispatch) asks. Why so:
//! docs/decisions/0012.
//!
//! Reading order:
//!
//! - [`rules`]: groups and rules, and what they decide
//! - [`read`]: from a file's text to rules, and everything there is to say about it
//! - [`quotas`]: what owners may have
//! - [`mod@file`]: the file of a server, read again when it has changed

pub mod file;
pub mod quotas;
pub mod read;
pub mod rules;

#[cfg(test)]
mod tests;
