//! `fishplate quake compare`: two runs, for a build.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use fishplate_quake::report::Results;
use fishplate_quake::report::compare::{self, Condition, METRICS};
use serde_json::json;

use crate::exit::Exit;
use crate::output::{Output, text};

/// Compare two runs of the same cells, and fail if the second is worse
///
/// Each is a run's directory, or a results.json that was kept. Of repeated cells the medians are compared. Without a condition
/// the command shows the figures and ends with 0. With some it ends with 1 if one of them holds for any cell, if what it
/// is about was not measured, or if only one of the runs has a cell.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(super) struct CompareArgs {
    /// The run that is the measure (A)
    first: PathBuf,
    /// The run that is judged (B)
    second: PathBuf,
    /// A condition under which the command fails; again for others
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
}

fn after_help() -> String {
    let widest = METRICS.iter().map(|metric| metric.name.len()).max().unwrap_or(0);
    let figures = METRICS.iter().map(|of| format!("  {:widest$}  {}\n", of.name, of.meaning));
    let figures: String = figures.collect();
    format!(
        "Figures of conditions:\n{figures}
Examples:
  fishplate quake compare before.quake after.quake
  fishplate quake compare before.json after.quake --fail-if 'goodput < 0.9' --fail-if 'p99 > 1.2'
  fishplate quake compare before.quake after.quake --fail-if 'lost > 0' --fail-if 'failures > 0'"
    )
}

/// Runs the command.
pub(super) fn run(args: &CompareArgs, output: Output) -> Result<ExitCode> {
    let (first, second) = (Results::read(&args.first)?, Results::read(&args.second)?);
    let comparison = compare::compare(&first, &second, &args.fail_if);
    if output.json {
        output.value(&json!(comparison))?;
    } else {
        output.raw(&text::harmless(&comparison.text()))?;
        for cell in &comparison.unmatched {
            output.note(&format!("only one of the runs has {cell}"));
        }
        for failed in &comparison.failed {
            output.note(&format!("failed: {failed}"));
        }
    }
    Ok(if comparison.failed.is_empty() { Exit::Success } else { Exit::Other }.into())
}
