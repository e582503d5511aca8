//! `fishplate jobs URL`: the caller's jobs.

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fishplate_client::{Error, JobFilter, JobPage, Service};
use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{JobId, JobState};
use serde_json::json;

use super::client::{ConnectionOptions, job, run_interruptible};
use super::target::default_server;
use crate::exit::Exit;
use crate::output::failure::UsageError;
use crate::output::{Output, json, text};

/// List your jobs on a service or a whole server, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate jobs
  fishplate jobs http://somewhere.com/sample
  fishplate jobs http://somewhere.com/sample --state running --json

Jobs whose record the server has lost: `fishplate lost`, on the server's machine.")]
pub(crate) struct Args {
    /// URL of a service, or of a server to list those of all its services [default: FISHPLATE_URL, else
    /// http://127.0.0.1:8080]
    url: Option<String>,
    #[command(flatten)]
    options: ConnectionOptions,
    /// Only jobs in this state
    #[arg(long, value_parser = state())]
    state: Option<JobState>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=DEFAULTS.jobs_page.cast_signed() as i64))]
    limit: u32,
    /// Only jobs after this one in the list
    #[arg(long, value_name = "JOB", value_parser = job)]
    after: Option<JobId>,
    /// All jobs, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

fn state() -> impl TypedValueParser<Value = JobState> {
    let names = PossibleValuesParser::new(JobState::ALL.map(JobState::name));
    names.try_map(|name| JobState::from_name(&name).ok_or("no state"))
}

impl Args {
    /// The server or service that is meant.
    pub(crate) fn url(&self) -> String {
        self.url.clone().unwrap_or_else(default_server)
    }
}

/// The jobs of one service.
async fn jobs(service: &Service, args: &Args) -> Result<JobPage, Error> {
    let mut filter = JobFilter { state: args.state, limit: Some(args.limit), after: args.after };
    let mut all = JobPage { jobs: Vec::new(), more: true };
    while all.more {
        let page = service.jobs(&filter).await?;
        filter.after = page.jobs.last().map(|report| report.id);
        // An empty page that promises more would be asked for without end.
        all.more = page.more && !page.jobs.is_empty();
        all.jobs.extend(page.jobs);
        if !args.all {
            break;
        }
    }
    Ok(all)
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let services = args.options.services(&args.url()).await?;
        if let (Some(_), [_, _, ..]) = (args.after, &services[..]) {
            let what = "--after goes with the URL of one service, and this is a server's";
            return Err(UsageError(what.to_owned()).into());
        }
        let mut all = JobPage { jobs: Vec::new(), more: false };
        for service in &services {
            let page = jobs(service, args).await?;
            all.jobs.extend(page.jobs);
            all.more |= page.more;
        }
        if services.len() > 1 {
            all.jobs.sort_by_key(|report| std::cmp::Reverse(report.submitted));
            if !args.all && all.jobs.len() > args.limit as usize {
                all.jobs.truncate(args.limit as usize);
                all.more = true;
            }
        }
        if output.json {
            let jobs: Vec<_> = all.jobs.iter().map(json::listed).collect();
            output.value(&json!({ "jobs": jobs, "more": all.more }))?;
        } else {
            output.raw(&text::jobs(&all))?;
            match (all.more, all.jobs.last()) {
                (true, Some(last)) if services.len() == 1 => {
                    output.note(&format!("there are more: --all, or --after {}", last.id));
                }
                (true, _) => output.note("there are more: --all shows them"),
                (false, _) => {}
            }
        }
        Ok(Exit::Success)
    })
}
