//! What all agents saw of a second, or of several.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;

use super::histogram::{self, NotAHistogram};
use super::{LoadSecond, Outcomes};

/// How many different words of errors are kept.
const WORDS: usize = 10;

/// What all agents saw of a second; or of several, when what they saw of several is added.
#[derive(Clone, Debug)]
pub struct MergedSecond {
    /// Since the common start; of several, the first.
    pub second: u32,
    /// The agents that have told of it.
    pub agents: BTreeSet<u32>,
    /// Requests begun.
    pub begun: u64,
    /// Requests that should have begun and did not.
    pub held_back: u64,
    /// Clients that go on making requests, of the agents that have told; of several seconds, the sum over them.
    pub clients: u64,
    /// Requests under way at its end; likewise.
    pub under_way: u64,
    /// Those among them that were due longer ago than the deadline; likewise.
    pub overdue: u64,
    /// What became of those that ended.
    pub outcomes: Outcomes,
    /// The same, by operation.
    pub operations: BTreeMap<String, Outcomes>,
    /// From when requests should have begun, in microseconds.
    pub latency: Histogram<u64>,
    /// From when they did.
    pub service: Histogram<u64>,
    /// How long requests without an answer had been due; the deadline at least.
    pub without_answer: Histogram<u64>,
    /// How long refused requests waited for their refusal.
    pub refusal: Histogram<u64>,
    /// Answers that opened a session which nobody will use again.
    pub dropped_sessions: u64,
    /// Bytes sent and received.
    pub bytes: (u64, u64),
    /// The longest lag of any agent, in microseconds.
    pub lag: u64,
    /// Processor time of all agents, in microseconds.
    pub processor: u64,
    /// Resident memory of all agents, in bytes; of several seconds, the sum over them.
    pub memory: u64,
    /// Errors in words, each once: at most 10.
    pub said: BTreeSet<String>,
    /// The numbers of requests whose answers were wrong, as far as agents name them.
    pub wrong_requests: Vec<u64>,
}

impl MergedSecond {
    /// A second of which no agent has told yet.
    pub fn new(second: u32) -> Self {
        Self {
            second,
            agents: BTreeSet::new(),
            begun: 0,
            held_back: 0,
            clients: 0,
            under_way: 0,
            overdue: 0,
            outcomes: Outcomes::default(),
            operations: BTreeMap::new(),
            latency: histogram::empty(),
            service: histogram::empty(),
            without_answer: histogram::empty(),
            refusal: histogram::empty(),
            dropped_sessions: 0,
            bytes: (0, 0),
            lag: 0,
            processor: 0,
            memory: 0,
            said: BTreeSet::new(),
            wrong_requests: Vec::new(),
        }
    }

    /// Adds what an agent saw.
    ///
    /// # Errors
    /// If its histograms are none; nothing is added then.
    pub fn add(&mut self, of: &LoadSecond) -> Result<(), NotAHistogram> {
        let read = |text: &str| -> Result<_, NotAHistogram> {
            let mut read = histogram::empty();
            histogram::add(&mut read, text)?;
            Ok(read)
        };
        self.merge(&Self {
            second: of.second,
            agents: [of.agent].into(),
            begun: of.begun,
            held_back: of.held_back,
            clients: of.clients.into(),
            under_way: of.under_way,
            overdue: of.overdue,
            outcomes: of.outcomes,
            operations: of.operations.clone(),
            latency: read(&of.latency)?,
            service: read(&of.service)?,
            without_answer: read(&of.without_answer)?,
            refusal: read(&of.refusal)?,
            dropped_sessions: of.dropped_sessions,
            bytes: of.bytes,
            lag: of.lag,
            processor: of.processor,
            memory: of.memory,
            said: of.said.iter().cloned().collect(),
            wrong_requests: of.wrong_requests.clone(),
        });
        Ok(())
    }

    /// Adds what was seen of another second.
    pub fn merge(&mut self, other: &Self) {
        self.second = self.second.min(other.second);
        self.agents.extend(&other.agents);
        self.begun += other.begun;
        self.held_back += other.held_back;
        self.clients += other.clients;
        self.under_way += other.under_way;
        self.overdue += other.overdue;
        self.outcomes += other.outcomes;
        for (operation, outcomes) in &other.operations {
            *self.operations.entry(operation.clone()).or_default() += *outcomes;
        }
        self.latency += &other.latency;
        self.service += &other.service;
        self.without_answer += &other.without_answer;
        self.refusal += &other.refusal;
        self.dropped_sessions += other.dropped_sessions;
        self.bytes.0 += other.bytes.0;
        self.bytes.1 += other.bytes.1;
        self.lag = self.lag.max(other.lag);
        self.processor += other.processor;
        self.memory += other.memory;
        let room = WORDS.saturating_sub(self.said.len());
        self.said.extend(other.said.iter().take(room).cloned());
        self.wrong_requests.extend(&other.wrong_requests);
    }
}

/// The times of all requests that should have been made, answered or not, in microseconds. What had no answer counts with the
/// time for which it was due, or with the deadline if it broke sooner. With `interval`, the time in which a client of a closed
/// loop makes a request, there are beside those the requests that clients would have made while they waited (HdrHistogram's
/// correction of coordinated omission, `copyCorrectedForCoordinatedOmission`); one that broke before the deadline kept no
/// client waiting so long.
pub fn corrected(of: &MergedSecond, deadline: u64, interval: Option<u64>) -> Histogram<u64> {
    let mut all = histogram::empty();
    for times in [&of.latency, &of.without_answer] {
        for seen in times.iter_recorded() {
            let (time, count) = (seen.value_iterated_to(), seen.count_at_value());
            let broke = std::ptr::eq(times, &raw const of.without_answer)
                && times.equivalent(time, deadline);
            let interval = interval.filter(|_| !broke).unwrap_or(0);
            // It grows as it has to.
            let _ = all.record_n_correct(time, count, interval);
        }
    }
    all
}

/// Quantiles of times that were answered, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// 90 % took no longer.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Quantiles {
    /// None if nothing was answered.
    pub fn of(times: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| times.value_at_quantile(quantile);
        (!times.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: times.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(agent: u32, right: u64, time: u64) -> LoadSecond {
        let mut times = histogram::empty();
        times.record_n(time, right).expect("it grows");
        let outcomes = Outcomes { right, error: 1, ..Outcomes::default() };
        LoadSecond {
            agent,
            second: 7,
            begun: right + 1,
            outcomes,
            operations: [("add".to_owned(), outcomes)].into(),
            latency: histogram::encode(&times),
            service: histogram::encode(&times),
            bytes: (10, 100),
            lag: time,
            processor: 5,
            memory: 1000,
            said: vec!["Server.userException".to_owned()],
            ..LoadSecond::default()
        }
    }

    #[test]
    fn counts_are_added_and_the_longest_lag_is_kept() {
        let mut merged = MergedSecond::new(7);
        merged.add(&seen(0, 90, 100)).expect("it is one");
        merged.add(&seen(1, 10, 5000)).expect("it is one");
        let total = Outcomes { right: 100, error: 2, ..Outcomes::default() };
        assert_eq!((merged.outcomes, merged.operations["add"]), (total, total));
        assert_eq!((merged.begun, merged.lag, merged.bytes), (102, 5000, (20, 200)));
        assert_eq!((merged.processor, merged.memory, merged.agents.len()), (10, 2000, 2));
        assert_eq!(merged.said.len(), 1);
        let quantiles = Quantiles::of(&merged.latency).expect("100 were answered");
        assert_eq!((quantiles.p50, quantiles.p90), (100, 100));
        assert!((4990..=5010).contains(&quantiles.p99), "{quantiles:?}");
        assert_eq!(Quantiles::of(&MergedSecond::new(0).latency), None);
    }

    #[test]
    fn a_stalled_server_has_its_times_whoever_was_not_asked() {
        // A client of a closed loop: 100 answers after 1 ms, then none for 10 s, its deadline 1 s.
        let mut seen = MergedSecond::new(0);
        seen.latency.record_n(1000, 100).expect("it grows");
        seen.without_answer.record(10_000_000).expect("it grows");
        // And 5 that were refused a connection.
        seen.without_answer.record_n(1_000_000, 5).expect("it grows");
        let told = Quantiles::of(&seen.latency).expect("100 were answered");
        assert_eq!((told.p50, told.max), (1000, 1000), "what was answered tells nothing of it");
        let all = corrected(&seen, 1_000_000, Some(1000));
        assert!((10_000..10_110).contains(&all.len()), "one each millisecond: {}", all.len());
        let told = Quantiles::of(&all).expect("there are some");
        assert!((4_900_000..5_100_000).contains(&told.p50), "{told:?}");
        // In an open loop each request has its time already.
        let open = corrected(&seen, 1_000_000, None);
        assert_eq!(open.len(), 106);
        assert_eq!(Quantiles::of(&open).expect("there are some").p50, 1000);
    }

    #[test]
    fn a_second_with_a_bad_histogram_is_added_not_at_all() {
        let mut merged = MergedSecond::new(7);
        let bad = LoadSecond { service: "nonsense".to_owned(), ..seen(0, 9, 100) };
        merged.add(&bad).expect_err("it is none");
        assert!(merged.latency.is_empty() && merged.begun == 0);
    }
}
