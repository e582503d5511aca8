//! `fishplate lost`: directories of jobs that the job store knows nothing of.

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;
use fishplate_contract::{JobId, Timestamp};
use fishplate_formats::units::rounded;
use fishplate_jobs::executor::{Executor, RecoveredRun};
use fishplate_jobs::lost::{self, LostJob};
use fishplate_jobs::store::Store;
use serde_json::{Value, json};

use super::client::job;
use super::hosting::{self, StateArgs, own_data_directory};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;
use crate::output::text::{harmless, moment};

/// Show, adopt and discard jobs whose record was lost
///
/// For the operator, on the server's machine, while it runs or not. When jobs.sqlite was lost, damaged
/// or replaced by an older one, the directories of jobs that it does not know are set aside where they
/// are: nothing of them is removed. Putting the right store back makes all as it was. Else `adopt` makes
/// a job's record anew, so that its owner has its results again, and `discard` removes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate lost list --data /var/lib/fishplate
  fishplate lost adopt --all --data /var/lib/fishplate
  fishplate lost discard 0123456789abcdef0123456789abcdef")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: LostCommand,
}

#[derive(Debug, Subcommand)]
enum LostCommand {
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Make their records anew, so that their owners have their results again
    Adopt(SomeArgs),
    /// Remove them with all of their files
    Discard(SomeArgs),
}

/// List them, the last changed first: job, state, size, time, what it was
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    which: StateArgs,
}

/// Some of them, or all
#[derive(Debug, clap::Args)]
struct SomeArgs {
    /// Jobs, as `lost list` tells them
    #[arg(value_name = "JOB", value_parser = job, required_unless_present = "all")]
    jobs: Vec<JobId>,
    /// All that are listed; to adopt: all of which it is known what they were
    #[arg(long, conflicts_with = "jobs")]
    all: bool,
    #[command(flatten)]
    which: StateArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match &args.verb {
        LostCommand::List(ListArgs { which }) => list(which, output),
        LostCommand::Adopt(some) => {
            each(some, output, "adopted", |job| job.manifest.is_some(), lost::adopt)
        }
        LostCommand::Discard(some) => each(
            some,
            output,
            "discarded",
            |job| job.recovered != RecoveredRun::Running,
            lost::discard,
        ),
    }
}

fn list(which: &StateArgs, output: Output) -> Result<Exit> {
    let data = own_data_directory(which.data.as_deref())?;
    let (store, executor) = (hosting::store_if_any(&data)?, hosting::executor(&data)?);
    let lost = lost::list(&data, store.as_deref(), executor.as_ref())?;
    let size = lost.iter().map(|job| job.size).sum::<u64>();
    if output.json {
        let jobs: Vec<Value> = lost.iter().map(told).collect();
        output.value(&json!({ "jobs": jobs, "size": size }))?;
        return Ok(Exit::Success);
    }
    for job in &lost {
        let (size, changed) = (rounded(job.size), moment(job.changed));
        let line = format!("{}  {:11}  {size:>10}  {changed}  {}", job.id, state(job), what(job));
        output.line(harmless(&line).trim_end())?;
    }
    output.note(&match lost.len() {
        0 => "no job has lost its record".to_owned(),
        count => format!("{count} in all, {}", rounded(size)),
    });
    Ok(Exit::Success)
}

type LostAction = fn(&Path, &dyn Store, &dyn Executor, JobId) -> Result<LostJob, lost::LostError>;

/// Does the same to several jobs and tells of each.
fn each(
    some: &SomeArgs,
    output: Output,
    done: &str,
    possible: fn(&LostJob) -> bool,
    action: LostAction,
) -> Result<Exit> {
    let data = own_data_directory(some.which.data.as_deref())?;
    let (store, executor) = (hosting::store(&data)?, hosting::executor(&data)?);
    let mut left = 0;
    let jobs = if some.all {
        let (these, others): (Vec<_>, Vec<_>) =
            lost::list(&data, Some(store.as_ref()), executor.as_ref())?
                .into_iter()
                .partition(possible);
        left = others.len();
        these.into_iter().map(|job| job.id).collect()
    } else {
        some.jobs.clone()
    };
    for job in jobs {
        action(&data, store.as_ref(), executor.as_ref(), job).map_err(|error| match error {
            lost::LostError::Store(_) | lost::LostError::Io { .. } => anyhow::Error::from(error),
            mistaken => UsageError(mistaken.to_string()).into(),
        })?;
        if output.json {
            output.value(&json!({ "job": job.to_string(), done: true }))?;
        } else {
            output.line(&format!("{job} {done}"))?;
        }
    }
    if left > 0 {
        output.note(&format!("{left} could not be {done}: `fishplate lost list` shows them"));
    }
    Ok(Exit::Success)
}

/// How far a job got, in a word.
fn state(job: &LostJob) -> &'static str {
    match job.recovered {
        RecoveredRun::NotStarted => "not started",
        RecoveredRun::Running => "running",
        RecoveredRun::Ended(_) => "ended",
        RecoveredRun::Unknown => "unknown",
    }
}

/// What a job was.
fn what(job: &LostJob) -> String {
    let Some(manifest) = &job.manifest else { return "(nothing tells what it was)".to_owned() };
    let owner = manifest.owner();
    let owner = match owner.as_str() {
        "" => String::new(),
        name => format!(", of {name}"),
    };
    format!("{} {}{owner}", manifest.service, manifest.operation)
}

fn told(job: &LostJob) -> Value {
    let manifest = job.manifest.as_ref();
    let (mut exit_code, mut ended) = (Value::Null, Value::Null);
    if let RecoveredRun::Ended(ending) = &job.recovered {
        exit_code = json!(ending.exit_code);
        ended = json!(moment(Timestamp(ending.ended)));
    }
    json!({
        "job": job.id.to_string(),
        "state": state(job),
        "service": manifest.map(|it| &it.service),
        "operation": manifest.map(|it| &it.operation),
        "owner": manifest.map(|it| it.owner().as_str().to_owned()),
        "submitted": manifest.map(|it| moment(it.submitted())),
        "ended": ended,
        "exitCode": exit_code,
        "changed": moment(job.changed),
        "size": job.size,
        "directory": job.directory.display().to_string(),
        "adoptable": manifest.is_some(),
    })
}
