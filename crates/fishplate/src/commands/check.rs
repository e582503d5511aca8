//! `fishplate check`: what is wrong with service files and policies.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fishplate_jobs::descriptor::{self, Diagnostic, Severity, SourceText};
use fishplate_server::policy::file::check_file;
use fishplate_server::policy::read::is_policy;

use crate::output::diagnostics;

/// Says what is wrong with service files and policies, with line and column.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fishplate check ccx.toml
  fishplate check services/ policy.toml

The exit code is 0 if nothing is wrong (warnings are not), else 2.")]
pub(crate) struct CheckArgs {
    /// Service files, and directories of them; policies
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// A JSON object a diagnostic, on standard output
    #[arg(long)]
    json: bool,
}

/// Checks them all.
pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let of_policy =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| is_policy(&text));
    let (policies, services): (Vec<_>, Vec<_>) =
        arguments.files.iter().cloned().partition(of_policy);
    let mut checked: Vec<(SourceText, Vec<Diagnostic>)> = Vec::new();
    for service in descriptor::read(&services)? {
        checked.push((service.source, service.diagnostics));
    }
    for policy in &policies {
        let policy = check_file(policy)?;
        checked.push((policy.source, policy.diagnostics));
    }
    for (source, diagnostics) in &checked {
        if arguments.json {
            diagnostics::show_json(source, diagnostics)?;
        } else {
            diagnostics::show(source, diagnostics);
        }
    }
    let all = || checked.iter().flat_map(|(_, diagnostics)| diagnostics);
    if !arguments.json {
        let count = |number: usize, one: &str, many: &str| match number {
            0 => None,
            1 => Some(format!("1 {one}")),
            number => Some(format!("{number} {many}")),
        };
        let of_services = count(checked.len() - policies.len(), "service", "services");
        let of_policies = count(policies.len(), "policy", "policies");
        let what: Vec<_> = of_services.into_iter().chain(of_policies).collect();
        let summary = diagnostics::summary(all());
        let summary = summary.as_deref().unwrap_or("nothing is wrong");
        tell(&format!("{}: {summary}", what.join(", ")));
    }
    let wrong = all().any(|diagnostic| diagnostic.severity == Severity::Error);
    Ok(if wrong { ExitCode::from(super::USAGE) } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stderr, reason = "what is not data goes to standard error")]
fn tell(line: &str) {
    eprintln!("{line}");
}
