//! When requests begin in an open loop: one schedule for all agents, of which each takes its part.

use std::time::Duration;

use crate::experiment::{Arrivals, Workload};
use crate::random::{Random, Stream};

/// A request that is to begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// Its number, over all agents.
    pub(super) number: u64,
    /// After the common start.
    pub(super) at: Duration,
}

/// The arrivals of one agent, in order. Each agent draws all of them and takes every `agents`th, so that together they
/// make the one schedule of the seed, however many they are.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    random: Random,
    /// The last arrival, in seconds.
    at: f64,
    /// How many were drawn.
    drawn: u64,
    /// All ends after so many seconds, and so many arrivals.
    duration: f64,
    requests: u64,
    agent: u64,
    agents: u64,
}

impl Schedule {
    pub(super) fn new(workload: &Workload, seed: u64, agent: u32, agents: u32) -> Self {
        Self {
            arrivals: workload.arrivals.clone(),
            random: Random::new(seed, Stream::Arrivals),
            at: 0.0,
            drawn: 0,
            duration: workload.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64()),
            requests: workload.requests.unwrap_or(u64::MAX),
            agent: agent.into(),
            agents: agents.max(1).into(),
        }
    }

    /// Whether it has ended because all requests were made, not because its time was over.
    pub(super) fn has_made_all(&self) -> bool {
        self.drawn > self.requests
    }

    /// The next arrival of any agent, in seconds.
    fn draw(&mut self) -> f64 {
        match &self.arrivals {
            // No open loop: all at once, for whoever asks.
            Arrivals::Closed => self.at,
            #[expect(clippy::cast_precision_loss, reason = "below 2^53 arrivals")]
            Arrivals::Soak { rate } => self.drawn as f64 / rate,
            Arrivals::Poisson { rate } => self.at + self.random.exponential(1.0 / rate),
            Arrivals::Normal { rate, deviation } => {
                self.at + self.random.normal(1.0 / rate, deviation / rate)
            }
            #[expect(clippy::cast_precision_loss, reason = "below 2^53 bursts")]
            Arrivals::Burst { size, every } => {
                (self.drawn / u64::from(*size)) as f64 * every.as_secs_f64()
            }
            Arrivals::Spike { .. } | Arrivals::Step { .. } => {
                let mass = self.random.exponential(1.0);
                self.after(mass)
            }
            Arrivals::Ramp { from, to } => {
                let (from, slope) = (*from, (to - from) / self.duration);
                let mass = self.random.exponential(1.0);
                ramp(from, slope, self.at, mass)
            }
        }
    }

    /// The time at which the rate, added up from the last arrival, is `mass`: a Poisson process with a rate that is
    /// constant piece by piece (time change: Cinlar 1975, section 4.7).
    fn after(&self, mut mass: f64) -> f64 {
        let mut at = self.at;
        loop {
            let (rate, until) = self.piece(at);
            let whole = rate * (until - at);
            if mass <= whole {
                return at + mass / rate;
            }
            mass -= whole;
            at = until;
        }
    }

    /// The rate at a time, and how long it stays.
    fn piece(&self, at: f64) -> (f64, f64) {
        match &self.arrivals {
            Arrivals::Spike { rate, peak, every, length } => {
                let (every, length) = (every.as_secs_f64(), length.as_secs_f64());
                // The small part keeps the end of a piece from being its beginning again by rounding.
                let begin = (at / every + 1e-9).floor() * every;
                if begin > 0.0 && at + 1e-9 * every < begin + length {
                    (*peak, begin + length)
                } else {
                    (*rate, begin + every)
                }
            }
            Arrivals::Step { rates } => {
                #[expect(clippy::cast_precision_loss, reason = "a few steps")]
                let step = self.duration / rates.len() as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a time is not negative, and a cast saturates"
                )]
                let index = (at / step + 1e-9) as usize;
                match rates.get(index) {
                    #[expect(clippy::cast_precision_loss, reason = "a few steps")]
                    Some(rate) => (*rate, (index + 1) as f64 * step),
                    None => (rates.last().copied().unwrap_or(1.0), f64::INFINITY),
                }
            }
            _ => (1.0, f64::INFINITY),
        }
    }
}

/// The time at which a rate of `from + slope * t`, added up from `at`, is `mass`.
fn ramp(from: f64, slope: f64, at: f64, mass: f64) -> f64 {
    let rate = from + slope * at;
    let square = rate * rate + 2.0 * slope * mass;
    // A rate that falls to nothing may never give that much.
    if square <= 0.0 { f64::INFINITY } else { at + 2.0 * mass / (rate + square.sqrt()) }
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            self.at = self.draw();
            let number = self.drawn;
            self.drawn += 1;
            if number >= self.requests || self.at >= self.duration {
                return None;
            }
            if number % self.agents == self.agent {
                return Some(Arrival { number, at: Duration::try_from_secs_f64(self.at).ok()? });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, seconds: u64, agent: u32, agents: u32) -> Vec<Arrival> {
        let workload =
            Workload { arrivals, duration: Some(Duration::from_secs(seconds)), ..Workload::of(1) };
        Schedule::new(&workload, 7, agent, agents).collect()
    }

    fn gaps(arrivals: &[Arrival]) -> (f64, f64) {
        let gaps: Vec<f64> =
            arrivals.windows(2).map(|two| (two[1].at - two[0].at).as_secs_f64()).collect();
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        (mean, gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count)
    }

    fn within(arrivals: &[Arrival], from: f64, to: f64) -> f64 {
        let inside = |arrival: &&Arrival| (from..to).contains(&arrival.at.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let count = arrivals.iter().filter(inside).count() as f64;
        count
    }

    fn close(found: f64, right: f64, part: f64) {
        assert!((found / right - 1.0).abs() < part, "{found} for {right}");
    }

    #[test]
    fn gaps_have_the_mean_and_variance_of_their_distribution() {
        let (mean, variance) = gaps(&schedule(Arrivals::Poisson { rate: 100.0 }, 1000, 0, 1));
        close(mean, 0.01, 0.01);
        close(variance, 0.01 * 0.01, 0.03);
        let normal = Arrivals::Normal { rate: 100.0, deviation: 0.25 };
        let (mean, variance) = gaps(&schedule(normal, 1000, 0, 1));
        close(mean, 0.01, 0.01);
        close(variance, 0.0025 * 0.0025, 0.03);
        let (mean, variance) = gaps(&schedule(Arrivals::Soak { rate: 100.0 }, 1000, 0, 1));
        close(mean, 0.01, 1e-6);
        assert!(variance < 1e-15);
    }

    #[test]
    fn bursts_come_all_at_once() {
        let arrivals =
            schedule(Arrivals::Burst { size: 3, every: Duration::from_secs(2) }, 5, 0, 1);
        let at: Vec<u64> = arrivals.iter().map(|arrival| arrival.at.as_secs()).collect();
        assert_eq!(at, [0, 0, 0, 2, 2, 2, 4, 4, 4]);
    }

    #[test]
    fn spikes_ramps_and_steps_have_their_rates() {
        let (every, length) = (Duration::from_secs(10), Duration::from_secs(2));
        let spike = Arrivals::Spike { rate: 100.0, peak: 1000.0, every, length };
        let arrivals = schedule(spike, 1000, 0, 1);
        let in_spikes: f64 = (1..100)
            .map(|n| within(&arrivals, f64::from(n) * 10.0, f64::from(n) * 10.0 + 2.0))
            .sum();
        close(in_spikes, 99.0 * 2.0 * 1000.0, 0.02);
        let all = within(&arrivals, 0.0, 1000.0);
        close(all - in_spikes, 802.0 * 100.0, 0.02);

        let arrivals = schedule(Arrivals::Ramp { from: 10.0, to: 210.0 }, 1000, 0, 1);
        close(within(&arrivals, 0.0, 500.0), 30_000.0, 0.02);
        close(within(&arrivals, 500.0, 1000.0), 80_000.0, 0.02);
        let arrivals = schedule(Arrivals::Ramp { from: 200.0, to: 20.0 }, 1000, 0, 1);
        close(within(&arrivals, 0.0, 1000.0), 110_000.0, 0.02);

        let arrivals = schedule(Arrivals::Step { rates: vec![50.0, 500.0, 100.0] }, 300, 0, 1);
        for (step, rate) in [(0.0, 50.0), (1.0, 500.0), (2.0, 100.0)] {
            close(within(&arrivals, step * 100.0, step * 100.0 + 100.0), rate * 100.0, 0.05);
        }
    }

    #[test]
    fn agents_together_make_the_schedule_of_one() {
        let arrivals = Arrivals::Poisson { rate: 50.0 };
        let alone = schedule(arrivals.clone(), 20, 0, 1);
        assert_eq!(alone, schedule(arrivals.clone(), 20, 0, 1), "the same from the same seed");
        let mut together: Vec<Arrival> =
            (0..3).flat_map(|agent| schedule(arrivals.clone(), 20, agent, 3)).collect();
        together.sort_by_key(|arrival| arrival.number);
        assert_eq!(together, alone);
    }

    #[test]
    fn a_schedule_ends_with_its_requests() {
        let workload = Workload {
            arrivals: Arrivals::Poisson { rate: 1.0 },
            requests: Some(10),
            ..Workload::of(1)
        };
        assert_eq!(Schedule::new(&workload, 1, 0, 1).count(), 10);
    }
}
