//! `fishplate call URL x=1 y:two out:result`: runs an operation and waits for its results.

use std::sync::Arc;

use anyhow::Result;
use fishplate_client::arguments::{
    ArgumentWord, RequestedOutput, check_outputs, choices, load, parse_all,
};
use fishplate_client::data::Offer;
use fishplate_client::deliver::{
    DeliveredValue, FetchSettings, check_directories, check_targets, deliver, spool_dir, streams,
};
use fishplate_client::watch::CallWatch;
use fishplate_client::{Error, Meter, Options, Service, new_key};
use fishplate_contract::{Argument, CallOptions, Parameter, Payload, SessionId, Value};
use serde_json::json;

use super::client::{Connection, going_on, operation_of, run_interruptible, session};
use crate::exit::Exit;
use crate::output::progress::WatchedJob;
use crate::output::{Output, json, progress, text};

/// Run an operation and wait for its results
///
/// Arguments:
///
///   NAME=VALUE     the value of an input, to the letter
///   NAME:FILE      the content of FILE is the value of an input (its trimmed text for numbers
///                  and strings)
///   NAME:-         what comes from standard input is the value of an input, sent as it
///                  comes, and so once only: such a call is not tried again by itself
///   NAME@URL       the value of an input is at URL, and the server gets it from there
///   NAME@FILE      the server gets FILE from this command while it runs (see --offer)
///   NAME@session:FILE  the value of an input is FILE of the call's session
///   NAME=[[1,2],[3,4]]  an array, as lists or as rows of numbers
///   NAME:FILE      an array: .npy, .csv, .bin or .raw (little-endian, of known shape), else rows
///                  of numbers
///   NAME:DIRECTORY, NAME@DIRECTORY  a directory, or a .tar file with what is in one
///   out:NAME       writes the output NAME to the file NAME
///   out:NAME=FILE  writes the output NAME to FILE; for an output with several files, FILE is a
///                  directory; for an array, its suffix tells the format as above; for a directory,
///                  FILE is what it is unpacked to, or the archive if it ends with .tar
///   ref:NAME       leaves the output NAME at the server and prints its URL
///   ref:NAME=URL   lets the server deliver the output NAME to URL (mailto:, s3:, ftp:)
///   auto:NAME      lets the server choose: small ones as out:NAME, large ones as ref:NAME
///   ref:*, auto:*  the same for all outputs that hold files or arrays
///
/// The first =, : or @ of a word decides. Outputs that are not asked for are printed as
/// `NAME: VALUE`; files among them are only named on standard error.
///
/// A broken connection does not run the program twice: every call has an idempotency key, drawn at
/// random unless --key tells it. With the same key and arguments, the command finds the same run.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  fishplate call http://somewhere.com/sample x=1 y:two out:result
  fishplate call http://somewhere.com/mesher geometry:pipe.geo size=0.5 out:mesh=pipe.msh
  fishplate call http://somewhere.com/ccx deck:pipe.inp out:fields=results/ --json
  fishplate call http://somewhere.com/smooth grid:grid.npy sweeps=3 out:smooth=smooth.csv

  The mesh goes from one server to the other, and not through this machine:
  MESH=$(fishplate call http://here.com/mesher size=0.5 ref:mesh --json | jq -r .outputs.mesh.url)
  fishplate call http://there.com/solver mesh@$MESH ref:flow=mailto:me@example.com"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// NAME=VALUE, NAME:FILE, NAME@URL, out:NAME, ref:NAME or auto:NAME
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    sending: CallSettings,
}

/// Which operation, and how often it may run.
#[derive(Debug, clap::Args)]
pub(crate) struct CallSettings {
    /// Operation, if the service has several
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// Idempotency key: the same key never runs twice [default: random]
    #[arg(long, value_name = "KEY", conflicts_with = "no_key")]
    key: Option<String>,
    /// Send no idempotency key; a broken connection is then an error
    #[arg(long)]
    no_key: bool,
    /// Session to run in: its files are there as NAME@session:FILE, and outputs stay in it
    #[arg(long, value_name = "ID", value_parser = session)]
    pub(crate) session: Option<SessionId>,
    /// Where this machine listens for the server that gets NAME@FILE
    /// [default: its address on the way to the server, at a free port]
    #[arg(long, value_name = "HOST[:PORT]")]
    offer: Option<String>,
}

impl CallSettings {
    /// What the server is asked for beside the arguments, with this key.
    pub(crate) fn options(&self, key: Option<String>, wanted: &[RequestedOutput]) -> CallOptions {
        let outputs = choices(wanted, self.session.is_some());
        CallOptions { key, session: self.session, outputs, ..CallOptions::default() }
    }

    /// The key as told, or a new one.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.clone().or_else(|| (!self.no_key).then(new_key))
    }

    /// Serves the files among the inputs that are meant so; `None` if there are none.
    pub(crate) async fn offer(
        &self,
        service: &Service,
        inputs: &[ArgumentWord],
    ) -> Result<Option<Offer>, Error> {
        if !inputs.iter().any(|input| matches!(input, ArgumentWord::Offer { .. })) {
            return Ok(None);
        }
        match &self.offer {
            Some(address) => Offer::at(address).await.map(Some),
            None => Offer::towards(&service.address()).await.map(Some),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (inputs, wanted) = parse_all(&args.arguments)?;
    let key = args.sending.key();
    let hints = how_to_find(&args.connection.url, "call", key.as_deref());
    run_interruptible(&hints, async {
        check_targets(&wanted)?;
        let service = args.connection.connect().await?;
        let name = operation_of(&service, args.sending.operation.as_deref())?;
        let operation = service.operation(&name)?;
        let outputs = &operation.definition.signature.outputs;
        check_outputs(operation, &wanted)?;
        check_directories(&wanted, outputs)?;
        // Alive until the answer is there.
        let offer = args.sending.offer(&service, &inputs).await?;
        let arguments = load(operation, inputs, offer.as_ref()).await?;
        let meter = Arc::new(Meter::default());
        let options = Options {
            call: args.sending.options(key.clone(), &wanted),
            streams: streams(&wanted, outputs),
            stored_whole: true,
            spool_dir: spool_dir(&wanted, outputs),
            meter: Some(Arc::clone(&meter)),
            timeout: None,
        };
        let seen = WatchedJob::default();
        // Looked at only where somebody looks.
        let watch = match progress::is_watched(output) {
            true => CallWatch::before(&service, &name, key.as_deref()).await,
            false => None,
        };
        let calling = service.call(&name, arguments, &options);
        let both = async {
            let Some(watch) = watch else { return calling.await };
            tokio::select! {
                reply = calling => reply,
                never = watch.follow(|report| seen.tell(report)) => match never {},
            }
        };
        let reply = progress::transfer_of_job(output, &meter, &seen, both).await;
        let reply = reply.map_err(|error| going_on(error, &hints, &meter))?;
        drop(offer);
        let url = &args.connection.url;
        let command = match reply.job {
            Some(job) => format!("`fishplate results {url} {}`", job.id),
            None => "an argument".to_owned(),
        };
        let fetch = FetchSettings { settings: service.settings().clone(), meter: Arc::default() };
        let shown = OutputDisplay { outputs, wanted: &wanted, command: &command, fetch };
        let delivered = shown.deliver(reply.outputs, output).await?;
        if output.json {
            output.value(&json!({
                "job": reply.job.map(|job| job.id.to_string()),
                "key": key,
                "outputs": json::outputs(&delivered),
            }))?;
        }
        Ok(Exit::Success)
    })
}

/// How to find a job whose call was interrupted.
pub(crate) fn how_to_find(url: &str, command: &str, key: Option<&str>) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(key) = key {
        hints.push(format!(
            "the program may go on at the server; with --key {key} the same command finds it: \
             `fishplate {command} {url} ... --key {key}`"
        ));
    }
    hints.push(format!("`fishplate jobs {url}` lists your jobs"));
    hints
}

/// How the outputs of a call or a job are shown.
pub(crate) struct OutputDisplay<'a> {
    /// The operation's outputs.
    pub(crate) outputs: &'a [Parameter],
    /// Those that shall go to files.
    pub(crate) wanted: &'a [RequestedOutput],
    /// The command to which `out:NAME` can be added to get a file.
    pub(crate) command: &'a str,
    /// How to get those that came as references and shall go to files.
    pub(crate) fetch: FetchSettings,
}

impl OutputDisplay<'_> {
    /// Writes the wanted outputs into files; prints the others, unless JSON will.
    pub(crate) async fn deliver(
        &self,
        outputs: Vec<Argument>,
        output: Output,
    ) -> Result<Vec<DeliveredValue>> {
        let refers = |output: &Argument| matches!(output.value, Value::Data(Payload::Reference(_)));
        let fetches = outputs.iter().any(refers);
        let delivering = deliver(outputs, self.outputs, self.wanted, &self.fetch);
        let (delivered, missing) = match fetches {
            true => progress::moving(output, &self.fetch.meter, delivering).await?,
            false => delivering.await?,
        };
        for name in missing {
            output.note(&format!("{name}: the program made no such output; nothing is written"));
        }
        if !output.json {
            let (shown, remarks) = text::outputs(&delivered, self.command);
            output.raw(&shown)?;
            remarks.iter().for_each(|remark| output.note(remark));
        }
        Ok(delivered)
    }
}
