//! `fishplate quake`: whether a server can be trusted (paper 004, section 4).

mod agent;
mod compare;
mod live;
mod report;
mod run;
mod settings;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Subcommand;

use crate::output::Output;

/// Find out whether a server can be trusted: load, stress, kill, watch and restart it
///
/// Any server that speaks SOAP. An experiment (TOML) says how it is started, what is asked of it, what is done to it, and
/// when it counts as failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate quake run axis.toml
  fishplate quake run axis.toml --report results --cell scope=session
  fishplate quake run mine.toml --listen 0.0.0.0:7400 --token-file quake.token --remote-agents 2
  fishplate quake report axis.quake
  fishplate quake compare before.quake after.quake --fail-if 'goodput < 0.9'
  fishplate quake agent --join manager.somewhere.com:7400 --token-file quake.token")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: QuakeCommand,
}

#[derive(Debug, Subcommand)]
enum QuakeCommand {
    Run(run::RunArgs),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    Agent(agent::AgentArgs),
    /// A stress, or what ends a process of the system under test with its agent
    #[command(hide = true)]
    Subprocess,
}

/// Runs the command.
pub(crate) fn run(args: Args, output: Output) -> Result<ExitCode> {
    match args.verb {
        QuakeCommand::Run(args) => run::run(args, output),
        QuakeCommand::Report(args) => report::run(&args, output),
        QuakeCommand::Compare(args) => compare::run(&args, output),
        QuakeCommand::Agent(args) => agent::run(args),
        QuakeCommand::Subprocess => Ok(fishplate_quake::subprocess::run()),
    }
}

/// How this program is started to do that.
fn program(what: &str) -> Result<Vec<String>> {
    let program = std::env::current_exe()?;
    let program = program.to_str().context("the path of this program is not UTF-8")?;
    Ok(vec![program.to_owned(), "quake".to_owned(), what.to_owned()])
}
