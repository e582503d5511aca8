//! `fishplate quake report`: what a run came to.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use fishplate_quake::report;
use serde_json::json;

use crate::exit::Exit;
use crate::output::{Output, text};

/// Report a run again, also one that goes on or was cut off
///
/// It writes report.html (one file, which fetches nothing), results.csv, series.csv, requests.csv and results.json into the run's
/// directory, and prints a line for each system.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate quake report axis.quake
  fishplate quake report axis.quake --json")]
pub(super) struct ReportArgs {
    /// The run's directory
    directory: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &ReportArgs, output: Output) -> Result<ExitCode> {
    show(&args.directory, output)?;
    Ok(Exit::Success.into())
}

/// Reports a run: a line for each system, and where the page is. Whether any verdict speaks against its system.
pub(super) fn show(directory: &std::path::Path, output: Output) -> Result<bool> {
    let (results, page) = report::write(directory)?;
    if output.json {
        output.value(&json!({ "systems": results.systems, "report": page }))?;
    } else {
        for system in &results.systems {
            output.line(&text::harmless(&system.line))?;
        }
        output.line(&format!("report: {}", page.display()))?;
    }
    Ok(results.systems.iter().any(|system| system.kind.is_bad()))
}
