//! `fishplate kill URL JOB`: ends a job.

use anyhow::Result;
use fishplate_contract::JobId;
use serde_json::json;

use super::client::{Connection, job, run_interruptible};
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
    pub(crate) connection: Connection,
    /// ID of the job
    #[arg(value_parser = job)]
    job: JobId,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let killed = args.connection.connect().await?.kill(args.job).await?;
        if output.json {
            output.value(&json!({
                "job": args.job.to_string(),
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
