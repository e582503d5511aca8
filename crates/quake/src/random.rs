//! Every random choice, from the experiment's seed. A stream of choices (the times of arrivals, one request) has a
//! generator of its own: what one of them draws changes no other, whoever draws it and when.

use std::f64::consts::TAU;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A generator (xoshiro256++): the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

/// What is drawn from a generator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The times of arrivals.
    Arrivals,
    /// The operation and the words of the request of this number.
    Request(u64),
    /// When the fault of this place in the experiment comes.
    Fault(u32),
    /// The pauses of this client.
    Think(u32),
}

impl Random {
    /// The generator of a stream.
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let (kind, number) = match stream {
            Stream::Arrivals => (1, 0),
            Stream::Request(number) => (2, number),
            Stream::Think(client) => (3, u64::from(client)),
            Stream::Fault(place) => (4, u64::from(place)),
        };
        // Seeding scrambles (SplitMix64): neighbours become strangers.
        let scrambled: u64 = Xoshiro256PlusPlus::seed_from_u64(seed ^ (kind << 60)).random();
        Self(Xoshiro256PlusPlus::seed_from_u64(scrambled ^ number))
    }

    /// A whole number, both ends included.
    pub(crate) fn whole(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// One of so many, from 0.
    pub(crate) fn index(&mut self, of: usize) -> usize {
        self.0.random_range(0..of)
    }

    /// 0 or more, below 1.
    pub(crate) fn part(&mut self) -> f64 {
        self.0.random()
    }

    /// Exponential, by inversion.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }

    /// Normal (Box and Muller 1958), cut at zero.
    pub(crate) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.part()).ln()).sqrt();
        let standard = radius * (TAU * self.part()).cos();
        (mean + deviation * standard).max(0.0)
    }

    /// Random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_same_each_time_and_unlike_each_other() {
        let draw = |seed, stream| Random::new(seed, stream).whole(0, i64::MAX);
        assert_eq!(draw(1, Stream::Request(7)), draw(1, Stream::Request(7)));
        let drawn = [
            draw(1, Stream::Request(7)),
            draw(1, Stream::Request(8)),
            draw(2, Stream::Request(7)),
            draw(1, Stream::Arrivals),
            draw(1, Stream::Think(7)),
        ];
        for (at, one) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(one));
        }
    }

    #[test]
    fn mean_and_variance_are_what_they_should_be() {
        let moments = |draw: fn(&mut Random) -> f64| {
            let mut random = Random::new(1, Stream::Arrivals);
            let drawn: Vec<f64> = (0..200_000).map(|_| draw(&mut random)).collect();
            let count = 200_000.0;
            let mean = drawn.iter().sum::<f64>() / count;
            let square = drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
            (mean, square)
        };
        let close = |found: (f64, f64), mean: f64, variance: f64| {
            assert!((found.0 / mean - 1.0).abs() < 0.01, "mean {} for {mean}", found.0);
            assert!((found.1 / variance - 1.0).abs() < 0.02, "variance {} for {variance}", found.1);
        };
        close(moments(|random| random.exponential(3.0)), 3.0, 9.0);
        close(moments(|random| random.normal(5.0, 1.0)), 5.0, 1.0);
        close(moments(Random::part), 0.5, 1.0 / 12.0);
    }
}
