//! One cell, once: the system is configured and started, loaded from a common start on, watched, and ended; and what it
//! came to.
//!
//! - `warm_up`: the load before the common start

mod warm_up;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fishplate_formats::units::NotASize;
use tokio::sync::watch;
use tokio::time::{interval, sleep, sleep_until, timeout};

use self::warm_up::WarmUp;
use super::dialogue::Dialogue;
use super::files::{AUDIT, ReceivedFiles, place, requests};
use super::fleet::{Fleet, Said, Speaker};
use super::progress::Progress;
use super::{Observer, WAITS_QUIETLY};
use crate::agent::in_words;
use crate::agent::message::{
    AgentMessage, Disturbance, FileKind, LoadCommand, SystemAnswer, SystemCommand,
};
use crate::audit::{AuditError, ClientView, UnloggedRequests};
use crate::experiment::{Audit, Experiment, SweepError};
use crate::load::{EndedBy, LoadPlan, PlanError};
use crate::record::{
    AuditOutcome, Cell, CellDirectory, CellOutcome, CellWriter, Event, Failure, Happening,
    LoadSecond, Outcomes, RecordError,
};
use crate::system::SERVER;
use crate::watchdog::{Judgement, Watchdog};

/// From the order to start until the common start: all agents have it by then.
const LEAD: Duration = Duration::from_millis(500);
/// How often it is looked whether a second is over.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Between two tries to have a WSDL of a server that has just been started.
const PLANS_EVERY: Duration = Duration::from_millis(100);

/// Why a cell came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchmarkRunError {
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
    #[error(
        "the warm-up had not ended after {within:?} (limits.warm_up), with {right} right answers: fewer requests, or longer"
    )]
    WarmUp { within: Duration, right: u64 },
    #[error("interrupted")]
    Interrupted,
}

/// A run of the benchmark (paper: benchmark run): a cell, once.
pub(super) struct BenchmarkRun<'r> {
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

impl<'r> BenchmarkRun<'r> {
    /// Nothing has begun but its record.
    pub(super) fn new(
        (experiment, cell, directory): (&'r Experiment, &'r Cell, &'r CellDirectory),
        fleet: &'r mut Fleet,
        observer: &'r mut dyn Observer,
    ) -> Result<Self, BenchmarkRunError> {
        Ok(Self {
            experiment,
            cell,
            directory,
            agents: Dialogue::new(fleet, experiment.limits.agent_answer),
            observer,
            writer: directory.begin(cell)?,
            watchdog: Watchdog::new(experiment)?,
            start: None,
            early: Vec::new(),
            files: ReceivedFiles::new(experiment.limits.requests_size),
        })
    }

    /// Runs it, until it is over or to be stopped. However it ends, the system has been ended.
    pub(super) async fn run(
        mut self,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<CellOutcome, BenchmarkRunError> {
        let outcome = tokio::select! {
            outcome = self.whole() => outcome,
            _ = stop.wait_for(|stop| *stop) => Err(BenchmarkRunError::Interrupted),
        };
        self.agents.tell_clients(|_| LoadCommand::Stop);
        let stopped = self.stop().await;
        let outcome = outcome?;
        stopped?;
        self.writer.complete(&outcome)?;
        Ok(outcome)
    }

    async fn whole(&mut self) -> Result<CellOutcome, BenchmarkRunError> {
        let values = self.configure().await?;
        let plan = self.begin(&values).await?;
        let warmed = match plan.warm_up() {
            Some(warm_up) => match self.warm_up(&warm_up).await? {
                WarmUp::Ended(made) => made,
                WarmUp::Failed(outcome) => return Ok(*outcome),
            },
            None => UnloggedRequests::default(),
        };
        self.agents.prepare(&plan, self.experiment.audit.is_some()).await?;
        self.start().await?;
        let mut outcome = self.outcome();
        let late = self.experiment.limits.agent_late;
        let mut progress = Progress::new(self.agents.fleet.client_count(), late);
        self.follow(&mut progress).await?;
        outcome.seconds = progress.length(self.now());
        outcome.ended = progress.words();
        if let Some(audit) = &self.experiment.audit {
            match self.audit(audit, &values, warmed).await? {
                Ok(audited) => outcome.audit = Some(audited),
                Err(why) => outcome.ended.push_str(&format!("; no audit was possible: {why}")),
            }
        }
        outcome.outcomes = progress.outcomes;
        outcome.baseline = self.watchdog.baseline().unwrap_or(0.0);
        Ok(outcome)
    }

    /// An outcome of which nothing is known yet but where it is measured.
    fn outcome(&self) -> CellOutcome {
        let offsets = self.agents.fleet.all().filter_map(super::agents::JoinedAgent::offset);
        let clocks = offsets.map(super::super::agent::clock::ClockOffset::seconds).collect();
        CellOutcome {
            ended: String::new(),
            seconds: 0.0,
            outcomes: Outcomes::default(),
            baseline: 0.0,
            audit: None,
            environment: self.agents.fleet.environment(),
            clocks,
        }
    }

    /// Has the system configured; what stands for words in braces.
    async fn configure(&mut self) -> Result<BTreeMap<String, String>, BenchmarkRunError> {
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
            limits: Box::new(self.experiment.limits.clone()),
        })?;
        let within = self.experiment.limits.configure;
        let what = "system.configure to end";
        if let SystemAnswer::Directory(directory) = self.wait(configure, what, within).await? {
            values.insert("directory".to_owned(), directory.display().to_string());
        }
        Ok(values)
    }

    /// Has it started; the load, once it answers the load's requests.
    async fn begin(
        &mut self,
        values: &BTreeMap<String, String>,
    ) -> Result<LoadPlan, BenchmarkRunError> {
        let start = self.agents.order(SystemCommand::Start)?;
        let (began, within) = (Instant::now(), self.experiment.system.ready_within);
        let (mut told, mut started, mut why) = (false, false, String::new());
        let experiment = self.experiment;
        let plan = loop {
            let preparing = LoadPlan::prepare(experiment, values);
            tokio::pin!(preparing);
            let prepared = loop {
                tokio::select! {
                    prepared = &mut preparing => break prepared,
                    () = sleep_until((began + WAITS_QUIETLY).into()), if !told => {
                        told = true;
                        self.observer.waits(&format!("the WSDL of the system{why}"), within);
                    }
                }
            };
            let error = match prepared {
                Ok(plan) => break plan,
                Err(error) => error,
            };
            why = format!(" ({})", in_words(&error));
            if !error.is_transient() || (started && began.elapsed() > within) {
                return Err(error.into());
            }
            // A server that has just been started gives no WSDL yet. If it never does, it is not ready in time.
            if started {
                sleep(PLANS_EVERY).await;
                continue;
            }
            match timeout(PLANS_EVERY, self.agents.answer(start)).await {
                Err(_) => {}
                Ok(Err(BenchmarkRunError::System(said))) => {
                    return Err(BenchmarkRunError::System(format!("{said}; {}", in_words(&error))));
                }
                // By a path that is answered before there is a WSDL.
                Ok(ended) => started = ended.map(|_| true)?,
            }
        };
        self.agents.ask(SystemCommand::Ask(Box::new(plan.clone()))).await?;
        if !started {
            let what = format!("the first right answer of {}", plan.operations[0].url);
            self.wait(start, &what, within.saturating_sub(began.elapsed())).await?;
        }
        Ok(plan)
    }

    /// What a command comes to that may take so long; who looks on is told what is waited for.
    async fn wait(
        &mut self,
        command: u64,
        what: &str,
        at_most: Duration,
    ) -> Result<SystemAnswer, BenchmarkRunError> {
        match timeout(WAITS_QUIETLY, self.agents.answer(command)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.observer.waits(what, at_most);
                self.agents.answer(command).await
            }
        }
    }

    /// Has all begin together: when, by our steady clock.
    async fn begin_load(&mut self, disturbance: Disturbance) -> Result<i64, BenchmarkRunError> {
        let start = self.agents.fleet.clocks.steady(Instant::now() + LEAD);
        self.agents.start(start)?;
        let system = self.agents.fleet.system().and_then(super::agents::JoinedAgent::offset);
        let at = system.ok_or(BenchmarkRunError::NoClock)?.theirs(start);
        self.agents.ask(SystemCommand::Watch(at, Box::new(disturbance))).await?;
        // What was told before is of the warm-up.
        self.agents.forget_seconds();
        Ok(start)
    }

    /// Begins the load that counts.
    async fn start(&mut self) -> Result<(), BenchmarkRunError> {
        let disturbance = Disturbance {
            faults: self.experiment.faults.clone(),
            stress: self.experiment.stress.clone(),
            seed: self.experiment.seed,
        };
        let start = self.begin_load(disturbance).await?;
        self.starts_at(start)
    }

    /// The common start is known, and with it when things happened before.
    fn starts_at(&mut self, start: i64) -> Result<(), BenchmarkRunError> {
        self.start = Some(start);
        for (at, what) in std::mem::take(&mut self.early) {
            self.record(&Event { at: self.seconds(at), what })?;
        }
        Ok(())
    }

    /// Follows the load until it has ended, and has the system restarted where the watchdog says so.
    async fn follow(&mut self, progress: &mut Progress) -> Result<(), BenchmarkRunError> {
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
                        return Err(BenchmarkRunError::AgentLost(why));
                    }
                }
                Some(Said::Lost(Speaker::System, why)) => {
                    return Err(BenchmarkRunError::AgentLost(why));
                }
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
    ) -> Result<(), BenchmarkRunError> {
        match message {
            AgentMessage::Load(second) => {
                let second = LoadSecond { agent, ..*second };
                self.check(&second, progress, self.now())?;
                self.writer.load(&second)?;
                progress.load(&second, self.now());
            }
            AgentMessage::LoadEnded(Ok(end)) => progress.end(agent, end.seconds, words(end.by)),
            AgentMessage::LogSent(Ok(())) => progress.sent(agent),
            AgentMessage::LoadEnded(Err(said)) | AgentMessage::LogSent(Err(said)) => {
                return Err(BenchmarkRunError::Load { agent, said });
            }
            AgentMessage::Part { of, bytes } => {
                self.receive(&of, Speaker::Client(agent), &bytes)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What an agent says of a second is believed if it can be.
    fn check(
        &self,
        second: &LoadSecond,
        progress: &Progress,
        now: f64,
    ) -> Result<(), BenchmarkRunError> {
        let agent = second.agent;
        let operations = self.experiment.operations.iter().map(|it| it.name.as_str());
        let checked = second.check(operations).and_then(|()| progress.expects(second, now));
        checked.map_err(|why| {
            let said = format!("it told of second {} what can't be: {why}", second.second);
            BenchmarkRunError::Load { agent, said }
        })
    }

    async fn hear_system(
        &mut self,
        message: AgentMessage,
        progress: &mut Progress,
    ) -> Result<(), BenchmarkRunError> {
        match message {
            AgentMessage::System(second) => {
                self.writer.system(&second)?;
                progress.seconds.system(*second, self.now());
            }
            AgentMessage::Event { at, what } => {
                let event = Event { at: self.seconds(self.ours(at)), what };
                self.record(&event)?;
                let judgements = self.watchdog.notice(&event, self.now());
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
    ) -> Result<(), BenchmarkRunError> {
        for judgement in judgements {
            match judgement {
                Judgement::Happened(mut event) => {
                    if let Happening::Failure(failure) = &mut event.what {
                        self.add_last_words(failure).await?;
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
                    let within =
                        self.experiment.workload.deadline + self.experiment.limits.agent_end;
                    progress.decided(because, self.now() + within.as_secs_f64());
                    self.agents.tell_clients(|_| LoadCommand::Stop);
                }
            }
        }
        Ok(())
    }

    /// Adds what the server's log says last to a failure that ends it.
    async fn add_last_words(&mut self, failure: &mut Failure) -> Result<(), BenchmarkRunError> {
        let ours = self.experiment.system.process.contains_key(SERVER);
        if !ours || !failure.class.ends_it() {
            return Ok(());
        }
        let command = SystemCommand::LastWords(SERVER.to_owned());
        if let SystemAnswer::Words(Some(words)) = self.agents.ask(command).await? {
            failure.cause = format!("{}; its log ends with: {words}", failure.cause);
        }
        Ok(())
    }

    fn record(&mut self, event: &Event) -> Result<(), BenchmarkRunError> {
        self.writer.event(event)?;
        self.observer.event(event);
        Ok(())
    }

    /// What the server holds against what its clients saw; why that is not known.
    async fn audit(
        &mut self,
        audit: &Audit,
        values: &BTreeMap<String, String>,
        mut others: UnloggedRequests,
    ) -> Result<Result<AuditOutcome, String>, BenchmarkRunError> {
        let words = match audit.command(values) {
            Ok(words) => words,
            Err(error) => return Ok(Err(error.to_string())),
        };
        // It may write nothing.
        File::create(self.directory.path().join(AUDIT))?;
        let id = self.agents.order(SystemCommand::Output(words))?;
        // The agent ends it when its time is over.
        let within = self.experiment.limits.audit + self.experiment.limits.agent_answer;
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
                    Said::Lost(Speaker::System, why) => {
                        return Err(BenchmarkRunError::AgentLost(why));
                    }
                    Said::Message(..) | Said::Lost(..) => {}
                }
            }
        };
        match timeout(within, output).await {
            Ok(ended) => match ended? {
                Ok(SystemAnswer::Probed(probed)) => others += probed,
                Ok(_) => {}
                Err(said) => return Ok(Err(said)),
            },
            Err(_) => return Ok(Err(format!("the agent told nothing of it for {within:?}"))),
        }
        let agents = 0..self.agents.fleet.size();
        let logs: Vec<PathBuf> = agents.map(|agent| requests(self.directory, agent)).collect();
        if let Some(lost) = logs.iter().position(|log| !log.is_file()) {
            return Ok(Err(format!("client agent {lost} was lost, and its log with it")));
        }
        let view = ClientView::read(logs.iter().map(PathBuf::as_path));
        let output = BufReader::new(File::open(self.directory.path().join(AUDIT))?);
        let compared = view.map_err(AuditError::from);
        let named = self.experiment.limits.named_requests;
        let compared = compared.and_then(|view| audit.compare(&view, output, others, named));
        Ok(compared.map_err(|error| in_words(&error)))
    }

    /// Has the system ended, and what it wrote told.
    async fn stop(&mut self) -> Result<(), BenchmarkRunError> {
        let allowed: Duration =
            self.experiment.system.process.values().map(|it| it.stop_within).sum();
        let within = self.experiment.limits.system_end + allowed;
        let stopped = async {
            let stop = self.agents.order(SystemCommand::Stop)?;
            self.agents.answer(stop).await
        };
        timeout(within, stopped).await.map_err(|_| BenchmarkRunError::Unanswered(within))??;
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

    fn receive(
        &mut self,
        of: &FileKind,
        speaker: Speaker,
        bytes: &str,
    ) -> Result<(), BenchmarkRunError> {
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
