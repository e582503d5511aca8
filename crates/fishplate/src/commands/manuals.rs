//! `fishplate manuals DIR` (hidden): manual pages, for who packages the program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

/// Writes the manual pages of the program and of each command into a directory.
#[derive(Debug, Args)]
pub(crate) struct ManualsArgs {
    /// Directory that is there
    directory: PathBuf,
}

/// Writes them.
pub(crate) fn run(arguments: &ManualsArgs) -> anyhow::Result<ExitCode> {
    let directory = &arguments.directory;
    clap_mangen::generate_to(super::grammar(), directory)
        .with_context(|| format!("cannot write manuals into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
