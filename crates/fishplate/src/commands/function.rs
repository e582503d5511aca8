//! `fishplate function` (hidden): the process that a job of a function is.

use std::process::ExitCode;

use clap::Args;
use fishplate_jobs::function::builtin;
use fishplate_server::worker;

/// Runs a function in the workspace of its job.
#[derive(Debug, Args)]
pub(crate) struct FunctionArgs {
    /// The service
    service: String,
    /// Its operation
    operation: String,
}

/// Runs it; the outputs, or the fault, are in the workspace then.
pub(crate) fn run(arguments: &FunctionArgs) -> ExitCode {
    let FunctionArgs { service, operation } = arguments;
    let services: Vec<_> = builtin::named(service).into_iter().collect();
    let code = worker::run_worker(&services, service, operation);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
