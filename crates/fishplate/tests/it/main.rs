//! System tests: the real binary, real processes, real connections.

mod client;
mod papers;
mod restart;
mod run;
mod server;
