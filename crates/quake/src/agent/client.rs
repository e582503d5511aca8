//! A client agent: one plan of load at a time.

use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::clock::Clocks;
use super::connection::ConnectionError;
use super::message::{AgentMessage, FileKind, LoadCommand, ManagerMessage};
use super::{AgentSession, Outbox, files, in_words};
use crate::load::{self, LoadPlan};

/// Seconds of load that wait to be sent.
const SECONDS: usize = 16;
/// The file in which it is noted what became of each request.
const REQUESTS: &str = "requests.bin";

/// A plan that can be started.
#[derive(Debug)]
struct Prepared {
    plan: Box<LoadPlan>,
    agent: u32,
    agents: u32,
    log: Option<PathBuf>,
}

/// Does what the manager says until it lets the agent go.
pub(super) async fn serve(mut session: AgentSession<'_>) -> Result<(), ConnectionError> {
    let (outbox, clocks) = (session.outbox.clone(), session.clocks);
    let mut prepared = None;
    // What runs ends with them.
    let (mut stop, mut load) = (watch::Sender::new(false), JoinSet::new());
    loop {
        match session.next().await? {
            ManagerMessage::Load(LoadCommand::Prepare { plan, agent, agents, log }) => {
                load.shutdown().await;
                let log = log.then(|| session.settings.directory.join(REQUESTS));
                prepared = Some(Prepared { plan, agent, agents, log });
                let told = outbox.send(AgentMessage::Prepared).await;
                told.map_err(|_| ConnectionError::Closed)?;
            }
            ManagerMessage::Load(LoadCommand::Start(at)) => {
                let Some(prepared) = prepared.take() else { continue };
                stop = watch::Sender::new(false);
                load.spawn(run(prepared, at, clocks, stop.subscribe(), outbox.clone()));
            }
            ManagerMessage::Load(LoadCommand::Stop) => {
                stop.send_replace(true);
            }
            ManagerMessage::Leave => return Ok(()),
            _ => {}
        }
    }
}

/// Runs a plan, and tells its seconds, its end and its log.
async fn run(
    prepared: Prepared,
    at: i64,
    clocks: Clocks,
    stop: watch::Receiver<bool>,
    outbox: Outbox,
) {
    let Prepared { plan, agent, agents, log } = prepared;
    let (seconds, mut told) = mpsc::channel(SECONDS);
    let load = load::run(*plan, agent, agents, clocks.instant(at), stop, seconds, log.clone());
    let forward = async {
        while let Some(second) = told.recv().await {
            if outbox.send(AgentMessage::Load(Box::new(second))).await.is_err() {
                break;
            }
        }
    };
    let (ended, ()) = tokio::join!(load, forward);
    let ended = AgentMessage::LoadEnded(ended.map_err(|error| in_words(&error)));
    // If nobody hears it, the connection is gone, and with it all.
    if outbox.send(ended).await.is_err() {
        return;
    }
    let sent = match log {
        Some(log) => send_log(&log, &outbox).await,
        None => Ok(()),
    };
    let sent = sent.map_err(|error| format!("the log of requests cannot be sent: {error}"));
    let _ = outbox.send(AgentMessage::LogSent(sent)).await;
}

async fn send_log(log: &Path, outbox: &Outbox) -> std::io::Result<()> {
    files::send(log, &FileKind::Requests, u64::MAX, outbox).await?;
    tokio::fs::remove_file(log).await
}
