//! The server in this process: real connections, real jobs, no binary.

mod assembly;
mod bed;
mod boundary;
mod browser;
mod connection;
mod faces;
mod local_caller;
mod mcp;
mod ogc;
mod pages;
mod release;
mod results;
mod server;
mod streams;
mod uploads;

/// The supervisor of jobs is this same binary: before the test harness starts its threads, it looks
/// whether it was started as one.
#[expect(unsafe_code, reason = "code before main")]
#[used]
// SAFETY: an entry of .init_array is a function without arguments that matter; the runtime of std
// needs no initialisation for what the supervisor uses.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn become_supervisor() {
        fishplate_server::worker::run_if_child(Vec::new);
    }
    become_supervisor
};
