//! `fishplate session`: spaces on a server in which programs share files.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use fishplate_client::{OpenSession, Session, SessionFile, Sessions};
use fishplate_contract::{Clock as _, SessionId, SystemClock, Timestamp};
use fishplate_formats::units::rounded;
use serde_json::{Value, json};

use super::attempts::BatchResult;
use super::client::{ConnectionArgs, duration, run_interruptible, session};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::FailureContext;
use crate::output::text::{harmless, moment};

/// Open a session on a server, close it, and see what is in it
///
/// A session is a space on a server in which programs share files: the outputs of a call with
/// --session stay in it under their names, and further calls take them as NAME@session:FILE, without
/// their coming here. It ends when it is closed or idles too long.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  SESSION=$(fishplate session open http://somewhere.com)
  fishplate call http://somewhere.com/mesher size=0.5 --session $SESSION
  fishplate call http://somewhere.com/solver mesh@session:mesh out:flow --session $SESSION
  fishplate session files http://somewhere.com $SESSION
  fishplate session remove http://somewhere.com $SESSION mesh
  fishplate session list http://somewhere.com
  fishplate session close http://somewhere.com $SESSION")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Open(OpenArgs),
    Close(CloseArgs),
    List(ListArgs),
    Files(FilesArgs),
    Remove(RemoveArgs),
    Touch(TouchArgs),
}

/// Open a session and print its ID
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  SESSION=$(fishplate session open http://somewhere.com --idle 8h)")]
struct OpenArgs {
    /// Server, or a service of it
    url: String,
    /// How long it may idle until it ends: 90s, 5m, 2h [default: as the server lets it]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle: Option<Duration>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Which session.
#[derive(Debug, clap::Args)]
struct SessionArgs {
    /// Server, or a service of it
    url: String,
    /// ID of the session
    #[arg(value_parser = session)]
    session: SessionId,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Close a session and remove its files
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate session close http://somewhere.com $SESSION")]
struct CloseArgs {
    #[command(flatten)]
    which: SessionArgs,
}

/// List the files of a session: name, size and URL
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate session files http://somewhere.com $SESSION --json | jq -r .files[].url")]
struct FilesArgs {
    #[command(flatten)]
    which: SessionArgs,
}

/// List your sessions on a server: ID, last use, and when each would end
///
/// Only where the server knows its callers by name: without one, a session is theirs who have its ID.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate session list http://somewhere.com")]
struct ListArgs {
    /// Server, or a service of it
    url: String,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Remove files from a session; their URLs are good for nothing then
///
/// All are tried, and each that could not be removed is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate session remove http://somewhere.com $SESSION mesh")]
struct RemoveArgs {
    #[command(flatten)]
    which: SessionArgs,
    /// Names of files, as `session files` tells them
    #[arg(required = true)]
    names: Vec<String>,
}

/// Let a session begin to idle anew, and print when it would end
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fishplate session touch http://somewhere.com $SESSION")]
struct TouchArgs {
    #[command(flatten)]
    which: SessionArgs,
}

impl Args {
    /// The server that it is about.
    pub(crate) fn url(&self) -> &str {
        match &self.verb {
            SessionCommand::Open(args) => &args.url,
            SessionCommand::List(args) => &args.url,
            SessionCommand::Close(CloseArgs { which })
            | SessionCommand::Files(FilesArgs { which })
            | SessionCommand::Remove(RemoveArgs { which, .. })
            | SessionCommand::Touch(TouchArgs { which }) => &which.url,
        }
    }
}

impl SessionArgs {
    async fn find(&self) -> Result<Session> {
        let sessions = Sessions::find(&self.url, self.reach.settings()?).await?;
        Ok(sessions.session(self.session))
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        match &args.verb {
            SessionCommand::Open(args) => open(args, output).await?,
            SessionCommand::Close(CloseArgs { which }) => {
                which.find().await?.close().await?;
                if output.json {
                    output
                        .value(&json!({ "session": which.session.to_string(), "closed": true }))?;
                }
            }
            SessionCommand::List(args) => list(args, output).await?,
            SessionCommand::Files(FilesArgs { which }) => {
                files(&which.find().await?, output).await?;
            }
            SessionCommand::Remove(args) => return remove(args, output).await,
            SessionCommand::Touch(TouchArgs { which }) => {
                let expires = moment(which.find().await?.touch().await?);
                if output.json {
                    let session = which.session.to_string();
                    output.value(&json!({ "session": session, "expires": expires }))?;
                } else {
                    output.line(&expires)?;
                }
            }
        }
        Ok(Exit::Success)
    })
}

async fn open(args: &OpenArgs, output: Output) -> Result<()> {
    let sessions = Sessions::find(&args.url, args.reach.settings()?).await?;
    let session = sessions.open(args.idle).await?;
    if let (Some(idle), Some(expires)) = (args.idle, session.expires)
        && let Some(granted) = cut(idle, SystemClock.now(), expires)
    {
        let end = moment(expires);
        output.note(&format!("the server lets it idle {granted} at most: it ends at {end}"));
    }
    if output.json {
        output.value(&json!({
            "session": session.id.to_string(),
            "expires": session.expires.map(moment),
        }))?;
    } else {
        output.line(&session.id.to_string())?;
    }
    Ok(())
}

/// How long a session may idle if that is clearly less than was asked for: clocks differ somewhat.
fn cut(asked: Duration, now: Timestamp, expires: Timestamp) -> Option<String> {
    let granted = expires.since(now);
    let minutes = (granted.as_secs() + 30) / 60;
    let is_less = granted + granted / 20 + Duration::from_secs(60) < asked;
    is_less.then(|| match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    })
}

async fn list(args: &ListArgs, output: Output) -> Result<()> {
    let sessions = Sessions::find(&args.url, args.reach.settings()?).await?.list().await?;
    if output.json {
        let told: Vec<Value> = sessions.iter().map(listed).collect();
        output.value(&json!({ "sessions": told }))?;
        return Ok(());
    }
    for OpenSession { id, used, expires, .. } in &sessions {
        output.line(&format!("{id}  used {}  ends {}", moment(*used), moment(*expires)))?;
    }
    Ok(())
}

fn listed(session: &OpenSession) -> Value {
    json!({
        "session": session.id.to_string(),
        "opened": moment(session.opened),
        "used": moment(session.used),
        "expires": moment(session.expires),
    })
}

async fn remove(args: &RemoveArgs, output: Output) -> Result<Exit> {
    let session = args.which.find().await?;
    let about = FailureContext { url: Some(&args.which.url), session: Some(session.id) };
    let mut attempts = BatchResult::new(output);
    for name in &args.names {
        attempts.note(name, session.remove(name).await.map_err(Into::into), about);
    }
    if output.json {
        let (removed, failed) = attempts.told("name");
        let session = session.id.to_string();
        output.value(&json!({ "session": session, "removed": removed, "failed": failed }))?;
    }
    Ok(attempts.exit())
}

async fn files(session: &Session, output: Output) -> Result<()> {
    let files = session.files().await?;
    if output.json {
        let told: Vec<Value> = files.iter().map(file).collect();
        output.value(&json!({ "session": session.id.to_string(), "files": told }))?;
        return Ok(());
    }
    let width = files.iter().map(|file| file.name.chars().count()).max().unwrap_or(0);
    for SessionFile { name, reference } in &files {
        let size = rounded(reference.len.unwrap_or(0));
        output.line(&harmless(&format!("{name:width$}  {size:>10}  {}", reference.url)))?;
    }
    Ok(())
}

fn file(file: &SessionFile) -> Value {
    json!({ "name": file.name, "url": file.reference.url, "size": file.reference.len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_ends_earlier_than_asked_is_noticed_but_not_a_clock_that_differs() {
        let (now, hour) = (Timestamp(1_000_000), 3_600_000);
        let cut = |asked: u64, granted| {
            cut(Duration::from_secs(asked * 3600), now, Timestamp(now.0 + granted))
        };
        assert_eq!(cut(2400, 24 * hour - 2000).as_deref(), Some("24 h"));
        assert_eq!(cut(24, 90 * 60_000).as_deref(), Some("1 h 30 min"));
        assert_eq!(cut(1, 60_000).as_deref(), Some("1 min"));
        assert_eq!(cut(8, 8 * hour - 30_000), None);
        assert_eq!(cut(8, 9 * hour), None);
    }
}
