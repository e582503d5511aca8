//! `fishplate remove URL JOB`: forgets an ended job.

use anyhow::Result;
use fishplate_contract::JobId;
use serde_json::json;

use super::client::{Connection, job, run_interruptible};
use crate::exit::Exit;
use crate::output::Output;

/// Forget an ended job and free its space
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate remove http://somewhere.com/sample $JOB")]
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
        args.connection.connect().await?.remove(args.job).await?;
        if output.json {
            output.value(&json!({ "job": args.job.to_string(), "removed": true }))?;
        }
        Ok(Exit::Success)
    })
}
