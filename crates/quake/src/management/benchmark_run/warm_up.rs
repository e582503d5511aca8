//! The load before the common start. Nothing of it is counted, but it is watched: a server that crashes, hangs or turns
//! zombie in it has failed before anything could be measured.

use tokio::time::interval;

use super::{BenchmarkRun, BenchmarkRunError, LOOKS_EVERY};
use crate::agent::message::{AgentMessage, Disturbance};
use crate::audit::UnloggedRequests;
use crate::experiment::{Arrivals, Experiment, ThinkTime, Workload};
use crate::load::LoadPlan;
use crate::management::fleet::{Said, Speaker};
use crate::management::progress::Progress;
use crate::record::{CellOutcome, Event, Failure, Happening, LoadSecond};
use crate::watchdog::{Judgement, Watchdog};

/// What a warm-up came to.
pub(super) enum WarmUp {
    /// Its requests were made: what became of them.
    Ended(UnloggedRequests),
    /// The system failed in it: the outcome of the cell.
    Failed(Box<CellOutcome>),
}

/// The watchdog of a warm-up: nothing is restarted, and the loop is closed.
fn watchdog(experiment: &Experiment) -> Result<Watchdog, BenchmarkRunError> {
    let quiet = crate::experiment::Watchdog {
        restarts: 0,
        restart_on: Vec::new(),
        rejuvenate: None,
        ..experiment.watchdog.clone()
    };
    let workload = Workload {
        arrivals: Arrivals::Closed,
        think: ThinkTime::default(),
        ..experiment.workload.clone()
    };
    Ok(Watchdog::new(&Experiment { watchdog: quiet, workload, ..experiment.clone() })?)
}

/// The failure among judgements after which a server does no work any more. A cold start may have others, of which it warms.
fn end_of(judgements: Vec<Judgement>) -> Option<Failure> {
    judgements.into_iter().find_map(|said| match said {
        Judgement::Happened(Event { what: Happening::Failure(failure), .. })
            if failure.class.ends_it() =>
        {
            Some(failure)
        }
        _ => None,
    })
}

impl BenchmarkRun<'_> {
    /// Makes the requests of a warm-up, for so long as it may take.
    pub(super) async fn warm_up(&mut self, plan: &LoadPlan) -> Result<WarmUp, BenchmarkRunError> {
        self.agents.prepare(plan, false).await?;
        let quiet = Disturbance { seed: plan.seed, ..Disturbance::default() };
        let start = self.begin_load(quiet).await?;
        let limits = &self.experiment.limits;
        let within = limits.warm_up;
        let mut watchdog = watchdog(self.experiment)?;
        let mut progress = Progress::new(self.agents.fleet.client_count(), limits.agent_late);
        let mut made = UnloggedRequests::default();
        let mut looks = interval(LOOKS_EVERY);
        let seconds = |steady: i64| steady.saturating_sub(start) as f64 / 1e6;
        while !progress.has_ended() {
            let said = tokio::select! {
                said = self.agents.next() => Some(said),
                _ = looks.tick() => None,
            };
            let now = seconds(self.agents.fleet.clocks.now().steady);
            let mut judgements = Vec::new();
            match said {
                Some(Said::Message(Speaker::Client(agent), AgentMessage::Load(second))) => {
                    let second = LoadSecond { agent, ..*second };
                    self.check(&second, &progress, now)?;
                    progress.load(&second, now);
                }
                Some(Said::Message(Speaker::Client(agent), AgentMessage::LoadEnded(ended))) => {
                    let ended = ended.map_err(|said| BenchmarkRunError::Load { agent, said })?;
                    made += ended.outcomes.into();
                    progress.end(agent, ended.seconds, "all requests were made");
                }
                Some(Said::Message(Speaker::System, AgentMessage::System(second))) => {
                    progress.seconds.system(*second, now);
                }
                Some(Said::Message(Speaker::System, AgentMessage::Event { at, what })) => {
                    let at = self.ours(at);
                    self.early.push((at, what.clone()));
                    judgements.extend(watchdog.notice(&Event { at: seconds(at), what }, now));
                }
                Some(Said::Lost(_, why)) => return Err(BenchmarkRunError::AgentLost(why)),
                Some(Said::Message(..)) | None => {}
            }
            while let Some((load, system)) = progress.seconds.take(now) {
                if progress.begins_no_more(load.second, &plan.workload) {
                    watchdog.load_ends();
                }
                judgements.extend(watchdog.observe(&load, &system));
            }
            if let Some(failure) = end_of(judgements) {
                return self.failed_in_warm_up(start, failure).await;
            }
            if now > within.as_secs_f64() {
                return Err(BenchmarkRunError::WarmUp { within, right: progress.outcomes.right });
            }
        }
        Ok(WarmUp::Ended(made))
    }

    /// The cell is decided. Its common start would have been now.
    async fn failed_in_warm_up(
        &mut self,
        start: i64,
        mut failure: Failure,
    ) -> Result<WarmUp, BenchmarkRunError> {
        self.add_last_words(&mut failure).await?;
        let now = self.agents.fleet.clocks.now().steady;
        self.starts_at(now)?;
        failure.since += self.seconds(start);
        // Of the load that counts there was none.
        failure.after_requests = 0;
        failure.cause = format!("in the warm-up: {}", failure.cause);
        let mut outcome = self.outcome();
        outcome.ended = format!("{} {}", failure.class.name(), failure.cause);
        self.record(&Event { at: 0.0, what: Happening::Failure(failure) })?;
        self.writer.flush()?;
        Ok(WarmUp::Failed(Box::new(outcome)))
    }
}
