//! Agents: what makes requests, and what starts and watches the system under test, each a process that has dialled the
//! manager. They listen to nothing, do what the manager tells, and when it is gone they end, with all that they began.
//!
//! Reading order:
//!
//! - [`token`]: who may be one
//! - `connection`, `message`: what is said, and how
//! - `clock`: whose clock shows what, for a common start
//! - `client`, `system`: the two kinds

mod ask;
mod client;
pub(crate) mod clock;
pub(crate) mod connection;
mod environment;
pub(crate) mod files;
pub(crate) mod message;
mod system;
pub mod token;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::clock::Clocks;
use self::connection::{ConnectionError, LineReader, LineWriter, Side, greet};
use self::environment::environment;
use self::message::{AgentMessage, ManagerMessage};
use self::token::Token;

pub use self::message::Role;

/// Messages that wait to be sent.
pub(crate) const OUTBOX: usize = 64;
/// Between two tries.
const DIALS_EVERY: Duration = Duration::from_millis(250);

/// What an agent needs to know.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Its manager, `HOST:PORT`.
    pub manager: String,
    /// What both know.
    pub token: Token,
    /// How long it tries to reach the manager, and then waits to be taken.
    pub join_within: Duration,
    /// What it is for.
    pub role: Role,
    /// Where it keeps files while it works.
    pub directory: PathBuf,
    /// The program and arguments that are `quake subprocess`.
    pub subprocess: Vec<String>,
}

/// Why an agent ended before its manager let it go.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens there.
    #[error(
        "no manager at {manager} after {within:?}: start `fishplate quake run --listen` there, or wait longer (--join-within)"
    )]
    Unreachable {
        /// The address of the manager.
        manager: String,
        /// How long it was tried.
        within: Duration,
        /// The last reason.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the manager at {manager} is lost")]
    ManagerLost {
        /// Where it was.
        manager: String,
        /// What broke the connection.
        source: ConnectionError,
    },
    /// It does not take this agent.
    #[error("the manager at {manager} does not take this agent: both need the same token")]
    Refused {
        /// The address of the manager.
        manager: String,
    },
    /// It wants none.
    #[error("the manager at {manager} has all agents that it needs")]
    NotNeeded {
        /// The address of the manager.
        manager: String,
    },
}

/// What an agent says, in its order.
pub(crate) type Outbox = mpsc::Sender<AgentMessage>;

/// Dials a manager and does what it says, until it says that the run is over.
///
/// # Errors
/// The manager can't be reached, has another token or no need, or was lost. Then all that it began has been ended.
pub async fn join(settings: &AgentSettings) -> Result<(), AgentError> {
    let manager = || settings.manager.clone();
    let lost = |source| AgentError::ManagerLost { manager: manager(), source };
    let clocks = Clocks::new();
    let stream = dial(&settings.manager, settings.join_within).await?;
    let (mut from, mut to) = greet(stream, &settings.token, Side::Agent).await.map_err(lost)?;
    let joined =
        AgentMessage::Join { role: settings.role, host: host(), environment: environment() };
    to.send(&joined).await.map_err(lost)?;
    let lost_after = loop {
        let message = match from.next(settings.join_within).await {
            Err(ConnectionError::Closed | ConnectionError::Broken(_) | ConnectionError::Forged) => {
                return Err(AgentError::Refused { manager: manager() });
            }
            message => message.map_err(lost)?,
        };
        match message {
            ManagerMessage::Welcome { lost_after } => break lost_after,
            ManagerMessage::Leave => return Err(AgentError::NotNeeded { manager: manager() }),
            _ => {}
        }
    };
    let (outbox, outgoing) = mpsc::channel(OUTBOX);
    let writing = tokio::spawn(write(to, outgoing));
    let session = AgentSession { from, lost_after, outbox, clocks, settings };
    let ended = match settings.role {
        Role::Client => client::serve(session).await,
        Role::System => system::serve(session).await,
    };
    // What was said last is said; if nobody hears it, the writing ends.
    let _ = writing.await;
    ended.map_err(lost)
}

async fn dial(manager: &str, within: Duration) -> Result<TcpStream, AgentError> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    let dialled = timeout(within, async {
        loop {
            match TcpStream::connect(manager).await {
                Ok(stream) => return stream,
                Err(error) => last = error,
            }
            tokio::time::sleep(DIALS_EVERY).await;
        }
    });
    dialled.await.map_err(|_| AgentError::Unreachable {
        manager: manager.to_owned(),
        within,
        source: last,
    })
}

async fn write(mut to: LineWriter, mut outgoing: mpsc::Receiver<AgentMessage>) {
    while let Some(message) = outgoing.recv().await {
        if to.send(&message).await.is_err() {
            // The reader sees it too.
            break;
        }
    }
}

/// An agent's time with its manager, from its welcome to its end.
struct AgentSession<'s> {
    from: LineReader,
    /// How long the manager may say nothing: it speaks every second.
    lost_after: Duration,
    outbox: Outbox,
    clocks: Clocks,
    settings: &'s AgentSettings,
}

impl AgentSession<'_> {
    /// The next that the manager says; what is asked of clocks is answered here.
    async fn next(&mut self) -> Result<ManagerMessage, ConnectionError> {
        loop {
            match self.from.next(self.lost_after).await? {
                ManagerMessage::Clock(asked) => {
                    let told = AgentMessage::Clock { asked, shown: self.clocks.now() };
                    self.outbox.send(told).await.map_err(|_| ConnectionError::Closed)?;
                }
                message => return Ok(message),
            }
        }
    }
}

/// The name of this host.
fn host() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// An error with its reasons.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        text = format!("{text}: {reason}");
        source = reason.source();
    }
    text
}
