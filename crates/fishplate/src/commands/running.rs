//! `fishplate running URL JOB`: whether a job has not ended yet.

use anyhow::Result;
use serde_json::json;

use super::client::run_interruptible;
use super::target::JobArgs;
use crate::exit::Exit;
use crate::output::Output;

/// Print true while a job is queued or runs, else false
///
/// The exit code is 0 either way; `fishplate wait` waits for the end and tells how it came.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  while [ $(fishplate running http://somewhere.com/sample $JOB) = true ]; do sleep 10; done")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let (service, job) = args.job.find().await?;
        let running = service.running(job).await?;
        if output.json {
            output.value(&json!({ "job": job.to_string(), "running": running }))?;
        } else {
            output.line(if running { "true" } else { "false" })?;
        }
        Ok(Exit::Success)
    })
}
