//! `fishplate results URL JOB out:result`: the results of a job that has ended.

use std::sync::Arc;

use anyhow::Result;
use fishplate_client::arguments::{check_outputs, choices_again, outputs_only};
use fishplate_client::deliver::{
    FetchSettings, check_directories, check_targets, spool_dir, streams,
};
use fishplate_client::{Meter, Options, Service};
use fishplate_contract::{JobId, SessionId};
use serde_json::json;

use super::call::OutputDisplay;
use super::client::{Connection, job, run_interruptible, session};
use crate::exit::Exit;
use crate::output::{Output, json, progress};

/// Fetch the results of a job that has ended
///
/// Outputs are asked for as in `fishplate call`. While the job goes on, the exit code is 7.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate results http://somewhere.com/sample $JOB
  fishplate results http://somewhere.com/ccx $JOB out:fields=pipe.frd
  fishplate results http://somewhere.com/solver $JOB --json | jq -r .outputs.flow.url")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// ID of the job
    #[arg(value_parser = job)]
    job: JobId,
    /// out:NAME, out:NAME=FILE or ref:NAME
    #[arg(value_name = "OUTPUT")]
    outputs: Vec<String>,
    /// Operation that the job runs, if the service has several [default: ask the service]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Session that the job ran in
    #[arg(long, value_name = "ID", value_parser = session)]
    session: Option<SessionId>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let wanted = outputs_only(&args.outputs)?;
    run_interruptible(&[], async {
        check_targets(&wanted)?;
        let service = args.connection.connect().await?;
        let name = operation_of_job(&service, args).await?;
        let operation = service.operation(&name)?;
        let outputs = &operation.definition.signature.outputs;
        check_outputs(operation, &wanted)?;
        check_directories(&wanted, outputs)?;
        let meter = Arc::new(Meter::default());
        let options = Options {
            session: args.session,
            outputs: choices_again(&wanted),
            streams: streams(&wanted, outputs),
            stored_whole: true,
            spool_dir: spool_dir(&wanted, outputs),
            meter: Some(Arc::clone(&meter)),
            ..Options::default()
        };
        let fetching = service.results(&name, args.job, &options);
        let reply = progress::transfer(output, &meter, fetching).await?;
        let shown = OutputDisplay {
            outputs,
            wanted: &wanted,
            command: "the same command with the argument",
            fetch: FetchSettings { settings: args.connection.settings()?, meter: Arc::default() },
        };
        let delivered = shown.deliver(reply.outputs, output).await?;
        if output.json {
            output.value(&json!({
                "job": args.job.to_string(),
                "outputs": json::outputs(&delivered),
            }))?;
        }
        Ok(Exit::Success)
    })
}

/// A job knows its operation; with only one there is nothing to ask.
async fn operation_of_job(service: &Service, args: &Args) -> Result<String> {
    if let Some(name) = &args.operation {
        return Ok(name.clone());
    }
    let names: Vec<&str> = service.operations().collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        _ => Ok(service.status(args.job).await?.operation),
    }
}
