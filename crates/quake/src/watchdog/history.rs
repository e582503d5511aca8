//! The last seconds, and what is expected of them.

use std::collections::VecDeque;
use std::time::Duration;

use super::RECOVERED;
use crate::experiment::{Arrivals, Watchdog, Workload};
use crate::record::{MergedSecond, Outcomes, ProcessSample, SystemSecond};
use crate::statistics::median;
use crate::system::SERVER;
use crate::words;

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
    under_way: u64,
    overdue: u64,
    /// Clients that loaded it.
    clients: f64,
    pub(super) outcomes: Outcomes,
    /// The first requests with wrong answers, in words.
    pub(super) wrong_requests: String,
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
    /// Clients of the workload, over all agents.
    clients: f64,
    seconds: VecDeque<Second>,
    baseline: Baseline,
    /// The server's memory when it was first seen.
    pub(super) memory_at_first: Option<u64>,
}

/// Right answers a second of all clients, by the first seconds.
#[derive(Debug)]
struct Baseline {
    first: Vec<f64>,
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
    /// How many loaded it, added up over its seconds, if it is them who are expected to ask.
    clients: Option<f64>,
}

impl Second {
    pub(super) fn new(clients: &MergedSecond, system: &SystemSecond) -> Self {
        Self {
            second: clients.second,
            begun: clients.begun,
            held_back: clients.held_back,
            under_way: clients.under_way,
            overdue: clients.overdue,
            clients: clients.clients as f64,
            outcomes: clients.outcomes,
            wrong_requests: words::requests(&clients.wrong_requests),
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
    pub(super) fn new(settings: &Watchdog, workload: &Workload) -> Self {
        Self {
            window: seconds(settings.window),
            least_answers: f64::from(settings.least_answers),
            closed: matches!(workload.arrivals, Arrivals::Closed),
            clients: f64::from(workload.clients.max(1)),
            seconds: VecDeque::new(),
            baseline: Baseline {
                first: Vec::new(),
                length: seconds(settings.baseline).max(LEAST_SECONDS),
                value: None,
            },
            memory_at_first: None,
        }
    }

    pub(super) fn add(&mut self, second: Second) {
        let part = self.part(&second);
        if part > 0.0 && (second.begun > 0 || second.outcomes.right > 0) {
            self.baseline.add(second.outcomes.right as f64 / part);
        }
        let memory = second.server.map(|server| server.all.memory);
        self.memory_at_first = self.memory_at_first.or(memory);
        self.seconds.push_back(second);
        if self.seconds.len() > LONGEST_WINDOW {
            self.seconds.pop_front();
        }
    }

    /// The last seconds are another server's.
    pub(super) fn forget(&mut self) {
        self.seconds.clear();
    }

    /// The part of the clients that loaded it in a second. Who is lost, away or done with all its requests asks nothing; an
    /// open loop is judged by what is due instead.
    fn part(&self, second: &Second) -> f64 {
        if self.closed { (second.clients / self.clients).min(1.0) } else { 1.0 }
    }

    /// Right answers since that second, as far as they are remembered.
    pub(super) fn right_since(&self, second: f64) -> u64 {
        let since = self.seconds.iter().filter(|seen| f64::from(seen.second) >= second);
        since.map(|seen| seen.outcomes.right).sum()
    }

    /// Whether there were right answers in each second since that one, and the seconds are known.
    pub(super) fn was_right_each_second_since(&self, second: f64) -> bool {
        let mut since =
            self.latest_first().take_while(|seen| f64::from(seen.second) >= second).peekable();
        since.peek().is_some() && since.all(|seen| seen.outcomes.right > 0)
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
        self.last().is_some_and(|last| last.under_way > 0 || last.begun > 0 || last.held_back > 0)
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
        let part = self.last().map_or(1.0, |last| self.part(last));
        let baseline = self.baseline().unwrap_or(f64::INFINITY) * part;
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
        let overdue = self.last().map_or(0, |last| last.overdue);
        let asked = (outcomes.total() + overdue + held_back) as f64;
        let parts: f64 = seconds.iter().map(|second| self.part(second)).sum();
        let usual = self.baseline().map(|baseline| baseline * parts);
        let expected = match usual {
            Some(usual) if self.closed => usual,
            Some(usual) => usual.min(asked),
            None => asked,
        };
        // Few are enough where no more were asked for.
        let clients = self.closed.then_some(parts * self.clients);
        Some(Window { seconds, outcomes, expected, least: self.least_answers / 2.0, clients })
    }
}

impl Window<'_> {
    /// Right answers, as a part of those that were expected, if enough were.
    pub(super) fn goodput_part(&self) -> Option<f64> {
        (self.expected >= self.least).then(|| self.outcomes.right as f64 / self.expected)
    }

    /// The same of one second, expecting no more of it than of the others.
    pub(super) fn is_low(&self, second: &Second, below: f64) -> bool {
        let part = match self.clients {
            Some(clients) if clients > 0.0 => second.clients / clients,
            _ => 1.0 / self.seconds.len() as f64,
        };
        (second.outcomes.right as f64) < below * self.expected * part
    }
}

impl Baseline {
    fn add(&mut self, right: f64) {
        if self.first.len() == self.length {
            return;
        }
        self.first.push(right);
        if self.first.len() < LEAST_SECONDS {
            return;
        }
        let median = median(&mut self.first.clone()).unwrap_or(0.0);
        // A server that fails within these seconds is compared with what it did before.
        if median > self.value.unwrap_or(0.0) {
            self.value = Some(median);
        }
    }
}

/// A time in whole seconds, at least one.
pub(super) fn seconds(time: Duration) -> usize {
    let whole = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    usize::try_from(whole).unwrap_or(usize::MAX).max(1)
}
