//! `fishplate status URL JOB`: all there is to tell of a job.

use anyhow::Result;
use fishplate_contract::JobId;

use super::client::{Connection, job, run_interruptible};
use crate::exit::Exit;
use crate::output::{Output, json, text};

/// Show all there is to tell of a job
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate status http://somewhere.com/sample $JOB
  fishplate status http://somewhere.com/sample $JOB --json | jq .progress")]
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
        let report = args.connection.connect().await?.status(args.job).await?;
        if output.json {
            output.value(&json::report(&report))?;
        } else {
            output.raw(&text::report(&report))?;
        }
        Ok(Exit::Success)
    })
}
