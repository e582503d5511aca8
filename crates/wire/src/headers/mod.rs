//! The header blocks of an envelope. Each kind is a file here and a line in the [`table`], which says
//! what is kept of a message, what is understood, what it asks for and how it is answered.
//!
//! Reading order:
//!
//! - [`table`]: what a kind of header blocks is, and all kinds there are
//! - [`addressing`][]: WS-Addressing
//! - [`options`]: ours: `key`, `arrays`, `session`, `job`; [`outputs`]: one of them, which is longer
//! - [`context`][]: WS-Context
//! - [`security`][]: WS-Security
//! - [`explanation`]: what SOAP tells of a fault in headers

pub(crate) mod addressing;
pub(crate) mod context;
pub(crate) mod explanation;
pub(crate) mod options;
pub(crate) mod outputs;
#[cfg(test)]
mod sample;
pub(crate) mod security;
pub(crate) mod table;
