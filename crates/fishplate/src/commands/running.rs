//! `fishplate running URL JOB`: whether a job has not ended yet.

use anyhow::Result;
use fishplate_contract::JobId;
use serde_json::json;

use super::client::{Connection, job, run_interruptible};
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
    pub(crate) connection: Connection,
    /// ID of the job
    #[arg(value_parser = job)]
    job: JobId,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let running = args.connection.connect().await?.running(args.job).await?;
        if output.json {
            output.value(&json!({ "job": args.job.to_string(), "running": running }))?;
        } else {
            output.line(if running { "true" } else { "false" })?;
        }
        Ok(Exit::Success)
    })
}
