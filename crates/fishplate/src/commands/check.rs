//! `fishplate check`: what is wrong with service files.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fishplate_jobs::descriptor;

use crate::output::diagnostics;

/// Says what is wrong with service files, with line and column.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fishplate check ccx.toml
  fishplate check services/

The exit code is 0 if nothing is wrong (warnings are not), else 2.")]
pub(crate) struct CheckArgs {
    /// Service files, and directories of them
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// A JSON object a diagnostic, on standard output
    #[arg(long)]
    json: bool,
}

/// Checks them all.
pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let checked = descriptor::read(&arguments.files)?;
    let mut wrong = false;
    for checked in &checked {
        wrong |= checked.has_errors();
        if arguments.json {
            diagnostics::show_json(checked)?;
        } else {
            diagnostics::show(checked);
        }
    }
    if !arguments.json {
        let plural = if checked.len() == 1 { "" } else { "s" };
        let nothing = || "nothing is wrong".to_owned();
        let summary = diagnostics::summary(&checked).unwrap_or_else(nothing);
        tell(&format!("{} service{plural}: {summary}", checked.len()));
    }
    Ok(if wrong { ExitCode::from(super::USAGE) } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stderr, reason = "what is not data goes to standard error")]
fn tell(line: &str) {
    eprintln!("{line}");
}
