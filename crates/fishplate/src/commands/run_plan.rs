//! `fishplate run-plan` (hidden): one job in this process, as a batch system starts it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use fishplate_contract::JobId;
use fishplate_jobs::executor::local;

/// Runs the plan of a job in its directory, and tells on standard output how it ended, as JSON.
#[derive(Debug, Args)]
pub(crate) struct RunPlanArgs {
    /// The job
    job: JobId,
    /// Its plan, as JSON
    plan: PathBuf,
    /// Its directory; it is made if it is not there
    directory: PathBuf,
}

/// Runs it to its end, whatever that is.
#[expect(clippy::print_stdout, reason = "the end of the job")]
pub(crate) fn run(arguments: &RunPlanArgs) -> anyhow::Result<ExitCode> {
    let RunPlanArgs { job, plan, directory } = arguments;
    let shown = plan.display();
    let text = fs::read(plan).with_context(|| format!("cannot read {shown}"))?;
    let plan = serde_json::from_slice(&text).with_context(|| format!("{shown} is no plan"))?;
    let directory = std::path::absolute(directory)?;
    let ending = local::run_plan(*job, plan, &directory)?;
    println!("{}", serde_json::to_string(&ending)?);
    Ok(ExitCode::SUCCESS)
}
