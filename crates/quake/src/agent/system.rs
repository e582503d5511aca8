//! The agent on the host of the system under test: one cell's system at a time, started, watched, disturbed and ended.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::ask::Asker;
use super::clock::Clocks;
use super::connection::ConnectionError;
use super::message::{
    AgentMessage, Disturbance, FileKind, ManagerMessage, SystemAnswer, SystemCommand,
};
use super::{AgentSession, Outbox, files, in_words};
use crate::audit::UnloggedRequests;
use crate::experiment::{Limits, System, UnknownWord, fill};
use crate::fault::{self, FaultSchedule};
use crate::load::LoadError;
use crate::probe::Probe;
use crate::stress;
use crate::subprocess::SubprocessCommand;
use crate::system::program::{Program, ProgramError};
use crate::system::{Happened, Happenings, LOGS, SystemError, SystemUnderTest};

/// The directory of a cell, if the manager's host has none.
const CELL: &str = "cell";

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    Word(#[from] UnknownWord),
    #[error("the probe")]
    Probe(#[from] LoadError),
    #[error("no system was configured")]
    NoSystem,
    #[error("there is no free port")]
    NoPort(#[source] io::Error),
    #[error("cannot make {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("a file cannot be sent")]
    NotSent(#[source] io::Error),
}

/// The system of a cell.
#[derive(Debug)]
struct CellSystem {
    system: Arc<SystemUnderTest>,
    asker: Asker,
    probe: Probe,
    /// How often it is probed.
    every: Duration,
    /// Where its connections are counted.
    port: u16,
    limits: Limits,
    /// What stands for words in braces.
    values: BTreeMap<String, String>,
    place: CellPlace,
    happenings: Happenings,
    /// Who tells of it each second, and who disturbs it.
    watching: JoinSet<()>,
}

/// The directory of a cell.
#[derive(Debug)]
struct CellPlace {
    path: PathBuf,
    /// It is not the manager's: what is in it is sent.
    is_own: bool,
}

/// Does what the manager says until it lets the agent go.
pub(super) async fn serve(mut session: AgentSession<'_>) -> Result<(), ConnectionError> {
    let (outbox, clocks, settings) = (session.outbox.clone(), session.clocks, session.settings);
    let subprocess = SubprocessCommand::new(settings.subprocess.clone());
    let mut cell: Option<CellSystem> = None;
    // What is being done. It ends with this, and what it had begun.
    let mut work: JoinSet<()> = JoinSet::new();
    loop {
        let (id, command) = match session.next().await? {
            ManagerMessage::System(id, command) => (id, command),
            ManagerMessage::Leave => return Ok(()),
            _ => continue,
        };
        let outbox = outbox.clone();
        match command {
            SystemCommand::Ports(count) => {
                done(id, ports(count).map(SystemAnswer::Ports), &outbox).await;
            }
            SystemCommand::Configure { system, values, directory, hang_after, limits } => {
                work.shutdown().await;
                cell = None;
                let place = CellPlace::new(directory, &settings.directory.join(CELL));
                let made = place.and_then(|place| {
                    let bounds = (hang_after, *limits);
                    CellSystem::new(&system, values, place, bounds, &subprocess, (clocks, &outbox))
                });
                match made {
                    Ok(made) => {
                        let (system, directory) = (made.system.clone(), made.place.path.clone());
                        let (subprocess, within) = (subprocess.clone(), made.limits.configure);
                        cell = Some(made);
                        work.spawn(async move {
                            let configured = system.configure(&subprocess, within).await;
                            let answer = configured.map(|()| SystemAnswer::Directory(directory));
                            done(id, answer.map_err(CommandError::from), &outbox).await;
                        });
                    }
                    Err(error) => done(id, Err(error), &outbox).await,
                }
            }
            SystemCommand::Stop => {
                // Whatever is being done, this is wanted instead.
                work.shutdown().await;
                let Some(mut stopped) = cell.take() else {
                    done(id, Ok(SystemAnswer::Nothing), &outbox).await;
                    continue;
                };
                work.spawn(async move {
                    let ended = stopped.stop(&outbox).await;
                    drop(stopped);
                    done(id, ended.map(|()| SystemAnswer::Nothing), &outbox).await;
                });
            }
            SystemCommand::Output(words) => {
                let (directory, subprocess) = (settings.directory.clone(), subprocess.clone());
                let asker = cell.as_ref().map(|cell| cell.asker.clone());
                let limits = cell.as_ref().map(|cell| cell.limits.clone()).unwrap_or_default();
                work.spawn(async move {
                    let probed = match asker {
                        Some(asker) => asker.finish().await,
                        None => UnloggedRequests::default(),
                    };
                    let ended = output(&words, &directory, &limits, &subprocess, &outbox).await;
                    done(id, ended.map(|()| SystemAnswer::Probed(probed)), &outbox).await;
                });
            }
            command => match &mut cell {
                Some(cell) => {
                    cell.execute(id, command, &subprocess, (clocks, outbox), &mut work).await;
                }
                None => done(id, Err(CommandError::NoSystem), &outbox).await,
            },
        }
        while work.try_join_next().is_some() {}
    }
}

impl CellPlace {
    /// The manager's directory, or one of the agent's own that is empty.
    fn new(managers: Option<PathBuf>, own: &Path) -> Result<Self, CommandError> {
        if let Some(path) = managers {
            return Ok(Self { path, is_own: false });
        }
        let path = own.to_owned();
        let made = match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => std::fs::create_dir_all(&path),
        };
        match made {
            Ok(()) => Ok(Self { path, is_own: true }),
            Err(source) => Err(CommandError::Directory { path, source }),
        }
    }
}

impl CellSystem {
    fn new(
        system: &System,
        mut values: BTreeMap<String, String>,
        place: CellPlace,
        (hang_after, limits): (Duration, Limits),
        subprocess: &SubprocessCommand,
        (clocks, outbox): (Clocks, &Outbox),
    ) -> Result<Self, CommandError> {
        values.insert("directory".to_owned(), place.path.display().to_string());
        let system = filled(system, &values)?;
        let asker = Asker::new(system.probe.clone().unwrap_or_default(), &system.url);
        let probe = Probe::new(asker.ask(), hang_after);
        let (happenings, mut happened) = mpsc::unbounded_channel::<Happened>();
        let outbox = outbox.clone();
        tokio::spawn(async move {
            while let Some(Happened { at, what }) = happened.recv().await {
                let event = AgentMessage::Event { at: clocks.steady(at), what };
                if outbox.send(event).await.is_err() {
                    break;
                }
            }
        });
        let port = port(&system.url);
        let every = asker.every();
        let system = SystemUnderTest::new(
            system,
            &place.path,
            subprocess,
            probe.clone(),
            happenings.clone(),
        )?;
        let (system, watching) = (Arc::new(system), JoinSet::new());
        Ok(Self { system, asker, probe, every, port, limits, values, place, happenings, watching })
    }

    /// Does something; what takes longer is done beside.
    async fn execute(
        &mut self,
        id: u64,
        command: SystemCommand,
        subprocess: &SubprocessCommand,
        (clocks, outbox): (Clocks, Outbox),
        work: &mut JoinSet<()>,
    ) {
        let system = self.system.clone();
        match command {
            SystemCommand::Start => {
                work.spawn(async move {
                    let started = system.start().await.map_err(CommandError::from);
                    done(id, started.map(|()| SystemAnswer::Nothing), &outbox).await;
                });
            }
            SystemCommand::Restart(process) => {
                // A start before that came to nothing.
                work.shutdown().await;
                work.spawn(async move {
                    let restarted = system.restart(process.as_deref()).await;
                    let answer = restarted.map(|()| SystemAnswer::Nothing);
                    done(id, answer.map_err(CommandError::from), &outbox).await;
                });
            }
            SystemCommand::Ask(plan) => {
                let set = self.asker.set(*plan).await.map_err(CommandError::from);
                done(id, set.map(|()| SystemAnswer::Nothing), &outbox).await;
            }
            SystemCommand::LastWords(process) => {
                let words = system.last_words(&process);
                done(id, Ok(SystemAnswer::Words(words)), &outbox).await;
            }
            SystemCommand::Watch(start, disturbance) => {
                let watched = self.watch(clocks.instant(start), *disturbance, subprocess, &outbox);
                done(id, watched.map(|()| SystemAnswer::Nothing), &outbox).await;
            }
            _ => done(id, Err(CommandError::NoSystem), &outbox).await,
        }
    }

    /// Tells of it each second from the common start on, and disturbs it as the experiment says.
    fn watch(
        &mut self,
        start: Instant,
        disturbance: Disturbance,
        subprocess: &SubprocessCommand,
        outbox: &Outbox,
    ) -> Result<(), CommandError> {
        let stress = filled(&disturbance.stress, &self.values)?;
        // That of the warm-up ends.
        self.watching = JoinSet::new();
        self.probe.repeat(self.every);
        let mut sampler = self.system.sampler(self.port);
        let outbox = outbox.clone();
        self.watching.spawn(async move {
            for second in 0_u32.. {
                sleep_until((start + Duration::from_secs(u64::from(second) + 1)).into()).await;
                let seen = Box::new(sampler.sample(second));
                if outbox.send(AgentMessage::System(seen)).await.is_err() {
                    break;
                }
            }
        });
        let (system, happenings) = (self.system.clone(), self.happenings.clone());
        let Disturbance { faults, seed, .. } = disturbance;
        self.watching.spawn(async move {
            let mut injecting = JoinSet::new();
            for due in FaultSchedule::new(&faults, seed) {
                sleep_until((start + due.at).into()).await;
                let (system, happenings) = (system.clone(), happenings.clone());
                injecting.spawn(async move { fault::inject(&due, &system, &happenings).await });
                while injecting.try_join_next().is_some() {}
            }
            injecting.join_all().await;
        });
        for stress in stress {
            let (subprocess, happenings) = (subprocess.clone(), self.happenings.clone());
            let port = self.port;
            self.watching.spawn(async move {
                sleep_until((start + stress.at).into()).await;
                stress::apply(&stress, port, &subprocess, &happenings).await;
            });
        }
        Ok(())
    }

    /// Ends it and what disturbs it, and sends what its processes wrote if the manager can't read it.
    async fn stop(&mut self, outbox: &Outbox) -> Result<(), CommandError> {
        self.watching.shutdown().await;
        self.system.stop().await?;
        if !self.place.is_own {
            return Ok(());
        }
        for (process, log) in logs(&self.place.path.join(LOGS)) {
            let sent =
                files::send(&log, &FileKind::Log(process), self.limits.log_size, outbox).await;
            sent.map_err(CommandError::NotSent)?;
        }
        Ok(())
    }
}

fn logs(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let logs =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    logs.collect()
}

async fn done(id: u64, ended: Result<SystemAnswer, CommandError>, outbox: &Outbox) {
    let ended = ended.map_err(|error| in_words(&error));
    // If nobody hears it, the connection is gone, and with it all.
    let _ = outbox.send(AgentMessage::Done(id, ended)).await;
}

/// The port of an address.
fn port(url: &str) -> u16 {
    let uri = url.parse::<http::Uri>().ok();
    let default = if url.starts_with("https:") { 443 } else { 80 };
    uri.and_then(|uri| uri.port_u16()).unwrap_or(default)
}

/// Ports that were free just now.
fn ports(count: u16) -> Result<Vec<u16>, CommandError> {
    // All are held until all are known, so that they differ.
    let held = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)));
    let held = held.collect::<io::Result<Vec<_>>>().map_err(CommandError::NoPort)?;
    let ports = held.iter().map(|listener| Ok(listener.local_addr()?.port()));
    ports.collect::<io::Result<_>>().map_err(CommandError::NoPort)
}

/// A copy whose texts have their words in braces replaced.
fn filled<T: Serialize + DeserializeOwned>(
    of: &T,
    values: &BTreeMap<String, String>,
) -> Result<T, UnknownWord> {
    fn fill_all(
        value: &mut serde_json::Value,
        values: &BTreeMap<String, String>,
    ) -> Result<(), UnknownWord> {
        match value {
            serde_json::Value::String(text) => *text = fill(text, values)?,
            serde_json::Value::Array(items) => {
                items.iter_mut().try_for_each(|item| fill_all(item, values))?;
            }
            serde_json::Value::Object(fields) => {
                fields.values_mut().try_for_each(|field| fill_all(field, values))?;
            }
            _ => {}
        }
        Ok(())
    }
    let mut value = serde_json::to_value(of).expect("it is read from such values");
    fill_all(&mut value, values)?;
    Ok(serde_json::from_value(value).expect("texts are texts whatever they say"))
}

/// Runs a program and sends what it writes.
async fn output(
    words: &[String],
    directory: &Path,
    limits: &Limits,
    subprocess: &SubprocessCommand,
    outbox: &Outbox,
) -> Result<(), CommandError> {
    let [log, output] = ["errors", "output"].map(|name| directory.join(name));
    let works_in = std::env::current_dir().unwrap_or_else(|_| directory.to_owned());
    let program = Program {
        words,
        directory: &works_in,
        log: &log,
        output: Some((&output, limits.audit_size)),
        within: limits.audit,
        limit: "audit",
    };
    let ended = program.run(subprocess).await;
    let sent = match &ended {
        Ok(()) => files::send(&output, &FileKind::Output, limits.audit_size, outbox).await,
        Err(_) => Ok(()),
    };
    for file in [log, output] {
        // It may not have been made.
        let _ = std::fs::remove_file(file);
    }
    ended?;
    sent.map_err(CommandError::NotSent)
}
