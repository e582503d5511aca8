//! `fishplate kill URL JOB`: ends a job.

use anyhow::Result;
use serde_json::json;

use super::client::run_interruptible;
use super::target::JobArgs;
use crate::exit::Exit;
use crate::output::Output;

/// End a job and all of its processes, and print its state
///
/// What was done, and how, is told on standard error. Harmless on a job that has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate kill http://somewhere.com/sample $JOB")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let (service, job) = args.job.find().await?;
        let killed = service.kill(job).await?;
        if output.json {
            output.value(&json!({
                "job": job.to_string(),
                "state": killed.state.name(),
                "message": killed.message,
            }))?;
        } else {
            output.line(killed.state.name())?;
            if !killed.message.is_empty() {
                output.note(&killed.message);
            }
        }
        Ok(Exit::Success)
    })
}
