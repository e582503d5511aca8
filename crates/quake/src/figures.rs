//! The figures of a cell: what its files come to (`results.json`), and its time series.
//!
//! Goodput is right answers a second within the deadline. Availability as clients see it is the success ratio of their
//! requests: the part that was answered rightly, within the deadline, of all that should have been (Site Reliability
//! Engineering, chapter 3: "aggregate availability"); so an outage counts by what it cost, however short. As the server's own
//! probe sees it, it is the part of probes that were answered. Seconds served are the part of seconds with load in which
//! goodput was above what counts as degraded: availability by time (DBench-OLTP: Vieira and Madeira, VLDB 2003).

mod failures;
mod series;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::failures::{FailureFigures, Span, Timeline};
pub use self::series::{LoadPoint, ProcessPoint, Series, SystemPoint};
pub use self::usage::ResourceAgeing;
use self::usage::Usage;
use crate::experiment::{Arrivals, Experiment};
use crate::record::directory::{CELL, LOAD};
use crate::record::{
    AuditOutcome, CellDirectory, Event, Happening, MergedSecond, Outcomes, Quantiles, RecordError,
    corrected,
};
use crate::statistics::median;

/// The figures of a cell, once.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Figures {
    /// The system's name, filled.
    pub system: String,
    /// The cell's name.
    pub cell: String,
    /// The matrix's values.
    pub values: BTreeMap<String, String>,
    /// From 1.
    pub repetition: u64,
    /// Why it ended, in words; none if it is not complete.
    pub ended: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Requests begun.
    pub begun: u64,
    /// What became of them.
    pub outcomes: Outcomes,
    /// The same, by operation.
    pub operations: BTreeMap<String, Outcomes>,
    /// Right answers a second: all of them by all the time.
    pub goodput: f64,
    /// The median of the seconds.
    pub goodput_median: f64,
    /// The median of the first tenth of the seconds, and of the last.
    pub goodput_first_last: (f64, f64),
    /// Right answers a second at the beginning, as the watchdog had it.
    pub baseline: f64,
    /// Of what was answered, from when it should have begun; none if nothing was answered.
    pub latency: Option<Quantiles>,
    /// Of all that should have been made, answered or not ([`corrected`]); none if nothing was asked.
    #[serde(default)]
    pub latency_corrected: Option<Quantiles>,
    /// From when they did.
    pub service: Option<Quantiles>,
    /// How long refused requests waited for their refusal; none if none was.
    pub refusal: Option<Quantiles>,
    /// Answers that opened a session which nobody will use again, for want of cookies.
    pub dropped_sessions: u64,
    /// Part of requests that were answered rightly and in time, of all that ended or were held back, 0 to 1, without those
    /// that clients left; none if there was none.
    pub availability_clients: Option<f64>,
    /// Part of seconds with load in which the system served: goodput was not degraded; none if there was no load.
    #[serde(default)]
    pub seconds_served: Option<f64>,
    /// Part of probes that were answered; none if there was no probe.
    pub availability_probe: Option<f64>,
    /// How it failed.
    pub failures: Vec<FailureFigures>,
    /// Client agents that were lost: when, and which.
    #[serde(default)]
    pub agents_lost: Vec<(f64, u32)>,
    /// What was taken away, and what could not be had of it.
    #[serde(default)]
    pub stresses: Vec<Span>,
    /// How many faults were injected.
    pub faults: usize,
    /// Those that could not be injected: when, which, and why.
    #[serde(default)]
    pub faults_failed: Vec<(f64, String)>,
    /// How often it was restarted before it failed,
    pub rejuvenations: usize,
    /// and what that cost: right answers that the baseline would have given in the seconds that were bad after them.
    pub rejuvenation_cost: f64,
    /// The most memory of all its processes, in bytes.
    pub memory_peak: u64,
    /// Whether something is used up, by process and resource.
    pub ageing: Vec<ResourceAgeing>,
    /// Whether that was not to be judged (`[verdict] ageing = false`).
    #[serde(default)]
    pub ageing_ignored: bool,
    /// The host's memory that was available at the end, in bytes.
    pub memory_available: Option<u64>,
    /// Processor time of the system a request that ended, in microseconds.
    pub processor_per_request: f64,
    /// The load's own doing.
    pub generator: Generator,
    /// What watching the system used, in parts of a processor.
    pub watching: f64,
    /// Requests whose answers were wrong: the first 20.
    #[serde(default)]
    pub wrong_requests: Vec<u64>,
    /// What the server holds against what clients saw; examples of it as well.
    pub audit: Option<AuditOutcome>,
    /// Errors in words.
    pub said: BTreeSet<String>,
    /// What hosts, programs and commands it was measured with.
    pub environment: BTreeMap<String, String>,
    /// Offset of each agent's clock, in seconds, and how sure it is.
    pub clocks: Vec<(f64, f64)>,
}

/// What the load generator itself used, and could not do.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Generator {
    /// Agents.
    pub agents: usize,
    /// The longest that a request began after its time, in microseconds; of each second the longest, their median,
    pub lag_median: u64,
    /// and the longest of all.
    pub lag_max: u64,
    /// Requests that should have begun and did not.
    pub held_back: u64,
    /// Processor time a request, in microseconds.
    pub processor_per_request: f64,
    /// In parts of a processor.
    pub processor: f64,
    /// Resident memory of all agents at the beginning and at the end, in bytes.
    pub memory_first_last: (u64, u64),
}

/// A cell's time series and events, for charts.
#[derive(Debug, Default)]
pub struct CellSeries {
    /// What agents saw.
    pub load: Series<LoadPoint>,
    /// What was seen on the host of the system.
    pub system: Series<SystemPoint>,
    /// What happened, in the order of time.
    pub events: Vec<Event>,
    /// What that tells together.
    pub timeline: Timeline,
    /// Requests that are named, each with what was found of it: `wrong 5`, `lost 7`.
    pub named_requests: Vec<String>,
}

/// Requests of a kind that are named among the figures.
const EXAMPLES: usize = 20;

/// A second, as far as it matters for all that is not drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Brief {
    right: u64,
    ended: u64,
    begun: u64,
    held_back: u64,
    clients: u64,
    lag: u64,
    memory: u64,
}

impl Figures {
    /// Reads the files of a cell, also of one that still runs or was killed.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(
        cell: &CellDirectory,
        experiment: &Experiment,
    ) -> Result<(Self, CellSeries), RecordError> {
        let mut load = Series::default();
        let mut series = CellSeries::default();
        let mut all = MergedSecond::new(0);
        let mut seconds: Vec<Brief> = Vec::new();
        let which = cell.cell()?;
        let swept = experiment.of_cell(&which);
        let experiment = &swept.map_err(|error| cell.damaged(CELL, 1, &error))?;
        for (line, second) in cell.load()?.enumerate() {
            let second = second?;
            let mut merged = MergedSecond::new(second.second);
            merged.add(&second).map_err(|error| cell.damaged(LOAD, line + 1, &error))?;
            let at = second.second as usize;
            seconds.resize(seconds.len().max(at + 1), Brief::default());
            seconds[at].add(&merged);
            all.merge(&merged);
            load.add(second.second, merged);
        }
        let values = which.values;
        let mut usage = Usage::new(&seconds);
        let (mut probes, mut answered, mut watching, mut watched) = (0_u64, 0_u64, 0_u64, 0_u64);
        for second in cell.system()? {
            let second = second?;
            if let Some(probe) = &second.probe {
                probes += 1;
                answered += u64::from(probe.is_ok());
            }
            watching += second.watching;
            watched += 1;
            usage.add(&second);
            series.system.add(second.second, SystemPoint::from(&second));
        }
        while load.width < series.system.width {
            load.coarsen();
        }
        while series.system.width < load.width {
            series.system.coarsen();
        }
        series.load = load.map(LoadPoint::from);
        series.events = cell.events()?.collect::<Result<_, _>>()?;
        series.events.sort_by(|a, b| a.at.total_cmp(&b.at));
        series.timeline = Timeline::of(&series.events);
        for failure in &mut series.timeline.failures {
            // When it was said, not all agents had told of the seconds before.
            failure.after_requests = right_until(&seconds, failure.since);
        }
        let failed_at = Timeline::gravest(&series.timeline.failures).map(|failure| failure.since);
        let outcome = cell.outcome()?;
        let lasted = outcome.as_ref().map_or(seconds.len() as f64, |outcome| outcome.seconds);
        let goodput = |part: &[Brief]| {
            median(&mut part.iter().map(|second| second.right as f64).collect::<Vec<_>>())
        };
        let tenth = seconds.len().div_ceil(10);
        let (first, last) = (&seconds[..tenth], &seconds[seconds.len() - tenth..]);
        let baseline = outcome.as_ref().map_or_else(|| goodput(first), |of| Some(of.baseline));
        let baseline = baseline.unwrap_or(0.0);
        let ended = all.outcomes.total();
        let good = good_seconds(&seconds, baseline, experiment);
        let rate = |count: u64, by: f64| if by > 0.0 { count as f64 / by } else { 0.0 };
        all.wrong_requests.sort_unstable();
        let mut audit = outcome.as_ref().and_then(|of| of.audit.clone());
        let wrong = all.wrong_requests.iter().map(|number| format!("wrong {number}"));
        series.named_requests = wrong.collect();
        if let Some(audit) = &mut audit {
            series.named_requests.extend(audit.examples.iter().cloned());
            audit.examples.truncate(EXAMPLES);
        }
        let figures = Self {
            system: filled(&experiment.system.name, &values),
            cell: cell.name().to_owned(),
            values,
            repetition: cell.repetition(),
            ended: outcome.as_ref().map(|of| of.ended.clone()),
            seconds: lasted,
            begun: all.begun,
            outcomes: all.outcomes,
            goodput: rate(all.outcomes.right, lasted),
            goodput_median: goodput(&seconds).unwrap_or(0.0),
            goodput_first_last: (goodput(first).unwrap_or(0.0), goodput(last).unwrap_or(0.0)),
            baseline,
            latency: Quantiles::of(&all.latency),
            latency_corrected: latency_corrected(&all, experiment),
            service: Quantiles::of(&all.service),
            refusal: Quantiles::of(&all.refusal),
            dropped_sessions: all.dropped_sessions,
            availability_clients: success_ratio(&all.outcomes, all.held_back),
            seconds_served: part(&good),
            availability_probe: (probes > 0).then(|| answered as f64 / probes as f64),
            failures: series.timeline.failures.clone(),
            agents_lost: series.timeline.agents_lost.clone(),
            stresses: series.timeline.stresses.clone(),
            faults: series.timeline.faults.len(),
            faults_failed: series.timeline.faults_failed.clone(),
            rejuvenations: series.timeline.rejuvenations.len(),
            rejuvenation_cost: rejuvenation_cost(&series.events, &seconds, baseline),
            memory_peak: usage.memory_peak,
            memory_available: usage.memory_available,
            processor_per_request: rate(usage.processor, ended as f64),
            ageing: if experiment.verdict.ageing {
                usage.ageing(experiment.verdict, failed_at)
            } else {
                Vec::new()
            },
            ageing_ignored: !experiment.verdict.ageing,
            generator: Generator {
                agents: all.agents.len(),
                lag_median: middle(seconds.iter().map(|second| second.lag)),
                lag_max: all.lag,
                held_back: all.held_back,
                processor_per_request: rate(all.processor, ended as f64),
                processor: rate(all.processor, lasted * 1e6),
                memory_first_last: (
                    seconds.first().map_or(0, |second| second.memory),
                    seconds.last().map_or(0, |second| second.memory),
                ),
            },
            watching: rate(watching, watched as f64 * 1e6),
            wrong_requests: all.wrong_requests.iter().copied().take(EXAMPLES).collect(),
            audit,
            said: all.said,
            operations: all.operations,
            environment: outcome.as_ref().map(|of| of.environment.clone()).unwrap_or_default(),
            clocks: outcome.map(|of| of.clocks).unwrap_or_default(),
        };
        Ok((figures, series))
    }
}

/// In a closed loop a client makes a request in the time of its answer, the median, and of its pause.
fn latency_corrected(all: &MergedSecond, experiment: &Experiment) -> Option<Quantiles> {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let workload = &experiment.workload;
    let is_closed = matches!(workload.arrivals, Arrivals::Closed);
    let usual = all.service.value_at_quantile(0.5).saturating_add(micros(workload.think.mean));
    let interval = is_closed.then_some(usual.max(1));
    Quantiles::of(&corrected(all, micros(workload.deadline), interval))
}

impl Brief {
    fn add(&mut self, seen: &MergedSecond) {
        self.right += seen.outcomes.right;
        self.ended += seen.outcomes.total();
        self.begun += seen.begun;
        self.held_back += seen.held_back;
        self.clients += seen.clients;
        self.lag = self.lag.max(seen.lag);
        self.memory += seen.memory;
    }
}

/// The system's name with the matrix's words in it.
fn filled(name: &str, values: &BTreeMap<String, String>) -> String {
    values
        .iter()
        .fold(name.to_owned(), |name, (word, value)| name.replace(&format!("{{{word}}}"), value))
}

fn middle(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Right answers in time, of all requests that should have had one. One that its client left needed none.
fn success_ratio(of: &Outcomes, held_back: u64) -> Option<f64> {
    let all = of.total() - of.abandoned + held_back;
    (all > 0).then(|| of.right as f64 / all as f64)
}

fn part(good: &[bool]) -> Option<f64> {
    let count = good.iter().filter(|good| **good).count();
    (!good.is_empty()).then(|| count as f64 / good.len() as f64)
}

/// Right answers until a moment. What was right in the second in which a process ended came before its end; of one that was
/// found by whole seconds nothing did.
fn right_until(seconds: &[Brief], at: f64) -> u64 {
    let before = seconds.iter().enumerate().take_while(|(second, _)| (*second as f64) < at);
    before.map(|(_, second)| second.right).sum()
}

/// Of each second with load, whether the system served. A closed loop offers what the system can take, as far as its clients
/// are there (agents may be lost); an open one what its arrivals say, and a second in which nothing began, ended or was under
/// way has no load.
fn good_seconds(seconds: &[Brief], baseline: f64, experiment: &Experiment) -> Vec<bool> {
    let is_closed = matches!(experiment.workload.arrivals, Arrivals::Closed);
    let all = seconds.iter().map(|second| second.clients).max().unwrap_or(0);
    let (mut under_way, mut good) = (0_u64, Vec::new());
    for second in seconds {
        under_way += second.begun;
        let loaded = match is_closed {
            true => all == 0 || second.clients > 0,
            false => under_way + second.ended + second.held_back > 0,
        };
        if loaded {
            let offered = (second.begun + second.held_back) as f64;
            let there = if all == 0 { 1.0 } else { second.clients as f64 / all as f64 };
            let due = if is_closed { baseline * there } else { baseline.min(offered) };
            let degraded = (second.right as f64) < experiment.watchdog.degraded_below * due;
            let silent = second.right == 0 && (is_closed || second.ended > 0 || offered > 0.0);
            good.push(!degraded && !silent);
        }
        under_way = under_way.saturating_sub(second.ended);
    }
    good
}

/// What preventive restarts have cost: from each until the system has recovered, what the baseline would have given
/// and was not had.
fn rejuvenation_cost(events: &[Event], seconds: &[Brief], baseline: f64) -> f64 {
    let mut cost = 0.0;
    for (at, event) in events.iter().enumerate() {
        if !matches!(event.what, Happening::Rejuvenated { .. }) {
            continue;
        }
        let mut later = events[at + 1..].iter();
        let well = later
            .find(|of| matches!(of.what, Happening::Recovered | Happening::Rejuvenated { .. }));
        let until = well.map_or(f64::INFINITY, |of| of.at);
        let span = seconds.iter().enumerate();
        let span = span.filter(|(second, _)| (event.at.floor()..until).contains(&(*second as f64)));
        cost += span.map(|(_, second)| (baseline - second.right as f64).max(0.0)).sum::<f64>();
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;

    fn seconds(of: &[(u64, u64, u64)]) -> Vec<Brief> {
        let brief = |&(begun, right, ended)| Brief { begun, right, ended, ..Brief::default() };
        of.iter().map(brief).collect()
    }

    fn experiment(arrivals: &str) -> Experiment {
        let text = format!(
            "name = \"a\"\nsystem = {{ name = \"a\", url = \"http://127.0.0.1:1/\" }}\n\
             workload = {{ clients = 2, requests = 9{arrivals} }}\noperation = [{{ name = \"add\" }}]\n"
        );
        toml::from_str(&text).expect("it is one")
    }

    #[test]
    fn a_closed_loop_always_offers_load_and_an_open_one_when_it_says() {
        let closed = experiment("");
        // Well; degraded; all clients wait for a server that hangs.
        let seen = seconds(&[(100, 100, 100), (12, 10, 10), (0, 0, 0)]);
        assert_eq!(good_seconds(&seen, 100.0, &closed), [true, false, false]);
        // Three of four agents are lost; then all, and nobody asks.
        let mut seen = seconds(&[(100, 100, 100), (25, 25, 25), (0, 0, 0)]);
        (seen[0].clients, seen[1].clients) = (8, 2);
        assert_eq!(good_seconds(&seen, 100.0, &closed), [true, true]);
        let open =
            experiment(", arrivals = { distribution = \"burst\", size = 10, every = \"3s\" }");
        // A burst that is answered, a pause, a burst that is not, until the second after it.
        let seen = seconds(&[(10, 10, 10), (0, 0, 0), (10, 0, 0), (0, 10, 10), (0, 0, 0)]);
        assert_eq!(good_seconds(&seen, 4.0, &open), [true, false, true]);
    }

    #[test]
    fn availability_to_clients_counts_each_request_that_had_no_right_answer_in_time() {
        let right = Outcomes { right: 60, ..Outcomes::default() };
        assert_eq!(success_ratio(&right, 0), Some(1.0));
        assert_eq!(success_ratio(&right, 20), Some(0.75), "held back");
        for outcome in Outcome::ALL {
            let mut with = right;
            *with.count_mut(outcome) += 20;
            let available = match outcome {
                Outcome::Right | Outcome::Abandoned => 1.0,
                _ => 0.75,
            };
            assert_eq!(success_ratio(&with, 0), Some(available), "{outcome:?}");
        }
        assert_eq!(success_ratio(&Outcomes { abandoned: 9, ..Outcomes::default() }, 0), None);
    }

    #[test]
    fn requests_until_a_failure_are_those_before_it_began() {
        let seen = seconds(&[(9, 9, 9), (8, 8, 8), (3, 3, 3), (0, 0, 0)]);
        assert_eq!([-3.0, 0.0, 2.0, 2.4, 9.0].map(|at| right_until(&seen, at)), [0, 0, 17, 20, 20]);
    }

    #[test]
    fn a_rejuvenation_costs_what_the_baseline_would_have_given_until_it_is_well() {
        let event = |at, what| Event { at, what };
        let because = "memory".to_owned();
        let events = [
            event(1.2, Happening::Rejuvenated { because }),
            event(2.5, Happening::Answered),
            event(3.5, Happening::Recovered),
        ];
        let seen = seconds(&[(0, 100, 0), (0, 40, 0), (0, 0, 0), (0, 95, 0), (0, 0, 0)]);
        assert_eq!(rejuvenation_cost(&events, &seen, 100.0), 60.0 + 100.0 + 5.0);
        assert_eq!(rejuvenation_cost(&[], &seen, 100.0), 0.0);
    }
}
