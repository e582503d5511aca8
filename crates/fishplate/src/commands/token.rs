//! `fishplate token`: tokens that stand for users.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use fishplate_contract::{Clock as _, SystemClock};
use fishplate_server::assembly;
use fishplate_server::audit::note_change;
use fishplate_server::authentication::tokens::{Token, TokenFile};
use serde_json::json;

use super::client::duration;
use super::hosting::{StateArgs, data_directory, own_data_directory};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;
use crate::output::text::moment;

/// Make and revoke tokens that log in for a user, where a server runs with --login
///
/// For the operator, on the server's machine, while it runs or not: the server sees every change at once. Only a
/// token's digest is kept, so it is shown once (with `--digest`, it is kept as it is).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate token create --user alice --expires 90d --data /var/lib/fishplate > alice.token
  fishplate token create --user robot --service heat --service data
  fishplate token create --user alice --digest
  fishplate token list
  fishplate token revoke 2d711642b726")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Create(CreateArgs),
    List(StateArgs),
    Revoke(RevokeArgs),
}

/// Make a token and print it: keep it like a password
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// User for whom it stands; one with a password need not be there
    #[arg(long, value_name = "NAME")]
    user: String,
    /// When it ends: 12h, 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,
    /// Keep it as it is, so that UsernameTokens with a PasswordDigest of it log in (WS-Security)
    #[arg(long)]
    digest: bool,
    /// Service that it is good for, and for nothing else; `data` lets it upload, `session` open sessions, `metrics` read
    /// those; may stand several times [default: all]
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    #[command(flatten)]
    which: StateArgs,
}

/// Make tokens good for nothing, at once
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// IDs, as `token list` tells them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    which: StateArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match &args.verb {
        TokenCommand::Create(args) => create(args, output),
        TokenCommand::List(which) => list(which, output),
        TokenCommand::Revoke(args) => revoke(args),
    }
}

fn create(args: &CreateArgs, output: Output) -> Result<Exit> {
    let data = data_directory(args.which.data.as_deref())?;
    assembly::own_directory(&data)?;
    let now = SystemClock.now();
    let expires = args.expires.map(|after| now.after(after));
    let made = Token::new(&args.user, args.services.clone(), now, expires).map_err(UsageError)?;
    let (secret, token) = made;
    let token = if args.digest { token.readable(&secret) } else { token };
    let id = token.id().to_owned();
    TokenFile::open(&data).change(|tokens| tokens.insert(token.digest().to_owned(), token))?;
    note_change(&data, format!("token {id} of {} was made", args.user))?;
    if output.json {
        let expires = expires.map(moment);
        output.value(&json!({ "token": secret, "id": id, "expires": expires }))?;
    } else {
        output.line(&secret)?;
    }
    Ok(Exit::Success)
}

fn list(which: &StateArgs, output: Output) -> Result<Exit> {
    let tokens = TokenFile::open(&own_data_directory(which.data.as_deref())?).all()?;
    let mut tokens: Vec<&Token> = tokens.values().collect();
    tokens.sort_by_key(|token| (&token.user, token.created()));
    if output.json {
        let told = tokens.iter().map(|token| {
            json!({
                "id": token.id(),
                "user": token.user,
                "services": token.services,
                "created": moment(token.created()),
                "expires": token.expires().map(moment),
                "digest": token.is_readable(),
            })
        });
        output.value(&json!({ "tokens": told.collect::<Vec<_>>() }))?;
        return Ok(Exit::Success);
    }
    let now = SystemClock.now();
    for token in tokens {
        let services = match token.services.join(",") {
            none if none.is_empty() => "all".to_owned(),
            some => some,
        };
        let end = match token.expires() {
            None => "never ends".to_owned(),
            Some(end) if token.has_expired(now) => format!("ended {}", moment(end)),
            Some(end) => format!("ends {}", moment(end)),
        };
        let (id, user, made) = (token.id(), &token.user, moment(token.created()));
        let digest = if token.is_readable() { "  for digests" } else { "" };
        output.line(&format!("{id}  {user}  {services}  made {made}  {end}{digest}"))?;
    }
    Ok(Exit::Success)
}

fn revoke(args: &RevokeArgs) -> Result<Exit> {
    let data = own_data_directory(args.which.data.as_deref())?;
    let (known, unknown) = TokenFile::open(&data).change(|tokens| {
        let is_there = |id: &&String| tokens.values().any(|token| token.id() == *id);
        let (known, unknown): (Vec<&String>, Vec<&String>) = args.ids.iter().partition(is_there);
        tokens.retain(|_, token| !args.ids.iter().any(|id| id == token.id()));
        (known, unknown)
    })?;
    for id in known {
        note_change(&data, format!("token {id} was revoked"))?;
    }
    if unknown.is_empty() {
        return Ok(Exit::Success);
    }
    let unknown: Vec<&str> = unknown.into_iter().map(String::as_str).collect();
    let message = format!("there is no token {} (`token list` tells IDs)", unknown.join(", "));
    Err(UsageError(message).into())
}
