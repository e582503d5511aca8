//! How the benchmark of packagings drives a client, and the matrix that all clients send.
//!
//! - [`driver`]: the lines that `benches/packaging/drivers.py` writes to a client, and its answers
//! - [`matrix`]: the numbers

pub mod driver;
pub mod matrix;
