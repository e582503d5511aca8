//! `fishplate quake agent`: makes requests on a host of its own, or starts and watches the system under test on its.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use fishplate_quake::agent::token::Token;
use fishplate_quake::agent::{self, AgentSettings, Role};

use crate::commands::client::{duration, run_interruptible};

/// Do a manager's work on this host: make requests, or start and watch the system under test
///
/// It dials the manager, which is `fishplate quake run` on another host, and listens to nothing itself. Both prove that they have
/// the token, for an agent runs the programs that the experiment names. What they say to each other is not enciphered.
/// When the manager is gone, it ends, with all that it has started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate quake agent --join manager.somewhere.com:7400 --token-file quake.token
  fishplate quake agent --join manager.somewhere.com:7400 --token-file quake.token --system")]
pub(super) struct AgentArgs {
    /// Its manager, which listens there (`quake run --listen`)
    #[arg(long, value_name = "HOST:PORT")]
    join: String,
    /// The file with the manager's token; `-` is standard input
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// How long to try to reach the manager, and then to wait to be taken
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    join_within: Duration,
    /// Start and watch the system under test, on its host, instead of making requests
    #[arg(long)]
    system: bool,
    /// Keep files there meanwhile [default: a new directory below the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: AgentArgs) -> Result<ExitCode> {
    let temporary = tempfile::Builder::new().prefix("fishplate-quake-").tempdir()?;
    let settings = AgentSettings {
        manager: args.join,
        token: Token::read(&args.token_file)?,
        join_within: args.join_within,
        role: if args.system { Role::System } else { Role::Client },
        directory: args.directory.unwrap_or_else(|| temporary.path().to_owned()),
        subprocess: super::program("subprocess")?,
    };
    run_interruptible(&[], async { Ok(agent::join(&settings).await?) })?;
    Ok(ExitCode::SUCCESS)
}
