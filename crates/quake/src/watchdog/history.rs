//! The last seconds, and what is expected of them.

use std::collections::VecDeque;
use std::time::Duration;

use super::RECOVERED;
use crate::experiment::Watchdog;
use crate::record::{MergedSecond, Outcomes, ProcessSample, SystemSecond};
use crate::system::SERVER;

/// Seconds before there is a first baseline.
const LEAST_SECONDS: usize = 3;

/// The longest window, in seconds: however slow a server is, it is judged by its last hour.
const LONGEST_WINDOW: usize = 3600;

/// A second, as far as it matters.
#[derive(Clone, Debug)]
pub(super) struct Second {
    pub(super) second: u32,
    begun: u64,
    held_back: u64,
    pub(super) outcomes: Outcomes,
    pub(super) probe: Option<Result<u64, String>>,
    /// The server, if it is ours and was there.
    pub(super) server: Option<ProcessSample>,
}

/// The last seconds since the server was ready.
#[derive(Debug)]
pub(super) struct History {
    /// The settings' window, in seconds.
    window: usize,
    least_answers: f64,
    closed: bool,
    seconds: VecDeque<Second>,
    baseline: Baseline,
    /// Requests that were begun until the end of each of the last seconds, the deadline's length of them.
    begun: VecDeque<u64>,
    /// All that have ended.
    ended: u64,
    /// The deadline, in seconds.
    deadline: usize,
    /// The server's resident memory when it was first seen.
    pub(super) resident_at_first: Option<u64>,
}

/// Right answers a second, of the first seconds.
#[derive(Debug)]
struct Baseline {
    first: Vec<u64>,
    length: usize,
    value: Option<f64>,
}

/// Some of the last seconds, and what was expected of them.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) seconds: Vec<&'a Second>,
    pub(super) outcomes: Outcomes,
    /// Right answers that there should have been.
    pub(super) expected: f64,
    /// Of fewer it is not judged.
    least: f64,
}

impl Second {
    pub(super) fn new(clients: &MergedSecond, system: &SystemSecond) -> Self {
        Self {
            second: clients.second,
            begun: clients.begun,
            held_back: clients.held_back,
            outcomes: clients.outcomes,
            probe: system.probe.clone(),
            server: system.processes.get(SERVER).copied(),
        }
    }

    /// Requests that were answered somehow.
    pub(super) fn answers(&self) -> u64 {
        let Outcomes { right, late, wrong, error, refused, .. } = self.outcomes;
        right + late + wrong + error + refused
    }
}

impl History {
    pub(super) fn new(settings: &Watchdog, closed: bool, deadline: Duration) -> Self {
        Self {
            window: seconds(settings.window),
            least_answers: f64::from(settings.least_answers),
            closed,
            seconds: VecDeque::new(),
            baseline: Baseline {
                first: Vec::new(),
                length: seconds(settings.baseline).max(LEAST_SECONDS),
                value: None,
            },
            begun: VecDeque::new(),
            ended: 0,
            deadline: seconds(deadline),
            resident_at_first: None,
        }
    }

    pub(super) fn add(&mut self, second: Second) {
        let begun = self.begun.back().copied().unwrap_or(0) + second.begun;
        self.begun.push_back(begun);
        if self.begun.len() > self.deadline + 1 {
            self.begun.pop_front();
        }
        self.ended += second.outcomes.total();
        if second.begun > 0 || second.outcomes.right > 0 {
            self.baseline.add(second.outcomes.right);
        }
        let resident = second.server.map(|server| server.resident);
        self.resident_at_first = self.resident_at_first.or(resident);
        self.seconds.push_back(second);
        if self.seconds.len() > LONGEST_WINDOW {
            self.seconds.pop_front();
        }
    }

    /// The last seconds are another server's.
    pub(super) fn forget(&mut self) {
        self.seconds.clear();
    }

    /// From now on no more is expected than was asked for.
    pub(super) fn load_ends(&mut self) {
        self.closed = false;
    }

    pub(super) fn baseline(&self) -> Option<f64> {
        self.baseline.value
    }

    pub(super) fn last(&self) -> Option<&Second> {
        self.seconds.back()
    }

    /// The last seconds, the latest first.
    pub(super) fn latest_first(&self) -> impl Iterator<Item = &Second> {
        self.seconds.iter().rev()
    }

    /// Whether clients wait for an answer, or did in this second.
    pub(super) fn load_is_offered(&self) -> bool {
        let begun = self.begun.back().copied().unwrap_or(0);
        begun > self.ended || self.last().is_some_and(|last| last.begun > 0 || last.held_back > 0)
    }

    /// The window, if so many seconds have been seen since the server was ready.
    pub(super) fn window(&self) -> Option<Window<'_>> {
        self.latest(self.window.max(self.seconds_of_least_answers()).min(LONGEST_WINDOW))
    }

    /// Whether goodput is back, and nothing else is wrong, in the shortest time in which that can be told.
    pub(super) fn has_recovered(&self, settings: &Watchdog) -> bool {
        let Some(window) = self.latest(self.seconds_of_least_answers().min(self.window)) else {
            return false;
        };
        let Outcomes { right, wrong, error, refused, .. } = window.outcomes;
        let ended = window.outcomes.total() as f64;
        right as f64 >= RECOVERED * window.expected
            && wrong == 0
            && error as f64 <= settings.error_above * ended
            && refused as f64 <= settings.refused_above * ended
    }

    /// The time in which there are so many answers at the baseline that chance can't make them few.
    fn seconds_of_least_answers(&self) -> usize {
        let baseline = self.baseline().unwrap_or(f64::INFINITY);
        seconds(Duration::try_from_secs_f64(self.least_answers / baseline).unwrap_or(Duration::MAX))
    }

    fn latest(&self, count: usize) -> Option<Window<'_>> {
        if self.seconds.len() < count {
            return None;
        }
        let seconds: Vec<&Second> = self.latest_first().take(count).collect();
        let (mut outcomes, mut held_back) = (Outcomes::default(), 0);
        for second in &seconds {
            outcomes += second.outcomes;
            held_back += second.held_back;
        }
        // Begun longer ago than the deadline, and not ended.
        let due = (self.begun.len() > self.deadline).then(|| self.begun.front()).flatten();
        let overdue = due.map_or(0, |due| due.saturating_sub(self.ended));
        let asked = (outcomes.total() + overdue + held_back) as f64;
        let usual = self.baseline().map(|baseline| baseline * count as f64);
        let expected = match usual {
            Some(usual) if self.closed => usual,
            Some(usual) => usual.min(asked),
            None => asked,
        };
        // Few are enough where no more were asked for.
        Some(Window { seconds, outcomes, expected, least: self.least_answers / 2.0 })
    }
}

impl Window<'_> {
    /// Right answers, as a part of those that were expected, if enough were.
    pub(super) fn goodput_part(&self) -> Option<f64> {
        (self.expected >= self.least).then(|| self.outcomes.right as f64 / self.expected)
    }

    /// The same of one second, expecting no more of it than of the others.
    pub(super) fn is_low(&self, second: &Second, below: f64) -> bool {
        (second.outcomes.right as f64) < below * self.expected / self.seconds.len() as f64
    }
}

impl Baseline {
    fn add(&mut self, right: u64) {
        if self.first.len() == self.length {
            return;
        }
        self.first.push(right);
        if self.first.len() < LEAST_SECONDS {
            return;
        }
        let mut sorted = self.first.clone();
        sorted.sort_unstable();
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) as f64 / 2.0
        } else {
            sorted[middle] as f64
        };
        // A server that fails within these seconds is compared with what it did before.
        if median > self.value.unwrap_or(0.0) {
            self.value = Some(median);
        }
    }
}

/// A time in whole seconds, at least one.
pub(super) fn seconds(time: Duration) -> usize {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    usize::try_from(whole).unwrap_or(usize::MAX).max(1)
}
