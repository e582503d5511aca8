//! `fishplate check`: what is wrong with service files, policies and configurations.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use fishplate_programs::descriptor::{self, CONFIGURATION, Diagnostic, Severity, SourceText};
use fishplate_server::policy::file::check_file;
use fishplate_server::policy::read::is_policy;

use crate::configuration::ConfigurationFile;
use crate::output::diagnostics;

/// Says what is wrong with service files and policies, or with a configuration and all that it names, with line and
/// column.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fishplate check ccx.toml
  fishplate check services/ policy.toml
  fishplate check /etc/fishplate/fishplate.toml

A file called fishplate.toml is a configuration, whatever others are called.
The exit code is 0 if nothing is wrong (warnings are not), else 2.")]
pub(crate) struct CheckArgs {
    /// Service files, and directories of them; policies; configurations (fishplate.toml)
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// A JSON object a diagnostic, on standard output
    #[arg(long)]
    json: bool,
}

/// Checks them all.
pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let is_configuration = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == CONFIGURATION) && !path.is_dir()
    };
    let (configurations, mut files): (Vec<_>, Vec<_>) =
        arguments.files.iter().cloned().partition(is_configuration);
    let serve = super::grammar();
    let serve = serve.find_subcommand("serve").context("there is no such command")?;
    let mut checked: Vec<(SourceText, Vec<Diagnostic>)> = Vec::new();
    for path in &configurations {
        let file = ConfigurationFile::read(path, serve)
            .with_context(|| format!("cannot read {}", path.display()))?;
        files.extend(file.services().chain(file.policy()));
        checked.push((file.source, file.diagnostics));
    }
    let of_policy =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| is_policy(&text));
    let (policies, services): (Vec<_>, Vec<_>) = files.into_iter().partition(of_policy);
    // A server may have no services yet.
    for service in descriptor::read(&services, !configurations.is_empty())? {
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
        let others = policies.len() + configurations.len();
        let counts = [
            count(configurations.len(), "configuration", "configurations"),
            count(checked.len() - others, "service", "services"),
            count(policies.len(), "policy", "policies"),
        ];
        let what: Vec<_> = counts.into_iter().flatten().collect();
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
