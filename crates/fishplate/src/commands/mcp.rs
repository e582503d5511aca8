//! `fishplate mcp URL...`: services as tools of an assistant.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fishplate_client::{Options, Service};
use fishplate_contract::Verb;
use fishplate_mcp::{
    Directory, Handler, OperationName, ServiceTools, Services, Settings, transport,
};

use super::client::{ConnectionOptions, duration, run_interruptible};
use crate::exit::Exit;

/// Offer services to an assistant as tools (Model Context Protocol, on standard input and output)
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An assistant starts this command itself, as its configuration says. Each operation of the services \
is a tool; a run that takes longer than --wait goes on as a job, which the tools job_status, job_results, job_log and \
job_cancel are for. A server offers the same at PUBLIC/mcp, without this command.

Examples:
  fishplate mcp http://somewhere.com/sample
  fishplate mcp https://somewhere.com https://elsewhere.com/mesher --token-file ~/.token
  fishplate mcp http://127.0.0.1:8080 --directory ~/models --wait 5m

For a desktop client, in the file where it lists its servers:
  {\"mcpServers\": {\"simulations\": {\"command\": \"fishplate\",
    \"args\": [\"mcp\", \"http://127.0.0.1:8080\", \"--directory\", \"/home/me/models\"]}}}"
)]
pub(crate) struct Args {
    /// URLs of services, or of servers: then all of their services that have jobs
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Files below this directory may be given as inputs by their path; no others of this machine are read
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// How long a call waits for its job before it is answered without results; many clients wait for a minute
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "50s")]
    wait: Duration,
    #[command(flatten)]
    options: ConnectionOptions,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Exit> {
    run_interruptible(&[], async {
        let mut offered = Offered::default();
        for url in &args.urls {
            for service in args.options.services(url).await? {
                offered.add(service);
            }
        }
        let open = |path: &PathBuf| {
            Directory::open(path).with_context(|| format!("cannot open {}", path.display()))
        };
        let directory = args.directory.as_ref().map(open).transpose()?;
        let settings = Settings { wait: args.wait, ..Settings::default() };
        transport::serve_stdio(Handler::new(Arc::new(offered), directory, settings)).await?;
        Ok(Exit::Success)
    })
}

/// Services over HTTP, by the names that they have here.
#[derive(Default)]
struct Offered {
    services: Vec<(String, Service)>,
    taken: HashSet<String>,
}

impl Offered {
    /// Adds a service; of two that are called alike, the later one gets a number.
    fn add(&mut self, service: Service) {
        let own = service.description().name.clone();
        let mut name = own.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{own}-{number}");
            number += 1;
        }
        self.services.push((name, service));
    }
}

impl Services for Offered {
    fn operations(&self) -> Vec<OperationName> {
        let of = |(name, service): &(String, Service)| {
            let verbs = service.description().operations.iter().map(|it| &it.definition);
            let calls = verbs.filter(|definition| definition.verb == Verb::Call);
            let named = calls.map(|definition| OperationName {
                service: name.clone(),
                operation: definition.operation.clone(),
            });
            named.collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of).collect()
    }

    fn service(&self, name: &str) -> Option<ServiceTools> {
        let (_, service) = self.services.iter().find(|(known, _)| known == name)?;
        let description = service.description();
        Some(ServiceTools {
            title: description.title.clone(),
            documentation: description.documentation.clone(),
            verbs: description.operations.iter().map(|it| it.definition.clone()).collect(),
            takes_options: description.ours,
            caller: Arc::new(service.with(Options::default())),
        })
    }
}
