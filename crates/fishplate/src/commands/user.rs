//! `fishplate user`: who may log in with a password.

use anyhow::Result;
use clap::Subcommand;
use fishplate_server::assembly;
use fishplate_server::audit::note_change;
use fishplate_server::authentication::tokens::TokenFile;
use fishplate_server::authentication::users::{User, UserFile};
use serde_json::json;

use super::hosting::{StateArgs, data_directory, own_data_directory};
use super::secret;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Add and remove users who log in with a password, where a server runs with --login
///
/// For the operator, on the server's machine, while it runs or not: the server sees every change at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate user add alice --data /var/lib/fishplate
  pwgen 20 1 | tee alice.password | fishplate user add alice --password-stdin
  fishplate user password alice
  fishplate user list
  fishplate user remove alice")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Add a user, whose password is asked for
    Add(PasswordArgs),
    /// Remove a user, and all tokens that stand for that user; jobs and data stay
    Remove(UserArgs),
    /// List the users
    List(StateArgs),
    /// Change a user's password
    Password(PasswordArgs),
}

/// Whom it is about.
#[derive(Debug, clap::Args)]
struct UserArgs {
    /// Name of the user, who owns jobs and data under it
    name: String,
    #[command(flatten)]
    which: StateArgs,
}

#[derive(Debug, clap::Args)]
struct PasswordArgs {
    #[command(flatten)]
    user: UserArgs,
    /// Read the password from standard input, to the end of its first line
    #[arg(long)]
    password_stdin: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match &args.verb {
        UserCommand::Add(args) => set(args, false),
        UserCommand::Password(args) => set(args, true),
        UserCommand::Remove(args) => remove(args),
        UserCommand::List(which) => list(which, output),
    }
}

fn set(args: &PasswordArgs, known: bool) -> Result<Exit> {
    let name = &args.user.name;
    let data = data_directory(args.user.which.data.as_deref())?;
    assembly::own_directory(&data)?;
    let users = UserFile::open(&data);
    let is_right = |is_there: bool| match (is_there, known) {
        (false, true) => Err(UsageError(format!("there is no user {name}"))),
        (true, false) => Err(UsageError(format!(
            "there is a user {name}: `fishplate user password {name}` changes the password"
        ))),
        _ => Ok(()),
    };
    // Before anybody types anything.
    is_right(users.all()?.contains_key(name))?;
    let password = secret::new_password(args.password_stdin)?;
    let user = User::new(name, &password).map_err(UsageError)?;
    users.change(|users| {
        is_right(users.contains_key(name))?;
        users.insert(name.clone(), user);
        Ok::<_, UsageError>(())
    })??;
    let what = if known { "got another password" } else { "was added" };
    note_change(&data, format!("user {name} {what}"))?;
    Ok(Exit::Success)
}

fn remove(args: &UserArgs) -> Result<Exit> {
    let data = own_data_directory(args.which.data.as_deref())?;
    // Tokens first: if this ends in between, the user is still listed.
    let tokens = TokenFile::open(&data).change(|tokens| {
        let before = tokens.len();
        tokens.retain(|_, token| token.user != args.name);
        before - tokens.len()
    })?;
    let removed = UserFile::open(&data).change(|users| users.remove(&args.name).is_some())?;
    if !removed && tokens == 0 {
        return Err(UsageError(format!("there is no user {}", args.name)).into());
    }
    note_change(&data, format!("user {} was removed, and {tokens} tokens", args.name))?;
    Ok(Exit::Success)
}

fn list(which: &StateArgs, output: Output) -> Result<Exit> {
    let users = UserFile::open(&own_data_directory(which.data.as_deref())?).all()?;
    if output.json {
        output.value(&json!({ "users": users.keys().collect::<Vec<_>>() }))?;
    } else {
        users.keys().try_for_each(|name| output.line(name))?;
    }
    Ok(Exit::Success)
}
