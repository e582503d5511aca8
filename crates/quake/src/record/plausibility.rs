//! Whether an agent can have seen what it tells. It runs on another host, maybe of another version: what it says is added up
//! with what others say, and decides verdicts.

use super::histogram::{self, NotAHistogram};
use super::{LoadSecond, Outcome, Outcomes};

/// Requests of a second: more than any numbers of requests there are.
const MOST_REQUESTS: u64 = 1_000_000_000;
/// Bytes, microseconds: what no second has, and what can be added up without end.
const MOST: u64 = 1 << 50;
/// Words of errors of a second, and characters of one.
const SAID: (usize, usize) = (3, 1000);

impl LoadSecond {
    /// Whether this can be a second of a load of these operations; why it can't.
    ///
    /// # Errors
    /// What contradicts itself, or is too much for a second, in words.
    pub fn check<'o>(&self, operations: impl IntoIterator<Item = &'o str>) -> Result<(), String> {
        let known: Vec<&str> = operations.into_iter().collect();
        if let Some(other) = self.operations.keys().find(|name| !known.contains(&name.as_str())) {
            let other: String = other.chars().filter(|c| !c.is_control()).take(64).collect();
            return Err(format!("there is no operation {other}"));
        }
        let of_all = self.operations.values().chain([&self.outcomes]);
        let counts = of_all.flat_map(|of| Outcome::ALL.map(|outcome| of.count(outcome)));
        let others = [self.begun, self.held_back, self.under_way, self.overdue];
        if counts.chain(others).any(|count| count > MOST_REQUESTS) {
            return Err(format!("more than {MOST_REQUESTS} requests"));
        }
        let (sent, received) = self.bytes;
        let amounts =
            [sent, received, self.lag, self.processor, self.memory, self.dropped_sessions];
        if amounts.into_iter().any(|amount| amount > MOST) {
            return Err(format!("an amount above {MOST}"));
        }
        let mut sum = Outcomes::default();
        self.operations.values().for_each(|of| sum += *of);
        if sum != self.outcomes {
            return Err("its operations do not add up to its outcomes".to_owned());
        }
        let (lines, length) = SAID;
        if self.said.len() > lines || self.said.iter().any(|said| said.chars().count() > length) {
            return Err(format!(
                "more than {lines} errors, or one of more than {length} characters"
            ));
        }
        if self.wrong_requests.len() as u64 > self.outcomes.wrong {
            return Err("it names more wrong answers than there were".to_owned());
        }
        self.check_times()
    }

    /// Each time is that of a request.
    fn check_times(&self) -> Result<(), String> {
        let Outcomes { right, late, refused, unreachable, broken, unanswered, .. } = self.outcomes;
        let answered = right + late;
        let without = unreachable + broken + unanswered;
        for (name, text, least, most) in [
            ("latency", &self.latency, answered, answered),
            ("service", &self.service, answered, answered),
            ("refusal", &self.refusal, refused, refused),
            // What the agent itself lacked has no time.
            ("without_answer", &self.without_answer, without, without + self.held_back),
        ] {
            let mut times = histogram::empty();
            let told = |error: NotAHistogram| format!("{name}: {error}");
            histogram::add(&mut times, text).map_err(told)?;
            if !(least..=most).contains(&times.len()) {
                return Err(format!("{name} has {} times of {least} requests", times.len()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> LoadSecond {
        let times = |count| {
            let mut times = histogram::empty();
            times.record_n(900, count).expect("it grows");
            histogram::encode(&times)
        };
        let outcomes =
            Outcomes { right: 8, late: 2, refused: 3, broken: 1, error: 4, ..Outcomes::default() };
        LoadSecond {
            begun: 18,
            held_back: 2,
            outcomes,
            operations: [("add".to_owned(), outcomes)].into(),
            latency: times(10),
            service: times(10),
            refusal: times(3),
            without_answer: times(2),
            said: vec!["status 500".to_owned()],
            ..LoadSecond::default()
        }
    }

    #[test]
    fn a_second_that_can_be_is_believed() {
        assert_eq!(second().check(["add", "other"]), Ok(()));
        assert_eq!(LoadSecond::default().check(["add"]), Ok(()));
    }

    type Change = fn(&mut LoadSecond);

    #[test]
    fn a_second_that_can_not_be_is_not() {
        let changes: [(Change, &str); 10] = [
            (|of| of.operations = [("sub\n".to_owned(), of.outcomes)].into(), "no operation sub"),
            (|of| of.outcomes.right = u64::MAX, "more than 1000000000 requests"),
            (|of| of.begun = u64::MAX, "more than 1000000000 requests"),
            (|of| of.bytes.1 = u64::MAX, "an amount above"),
            (|of| of.outcomes.wrong += 1, "do not add up"),
            (|of| of.said = vec![String::new(); 4], "more than 3 errors"),
            (|of| of.said = vec!["x".repeat(1001)], "more than 1000 characters"),
            (|of| of.latency = "nonsense".to_owned(), "latency: a histogram can't be read"),
            (|of| of.service = String::new(), "service has 0 times of 10 requests"),
            (|of| of.without_answer = of.latency.clone(), "without_answer has 10 times"),
        ];
        for (change, why) in changes {
            let mut changed = second();
            change(&mut changed);
            let told = changed.check(["add"]).expect_err(why);
            assert!(told.contains(why), "{why}: {told}");
        }
    }
}
