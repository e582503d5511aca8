//! One cell, once: the system is configured and started, loaded from a common start on, watched, and ended; and what it
//! came to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fishplate_formats::units::NotASize;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

use super::Observer;
use super::dialogue::Dialogue;
use super::files::{AUDIT, ReceivedFiles, place, requests};
use super::fleet::{Fleet, Said, Speaker};
use super::progress::Progress;
use crate::agent::in_words;
use crate::agent::message::{
    AgentMessage, Disturbance, FileKind, LoadCommand, SystemAnswer, SystemCommand,
};
use crate::audit::{AuditError, ClientView};
use crate::experiment::{Audit, Experiment, SweepError};
use crate::load::{EndedBy, LoadPlan, PlanError};
use crate::record::{
    AuditOutcome, Cell, CellDirectory, CellOutcome, CellWriter, Event, Happening, LoadSecond,
    RecordError,
};
use crate::system::SERVER;
use crate::watchdog::{Judgement, Watchdog};

/// From the order to start until the common start: all agents have it by then.
const LEAD: Duration = Duration::from_millis(500);
/// How often it is looked whether a second is over.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Between two tries to have a WSDL of a server that has just been started.
const PLANS_EVERY: Duration = Duration::from_millis(100);
/// How long the system may take to end beyond what its processes are allowed.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// How much longer than its deadline a load may take to end when it is told to, its log included.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How long the audit's program may take.
const AUDITS_WITHIN: Duration = Duration::from_secs(600);

/// Why a cell came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum CellError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("lost: {0}")]
    AgentLost(String),
    #[error("{0}")]
    System(String),
    #[error(transparent)]
    Sweep(#[from] SweepError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("client agent {agent}: {said}")]
    Load { agent: u32, said: String },
    #[error("an agent has not answered within {0:?}")]
    Unanswered(Duration),
    #[error("watchdog.rejuvenate.memory_above")]
    Watchdog(#[from] NotASize),
    #[error("a file of an agent cannot be written")]
    File(#[from] io::Error),
    #[error("an agent does not say what its clock shows")]
    NoClock,
    #[error("interrupted")]
    Interrupted,
}

/// A cell that is run.
pub(super) struct CellRun<'r> {
    experiment: &'r Experiment,
    cell: &'r Cell,
    directory: &'r CellDirectory,
    agents: Dialogue<'r>,
    observer: &'r mut dyn Observer,
    writer: CellWriter,
    watchdog: Watchdog,
    /// The common start, by our steady clock.
    start: Option<i64>,
    /// What happened before it was known, by that clock.
    early: Vec<(i64, Happening)>,
    files: ReceivedFiles,
}

impl<'r> CellRun<'r> {
    /// Nothing has begun but its record.
    pub(super) fn new(
        (experiment, cell, directory): (&'r Experiment, &'r Cell, &'r CellDirectory),
        fleet: &'r mut Fleet,
        observer: &'r mut dyn Observer,
    ) -> Result<Self, CellError> {
        Ok(Self {
            experiment,
            cell,
            directory,
            agents: Dialogue::new(fleet),
            observer,
            writer: directory.begin(cell)?,
            watchdog: Watchdog::new(experiment)?,
            start: None,
            early: Vec::new(),
            files: ReceivedFiles::new(),
        })
    }

    /// Runs it, until it is over or to be stopped. However it ends, the system has been ended.
    pub(super) async fn run(
        mut self,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<CellOutcome, CellError> {
        let outcome = tokio::select! {
            outcome = self.whole() => outcome,
            _ = stop.wait_for(|stop| *stop) => Err(CellError::Interrupted),
        };
        self.agents.tell_clients(|_| LoadCommand::Stop);
        let stopped = self.stop().await;
        let outcome = outcome?;
        stopped?;
        self.writer.complete(&outcome)?;
        Ok(outcome)
    }

    async fn whole(&mut self) -> Result<CellOutcome, CellError> {
        let values = self.configure().await?;
        let plan = self.begin(&values).await?;
        let warmed = match plan.warm_up() {
            Some(warm_up) => self.warm_up(&warm_up).await?,
            None => 0,
        };
        self.agents.prepare(&plan, self.experiment.audit.is_some()).await?;
        self.start().await?;
        let environment = self.agents.fleet.environment();
        let offsets = self.agents.fleet.all().filter_map(super::agents::JoinedAgent::offset);
        let clocks = offsets.map(super::super::agent::clock::ClockOffset::seconds).collect();
        let mut progress = Progress::new(self.agents.fleet.client_count());
        self.follow(&mut progress).await?;
        let seconds = progress.length(self.now());
        let mut ended = progress.words();
        let mut audited = None;
        if let Some(audit) = &self.experiment.audit {
            match self.audit(audit, &values, warmed).await? {
                Ok(outcome) => audited = Some(outcome),
                Err(why) => ended.push_str(&format!("; no audit was possible: {why}")),
            }
        }
        Ok(CellOutcome {
            ended,
            seconds,
            outcomes: progress.outcomes,
            baseline: self.watchdog.baseline().unwrap_or(0.0),
            audit: audited,
            environment,
            clocks,
        })
    }

    /// Has the system configured; what stands for words in braces.
    async fn configure(&mut self) -> Result<BTreeMap<String, String>, CellError> {
        let words = self.experiment.ports();
        let mut values = self.cell.values.clone();
        values.insert("here".to_owned(), self.experiment.here.display().to_string());
        let count = u16::try_from(words.len()).unwrap_or(u16::MAX);
        if let SystemAnswer::Ports(ports) = self.agents.ask(SystemCommand::Ports(count)).await? {
            values.extend(words.into_iter().zip(ports.iter().map(u16::to_string)));
        }
        let local = self.agents.fleet.system_is_local();
        let configure = self.agents.order(SystemCommand::Configure {
            system: Box::new(self.experiment.system.clone()),
            values: values.clone(),
            directory: local.then(|| self.directory.path().to_owned()),
            hang_after: self.experiment.watchdog.hang_after,
        })?;
        if let SystemAnswer::Directory(directory) = self.agents.answer(configure).await? {
            values.insert("directory".to_owned(), directory.display().to_string());
        }
        Ok(values)
    }

    /// Has it started; the load, once it answers the load's requests.
    async fn begin(&mut self, values: &BTreeMap<String, String>) -> Result<LoadPlan, CellError> {
        let start = self.agents.order(SystemCommand::Start)?;
        let plan = loop {
            let error = match LoadPlan::prepare(self.experiment, values).await {
                Ok(plan) => break plan,
                Err(error) => error,
            };
            if !error.is_transient() {
                return Err(error.into());
            }
            // A server that has just been started gives no WSDL yet. If it never does, it is not ready in time.
            match timeout(PLANS_EVERY, self.agents.answer(start)).await {
                Err(_) => {}
                Ok(Err(CellError::System(said))) => {
                    return Err(CellError::System(format!("{said}; {}", in_words(&error))));
                }
                Ok(ended) => ended.map(drop)?,
            }
        };
        self.agents.ask(SystemCommand::Ask(Box::new(plan.clone()))).await?;
        self.agents.answer(start).await?;
        Ok(plan)
    }

    /// A load before the clock starts, of which nothing is counted: how many answers were right.
    async fn warm_up(&mut self, plan: &LoadPlan) -> Result<u64, CellError> {
        self.agents.prepare(plan, false).await?;
        self.agents.start(self.agents.fleet.clocks.now().steady)?;
        let (mut going, mut right) = (self.agents.fleet.client_count(), 0);
        while going > 0 {
            match self.agents.next().await {
                Said::Message(Speaker::Client(agent), AgentMessage::LoadEnded(ended)) => {
                    right += ended.map_err(|said| CellError::Load { agent, said })?.outcomes.right;
                    going -= 1;
                }
                Said::Message(Speaker::System, AgentMessage::Event { at, what }) => {
                    self.early.push((self.ours(at), what));
                }
                Said::Message(..) => {}
                Said::Lost(_, why) => return Err(CellError::AgentLost(why)),
            }
        }
        Ok(right)
    }

    /// Has all begin together.
    async fn start(&mut self) -> Result<(), CellError> {
        let clocks = self.agents.fleet.clocks;
        let start = clocks.steady(Instant::now() + LEAD);
        self.start = Some(start);
        self.agents.start(start)?;
        let system = self.agents.fleet.system().and_then(super::agents::JoinedAgent::offset);
        let disturbance = Disturbance {
            faults: self.experiment.faults.clone(),
            stress: self.experiment.stress.clone(),
            seed: self.experiment.seed,
        };
        let at = system.ok_or(CellError::NoClock)?.theirs(start);
        self.agents.ask(SystemCommand::Watch(at, Box::new(disturbance))).await?;
        for (at, what) in std::mem::take(&mut self.early) {
            self.record(&Event { at: self.seconds(at), what })?;
        }
        Ok(())
    }

    /// Follows the load until it has ended, and has the system restarted where the watchdog says so.
    async fn follow(&mut self, progress: &mut Progress) -> Result<(), CellError> {
        let mut looks = interval(LOOKS_EVERY);
        while !progress.is_over(self.now()) {
            let said = tokio::select! {
                said = self.agents.next() => Some(said),
                _ = looks.tick() => None,
            };
            match said {
                Some(Said::Message(Speaker::Client(agent), message)) => {
                    self.hear_client(agent, message, progress)?;
                }
                Some(Said::Message(Speaker::System, message)) => {
                    self.hear_system(message, progress).await?;
                }
                Some(Said::Lost(Speaker::Client(agent), why)) => {
                    self.record(&Event { at: self.now(), what: Happening::AgentLost { agent } })?;
                    progress.lost(agent, self.now());
                    if self.agents.fleet.client_count() == 0 {
                        return Err(CellError::AgentLost(why));
                    }
                }
                Some(Said::Lost(Speaker::System, why)) => return Err(CellError::AgentLost(why)),
                None => {}
            }
            while let Some((load, system)) = progress.seconds.take(self.now()) {
                self.observer.second(&load, &system);
                // What is left of the last second is no second.
                if progress.begins_no_more(load.second, &self.experiment.workload) {
                    self.watchdog.load_ends();
                }
                if progress.was_loaded(load.second) {
                    let judgements = self.watchdog.observe(&load, &system);
                    self.act(judgements, progress).await?;
                }
            }
        }
        self.writer.flush()?;
        Ok(self.files.finish()?)
    }

    fn hear_client(
        &mut self,
        agent: u32,
        message: AgentMessage,
        progress: &mut Progress,
    ) -> Result<(), CellError> {
        match message {
            AgentMessage::Load(second) => {
                let second = LoadSecond { agent, ..*second };
                self.writer.load(&second)?;
                progress.load(&second, self.now());
            }
            AgentMessage::LoadEnded(Ok(end)) => progress.end(agent, end.seconds, words(end.by)),
            AgentMessage::LogSent(Ok(())) => progress.sent(agent),
            AgentMessage::LoadEnded(Err(said)) | AgentMessage::LogSent(Err(said)) => {
                return Err(CellError::Load { agent, said });
            }
            AgentMessage::Part { of, bytes } => {
                self.receive(&of, Speaker::Client(agent), &bytes)?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn hear_system(
        &mut self,
        message: AgentMessage,
        progress: &mut Progress,
    ) -> Result<(), CellError> {
        match message {
            AgentMessage::System(second) => {
                self.writer.system(&second)?;
                progress.seconds.system(*second, self.now());
            }
            AgentMessage::Event { at, what } => {
                let event = Event { at: self.seconds(self.ours(at)), what };
                self.record(&event)?;
                let judgements = self.watchdog.notice(&event);
                self.act(judgements, progress).await?;
            }
            // A restart that failed is seen by the watchdog.
            _ => {}
        }
        Ok(())
    }

    /// Does what follows from what the watchdog says.
    async fn act(
        &mut self,
        judgements: Vec<Judgement>,
        progress: &mut Progress,
    ) -> Result<(), CellError> {
        for judgement in judgements {
            match judgement {
                Judgement::Happened(mut event) => {
                    if let Happening::Failure(failure) = &mut event.what
                        && failure.class.ends_it()
                        && let Some(words) = self.last_words().await?
                    {
                        failure.cause = format!("{}; its log ends with: {words}", failure.cause);
                    }
                    self.record(&event)?;
                }
                Judgement::Restart => {
                    self.agents.order(SystemCommand::Restart(None))?;
                }
                Judgement::Rejuvenate(because) => {
                    let what = Happening::Rejuvenated { because };
                    self.record(&Event { at: self.now(), what })?;
                    self.agents.order(SystemCommand::Restart(None))?;
                }
                Judgement::Decided(because) => {
                    let within = self.experiment.workload.deadline + ENDS_WITHIN;
                    progress.decided(because, self.now() + within.as_secs_f64());
                    self.agents.tell_clients(|_| LoadCommand::Stop);
                }
            }
        }
        Ok(())
    }

    async fn last_words(&mut self) -> Result<Option<String>, CellError> {
        if !self.experiment.system.process.contains_key(SERVER) {
            return Ok(None);
        }
        match self.agents.ask(SystemCommand::LastWords(SERVER.to_owned())).await? {
            SystemAnswer::Words(words) => Ok(words),
            _ => Ok(None),
        }
    }

    fn record(&mut self, event: &Event) -> Result<(), CellError> {
        self.writer.event(event)?;
        self.observer.event(event);
        Ok(())
    }

    /// What the server holds against what its clients saw; why that is not known.
    async fn audit(
        &mut self,
        audit: &Audit,
        values: &BTreeMap<String, String>,
        warmed: u64,
    ) -> Result<Result<AuditOutcome, String>, CellError> {
        let words = match audit.command(values) {
            Ok(words) => words,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let id = self.agents.order(SystemCommand::Output(words))?;
        let output = async {
            loop {
                match self.agents.next().await {
                    Said::Message(Speaker::System, AgentMessage::Done(done, ended))
                        if done == id =>
                    {
                        self.files.finish()?;
                        return Ok(ended);
                    }
                    Said::Message(speaker, AgentMessage::Part { of, bytes }) => {
                        self.receive(&of, speaker, &bytes)?;
                    }
                    Said::Message(Speaker::System, AgentMessage::Event { at, what }) => {
                        self.record(&Event { at: self.seconds(self.ours(at)), what })?;
                    }
                    Said::Lost(Speaker::System, why) => return Err(CellError::AgentLost(why)),
                    Said::Message(..) | Said::Lost(..) => {}
                }
            }
        };
        let probed = match timeout(AUDITS_WITHIN, output).await {
            Ok(ended) => match ended? {
                Ok(SystemAnswer::Probed(probed)) => probed,
                Ok(_) => 0,
                Err(said) => return Ok(Err(said)),
            },
            Err(_) => return Ok(Err(format!("it took more than {AUDITS_WITHIN:?}"))),
        };
        let agents = 0..self.agents.fleet.size();
        let logs: Vec<PathBuf> = agents.map(|agent| requests(self.directory, agent)).collect();
        if let Some(lost) = logs.iter().position(|log| !log.is_file()) {
            return Ok(Err(format!("client agent {lost} was lost, and its log with it")));
        }
        let view = ClientView::read(logs.iter().map(PathBuf::as_path));
        let output = BufReader::new(File::open(self.directory.path().join(AUDIT))?);
        let compared = view.map_err(AuditError::from);
        let compared = compared.and_then(|view| audit.compare(&view, output, warmed + probed));
        Ok(compared.map_err(|error| in_words(&error)))
    }

    /// Has the system ended, and what it wrote told.
    async fn stop(&mut self) -> Result<(), CellError> {
        let allowed: Duration =
            self.experiment.system.process.values().map(|it| it.stop_within).sum();
        let within = STOPS_WITHIN + allowed;
        let stopped = async {
            let stop = self.agents.order(SystemCommand::Stop)?;
            self.agents.answer(stop).await
        };
        timeout(within, stopped).await.map_err(|_| CellError::Unanswered(within))??;
        while let Some(said) = self.agents.heard() {
            match said {
                Said::Message(Speaker::System, AgentMessage::Event { at, what }) => {
                    let event = Event { at: self.seconds(self.ours(at)), what };
                    self.record(&event)?;
                }
                Said::Message(speaker, AgentMessage::Part { of, bytes }) => {
                    self.receive(&of, speaker, &bytes)?;
                }
                _ => {}
            }
        }
        Ok(self.files.finish()?)
    }

    fn receive(&mut self, of: &FileKind, speaker: Speaker, bytes: &str) -> Result<(), CellError> {
        match place(of, speaker, self.directory, self.experiment) {
            Some(path) => Ok(self.files.add(&path, bytes)?),
            None => Ok(()),
        }
    }

    /// What our steady clock showed when that of the agent of the system showed this.
    fn ours(&self, theirs: i64) -> i64 {
        let offset = self.agents.fleet.system().and_then(super::agents::JoinedAgent::offset);
        offset.map_or(theirs, |offset| offset.ours(theirs))
    }

    /// Seconds since the common start, when our steady clock shows this.
    fn seconds(&self, steady: i64) -> f64 {
        steady.saturating_sub(self.start.unwrap_or(steady)) as f64 / 1e6
    }

    fn now(&self) -> f64 {
        self.seconds(self.agents.fleet.clocks.now().steady)
    }
}

/// Why a load ended.
fn words(by: EndedBy) -> &'static str {
    match by {
        EndedBy::Requests => "all requests were made",
        EndedBy::Duration => "its time was over",
        EndedBy::Stop => "it was stopped",
    }
}
