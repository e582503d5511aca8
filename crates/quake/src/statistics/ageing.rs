//! Whether a server uses something up: memory, descriptors, threads.
//!
//! Memory of a server with a garbage collector goes up and down like a saw; what ages is its floor, what is left
//! after each collection. So the seconds are put into batches, and the least of each stands for it (batch means, with
//! minima). Batches are made longer until neighbours tell nothing of each other; with fewer than 12 left, nothing
//! is said. A server that warms up grows ever more slowly, one that leaks does not: a rise has to be in the later half
//! too, and as steep. What can't be decided of the whole is looked at again without its initial transient ([`transient`]), for
//! whether it is flat, and at last, there and in its later half, for whether it rises at all ([`Ageing::still`]).

use serde::{Deserialize, Serialize};

use super::trend::{MannKendall, Slope, Z95, autocorrelation, residuals};

/// The most batches; more would tell little more of a slope.
const MOST: usize = 64;
/// The fewest of which anything is said.
const FEWEST: usize = 12;
/// Neighbours with less than this rank correlation count as independent (the rest is in the variance).
const DEPENDENT: f64 = 0.3;

/// How much wider bounds are than 1.96 standard deviations, by batches: what it costs that correlation is estimated, too.
/// Found by simulation (`simulation`), as bounds that hold in 95 of 100 runs.
const ESTIMATED: f64 = 9.0;

/// How much growth counts. Settings of an experiment (`[verdict]`).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Criteria {
    /// Whether ageing is judged at all. Where a configuration lives for half a minute, or is restarted as often, nobody can tell
    /// a leak from memory that comes to its level.
    pub ageing: bool,
    /// Growth over the whole run by less than this part of what is used is no leak, even if it is sure.
    pub negligible: f64,
    /// Growth over the whole run by fewer descriptors or threads is none: they come and go by ones.
    pub negligible_count: f64,
    /// To be called flat, growth over the whole run by this part must be excluded.
    pub flat_within: f64,
}

impl Default for Criteria {
    fn default() -> Self {
        Self { ageing: true, negligible: 0.01, negligible_count: 5.0, flat_within: 0.05 }
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
    /// Of the samples of one life of a process, without its warm-up. `least` is the smallest growth that counts: what the
    /// kernel counts pages by, some descriptors.
    pub fn of(samples: &[Sample], criteria: Criteria, least: f64) -> Self {
        let whole = Self::judged(samples, samples, criteria, least);
        if !matches!(whole.judgement, Judgement::Undecided(_)) {
            return whole;
        }
        let settled = &samples[transient(samples)..];
        let again = Self::judged(settled, samples, criteria, least);
        if again.judgement == Judgement::Flat {
            return again;
        }
        let later = &samples[samples.len() / 2..];
        [settled, later]
            .into_iter()
            .find_map(|part| Self::still(part, samples, criteria, least))
            .unwrap_or(whole)
    }

    /// What hardly rises is flat, however its samples depend on each other: a garbage collector's heap that creeps to its level has
    /// few batches, and the growth to be excluded would have raised it at least twice as far as it ever rose. The bounds are those
    /// of all its movement as a trend.
    fn still(part: &[Sample], all: &[Sample], criteria: Criteria, least: f64) -> Option<Self> {
        if part.len() < FEWEST {
            return None;
        }
        let level = super::median(&mut part.iter().map(|at| at.value).collect::<Vec<_>>())?;
        let lasted = |of: &[Sample], along: Along| Some(along(of.last()?) - along(of.first()?));
        // From what was lowest before.
        let (mut low, mut high, mut rise) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
        for Sample { value, .. } in part {
            (low, high) = (low.min(*value), high.max(*value));
            rise = rise.max(value - low);
        }
        let share = lasted(part, seconds)? / lasted(all, seconds)?;
        if 2.0 * rise > (criteria.flat_within * level).max(least) * share {
            return None;
        }
        let grown = part.last()?.value - part.first()?.value;
        let over = |length: f64| {
            let slope = Slope { slope: grown, lower: low - high, upper: rise };
            (length > 0.0).then(|| slope.times(1.0 / length))
        };
        Some(Self {
            judgement: Judgement::Flat,
            per_request: over(lasted(part, requests)?),
            per_hour: over(lasted(part, seconds)? / 3600.0),
            level,
            since: part.first()?.second,
            until: part.last()?.second,
            batches: part.len(),
            z: 0.0,
        })
    }

    /// Of a part of all samples: what would grow over all, at the rate of this part.
    fn judged(samples: &[Sample], all: &[Sample], criteria: Criteria, least: f64) -> Self {
        let (earlier, later) = samples.split_at(samples.len() / 2);
        let (judged, trend) = match Stretch::of(samples) {
            Some(whole) if !whole.rises() => (Some(whole), Trend::None),
            Some(whole) => match whole.trend(earlier, later) {
                Trend::Slowing => (Stretch::of(later), Trend::Slowing),
                trend => (Some(whole), trend),
            },
            None => (Stretch::of(later), Trend::Slowing),
        };
        let Some(judged) = judged else { return Self::none(samples) };
        let span = |from: &Sample, to: &Sample| (judged.along)(to) - (judged.along)(from);
        let lasted = all.first().zip(all.last()).map_or(0.0, |(from, to)| span(from, to));
        let most = judged.steepness.upper * lasted;
        let is_within = |part: f64| most <= (part * judged.level).max(least);
        // What rises surely, but by less than there can be seen of it, rises by chance of how it is counted.
        let trend = match trend {
            Trend::Steady if judged.steepness.lower * lasted < least => Trend::None,
            trend => trend,
        };
        let judgement = match trend {
            _ if is_within(criteria.negligible) => Judgement::Flat,
            Trend::Steady => Judgement::Rising,
            Trend::None | Trend::Slowing if is_within(criteria.flat_within) => Judgement::Flat,
            Trend::Slowing if judged.rises() => {
                Judgement::Undecided("it grows ever more slowly: run longer".to_owned())
            }
            Trend::Unsure => {
                Judgement::Undecided("it grew, but not surely to the end: run longer".to_owned())
            }
            Trend::None | Trend::Slowing => {
                let percent = 100.0 * most / judged.level.max(least);
                Judgement::Undecided(format!(
                    "growth by {percent:.0} % can't be excluded: run longer"
                ))
            }
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
        let why = if few { "too few samples" } else { "it grows unsteadily or swings slowly" };
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

/// What values are drawn over.
type Along = fn(&Sample) -> f64;

fn seconds(of: &Sample) -> f64 {
    of.second
}

fn requests(of: &Sample) -> f64 {
    of.requests
}

/// How a stretch rises.
#[derive(Clone, Copy, Debug)]
enum Trend {
    /// Not surely.
    None,
    /// Surely, in its later half too, and as steeply.
    Steady,
    /// Surely less steeply in its later half; or so unsteadily that only that can be judged.
    Slowing,
    /// Surely, but whether still in its later half is not sure.
    Unsure,
}

/// A part of the samples, in batches that are independent enough.
#[derive(Debug)]
struct Stretch {
    /// Samples in a batch.
    length: usize,
    /// What explains the values better: time, or requests.
    along: Along,
    /// The slope over that.
    steepness: Slope,
    test: MannKendall,
    per_second: Slope,
    per_request: Option<Slope>,
    level: f64,
    since: f64,
    until: f64,
    batches: usize,
}

impl Stretch {
    /// In the shortest batches that are independent enough, along what explains them better: a leak a request is a line
    /// over requests, also when a server becomes slower. None if they are too few then.
    fn of(samples: &[Sample]) -> Option<Self> {
        let mut length = samples.len().div_ceil(MOST).max(1);
        loop {
            let floors: Vec<Sample> = samples.chunks_exact(length).map(floor).collect();
            if floors.len() < FEWEST {
                return None;
            }
            let values: Vec<f64> = floors.iter().map(|at| at.value).collect();
            let dependence = |along: Along| {
                let at: Vec<f64> = floors.iter().map(along).collect();
                autocorrelation(&residuals(&at, &values), 1)
            };
            let (by_time, by_requests) = (dependence(seconds), dependence(requests));
            if by_time.min(by_requests) <= DEPENDENT {
                let along = if by_requests < by_time { requests } else { seconds };
                return Self::with(samples, length, along);
            }
            length += length.div_ceil(2);
        }
    }

    /// In batches of this length.
    fn with(samples: &[Sample], length: usize, along: Along) -> Option<Self> {
        let floors: Vec<Sample> = samples.chunks_exact(length).map(floor).collect();
        let column = |of: Along| floors.iter().map(of).collect::<Vec<f64>>();
        let mut values = column(|at| at.value);
        let test = MannKendall::correlated(&column(along), &values);
        let z = Z95 * (1.0 + ESTIMATED / floors.len() as f64);
        let slope = |along: Along| Slope::of(&column(along), &values, &test, z);
        Some(Self {
            length,
            along,
            steepness: slope(along)?,
            per_second: slope(seconds)?,
            per_request: slope(requests),
            since: samples.first()?.second,
            until: samples.last()?.second,
            batches: floors.len(),
            test,
            level: super::median(&mut values)?,
        })
    }

    /// How it rises, if it does: by its halves, in batches as long as its own.
    fn trend(&self, earlier: &[Sample], later: &[Sample]) -> Trend {
        let halves = (self.part(earlier), self.part(later));
        let (Some(earlier), Some(later)) = halves else { return Trend::Unsure };
        match () {
            () if later.steepness.upper < earlier.steepness.lower => Trend::Slowing,
            () if later.rises() => Trend::Steady,
            () => Trend::Unsure,
        }
    }

    fn part(&self, samples: &[Sample]) -> Option<Self> {
        Self::with(samples, self.length, self.along)
    }

    /// Whether it surely does: 97.5 %, one-sided, as the bounds have it.
    fn rises(&self) -> bool {
        self.test.z() > Z95
    }
}

/// How many samples at the beginning are of the initial transient: those without which the mean of the rest has the least
/// standard error (marginal standard error rule, MSER: White, An effective truncation heuristic for bias reduction in
/// simulation output, Simulation 69, 1997). At most half of them, as there.
fn transient(samples: &[Sample]) -> usize {
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut least = (f64::INFINITY, 0);
    for (begin, sample) in samples.iter().enumerate().rev() {
        let count = (samples.len() - begin) as f64;
        let apart = sample.value - mean;
        mean += apart / count;
        squares += apart * (sample.value - mean);
        let error = squares / (count * count);
        if begin <= samples.len() / 2 && error <= least.0 {
            least = (error, begin);
        }
    }
    least.1
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
