//! `fishplate status URL JOB`: all there is to tell of a job.

use anyhow::Result;

use super::client::run_interruptible;
use super::target::JobArgs;
use crate::exit::Exit;
use crate::output::{Output, json, text};

/// Show all there is to tell of a job
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate status http://somewhere.com/sample $JOB
  fishplate status http://somewhere.com/sample $JOB --json | jq .progress")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let (service, job) = args.job.find().await?;
        let report = service.status(job).await?;
        if output.json {
            output.value(&json::report(&report))?;
        } else {
            output.raw(&text::report(&report))?;
        }
        Ok(Exit::Success)
    })
}
