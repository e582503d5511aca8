//! System tests: the real binary, real processes, real connections.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test tells what it measured, and one that fails says why"
)]

mod accounts;
mod arrays;
mod backup;
mod bad_input;
mod browser;
mod callbacks;
mod callers;
mod cgi;
mod client;
mod configuration;
mod curl;
mod data;
mod disk;
mod domain_manager;
mod domain_page;
mod domains;
mod environment;
mod faces;
mod forms;
mod full_disk;
mod functions;
mod gateway;
#[path = "../../../../tests/guide.rs"]
mod guide;
mod guides;
mod hosts;
mod limits;
mod login;
mod lost;
mod names;
mod networks;
mod papers;
mod policy;
mod processes;
mod proxy;
mod quake;
mod quake_report;
mod quotas;
mod ranks;
mod readers;
mod references;
mod relay;
mod restart;
mod run;
mod run_plan;
mod running;
mod server;
mod sessions;
mod sites;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod soap;
mod spool;
mod streams;
mod survival;
mod tls;
mod transfers;
mod uploads;
mod username_token;
mod values;
mod verbs;

/// The supervisor of jobs of the server in this process is this same binary: before the test harness starts its
/// threads, it looks whether it was started as one.
#[expect(unsafe_code, reason = "code before main")]
#[used]
// SAFETY: an entry of .init_array is a function without arguments that matter; the runtime of std needs no
// initialisation for what the supervisor uses.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn become_supervisor() {
        fishplate_server::worker::run_if_child(Vec::new);
    }
    become_supervisor
};
