//! `fishplate spawn URL x=1 y:two`: starts an operation as a job.

use std::sync::Arc;

use anyhow::Result;
use fishplate_client::{Meter, Options};
use serde_json::json;

use super::call::{Sending, how_to_find};
use super::client::{Connection, operation_of, run_interruptible};
use crate::arguments::{inputs_only, load};
use crate::exit::Exit;
use crate::output::{Output, progress};

/// Start an operation as a job and print the job's ID
///
/// The arguments are those of `fishplate call`, without outputs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate spawn http://somewhere.com/sample x=1 y:two
  JOB=$(fishplate spawn http://somewhere.com/ccx deck:pipe.inp)
  fishplate wait http://somewhere.com/ccx $JOB
  fishplate results http://somewhere.com/ccx $JOB out:fields")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// NAME=VALUE or NAME:FILE
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    sending: Sending,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let inputs = inputs_only(&args.arguments)?;
    let key = args.sending.key();
    let hints = how_to_find(&args.connection.url, "spawn", key.as_deref());
    run_interruptible(&hints, async {
        let service = args.connection.connect().await?;
        let name = operation_of(&service, args.sending.operation.as_deref())?;
        let arguments = load(service.operation(&name)?, inputs).await?;
        let meter = Arc::new(Meter::default());
        let options =
            Options { key: key.clone(), meter: Some(Arc::clone(&meter)), ..Options::default() };
        let spawning = service.spawn(&name, arguments, &options);
        let job = progress::transfer(output, &meter, spawning).await?;
        if output.json {
            output.value(&json!({ "job": job.to_string(), "key": key }))?;
        } else {
            output.line(&job.to_string())?;
        }
        Ok(Exit::Success)
    })
}
