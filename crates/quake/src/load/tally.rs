//! What an agent counted in a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::sync::mpsc::UnboundedSender;

use super::client::Ended;
use super::log::{LoggedRequest, RequestLog, saturated};
use super::run::{LoadError, PAUSE};
use crate::record::{LoadSecond, Outcome, Outcomes};

/// The longest time that histograms tell apart: an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;
/// Digits that are kept of a time.
const DIGITS: u8 = 3;
/// Explicit errors that are told of a second.
const SAID: usize = 3;
/// An agent that noticed nothing for so long was away itself: its thread or its host stood still. It looks every 10 ms.
const AWAY: Duration = Duration::from_millis(500);

/// A request that was begun and has not ended.
#[derive(Clone, Copy)]
pub(super) struct UnderWay {
    pub(super) request: u64,
    pub(super) operation: usize,
    pub(super) due: Instant,
    pub(super) began: Instant,
}

/// The counts of a second.
pub(super) struct Counts {
    second: u32,
    begun: u64,
    held_back: u64,
    /// How often a client lacked something of the agent's own, and paused.
    shortages: u32,
    /// The agent was away for the most of it.
    away: bool,
    clients: u32,
    under_way: u64,
    overdue: u64,
    operations: Vec<Outcomes>,
    latency: Histogram<u32>,
    service: Histogram<u32>,
    without_answer: Histogram<u32>,
    refusal: Histogram<u32>,
    dropped_sessions: u64,
    sent: u64,
    received: u64,
    lag: Duration,
    processor: Duration,
    said: Vec<String>,
    wrong_requests: Vec<u64>,
}

impl Counts {
    fn new(second: u32, operations: usize) -> Self {
        // The bounds are right: one is below the other.
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("these bounds are right");
        Self {
            second,
            begun: 0,
            held_back: 0,
            shortages: 0,
            away: false,
            clients: 0,
            under_way: 0,
            overdue: 0,
            operations: vec![Outcomes::default(); operations],
            latency: histogram(),
            service: histogram(),
            without_answer: histogram(),
            refusal: histogram(),
            dropped_sessions: 0,
            sent: 0,
            received: 0,
            lag: Duration::ZERO,
            processor: Duration::ZERO,
            said: Vec::new(),
            wrong_requests: Vec::new(),
        }
    }

    fn say(&mut self, said: &str) {
        if self.said.len() < SAID && !self.said.iter().any(|known| known == said) {
            self.said.push(said.to_owned());
        }
    }

    /// As it is recorded.
    pub(super) fn told(self, agent: u32, names: &[String]) -> LoadSecond {
        let mut outcomes = Outcomes::default();
        self.operations.iter().for_each(|operation| outcomes += *operation);
        let operations: BTreeMap<String, Outcomes> =
            names.iter().cloned().zip(self.operations).collect();
        LoadSecond {
            agent,
            second: self.second,
            begun: self.begun,
            held_back: self.held_back,
            clients: self.clients,
            under_way: self.under_way,
            overdue: self.overdue,
            outcomes,
            operations,
            latency: encoded(&self.latency),
            service: encoded(&self.service),
            without_answer: encoded(&self.without_answer),
            refusal: encoded(&self.refusal),
            dropped_sessions: self.dropped_sessions,
            bytes: (self.sent, self.received),
            lag: micros(self.lag),
            processor: micros(self.processor),
            memory: resident(),
            said: self.said,
            wrong_requests: self.wrong_requests,
        }
    }
}

/// A histogram as text: V2, deflated, base64; empty if nothing is in it.
fn encoded(histogram: &Histogram<u32>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    // Memory takes whatever is written.
    written.expect("a histogram can be written to memory");
    base64_simd::STANDARD.encode_to_string(bytes)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// This process's processor time.
fn processor() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| usage.user_time().num_microseconds() + usage.system_time().num_microseconds());
    Duration::from_micros(used.ok().and_then(|used| u64::try_from(used).ok()).unwrap_or(0))
}

/// This process's resident memory, in bytes; 0 if the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Counts second after second.
pub(super) struct Tally {
    start: Instant,
    deadline: Duration,
    current: Counts,
    /// When anything was last noticed; at least every 10 ms, unless the agent is away.
    noticed: Instant,
    /// Clients that go on making requests.
    clients: u32,
    /// What each client has under way.
    under_way: Vec<Option<UnderWay>>,
    /// The processor time that was used when the second began.
    used: Duration,
    to: UnboundedSender<Counts>,
    log: Option<RequestLog>,
    /// How many more requests with wrong answers are named.
    named_left: usize,
    pub(super) total: Outcomes,
    pub(super) begun: u64,
    pub(super) held_back: u64,
}

impl Tally {
    pub(super) fn new(
        start: Instant,
        deadline: Duration,
        operations: usize,
        to: UnboundedSender<Counts>,
        log: Option<RequestLog>,
        named: usize,
    ) -> Self {
        Self {
            start,
            deadline,
            current: Counts::new(0, operations),
            noticed: start,
            clients: 0,
            under_way: Vec::new(),
            used: processor(),
            to,
            log,
            named_left: named,
            total: Outcomes::default(),
            begun: 0,
            held_back: 0,
        }
    }

    /// So many clients make requests from now on.
    pub(super) fn have_clients(&mut self, clients: usize) {
        self.clients = u32::try_from(clients).unwrap_or(u32::MAX);
        self.under_way.resize(clients, None);
    }

    /// No request is begun any more.
    pub(super) fn begins_no_more(&mut self) {
        self.clients = 0;
    }

    /// The second in which `now` is, and each one before it told.
    pub(super) fn second(&mut self, now: Instant) -> &mut Counts {
        let second = now.saturating_duration_since(self.start).as_secs();
        let second = u32::try_from(second).unwrap_or(u32::MAX);
        let away_since =
            (now.saturating_duration_since(self.noticed) > AWAY).then_some(self.noticed);
        self.noticed = self.noticed.max(now);
        while self.current.second < second {
            self.was_away(away_since, self.end_of_second());
            self.tell();
        }
        self.was_away(away_since, now);
        &mut self.current
    }

    /// When the current second is over.
    fn end_of_second(&self) -> Instant {
        self.start + Duration::from_secs(u64::from(self.current.second) + 1)
    }

    /// The agent was away from then until `until`, which is no later than the end of the current second.
    fn was_away(&mut self, since: Option<Instant>, until: Instant) {
        let begin = self.start + Duration::from_secs(self.current.second.into());
        let away = since.map(|since| until.saturating_duration_since(since.max(begin)));
        self.current.away |= away.is_some_and(|away| away >= AWAY);
    }

    fn tell(&mut self) {
        let end = self.end_of_second();
        let paused = self.current.shortages.saturating_mul(millis(PAUSE)) / 1000;
        let clients = if self.current.away { 0 } else { self.clients.saturating_sub(paused) };
        let under_way = self.under_way.iter().flatten();
        let overdue = under_way.clone().filter(|one| one.due + self.deadline < end).count();
        self.current.clients = clients;
        self.current.under_way = under_way.count() as u64;
        self.current.overdue = overdue as u64;
        let next = Counts::new(self.current.second + 1, self.current.operations.len());
        let mut counts = std::mem::replace(&mut self.current, next);
        let used = processor();
        counts.processor = used.saturating_sub(self.used);
        self.used = used;
        // If nobody listens any more, the load is being ended.
        let _ = self.to.send(counts);
    }

    /// The client at this place begins a request.
    pub(super) fn begin(&mut self, place: usize, request: UnderWay, lag: Duration) {
        self.begun += 1;
        let second = self.second(request.began);
        second.begun += 1;
        second.lag = second.lag.max(lag);
        self.under_way[place] = Some(request);
    }

    /// It has none under way any more.
    pub(super) fn free(&mut self, place: usize) {
        self.under_way[place] = None;
    }

    /// What is still under way, of all clients; nothing is, then.
    pub(super) fn give_up(&mut self) -> Vec<UnderWay> {
        self.under_way.iter_mut().filter_map(Option::take).collect()
    }

    /// The agent was late by so much.
    pub(super) fn late(&mut self, now: Instant, lag: Duration) {
        let second = self.second(now);
        second.lag = second.lag.max(lag);
    }

    /// A request that was due at `due` is not begun any more: no answer to it could be in time.
    pub(super) fn hold_back(&mut self, now: Instant, due: Instant) {
        let waited = now.saturating_duration_since(due).max(self.deadline);
        self.held_back += 1;
        let second = self.second(now);
        second.held_back += 1;
        second.without_answer.saturating_record(micros(waited));
    }

    /// One that was begun could not be, in the end: the agent lacked something.
    pub(super) fn take_back(&mut self, now: Instant, why: &str) {
        self.begun -= 1;
        let second = self.second(now);
        // It may have begun in the second before.
        second.begun = second.begun.saturating_sub(1);
        second.shortages += 1;
        second.held_back += 1;
        second.say(why);
        self.held_back += 1;
    }

    /// A request that was due at `due` has ended.
    pub(super) fn end(
        &mut self,
        request: u64,
        operation: usize,
        due: Instant,
        ended: &Ended,
    ) -> Result<(), LoadError> {
        let since = |from: Instant| {
            ended.ended.saturating_duration_since(from).saturating_sub(ended.waited)
        };
        let (latency, service) = (since(due), since(ended.began));
        let outcome = match ended.outcome {
            Outcome::Right if latency > self.deadline => Outcome::Late,
            outcome => outcome,
        };
        let began = ended.began.saturating_duration_since(self.start);
        *self.total.count_mut(outcome) += 1;
        let deadline = self.deadline;
        let is_named = outcome == Outcome::Wrong && self.named_left > 0;
        self.named_left -= usize::from(is_named);
        let second = self.second(ended.ended);
        second.wrong_requests.extend(is_named.then_some(request));
        *second.operations[operation].count_mut(outcome) += 1;
        match outcome {
            Outcome::Right | Outcome::Late => {
                second.latency.saturating_record(micros(latency));
                second.service.saturating_record(micros(service));
            }
            Outcome::Refused => second.refusal.saturating_record(micros(latency)),
            Outcome::Unanswered | Outcome::Broken | Outcome::Unreachable => {
                second.without_answer.saturating_record(micros(latency.max(deadline)));
            }
            Outcome::Wrong | Outcome::Error | Outcome::Abandoned => {}
        }
        second.dropped_sessions += u64::from(ended.drops_session);
        second.sent += ended.sent;
        second.received += ended.received;
        if let Some(said) = ended.said.as_deref().filter(|said| !said.is_empty()) {
            second.say(said);
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        let logged = LoggedRequest {
            number: u32::try_from(request).unwrap_or(u32::MAX),
            began: saturated(began, Duration::as_millis),
            took: saturated(service, Duration::as_micros),
            outcome,
            operation: u8::try_from(operation).unwrap_or(u8::MAX),
            status: ended.status,
        };
        log.write(&logged).map_err(LoadError::Log)
    }

    /// Tells what is left, and closes the log.
    pub(super) fn finish(&mut self, now: Instant) -> Result<(), LoadError> {
        self.second(now);
        self.tell();
        self.log.take().map_or(Ok(()), RequestLog::finish).map_err(LoadError::Log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn in_a_second_in_which_the_agent_was_away_nobody_loaded() {
        let start = Instant::now();
        let (to, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut tally = Tally::new(start, SECOND, 1, to, None, 0);
        tally.have_clients(4);
        let mut look =
            |millis: u64| tally.late(start + Duration::from_millis(millis), Duration::ZERO);
        (10..2000).step_by(10).for_each(&mut look);
        // It stands still until the sixth second.
        (5200..8000).step_by(10).for_each(&mut look);
        // A short pause is none.
        (8400..9010).step_by(10).for_each(&mut look);
        let mut clients = Vec::new();
        while let Ok(counts) = told.try_recv() {
            clients.push(counts.told(0, &[]).clients);
        }
        assert_eq!(clients, [4, 4, 0, 0, 0, 4, 4, 4, 4]);
    }

    #[test]
    fn clients_that_lacked_something_of_the_agents_loaded_less() {
        let start = Instant::now();
        let (to, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut tally = Tally::new(start, SECOND, 1, to, None, 0);
        tally.have_clients(4);
        let request = UnderWay { request: 0, operation: 0, due: start, began: start };
        for _ in 0..20 {
            tally.begin(0, request, Duration::ZERO);
            tally.free(0);
            tally.take_back(start, "no descriptor is free");
        }
        for part in [4, 8] {
            tally.late(start + part * SECOND / 10, Duration::ZERO);
        }
        tally.finish(start + SECOND).expect("there is no log");
        let counts = told.try_recv().expect("a second").told(0, &["add".to_owned()]);
        assert_eq!((counts.clients, counts.begun, counts.held_back), (2, 0, 20));
        assert_eq!(counts.check(["add"]), Ok(()));
    }
}
