//! CommandLineTools of the Common Workflow Language (1.0 to 1.2), both ways.
//!
//! - [`import`](fn@import): a tool as a service file
//! - `document`: YAML, and what stands in it as a list or by names
//! - `types`: types of inputs and outputs
//! - `reference`: `$(inputs.x)` and the like; JavaScript is never run
//! - `command`: bindings as words, in the order of their positions
//! - `output`: what is collected
//! - `requirement`: requirements and hints
//! - [`export`](fn@export): a service as a tool

mod command;
mod document;
mod export;
mod import;
mod output;
mod reference;
mod requirement;
#[cfg(test)]
mod tests;
mod types;

pub use export::export;
pub use import::import;
