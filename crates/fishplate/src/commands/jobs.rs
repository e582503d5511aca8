//! `fishplate jobs URL`: the caller's jobs.

use anyhow::Result;
use fishplate_client::{JobFilter, JobPage};
use fishplate_contract::{JobId, JobState};
use serde_json::json;

use super::client::{Connection, job, run_interruptible};
use crate::exit::Exit;
use crate::output::{Output, json, text};

/// List your jobs on a service, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate jobs http://somewhere.com/sample
  fishplate jobs http://somewhere.com/sample --state running --json

Jobs whose record the server has lost: `fishplate lost`, on the server's machine.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Only jobs in this state: queued, running, done, failed, killed, unknown
    #[arg(long, value_parser = state)]
    state: Option<JobState>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only jobs after this one in the list
    #[arg(long, value_name = "JOB", value_parser = job)]
    after: Option<JobId>,
    /// All jobs, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

fn state(name: &str) -> Result<JobState, String> {
    JobState::from_name(name).ok_or_else(|| {
        let names: Vec<_> = JobState::ALL.iter().map(|state| state.name()).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let service = args.connection.connect().await?;
        let mut filter =
            JobFilter { state: args.state, limit: Some(args.limit), after: args.after };
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
        if output.json {
            let jobs: Vec<_> = all.jobs.iter().map(json::listed).collect();
            output.value(&json!({ "jobs": jobs, "more": all.more }))?;
        } else {
            output.raw(&text::jobs(&all))?;
            if let (true, Some(last)) = (all.more, all.jobs.last()) {
                output.note(&format!("there are more: --all, or --after {}", last.id));
            }
        }
        Ok(Exit::Success)
    })
}
