//! Processes of this same program that a server starts: the one that keeps a data directory's jobs,
//! and those that run functions as jobs.
//!
//! A program that offers functions of its own begins with [`run_if_child`]; `examples/functions` is
//! one.

use std::ffi::OsString;
use std::process;

use fishplate_jobs::executor::local::supervisor_main;
use fishplate_jobs::function::Functions;
use fishplate_jobs::function::worker::{self, FunctionExit};

/// First argument of a process that runs a function as a job.
pub const WORKER: &str = "function";

/// First argument of the process that keeps a data directory's jobs.
const SUPERVISOR: &str = "supervise";

/// Set in the environment of every job.
const JOB_VARIABLE: &str = "FISHPLATE_JOB";

/// If this process was started by a server of this program, to keep its jobs (`supervise --data
/// DIR`) or as a job of a function (`function SERVICE OPERATION`), does that and does not return.
/// To be called first in the `main` of a program that offers functions of its own, before there is
/// a second thread; the functions are made only if they are needed.
pub fn run_if_child(functions: impl FnOnce() -> Vec<Functions>) {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [command, first, second] = &arguments[..] else { return };
    if command == SUPERVISOR && first == "--data" {
        supervisor_main(second.as_ref());
    }
    if command == WORKER
        && std::env::var_os(JOB_VARIABLE).is_some()
        && let (Some(service), Some(operation)) = (first.to_str(), second.to_str())
    {
        process::exit(run_worker(&functions(), service, operation));
    }
}

/// Runs a function in the workspace that is the current directory, as a job; gives the process's
/// exit code.
#[expect(clippy::print_stderr, reason = "standard error is the job's log")]
pub fn run_worker(functions: &[Functions], service: &str, operation: &str) -> i32 {
    match worker::run(functions, service, operation, ".".as_ref()) {
        Ok(FunctionExit::Well) => 0,
        Ok(FunctionExit::WithFault) => 1,
        Err(error) => {
            eprintln!("the function {operation} of {service} could not be run: {error}");
            2
        }
    }
}
