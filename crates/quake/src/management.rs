//! The benchmark management system (paper 004, section 4): it has agents load, watch and disturb a system under test,
//! cell after cell, and brings together what they saw.
//!
//! - [`fleet`]: which agents, on which hosts; `agents`, `local`: how they are reached and started
//! - `benchmark_run`: one cell, once, from its configuration to its outcome
//! - `dialogue`: what agents are asked, and answer
//! - `progress`, `seconds`: how far a load is; what all saw of a second
//! - `files`: what agents send to be kept

mod agents;
mod benchmark_run;
mod dialogue;
mod files;
pub mod fleet;
mod local;
mod progress;
mod seconds;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::sync::watch;

use self::benchmark_run::BenchmarkRun;
use self::fleet::{Fleet, FleetSettings};
use crate::agent::in_words;
use crate::experiment::Experiment;
use crate::record::{
    Cell, CellDirectory, CellOutcome, Event, MergedSecond, RecordError, RunDirectory, SystemSecond,
};

/// Who looks on is told what is waited for when that takes longer than this.
const WAITS_QUIETLY: Duration = Duration::from_secs(1);

/// What is to be run, and with whom.
#[derive(Debug)]
pub struct RunSettings {
    /// Where it is recorded. Cells that are complete there are not run again.
    pub directory: RunDirectory,
    /// The cells of these names only; none: all.
    pub cells: Vec<String>,
    /// The agents.
    pub fleet: FleetSettings,
}

/// Who looks on while it runs.
pub trait Observer {
    /// Agents can dial there.
    fn listening(&mut self, _address: SocketAddr) {}
    /// Nothing is run: so many cells are asked for, and all are complete.
    fn complete(&mut self, _cells: usize) {}
    /// Nothing happens for some time, because this is waited for, for so long at most.
    fn waits(&mut self, _what: &str, _at_most: Duration) {}
    /// A cell begins, the `number`th of so many that are run now.
    fn begins(&mut self, _cell: &Cell, _number: usize, _of: usize) {}
    /// The load of a second, and what was seen of the system.
    fn second(&mut self, _load: &MergedSecond, _system: &SystemSecond) {}
    /// Something happened.
    fn event(&mut self, _event: &Event) {}
    /// A cell came to this, or to nothing, and why.
    fn ended(&mut self, _cell: &CellDirectory, _outcome: Result<&CellOutcome, &str>) {}
}

/// Why a run ended before all its cells were tried.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It can't be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No agent could dial.
    #[error("cannot listen on {address} for agents")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// This host can't have one.
    #[error("cannot start an agent")]
    NoLocalAgent(#[source] io::Error),
    /// It ended before it had joined.
    #[error("an agent of this host ended before it joined ({status}): {} says why", log.display())]
    LocalAgentEnded {
        /// How the process of the agent ended.
        status: ExitStatus,
        /// What it said.
        log: PathBuf,
    },
    /// They did not join.
    #[error(
        "after {within:?} there is still need of {role}s ({count}): start `fishplate quake agent` on their hosts, or give \
         them longer"
    )]
    AgentsMissing {
        /// Of which kind.
        role: &'static str,
        /// How many.
        count: u32,
        /// How long they had.
        within: Duration,
    },
    /// It told nothing of its clocks.
    #[error("the agent on {host} does not say what its clock shows")]
    NoClock {
        /// The agent's host.
        host: String,
    },
    /// There is no such cell.
    #[error("the experiment has no cell {name}: it has {}", known.join(", "))]
    NoSuchCell {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// Cells that could not be run to their end, and why.
    pub failed: Vec<(CellDirectory, String)>,
    /// Whether it was stopped before all were run.
    pub interrupted: bool,
}

/// Runs the cells of an experiment that are not complete yet, until `stop` says that it is enough.
///
/// # Errors
/// It can't be recorded, or there are no agents. A cell that fails is none.
pub async fn run(
    experiment: &Experiment,
    settings: RunSettings,
    observer: &mut dyn Observer,
    mut stop: watch::Receiver<bool>,
) -> Result<RunEnd, RunError> {
    let mut end = RunEnd { failed: Vec::new(), interrupted: false };
    let _alone = settings.directory.lock()?;
    let (cells, complete) = chosen(experiment, &settings)?;
    if cells.is_empty() {
        observer.complete(complete);
        return Ok(end);
    }
    let directory = settings.directory;
    let mut fleet = Fleet::new(settings.fleet).await?;
    observer.listening(fleet.address());
    let of = cells.len();
    for (number, cell) in (1..).zip(&cells) {
        let complete = tokio::select! {
            complete = fleet.complete(observer) => complete,
            _ = stop.wait_for(|stop| *stop) => Ok(()),
        };
        if let Err(error) = complete {
            fleet.leave().await;
            return Err(error);
        }
        if *stop.borrow() {
            break;
        }
        observer.begins(cell, number, of);
        let place = directory.cell(&cell.name(), cell.repetition);
        let ended = match experiment.of_cell(cell) {
            Ok(experiment) => {
                match BenchmarkRun::new((&experiment, cell, &place), &mut fleet, observer) {
                    Ok(run) => run.run(&mut stop).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error.into()),
        };
        let ended = ended.map_err(|error| in_words(&error));
        observer.ended(&place, ended.as_ref().map_err(String::as_str));
        if *stop.borrow() {
            break;
        }
        end.failed.extend(ended.err().map(|why| (place, why)));
    }
    end.interrupted = *stop.borrow();
    fleet.leave().await;
    Ok(end)
}

/// The cells that are asked for and not complete; how many are.
fn chosen(experiment: &Experiment, settings: &RunSettings) -> Result<(Vec<Cell>, usize), RunError> {
    let all = experiment.cells();
    for name in &settings.cells {
        if !all.iter().any(|cell| cell.name() == *name) {
            let once = all.iter().filter(|cell| cell.repetition == 1);
            let known = once.map(Cell::name).collect();
            return Err(RunError::NoSuchCell { name: name.clone(), known });
        }
    }
    let asked_for =
        |cell: &Cell| settings.cells.is_empty() || settings.cells.contains(&cell.name());
    let complete =
        |cell: &Cell| settings.directory.cell(&cell.name(), cell.repetition).is_complete();
    let (done, left): (Vec<Cell>, _) = all.into_iter().filter(asked_for).partition(complete);
    Ok((left, done.len()))
}
