//! How far the load of a cell is.

use std::collections::BTreeSet;
use std::time::Duration;

use super::seconds::Seconds;
use crate::experiment::Workload;
use crate::record::{LoadSecond, Outcomes};

/// A load that is under way. Times are seconds since the common start.
#[derive(Debug)]
pub(super) struct Progress {
    /// What was not judged yet.
    pub(super) seconds: Seconds,
    /// What became of all requests until now.
    pub(super) outcomes: Outcomes,
    /// How many were begun until now.
    begun: u64,
    /// Client agents whose load goes on.
    going: BTreeSet<u32>,
    /// Those that have not sent all of their log.
    sending: BTreeSet<u32>,
    /// When and why the load of the last agent ended.
    ended: Option<(f64, &'static str)>,
    /// Why it is ended before its end, and when it has to be.
    decided: Option<(String, f64)>,
    /// Client agents that were lost.
    lost: BTreeSet<u32>,
}

impl Progress {
    /// A load of so many agents that begins; one that tells of a second later than that is not waited for.
    pub(super) fn new(agents: u32, late: Duration) -> Self {
        Self {
            seconds: Seconds::new(agents, late),
            outcomes: Outcomes::default(),
            begun: 0,
            going: (0..agents).collect(),
            sending: (0..agents).collect(),
            ended: None,
            decided: None,
            lost: BTreeSet::new(),
        }
    }

    /// Whether this can be a second of an agent's: not of the future, and not told before.
    pub(super) fn expects(&self, second: &LoadSecond, now: f64) -> Result<(), String> {
        self.seconds.expects(second, now)
    }

    /// What an agent saw.
    pub(super) fn load(&mut self, second: &LoadSecond, now: f64) {
        self.outcomes += second.outcomes;
        self.begun += second.begun;
        self.seconds.load(second, now);
    }

    /// The load of an agent ended.
    pub(super) fn end(&mut self, agent: u32, at: f64, by: &'static str) {
        self.seconds.ended(agent);
        if self.going.remove(&agent) && self.going.is_empty() {
            self.ended = Some((at, by));
        }
    }

    /// All of its log is here.
    pub(super) fn sent(&mut self, agent: u32) {
        self.sending.remove(&agent);
    }

    /// An agent was lost.
    pub(super) fn lost(&mut self, agent: u32, now: f64) {
        self.lost.insert(agent);
        self.sent(agent);
        self.end(agent, now, "all agents were lost");
    }

    /// It is ended before its end; agents that go on then are not waited for.
    pub(super) fn decided(&mut self, because: String, latest: f64) {
        self.decided.get_or_insert((because, latest));
    }

    /// Whether the whole of a second was loaded.
    pub(super) fn was_loaded(&self, second: u32) -> bool {
        self.ended.is_none_or(|(ended, _)| f64::from(second) + 1.0 <= ended)
    }

    /// Whether in this second requests are begun no more, or not to its end.
    pub(super) fn begins_no_more(&self, second: u32, workload: &Workload) -> bool {
        let end = f64::from(second) + 1.0;
        workload.requests.is_some_and(|requests| self.begun >= requests)
            || workload.duration.is_some_and(|duration| end > duration.as_secs_f64())
    }

    /// Whether nothing more is to be expected.
    pub(super) fn is_over(&self, now: f64) -> bool {
        let given_up = self.decided.as_ref().is_some_and(|(_, latest)| now > *latest);
        given_up || (self.ended.is_some() && self.sending.is_empty() && self.seconds.are_judged())
    }

    /// Whether the load of all agents has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// How long there was load.
    pub(super) fn length(&self, now: f64) -> f64 {
        self.ended.map_or(now, |(ended, _)| ended)
    }

    /// Why it ended, in words.
    pub(super) fn words(&self) -> String {
        let by = self.ended.map_or("it was given up", |(_, by)| by);
        let mut words = self.decided.as_ref().map_or(by, |(because, _)| because).to_owned();
        for agent in &self.lost {
            words.push_str(&format!("; client agent {agent} was lost"));
        }
        if self.decided.is_some() {
            for agent in &self.going {
                words.push_str(&format!("; client agent {agent} did not end"));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_secs(3);

    fn second(agent: u32, second: u32, right: u64) -> LoadSecond {
        let outcomes = Outcomes { right, ..Outcomes::default() };
        LoadSecond { agent, second, outcomes, ..LoadSecond::default() }
    }

    #[test]
    fn it_is_over_when_all_have_ended_sent_their_logs_and_been_judged() {
        let mut progress = Progress::new(2, LATE);
        progress.load(&second(0, 0, 5), 1.0);
        progress.load(&second(1, 0, 7), 1.0);
        progress.end(0, 0.9, "all requests were made");
        progress.sent(0);
        assert!(!progress.is_over(1.0) && progress.was_loaded(0));
        progress.end(1, 0.5, "all requests were made");
        assert!(!progress.is_over(1.0), "its log is missing");
        progress.sent(1);
        assert!(!progress.is_over(1.0), "a second is not judged");
        assert!(progress.seconds.take(4.0).is_some() && progress.is_over(4.0));
        assert!(!progress.was_loaded(0), "only a part of it");
        assert_eq!(
            (progress.outcomes.right, progress.words()),
            (12, "all requests were made".to_owned())
        );
    }

    #[test]
    fn requests_are_begun_until_their_number_or_the_time_is_reached() {
        let read = |text: &str| toml::from_str::<Workload>(text).expect("a workload");
        let mut progress = Progress::new(1, LATE);
        progress.load(&LoadSecond { begun: 7, ..second(0, 0, 5) }, 1.0);
        for (workload, begins_no_more) in [
            ("clients = 1\nrequests = 8", false),
            ("clients = 1\nrequests = 7", true),
            ("clients = 1\nduration = '1s'", false),
            ("clients = 1\nduration = '900ms'", true),
        ] {
            assert_eq!(progress.begins_no_more(0, &read(workload)), begins_no_more, "{workload}");
        }
    }

    #[test]
    fn what_was_decided_is_not_waited_for_without_end() {
        let mut progress = Progress::new(2, LATE);
        progress.decided("CRASH: it ended".to_owned(), 30.0);
        progress.decided("HANG: later".to_owned(), 90.0);
        progress.lost(1, 5.0);
        assert!(!progress.is_over(30.0) && progress.is_over(30.1));
        let words = "CRASH: it ended; client agent 1 was lost; client agent 0 did not end";
        assert_eq!(progress.words(), words);
    }
}
