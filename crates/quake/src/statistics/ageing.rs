//! Whether a server uses something up: memory, descriptors, threads.
//!
//! Memory of a server with a garbage collector goes up and down like a saw; what ages is its floor, what is left
//! after each collection. So the seconds are put into batches, and the least of each stands for it (batch means, with
//! minima). Batches are made longer until neighbours tell nothing of each other; with fewer than 12 left, nothing
//! is said. A server that warms up grows ever more slowly, one that leaks does not: a rise has to be in the later half
//! too, and as steep.

use serde::{Deserialize, Serialize};

use super::trend::{MannKendall, Slope, Z95, autocorrelation, residuals};

/// The most batches; more would tell little more of a slope.
const MOST: usize = 96;
/// The fewest of which anything is said.
const FEWEST: usize = 12;
/// Neighbours with less than this rank correlation count as independent (the rest is in the variance).
const DEPENDENT: f64 = 0.3;

/// How much growth counts. Settings of an experiment (`[verdict]`).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Criteria {
    /// Growth over the whole run by less than this part of what is used is no leak, even if it is sure.
    pub negligible: f64,
    /// To be called flat, growth over the whole run by this part must be excluded.
    pub flat_within: f64,
}

impl Default for Criteria {
    fn default() -> Self {
        Self { negligible: 0.01, flat_within: 0.05 }
    }
}

/// What is used of a resource at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the common start.
    pub second: f64,
    /// Right answers until then.
    pub requests: f64,
    /// How much is used.
    pub value: f64,
}

/// What can be said.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It is used up.
    Rising,
    /// It is not, within the bounds.
    Flat,
    /// Too little was seen, and what would help.
    Undecided(String),
}

/// Whether a resource is used up.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ageing {
    /// What can be said.
    pub judgement: Judgement,
    /// Growth a request, 95 %; none if there were too few batches, or no requests.
    pub per_request: Option<Slope>,
    /// Growth an hour.
    pub per_hour: Option<Slope>,
    /// The floor in the middle of what was judged.
    pub level: f64,
    /// From which second on it was judged: later than the first if it had to settle.
    pub since: f64,
    /// To which second.
    pub until: f64,
    /// How many batches.
    pub batches: usize,
    /// The test: standard deviations from no trend.
    pub z: f64,
}

impl Ageing {
    /// Of the samples of one life of a process, without its warm-up. `least` is the smallest growth that there is:
    /// a page, a descriptor.
    pub fn of(samples: &[Sample], criteria: Criteria, least: f64) -> Self {
        let Some(whole) = Stretch::of(samples) else { return Self::none(samples) };
        let halves = samples.split_at(samples.len() / 2);
        let (earlier, later) = (Stretch::of(halves.0), Stretch::of(halves.1));
        let (judged, slowing) = match (&earlier, &later) {
            (_, Some(later)) if whole.rises() && !later.rises() => (later, true),
            (Some(earlier), Some(later)) if whole.rises() => {
                let slowing = later.per_second.upper < earlier.per_second.lower;
                (if slowing { later } else { &whole }, slowing)
            }
            _ => (&whole, false),
        };
        let lasted = whole.until - whole.since;
        let grown = |slope: f64| slope * lasted;
        let part = |part: f64| (part * judged.level).max(least);
        let judgement = if grown(judged.per_second.upper) <= part(criteria.negligible) {
            Judgement::Flat
        } else if judged.rises() && !slowing && later.as_ref().is_some_and(Stretch::rises) {
            Judgement::Rising
        } else if grown(judged.per_second.upper) <= part(criteria.flat_within) {
            Judgement::Flat
        } else if judged.rises() {
            let why = if slowing {
                "it grows ever more slowly"
            } else {
                "it grew, but not surely to the end"
            };
            Judgement::Undecided(format!("{why}: run longer"))
        } else {
            let percent = 100.0 * grown(judged.per_second.upper) / judged.level.max(least);
            Judgement::Undecided(format!("growth by {percent:.0} % can't be excluded: run longer"))
        };
        Self {
            judgement,
            per_request: judged.per_request,
            per_hour: Some(judged.per_second.times(3600.0)),
            level: judged.level,
            since: judged.since,
            until: judged.until,
            batches: judged.batches,
            z: judged.test.z(),
        }
    }

    fn none(samples: &[Sample]) -> Self {
        let level = super::median(&mut samples.iter().map(|at| at.value).collect::<Vec<_>>());
        let at = |sample: Option<&Sample>| sample.map_or(0.0, |sample| sample.second);
        let few = samples.len() < FEWEST;
        let why = if few { "too few samples" } else { "it swings too slowly for so short a run" };
        Self {
            judgement: Judgement::Undecided(format!("{why}: run longer")),
            per_request: None,
            per_hour: None,
            level: level.unwrap_or(0.0),
            since: at(samples.first()),
            until: at(samples.last()),
            batches: 0,
            z: 0.0,
        }
    }
}

impl Slope {
    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        let Self { slope, lower, upper } = self;
        Self { slope: slope * factor, lower: lower * factor, upper: upper * factor }
    }
}

/// A part of the samples, in batches that are independent enough.
#[derive(Debug)]
struct Stretch {
    test: MannKendall,
    per_second: Slope,
    per_request: Option<Slope>,
    level: f64,
    since: f64,
    until: f64,
    batches: usize,
}

impl Stretch {
    fn of(samples: &[Sample]) -> Option<Self> {
        let mut length = samples.len().div_ceil(MOST).max(1);
        loop {
            let floors: Vec<Sample> = samples.chunks_exact(length).map(floor).collect();
            if floors.len() < FEWEST {
                return None;
            }
            let column = |of: fn(&Sample) -> f64| floors.iter().map(of).collect::<Vec<f64>>();
            let (seconds, values) = (column(|at| at.second), column(|at| at.value));
            if autocorrelation(&residuals(&seconds, &values), 1) > DEPENDENT {
                length *= 2;
                continue;
            }
            let test = MannKendall::correlated(&values);
            return Some(Self {
                per_second: Slope::of(&seconds, &values, &test, Z95)?,
                per_request: Slope::of(&column(|at| at.requests), &values, &test, Z95),
                level: super::median(&mut values.clone())?,
                since: samples.first()?.second,
                until: samples.last()?.second,
                batches: floors.len(),
                test,
            });
        }
    }

    /// Whether it surely does: 97.5 %, one-sided, as the bounds have it.
    fn rises(&self) -> bool {
        self.test.z() > Z95
    }
}

/// The least of a batch, in its middle.
fn floor(batch: &[Sample]) -> Sample {
    let mean = |of: fn(&Sample) -> f64| batch.iter().map(of).sum::<f64>() / batch.len() as f64;
    Sample {
        second: mean(|at| at.second),
        requests: mean(|at| at.requests),
        value: batch.iter().map(|at| at.value).fold(f64::INFINITY, f64::min),
    }
}
