//! `fishplate remove URL JOB`: forgets an ended job.

use anyhow::Result;
use serde_json::json;

use super::client::run_interruptible;
use super::target::JobArgs;
use crate::exit::Exit;
use crate::output::Output;

/// Forget an ended job and free its space
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate remove http://somewhere.com/sample $JOB")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let (service, job) = args.job.find().await?;
        service.remove(job).await?;
        if output.json {
            output.value(&json!({ "job": job.to_string(), "removed": true }))?;
        }
        Ok(Exit::Success)
    })
}
