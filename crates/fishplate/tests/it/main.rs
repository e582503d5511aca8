//! System tests: the real binary, real processes, real connections.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test tells what it measured, and one that fails says why"
)]

mod arrays;
mod backup;
mod bad_input;
mod cgi;
mod client;
mod curl;
mod data;
mod disk;
mod environment;
mod forms;
mod full_disk;
mod functions;
mod hosts;
mod limits;
mod lost;
mod names;
mod papers;
mod processes;
mod proxy;
mod readers;
mod references;
mod restart;
mod run;
mod server;
mod sessions;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod soap;
mod spool;
mod survival;
mod transfers;
mod uploads;
mod values;
mod verbs;
