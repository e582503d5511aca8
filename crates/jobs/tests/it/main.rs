//! The local executor with real processes.

mod bed;
mod collecting;
mod conformance;
mod ending;
mod guarding;
mod leaving;
mod limits;
mod references;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod starting;
mod survival;

/// The supervisor is this same binary: before the test harness starts its threads, it looks whether it
/// was started as one.
#[expect(unsafe_code, reason = "code before main")]
#[used]
// SAFETY: an entry of .init_array is a function without arguments that matter; the runtime of std
// needs no initialisation for what the supervisor uses.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn become_supervisor() {
        let arguments: Vec<_> = std::env::args_os().collect();
        if let [_, command, _, data] = arguments.as_slice()
            && command == "supervise"
        {
            fishplate_jobs::executor::local::supervisor_main(data.as_ref());
        }
    }
    become_supervisor
};
