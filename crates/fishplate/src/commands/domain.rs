//! `fishplate domain`: ranks on several servers (paper 001, section 3: the workflow manager).

pub(super) mod file;
mod mpfl;
pub(super) mod running;
pub(crate) mod service;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use fishplate_client::Settings;
use fishplate_client::domain::DomainServer;
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::{Credential, DomainId};
use serde_json::json;

use self::running::DomainRun;
use self::status::StatusArgs;
use super::client::{ConnectionArgs, duration, run_interruptible};
use super::run::require_soap_transport;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Run programs of several servers as ranks that pass messages to each other
///
/// A communication domain is started on all servers or on none: places are had everywhere before the
/// first rank starts. Services whose service file has [ranks] can take part.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate domain run moldyn.toml
  fishplate domain run moldyn.toml --wait 10m --results results
  fishplate domain status 000102030405060708090a0b0c0d0e0f http://somewhere.com http://there.com
  fishplate domain status --watch 000102030405060708090a0b0c0d0e0f http://somewhere.com
  fishplate domain end 000102030405060708090a0b0c0d0e0f http://somewhere.com http://there.com")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: DomainCommand,
}

#[derive(Debug, Subcommand)]
enum DomainCommand {
    Run(RunArgs),
    /// Show where each rank of a domain is, what it sent to whom, and what it waits for
    ///
    /// A wait is told when it has lasted for a second (the limit long_wait). Ranks that wait for each
    /// other, or for ranks that have ended, are named as a deadlock. Where only some of the servers are named, waits
    /// for ranks of the others are no deadlock.
    Status(StatusArgs),
    /// Kill the ranks of a domain, and give back its places
    End(ServerArgs),
}

/// Start the ranks that a file describes, and wait for their end
///
/// The command ends as `fishplate run` does: with the first exit code that is not 0, or 128 and the
/// signal's number if a rank was killed; the other ranks are ended then, as by Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "The file, in TOML; ranks are numbered through:
  [[instances]]
  service = \"http://somewhere.com/moldyn\"
  ranks = 2
  arguments = [\"mm=8\"]                     # as for `fishplate call`

  [[instances]]
  interface = \"moldyn.wsdl\"                # or a service's name or URL, as for `fishplate find`
  servers = [\"http://there.com\", \"http://elsewhere.com\"]
  ranks = 2
  arguments = [\"mm=8\"]

The same as XML:
  <domain xmlns=\"urn:fishplate:mpfl:1\">
    <instances service=\"http://somewhere.com/moldyn\" ranks=\"2\">
      <argument>mm=8</argument>
    </instances>
    <instances interface=\"moldyn.wsdl\" ranks=\"2\">
      <server>http://there.com</server>
      <server>http://elsewhere.com</server>
      <argument>mm=8</argument>
    </instances>
  </domain>

Examples:
  fishplate domain run moldyn.toml
  fishplate domain run moldyn.toml --json")]
struct RunArgs {
    /// Which ranks, in TOML or as XML (MPFL)
    file: PathBuf,
    /// Leave out the rank before each line of output
    #[arg(long)]
    no_label: bool,
    /// What carries messages
    #[arg(long, value_name = "NAME", default_value = TransportKind::default().name(),
          value_parser = PossibleValuesParser::new(TransportKind::ALL.map(TransportKind::name)))]
    transport: String,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// How a domain on servers is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct HowArgs {
    /// Ask so long for places where all are taken
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// Put the results of each rank into DIR/RANK
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Write domain, credential and addresses for SOAP clients there once all have joined, as JSON that only you can read; with
    /// --transport soap
    #[arg(long, value_name = "FILE")]
    pub(crate) endpoints: Option<PathBuf>,
    /// Have ranks of different servers reach each other at ports of their own, not through their servers' ports
    #[arg(long)]
    direct: bool,
}

// A domain, and where to look for it.
#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// ID of the domain, as `domain run` tells it
    #[arg(value_parser = domain)]
    domain: DomainId,
    /// Servers, or services of them
    #[arg(required = true, value_name = "URL")]
    servers: Vec<String>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// A domain's ID.
fn domain(text: &str) -> Result<DomainId, String> {
    text.trim().parse().map_err(|needed: &str| format!("it is no domain's ID: {needed}"))
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<ExitCode> {
    match &args.verb {
        DomainCommand::Run(args) => {
            let run = DomainRun {
                id: DomainId::random()?,
                credential: Credential::random()?,
                parts: file::read(&args.file)?,
                settings: args.reach.settings()?,
                transport: TransportKind::from_name(&args.transport).unwrap_or_default(),
                label: !args.no_label,
                keep_going: false,
                time: None,
                shown: None,
                how: args.how.clone(),
            };
            require_soap_transport(run.how.endpoints.as_deref(), run.transport)?;
            Ok(running::run(run, output)?.code.into())
        }
        DomainCommand::Status(args) => {
            run_interruptible(&[], status::status(args, output)).map(Into::into)
        }
        DomainCommand::End(args) => run_interruptible(&[], end(args, output)).map(Into::into),
    }
}

async fn servers(args: &ServerArgs, settings: &Settings) -> Result<Vec<(String, DomainServer)>> {
    let mut servers: Vec<(String, DomainServer)> = Vec::new();
    for url in &args.servers {
        let server = DomainServer::find(url, settings.clone()).await?.ok_or_else(|| {
            UsageError(format!("{url} has no ranks: no service file of that server has [ranks]"))
        })?;
        // Two services may have one server.
        if !servers.iter().any(|(_, known)| known.url() == server.url()) {
            servers.push((url.clone(), server));
        }
    }
    Ok(servers)
}

async fn end(args: &ServerArgs, output: Output) -> Result<Exit> {
    let (id, settings) = (args.domain.to_string(), args.reach.settings()?);
    let mut killed = 0;
    for (_, server) in servers(args, &settings).await? {
        killed += server.end(&id).await?;
    }
    if output.json {
        output.value(&json!({ "domain": id, "killed": killed }))?;
    } else {
        output.line(&format!("ranks that were killed: {killed}"))?;
    }
    Ok(Exit::Success)
}
