//! Time series of a cell with a bounded number of points: when they are too many, neighbours are put together.

use std::collections::BTreeMap;

use crate::record::{MergedSecond, Outcomes, ProcessSample, Quantiles, SystemSecond};

/// The most points: as many as can be told apart in a chart.
const MOST: usize = 240;

/// What can be put together with its later neighbour.
pub trait Point {
    /// Adds what was seen later.
    fn absorb(&mut self, later: &Self);
}

/// Points that stand for `width` seconds each, from second 0 on.
#[derive(Debug)]
pub struct Series<T> {
    /// How many seconds a point stands for.
    pub width: u32,
    /// None where nothing was seen.
    pub points: Vec<Option<T>>,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { width: 1, points: Vec::new() }
    }
}

impl<T: Point> Series<T> {
    /// Adds what was seen in a second.
    pub(super) fn add(&mut self, second: u32, seen: T) {
        while (second / self.width) as usize >= MOST {
            self.coarsen();
        }
        let at = (second / self.width) as usize;
        if self.points.len() <= at {
            self.points.resize_with(at + 1, || None);
        }
        match &mut self.points[at] {
            Some(point) => point.absorb(&seen),
            empty => *empty = Some(seen),
        }
    }

    /// Each point stands for twice as many seconds.
    pub(super) fn coarsen(&mut self) {
        self.width *= 2;
        let mut points = std::mem::take(&mut self.points).into_iter();
        while let Some(first) = points.next() {
            let pair = match (first, points.next().flatten()) {
                (Some(mut first), Some(second)) => {
                    first.absorb(&second);
                    Some(first)
                }
                (first, second) => first.or(second),
            };
            self.points.push(pair);
        }
    }
}

impl<T> Series<T> {
    /// Each point as something else.
    pub(super) fn map<U>(self, of: impl Fn(T) -> U) -> Series<U> {
        let points = self.points.into_iter().map(|point| point.map(&of)).collect();
        Series { width: self.width, points }
    }

    /// The points that there are, each with its first second.
    pub fn seen(&self) -> impl Iterator<Item = (f64, &T)> {
        let width = f64::from(self.width);
        let points = self.points.iter().enumerate();
        points.filter_map(move |(at, point)| Some((at as f64 * width, point.as_ref()?)))
    }
}

/// The load, over some seconds.
#[derive(Clone, Copy, Debug)]
pub struct LoadPoint {
    /// Requests begun.
    pub begun: u64,
    /// Requests that should have begun and did not.
    pub held_back: u64,
    /// What became of those that ended.
    pub outcomes: Outcomes,
    /// From when they should have begun.
    pub latency: Option<Quantiles>,
    /// The generator's longest lag, in microseconds.
    pub lag: u64,
    /// The generator's processor time, in microseconds.
    pub processor: u64,
}

impl From<MergedSecond> for LoadPoint {
    fn from(of: MergedSecond) -> Self {
        Self {
            begun: of.begun,
            held_back: of.held_back,
            outcomes: of.outcomes,
            latency: Quantiles::of(&of.latency),
            lag: of.lag,
            processor: of.processor,
        }
    }
}

impl Point for MergedSecond {
    fn absorb(&mut self, later: &Self) {
        self.merge(later);
    }
}

/// The system, over some seconds.
#[derive(Clone, Debug)]
pub struct SystemPoint {
    /// How many were seen.
    pub seconds: u32,
    /// Its processes.
    pub processes: BTreeMap<String, ProcessPoint>,
    /// The most connections.
    pub connections: u64,
    /// The host's least memory that was available, in bytes.
    pub memory_available: u64,
    /// The host's processor time, added up: of each second 0 to 1.
    pub processor: f64,
    /// The slowest answer to the probe, in microseconds.
    pub probe: Option<u64>,
    /// Probes that were not answered well.
    pub probes_failed: u32,
}

/// A process, over some seconds.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPoint {
    /// The least and the most memory, in bytes.
    pub memory: (u64, u64),
    /// The most descriptors.
    pub descriptors: u64,
    /// The most threads.
    pub threads: u64,
    /// Processor time, in microseconds.
    pub processor: u64,
}

impl From<&SystemSecond> for SystemPoint {
    fn from(of: &SystemSecond) -> Self {
        let process = |sample: &ProcessSample| ProcessPoint {
            memory: (sample.all.memory, sample.all.memory),
            descriptors: sample.all.descriptors,
            threads: sample.all.threads,
            processor: sample.processor,
        };
        Self {
            seconds: 1,
            processes: of.processes.iter().map(|(name, of)| (name.clone(), process(of))).collect(),
            connections: of.connections,
            memory_available: of.memory_available,
            processor: of.processor,
            probe: of.probe.as_ref().and_then(|probe| probe.as_ref().ok().copied()),
            probes_failed: u32::from(matches!(of.probe, Some(Err(_)))),
        }
    }
}

impl Point for SystemPoint {
    fn absorb(&mut self, later: &Self) {
        self.seconds += later.seconds;
        for (name, later) in &later.processes {
            let process = self.processes.entry(name.clone()).or_insert(*later);
            let ((least, most), (lower, upper)) = (process.memory, later.memory);
            process.memory = (least.min(lower), most.max(upper));
            process.descriptors = process.descriptors.max(later.descriptors);
            process.threads = process.threads.max(later.threads);
            process.processor += later.processor;
        }
        self.connections = self.connections.max(later.connections);
        self.memory_available = self.memory_available.min(later.memory_available);
        self.processor += later.processor;
        self.probe = self.probe.max(later.probe);
        self.probes_failed += later.probes_failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Point for u64 {
        fn absorb(&mut self, later: &Self) {
            *self += later;
        }
    }

    #[test]
    fn a_day_has_as_many_points_as_a_chart_and_loses_nothing() {
        let mut series = Series::default();
        for second in 0..86_400 {
            series.add(second, 1_u64);
        }
        series.add(3, 5); // An agent that was late.
        assert_eq!(series.width, 512);
        assert!(series.points.len() <= MOST);
        assert_eq!(series.seen().map(|(_, count)| count).sum::<u64>(), 86_405);
        assert_eq!(series.points[0], Some(517));
    }

    #[test]
    fn what_was_not_seen_is_not_0() {
        let mut series = Series::default();
        for second in [0, 5, 7] {
            series.add(second, 1_u64);
        }
        series.coarsen();
        assert_eq!(series.points, [Some(1), None, Some(1), Some(1)]);
        assert_eq!(series.seen().map(|(at, _)| at).collect::<Vec<_>>(), [0.0, 4.0, 6.0]);
    }
}
