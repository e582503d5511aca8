//! `fishplate usage URL`: what a service takes and gives.

use anyhow::Result;

use super::client::{Connection, run_interruptible};
use crate::exit::Exit;
use crate::output::{Output, json, text};

/// Show what a service takes and gives
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate usage http://somewhere.com/sample
  fishplate usage http://somewhere.com/sample --all
  fishplate usage http://somewhere.com/sample --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// With the verbs for jobs, which every service has
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let service = args.connection.connect().await?;
        if output.json {
            output.value(&json::usage(&service))?;
        } else {
            output.raw(&text::usage(service.description(), args.all))?;
        }
        Ok(Exit::Success)
    })
}
