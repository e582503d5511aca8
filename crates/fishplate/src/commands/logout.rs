//! `fishplate logout`: what was kept for a server is forgotten.

use anyhow::Result;
use fishplate_client::credentials::Origin;

use super::login::logins;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Forget what `fishplate login` has kept for a server
///
/// The token stays good at the server: its operator revokes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate logout https://somewhere.com")]
pub(crate) struct Args {
    /// The server, or a service of it
    url: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (origin, logins) = (Origin::named(&args.url)?, logins()?);
    if !logins.note(&origin, None)? {
        return Err(UsageError(format!("nothing is kept for {origin}")).into());
    }
    output.note(&format!("logged out at {origin}"));
    Ok(Exit::Success)
}
