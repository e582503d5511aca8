//! `fishplate spawn URL x=1 y:two`: starts an operation as a job.

use std::sync::Arc;

use anyhow::Result;
use fishplate_client::arguments::{check_outputs, load, without_files};
use fishplate_client::{Meter, Options};
use fishplate_contract::JobState;
use serde_json::json;

use super::call::{CallSettings, how_to_find};
use super::client::{Connection, going_on, operation_of, run_interruptible};
use crate::exit::Exit;
use crate::output::progress::JobBar;
use crate::output::{Output, progress};

/// Start an operation as a job and print the job's ID
///
/// The arguments are those of `fishplate call`, but outputs do not go to files: ref:NAME and
/// auto:NAME are settled now, and `fishplate results` takes out:NAME when the job has ended. With
/// NAME@FILE the command goes on until the server has the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate spawn http://somewhere.com/sample x=1 y:two
  JOB=$(fishplate spawn http://somewhere.com/ccx deck:pipe.inp)
  fishplate wait http://somewhere.com/ccx $JOB
  fishplate results http://somewhere.com/ccx $JOB out:fields
  fishplate spawn http://somewhere.com/solver mesh@http://there.com/data/TOKEN/pipe.msh ref:flow")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// NAME=VALUE, NAME:FILE, NAME@URL, ref:NAME or auto:NAME
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    sending: CallSettings,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (inputs, wanted) = without_files(&args.arguments)?;
    let key = args.sending.key();
    let hints = how_to_find(&args.connection.url, "spawn", key.as_deref());
    run_interruptible(&hints, async {
        let service = args.connection.connect().await?;
        let name = operation_of(&service, args.sending.operation.as_deref())?;
        let operation = service.operation(&name)?;
        check_outputs(operation, &wanted)?;
        let offer = args.sending.offer(&service, &inputs).await?;
        let arguments = load(operation, inputs, offer.as_ref()).await?;
        let meter = Arc::new(Meter::default());
        let options = Options {
            call: args.sending.options(key.clone(), &wanted),
            meter: Some(Arc::clone(&meter)),
            ..Options::default()
        };
        let spawning = service.spawn(&name, arguments, &options);
        let job = progress::transfer(output, &meter, spawning).await;
        let job = job.map_err(|error| going_on(error, &hints, &meter))?;
        if output.json {
            output.value(&json!({ "job": job.to_string(), "key": key }))?;
        } else {
            output.line(&job.to_string())?;
        }
        if offer.is_some() {
            let mut bar = JobBar::new(output);
            let fetched = service.wait_fetched(job, |report| bar.show(report)).await?;
            if fetched.state == JobState::Failed {
                drop(bar);
                output.note(&format!("the job has failed: {}", fetched.message));
                return Ok(Exit::of_state(fetched.state));
            }
        }
        Ok(Exit::Success)
    })
}
