//! `fishplate completions SHELL`: completions for a shell.

use anyhow::Result;

use crate::exit::Exit;
use crate::output::Output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate completions bash > ~/.local/share/bash-completion/completions/fishplate")]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::grammar(), "fishplate", &mut script);
    output.raw(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
