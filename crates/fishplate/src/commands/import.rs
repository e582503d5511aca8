//! `fishplate import`: service files from descriptions of programs that exist already.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use fishplate_descriptions::{Imported, boutiques, cwl};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Make a service file of a Boutiques descriptor or a CommandLineTool of CWL
///
/// What a service file cannot say is named with its reason, on standard error and at the top of the file, and
/// nothing is left out without a word. The command ends with 0 if nobody who calls would notice what was left out, with 11
/// if somebody would, and with 2 if there is no service file: a call needs what cannot be said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate import boutiques bet.json -o bet.toml
  fishplate import cwl bwa-mem.cwl -o services/bwa-mem.toml
  fishplate import cwl bwa-mem.cwl --json
  fishplate import boutiques bet.json | less")]
pub(crate) struct Args {
    #[command(subcommand)]
    from: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    /// Make a service file of a Boutiques descriptor (schema 0.5)
    #[command(after_help = "Example:
  fishplate import boutiques bet.json -o bet.toml")]
    Boutiques(FileArgs),
    /// Make a service file of a CommandLineTool (CWL 1.0 to 1.2)
    #[command(after_help = "Example:
  fishplate import cwl bwa-mem.cwl -o bwa-mem.toml")]
    Cwl(FileArgs),
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The description
    file: PathBuf,
    /// The service file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (Source::Boutiques(files) | Source::Cwl(files)) = &args.from;
    let shown = files.file.display();
    let text =
        std::fs::read_to_string(&files.file).with_context(|| format!("cannot read {shown}"))?;
    let imported = match &args.from {
        Source::Boutiques(_) => boutiques::import(&text),
        Source::Cwl(_) => cwl::import(&text, stem(&files.file)),
    };
    let imported =
        imported.map_err(|error| UsageError(format!("cannot import {shown}: {error}")))?;
    if let (Some(path), Some(text)) = (&files.output, &imported.service_file) {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    tell(&imported, files.output.as_deref(), output)?;
    Ok(match (imported.service_file.is_some(), imported.is_whole()) {
        (false, _) => Exit::Usage,
        (true, false) => Exit::Incomplete,
        (true, true) => Exit::Success,
    })
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("service")
}

fn tell(imported: &Imported, to: Option<&Path>, output: Output) -> Result<()> {
    if output.json {
        return Ok(output.value(&as_json(imported, to))?);
    }
    for gap in &imported.gaps {
        let what = if gap.lost { "not said" } else { "left out" };
        output.note(&format!("{what}: {}: {}", gap.field, gap.reason));
    }
    for (from, name) in &imported.renamed {
        output.note(&format!("renamed: {from} is {name}"));
    }
    match (&imported.service_file, to) {
        (Some(text), None) => output.raw(text)?,
        (Some(_), Some(_)) => {}
        (None, _) => output.note("there is no service file: a call needs what cannot be said"),
    }
    Ok(())
}

fn as_json(imported: &Imported, to: Option<&Path>) -> Value {
    let gaps = imported.gaps.iter();
    let gaps =
        gaps.map(|gap| json!({ "field": gap.field, "reason": gap.reason, "lost": gap.lost }));
    let written = imported.service_file.as_ref().and(to).map(|path| path.display().to_string());
    json!({
        "name": imported.name,
        "whole": imported.is_whole(),
        "file": written,
        "service": imported.service_file.as_ref().filter(|_| to.is_none()),
        "gaps": gaps.collect::<Vec<_>>(),
        "renamed": imported.renamed,
    })
}
