//! Boutiques descriptors (schema 0.5), both ways.
//!
//! - [`import`](fn@import): a descriptor as a service file
//! - `command`: the command line, with its value keys
//! - `input`: one input
//! - `output`: one output file
//! - [`export`](fn@export): a service as a descriptor

mod command;
mod export;
mod import;
mod input;
mod output;
#[cfg(test)]
mod tests;

pub use export::export;
pub use import::import;
