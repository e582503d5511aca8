//! `fishplate call URL x=1 y:two out:result`: runs an operation and waits for its results.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fishplate_client::arguments::{
    ArgumentWord, RequestedOutput, check_outputs, choices, load, parse_all,
};
use fishplate_client::data::Offer;
use fishplate_client::deliver::{
    DeliveredValue, FetchSettings, check_directories, check_targets, deliver, spool_dir, streams,
};
use fishplate_client::{Error, JobFilter, Meter, Options, Service, new_key};
use fishplate_contract::{Argument, CallOptions, JobId, Parameter, Payload, SessionId, Value};
use serde_json::json;
use tokio::time::sleep;

use super::client::{Connection, going_on, operation_of, run_interruptible, session};
use super::target::has_jobs;
use crate::exit::Exit;
use crate::output::progress::WatchedJob;
use crate::output::{Output, json, progress, text};

/// How long a call lasts before it is worth asking what it waits for.
const WORTH_ASKING: Duration = Duration::from_secs(2);
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// Jobs among which that of the call is looked for.
const MOST_NEW: u32 = 20;

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
        CallOptions { key, session: self.session, outputs }
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
        let watched = AwaitedCall::before(&service, &name, &options, output).await;
        let watching = watched.watch(&seen);
        let calling = service.call(&name, arguments, &options);
        let both = async {
            tokio::select! {
                reply = calling => reply,
                never = watching => match never {},
            }
        };
        let reply = progress::transfer_of_job(output, &meter, &seen, both).await;
        let reply = reply.map_err(|error| going_on(error, &hints, &meter))?;
        drop(offer);
        let url = &args.connection.url;
        let command = match reply.job {
            Some(job) => format!("`fishplate results {url} {job}`"),
            None => "an argument".to_owned(),
        };
        let fetch = FetchSettings { settings: service.settings().clone(), meter: Arc::default() };
        let shown = OutputDisplay { outputs, wanted: &wanted, command: &command, fetch };
        let delivered = shown.deliver(reply.outputs, output).await?;
        if output.json {
            output.value(&json!({
                "job": reply.job.map(|job| job.to_string()),
                "key": key,
                "outputs": json::outputs(&delivered),
            }))?;
        }
        Ok(Exit::Success)
    })
}

/// A call that is waited for.
struct AwaitedCall<'w> {
    service: &'w Service,
    operation: &'w str,
    /// The caller's newest job before the call was sent; `None` if nobody looks how it goes on.
    before: Option<Option<JobId>>,
}

impl AwaitedCall<'_> {
    /// Looks what jobs there are already, if anybody looks how the call goes on.
    async fn before<'w>(
        service: &'w Service,
        operation: &'w str,
        options: &Options,
        output: Output,
    ) -> AwaitedCall<'w> {
        let mut before = None;
        // Without a key there is no job that could be asked for.
        if options.call.key.is_some() && progress::is_watched(output) && has_jobs(service) {
            let newest = JobFilter { limit: Some(1), ..JobFilter::default() };
            // Why nothing can be told is of no interest.
            let listed = service.jobs(&newest).await.ok();
            before = listed.map(|page| page.jobs.first().map(|report| report.id));
        }
        AwaitedCall { service, operation, before }
    }

    /// Tells how the call's job goes on. It does not end, whatever fails: only the call matters.
    async fn watch(&self, seen: &WatchedJob) -> Infallible {
        if let Some(before) = self.before {
            let _ = self.follow(before, seen).await;
        }
        std::future::pending().await
    }

    async fn follow(&self, before: Option<JobId>, seen: &WatchedJob) -> Result<(), Error> {
        sleep(WORTH_ASKING).await;
        let job = loop {
            let newest = JobFilter { limit: Some(MOST_NEW), ..JobFilter::default() };
            let jobs = self.service.jobs(&newest).await?.jobs;
            let new = jobs.iter().take_while(|report| Some(report.id) != before);
            let mut ours = new.filter(|report| report.operation == self.operation);
            match (ours.next(), ours.next()) {
                (Some(report), None) => break report.id,
                // Still sent, or a function, of which no job is made.
                (None, _) => sleep(BETWEEN_QUESTIONS).await,
                // Somebody else calls under the same name: which is ours can't be told.
                (Some(_), Some(_)) => return Ok(()),
            }
        };
        loop {
            let report = self.service.status(job).await?;
            let ended = report.state.is_final();
            seen.tell(report);
            if ended {
                return Ok(());
            }
            sleep(BETWEEN_QUESTIONS).await;
        }
    }
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
