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
use super::run::LoadError;
use crate::record::{LoadSecond, Outcome, Outcomes};

/// The longest time that histograms tell apart: an hour, in microseconds.
const LONGEST: u64 = 3_600_000_000;
/// Digits that are kept of a time.
const DIGITS: u8 = 3;
/// Explicit errors that are told of a second.
const SAID: usize = 3;

/// The counts of a second.
pub(super) struct Counts {
    second: u32,
    begun: u64,
    held_back: u64,
    operations: Vec<Outcomes>,
    latency: Histogram<u32>,
    service: Histogram<u32>,
    refusal: Histogram<u32>,
    dropped_sessions: u64,
    sent: u64,
    received: u64,
    lag: Duration,
    processor: Duration,
    said: Vec<String>,
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
            operations: vec![Outcomes::default(); operations],
            latency: histogram(),
            service: histogram(),
            refusal: histogram(),
            dropped_sessions: 0,
            sent: 0,
            received: 0,
            lag: Duration::ZERO,
            processor: Duration::ZERO,
            said: Vec::new(),
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
            outcomes,
            operations,
            latency: encoded(&self.latency),
            service: encoded(&self.service),
            refusal: encoded(&self.refusal),
            dropped_sessions: self.dropped_sessions,
            bytes: (self.sent, self.received),
            lag: micros(self.lag),
            processor: micros(self.processor),
            memory: resident(),
            said: self.said,
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
    /// The processor time that was used when the second began.
    used: Duration,
    to: UnboundedSender<Counts>,
    log: Option<RequestLog>,
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
    ) -> Self {
        Self {
            start,
            deadline,
            current: Counts::new(0, operations),
            used: processor(),
            to,
            log,
            total: Outcomes::default(),
            begun: 0,
            held_back: 0,
        }
    }

    /// The second in which `now` is, and each one before it told.
    pub(super) fn second(&mut self, now: Instant) -> &mut Counts {
        let second = now.saturating_duration_since(self.start).as_secs();
        let second = u32::try_from(second).unwrap_or(u32::MAX);
        while self.current.second < second {
            self.tell();
        }
        &mut self.current
    }

    fn tell(&mut self) {
        let next = Counts::new(self.current.second + 1, self.current.operations.len());
        let mut counts = std::mem::replace(&mut self.current, next);
        let used = processor();
        counts.processor = used.saturating_sub(self.used);
        self.used = used;
        // If nobody listens any more, the load is being ended.
        let _ = self.to.send(counts);
    }

    /// A request is begun.
    pub(super) fn begin(&mut self, now: Instant, lag: Duration) {
        self.begun += 1;
        let second = self.second(now);
        second.begun += 1;
        second.lag = second.lag.max(lag);
    }

    /// The agent was late by so much.
    pub(super) fn late(&mut self, now: Instant, lag: Duration) {
        let second = self.second(now);
        second.lag = second.lag.max(lag);
    }

    /// A request was not begun, though it was due.
    pub(super) fn hold_back(&mut self, now: Instant, why: Option<&str>) {
        self.held_back += 1;
        let second = self.second(now);
        second.held_back += 1;
        if let Some(why) = why {
            second.say(why);
        }
    }

    /// One that was begun could not be, in the end: the agent lacked something.
    pub(super) fn take_back(&mut self, now: Instant, why: &str) {
        self.begun -= 1;
        let second = self.second(now);
        // It may have begun in the second before.
        second.begun = second.begun.saturating_sub(1);
        self.hold_back(now, Some(why));
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
        let second = self.second(ended.ended);
        *second.operations[operation].count_mut(outcome) += 1;
        match outcome {
            Outcome::Right | Outcome::Late => {
                second.latency.saturating_record(micros(latency));
                second.service.saturating_record(micros(service));
            }
            Outcome::Refused => second.refusal.saturating_record(micros(latency)),
            _ => {}
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
