//! `fishplate login`: a token or a password is kept for a server.

use anyhow::Result;
use fishplate_client::credentials::{LoginAnswer, Logins, Origin, login};
use fishplate_client::{Credential, Error};
use serde_json::json;

use super::client::{NetworkArgs, run_interruptible};
use super::secret;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Keep a token, or a user and password, for a server
///
/// It is asked for unseen, tried at the server, and written to ~/.config/fishplate/logins.json, which only you can
/// read. From then on every command, and Python, says it to this server (scheme, host and port), and to no other.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate login https://somewhere.com
  fishplate login https://somewhere.com --user alice
  fishplate login https://somewhere.com --token-stdin < alice.token")]
pub(crate) struct Args {
    /// The server, or a service of it
    pub(crate) url: String,
    /// Name of the user, whose password is asked for [default: a token is asked for]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Read the password from standard input, to the end of its first line
    #[arg(long, requires = "user")]
    password_stdin: bool,
    /// Read the token from standard input, to the end of its first line
    #[arg(long, conflicts_with = "user")]
    token_stdin: bool,
    #[command(flatten)]
    network: NetworkArgs,
}

/// The file of this user.
pub(super) fn logins() -> Result<Logins> {
    let none = || UsageError("you have no home directory: set XDG_CONFIG_HOME".to_owned()).into();
    Logins::of_user().ok_or_else(none)
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (origin, logins) = (Origin::named(&args.url)?, logins()?);
    let credential = credential(args)?;
    let settings = args.network.settings();
    let answer = run_interruptible(&[], async {
        login(&args.url, &credential, &settings).await.map_err(refused)
    })?;
    let before = logins.note(&origin, Some(&credential))?;
    let path = logins.path().display();
    if output.json {
        let asked = answer == LoginAnswer::Accepted;
        output
            .value(&json!({ "server": origin.to_string(), "asked": asked, "replaced": before }))?;
        return Ok(Exit::Success);
    }
    if answer == LoginAnswer::NotAsked {
        output.note(&format!("{origin} asks nobody who they are; it is kept all the same"));
    }
    if !origin.is_secure() && !origin.is_loopback() {
        output.note("it will go over the network as it is: this address is http, not https");
    }
    output.note(&format!("logged in at {origin}; kept in {path}"));
    Ok(Exit::Success)
}

/// What is typed, or stands on standard input.
fn credential(args: &Args) -> Result<Credential> {
    let on_stdin = args.password_stdin || args.token_stdin;
    let secret = |prompt: &str, option: &str| match on_stdin {
        true => secret::of_stdin(),
        false => secret::typed(prompt, &format!("{option} reads it from standard input")),
    };
    Ok(match &args.user {
        Some(user) => Credential::Password {
            user: user.clone(),
            password: secret(&format!("Password of {user}: "), "--password-stdin")?,
        },
        None => Credential::Token(secret("Token: ", "--token-stdin")?.trim().to_owned()),
    })
}

/// Without the advice to log in.
fn refused(error: Error) -> anyhow::Error {
    match error {
        Error::Fault(fault) => {
            anyhow::Error::from(UsageError(format!("not logged in: {}", fault.message)))
        }
        error => error.into(),
    }
}
