//! `fishplate check`: what is wrong with service files and configurations.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use fishplate_jobs::descriptor::{self, CONFIGURATION, Severity};

use crate::configuration::ConfigurationFile;
use crate::output::diagnostics;

/// Says what is wrong with service files, or with a configuration and all services that it names, with line and
/// column.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fishplate check ccx.toml
  fishplate check services/
  fishplate check /etc/fishplate/fishplate.toml

A file called fishplate.toml is a configuration, whatever others are called.
The exit code is 0 if nothing is wrong (warnings are not), else 2.")]
pub(crate) struct CheckArgs {
    /// Service files, directories of them, and configurations (fishplate.toml)
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// A JSON object a diagnostic, on standard output
    #[arg(long)]
    json: bool,
}

/// Checks them all.
pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let is_configuration = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name == CONFIGURATION) && !path.is_dir()
    };
    let (configurations, mut services): (Vec<&PathBuf>, Vec<&PathBuf>) =
        arguments.files.iter().partition(is_configuration);
    let serve = super::grammar();
    let serve = serve.find_subcommand("serve").context("there is no such command")?;
    let mut named = Vec::new();
    let mut all = Vec::new();
    for path in &configurations {
        let file = ConfigurationFile::read(path, serve)
            .with_context(|| format!("cannot read {}", path.display()))?;
        named.extend(file.services());
        all.push((file.source, file.diagnostics));
    }
    services.extend(&named);
    let services: Vec<PathBuf> = services.into_iter().cloned().collect();
    // A server may have no services yet.
    let checked = descriptor::read(&services, !configurations.is_empty())?;
    let plural = if checked.len() == 1 { "" } else { "s" };
    let counted = format!("{} service{plural}", checked.len());
    all.extend(checked.into_iter().map(|checked| (checked.source, checked.diagnostics)));
    for (source, diagnostics) in &all {
        if arguments.json {
            diagnostics::show_json(source, diagnostics)?;
        } else {
            diagnostics::show(source, diagnostics);
        }
    }
    let mut said = all.iter().flat_map(|(_, diagnostics)| diagnostics);
    if !arguments.json {
        let nothing = || "nothing is wrong".to_owned();
        let summary = diagnostics::summary(&said).unwrap_or_else(nothing);
        tell(&format!("{counted}: {summary}"));
    }
    let wrong = said.any(|diagnostic| diagnostic.severity == Severity::Error);
    Ok(if wrong { ExitCode::from(super::USAGE) } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stderr, reason = "what is not data goes to standard error")]
fn tell(line: &str) {
    eprintln!("{line}");
}
