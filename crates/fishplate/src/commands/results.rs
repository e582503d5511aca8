//! `fishplate results URL JOB out:result`: the results of a job that has ended.

use std::sync::Arc;

use anyhow::Result;
use fishplate_client::arguments::{check_outputs, choices_again, outputs_only};
use fishplate_client::deliver::{
    FetchSettings, check_directories, check_targets, spool_dir, streams,
};
use fishplate_client::{Meter, Options, Service};
use fishplate_contract::{CallOptions, JobId, SessionId};
use serde_json::json;

use super::call::OutputDisplay;
use super::client::{ConnectionOptions, run_interruptible, session};
use super::target::JobArgs;
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
    /// URL of a service or a server [default: FISHPLATE_URL, else http://127.0.0.1:8080], the ID of
    /// a job or its first digits, and outputs: out:NAME, out:NAME=FILE or ref:NAME
    #[arg(value_names = ["URL", "JOB", "OUTPUT"], num_args = 0..)]
    words: Vec<String>,
    /// The job that was submitted last
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    options: ConnectionOptions,
    /// Operation that the job runs, if the service has several [default: ask the service]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Session that the job ran in
    #[arg(long, value_name = "ID", value_parser = session)]
    session: Option<SessionId>,
}

impl Args {
    /// The outputs that are asked for, and the other words.
    fn words(&self) -> (Vec<String>, Vec<String>) {
        let is_output =
            |word: &String| ["out:", "ref:", "auto:"].iter().any(|way| word.starts_with(way));
        self.words.iter().cloned().partition(is_output)
    }

    /// The server or service that is meant.
    pub(crate) fn url(&self) -> String {
        JobArgs::new(self.words().1, self.last, self.options.clone()).url()
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (outputs, words) = args.words();
    let wanted = outputs_only(&outputs)?;
    let about = JobArgs::new(words, args.last, args.options.clone());
    run_interruptible(&[], async {
        check_targets(&wanted)?;
        let (service, job) = about.find().await?;
        let name = operation_of_job(&service, job, args).await?;
        let operation = service.operation(&name)?;
        let outputs = &operation.definition.signature.outputs;
        check_outputs(operation, &wanted)?;
        check_directories(&wanted, outputs)?;
        let meter = Arc::new(Meter::default());
        let options = Options {
            call: CallOptions {
                session: args.session,
                outputs: choices_again(&wanted),
                ..CallOptions::default()
            },
            streams: streams(&wanted, outputs),
            stored_whole: true,
            spool_dir: spool_dir(&wanted, outputs),
            meter: Some(Arc::clone(&meter)),
            ..Options::default()
        };
        let fetching = service.results(&name, job, &options);
        let reply = progress::transfer(output, &meter, fetching).await?;
        let shown = OutputDisplay {
            outputs,
            wanted: &wanted,
            command: "the same command with the argument",
            fetch: FetchSettings { settings: service.settings().clone(), meter: Arc::default() },
        };
        let delivered = shown.deliver(reply.outputs, output).await?;
        if output.json {
            output.value(&json!({
                "job": job.to_string(),
                "outputs": json::outputs(&delivered),
            }))?;
        }
        Ok(Exit::Success)
    })
}

/// A job knows its operation; with only one there is nothing to ask.
async fn operation_of_job(service: &Service, job: JobId, args: &Args) -> Result<String> {
    if let Some(name) = &args.operation {
        return Ok(name.clone());
    }
    let names: Vec<&str> = service.operations().collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        _ => Ok(service.status(job).await?.operation),
    }
}
