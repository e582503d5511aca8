//! Whether what the server holds at the end agrees with what its clients saw.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::experiment::{Audit, UnknownWord, fill};
use crate::load::WARM_UP;
use crate::load::log::{self, LogError, LoggedRequest};
use crate::record::{AuditOutcome, Outcome, Outcomes};

/// Bytes in which a number has room.
const NUMBER: u64 = 80;

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A log of an agent.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What was done can't be read.
    #[error("cannot read what the audit's program wrote")]
    Output(#[from] io::Error),
    /// A count that is none.
    #[error("the audit's program wrote {text:?}: it has to write one number")]
    NoNumber {
        /// How it begins.
        text: String,
    },
}

/// What the clients of all agents saw: one byte a request.
#[derive(Clone, Debug, Default)]
pub struct ClientView {
    /// By number.
    seen: Vec<Seen>,
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    /// It was never sent.
    #[default]
    Nothing,
    /// The server has surely not done it.
    NotDone,
    /// Nobody knows: the answer was an error, or is missing.
    Unknown,
    /// The server has said that it did it.
    Done,
}

impl ClientView {
    /// What the logs of all agents tell.
    ///
    /// # Errors
    /// A log can't be read.
    pub fn read<'p>(logs: impl IntoIterator<Item = &'p Path>) -> Result<Self, LogError> {
        let mut view = Self::default();
        for path in logs {
            for request in log::read(path)? {
                view.add(&request?);
            }
        }
        Ok(view)
    }

    fn add(&mut self, request: &LoggedRequest) {
        // The warm-up is no part of it.
        if u64::from(request.number) >= WARM_UP {
            return;
        }
        let Ok(number) = usize::try_from(request.number) else { return };
        if self.seen.len() <= number {
            self.seen.resize(number + 1, Seen::Nothing);
        }
        self.seen[number] = match request.outcome.is_done() {
            Some(true) => Seen::Done,
            Some(false) => Seen::NotDone,
            None => Seen::Unknown,
        };
    }

    fn count(&self, wanted: Seen) -> u64 {
        self.seen.iter().filter(|seen| **seen == wanted).count() as u64
    }

    /// Against a ledger: a line for each request that the server has done, its number first in it. Numbers of the
    /// warm-up and of probes are no part of it; what is no number was invented. Of each kind so many are named.
    ///
    /// # Errors
    /// The ledger can't be read.
    pub fn against_ledger(&self, ledger: impl BufRead, named: usize) -> io::Result<AuditOutcome> {
        let mut outcome =
            AuditOutcome { answered: self.count(Seen::Done), ..AuditOutcome::default() };
        let mut times = vec![0_u8; self.seen.len()];
        let example = |examples: &mut Vec<String>, count: u64, told: String| {
            if count <= named as u64 {
                examples.push(told);
            }
        };
        for line in ledger.lines() {
            let line = line?;
            let Some(id) = line.split_whitespace().next() else { continue };
            let number = id.parse::<u64>().ok();
            if number.is_some_and(|number| number >= WARM_UP) {
                continue;
            }
            let place = number.and_then(|number| usize::try_from(number).ok());
            match place.filter(|place| self.seen.get(*place).is_some_and(|it| it.may_be_done())) {
                None => {
                    outcome.invented += 1;
                    example(&mut outcome.examples, outcome.invented, format!("invented {id}"));
                }
                Some(place) => {
                    times[place] = times[place].saturating_add(1);
                    if times[place] == 2 {
                        outcome.doubled += 1;
                        example(&mut outcome.examples, outcome.doubled, format!("doubled {id}"));
                    }
                }
            }
        }
        for (number, seen) in self.seen.iter().enumerate() {
            if *seen == Seen::Done && times[number] == 0 {
                outcome.lost += 1;
                example(&mut outcome.examples, outcome.lost, format!("lost {number}"));
            }
        }
        Ok(outcome)
    }

    /// Against a number of requests that the server has done, `others` among them: less than were answered rightly is a
    /// loss, more than were sent an invention (or one that was doubled: a number does not tell).
    pub fn against_count(&self, done: u64, others: UnloggedRequests) -> AuditOutcome {
        let answered = self.count(Seen::Done);
        let least = answered + others.done;
        let most = least + self.count(Seen::Unknown) + others.unknown;
        AuditOutcome {
            answered,
            lost: least.saturating_sub(done),
            invented: done.saturating_sub(most),
            ..AuditOutcome::default()
        }
    }
}

/// Requests that a server counts and that no log has: those of the warm-up, and probes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct UnloggedRequests {
    /// The server has said that it did them.
    pub done: u64,
    /// Nobody knows whether it did.
    pub unknown: u64,
}

impl From<Outcomes> for UnloggedRequests {
    fn from(outcomes: Outcomes) -> Self {
        let count = |wanted: Option<bool>| {
            let of = Outcome::ALL.into_iter().filter(|outcome| outcome.is_done() == wanted);
            of.map(|outcome| outcomes.count(outcome)).sum()
        };
        Self { done: count(Some(true)), unknown: count(None) }
    }
}

impl std::ops::AddAssign for UnloggedRequests {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.unknown += other.unknown;
    }
}

impl Seen {
    fn may_be_done(self) -> bool {
        matches!(self, Self::Unknown | Self::Done)
    }
}

impl Audit {
    /// The program that tells what was done, with its arguments: `values` fill their words.
    ///
    /// # Errors
    /// A word that is none.
    pub fn command(&self, values: &BTreeMap<String, String>) -> Result<Vec<String>, UnknownWord> {
        let command = if self.ledger.is_empty() { &self.count } else { &self.ledger };
        command.iter().map(|word| fill(word, values)).collect()
    }

    /// Compares what that program wrote. `others` are requests that count and that no log has; of each kind of what is found so
    /// many are named.
    ///
    /// # Errors
    /// It can't be read, or is no number where one is needed.
    pub fn compare(
        &self,
        view: &ClientView,
        output: impl BufRead,
        others: UnloggedRequests,
        named: usize,
    ) -> Result<AuditOutcome, AuditError> {
        if !self.ledger.is_empty() {
            return Ok(view.against_ledger(output, named)?);
        }
        let mut text = String::new();
        output.take(NUMBER).read_to_string(&mut text)?;
        let count = text.trim().parse::<u64>().map_err(|_| AuditError::NoNumber { text })?;
        Ok(view.against_count(count, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(requests: &[(u32, Outcome)]) -> ClientView {
        let mut view = ClientView::default();
        for (number, outcome) in requests {
            let request = LoggedRequest {
                number: *number,
                began: 0,
                took: 0,
                outcome: *outcome,
                operation: 0,
                status: 200,
            };
            view.add(&request);
        }
        view
    }

    const SEEN: [(u32, Outcome); 6] = [
        (0, Outcome::Right),
        (1, Outcome::Late),
        (2, Outcome::Broken),
        (3, Outcome::Unreachable),
        (5, Outcome::Right),
        (1_000_000_000, Outcome::Right),
    ];

    #[test]
    fn a_ledger_that_agrees_has_what_was_answered_and_may_have_what_nobody_knows() {
        for ledger in ["0\n1\n5\n", "0\n1\n2\n5\n", "5 x\n1 x\n0 x\n\n1000000000\n2000000007\n"] {
            let outcome = view(&SEEN).against_ledger(ledger.as_bytes(), 9).expect("it can be read");
            assert_eq!(
                outcome,
                AuditOutcome { answered: 3, ..AuditOutcome::default() },
                "{ledger}"
            );
        }
    }

    #[test]
    fn lost_doubled_and_invented_are_told_apart() {
        let ledger = &b"0\n0\n0\n2\n2\n3\n4\n77\nx\n1\n"[..];
        let outcome = view(&SEEN).against_ledger(ledger, 9);
        let outcome = outcome.expect("it can be read");
        assert_eq!(
            (outcome.answered, outcome.lost, outcome.doubled, outcome.invented),
            (3, 1, 2, 4)
        );
        let told = [
            "doubled 0",
            "doubled 2",
            "invented 3",
            "invented 4",
            "invented 77",
            "invented x",
            "lost 5",
        ];
        assert_eq!(outcome.examples, told);
        let bounded = view(&SEEN).against_ledger(ledger, 1).expect("it can be read");
        assert_eq!(bounded.examples, ["doubled 0", "invented 3", "lost 5"], "of each kind one");
        assert_eq!((bounded.lost, bounded.doubled, bounded.invented), (1, 2, 4), "all count");
    }

    #[test]
    fn a_count_is_compared_within_what_nobody_knows() {
        for (count, lost, invented) in [(2, 1, 0), (3, 0, 0), (4, 0, 0), (5, 0, 1)] {
            let outcome = view(&SEEN).against_count(count, UnloggedRequests::default());
            assert_eq!((outcome.lost, outcome.invented), (lost, invented), "{count}");
        }
    }

    #[test]
    fn late_and_uncertain_requests_of_the_warm_up_and_of_probes_are_no_inventions() {
        let warm_up = Outcomes {
            right: 5,
            late: 2,
            unreachable: 7,
            unanswered: 3,
            error: 1,
            ..Outcomes::default()
        };
        let mut others = UnloggedRequests::from(warm_up);
        assert_eq!(others, UnloggedRequests { done: 7, unknown: 4 });
        others += UnloggedRequests { done: 10, unknown: 1 };
        // 3 of the load and 17 others for certain, and as many as 6 besides.
        for (count, lost, invented) in [(19, 1, 0), (20, 0, 0), (26, 0, 0), (27, 0, 1)] {
            let outcome = view(&SEEN).against_count(count, others);
            assert_eq!((outcome.lost, outcome.invented), (lost, invented), "{count}");
        }
    }

    #[test]
    fn what_the_program_of_an_experiment_writes_is_compared() {
        let values = [("directory".to_owned(), "/cell".to_owned())].into();
        let audit = |ledger: &[&str], count: &[&str]| Audit {
            ledger: ledger.iter().map(|word| (*word).to_owned()).collect(),
            count: count.iter().map(|word| (*word).to_owned()).collect(),
        };
        let by_ledger = audit(&["cat", "{directory}/ledger"], &[]);
        assert_eq!(
            by_ledger.command(&values).as_deref(),
            Ok(&["cat", "/cell/ledger"].map(str::to_owned)[..])
        );
        let compare = |audit: &Audit, output: &str, others| {
            let others = UnloggedRequests { done: others, unknown: 0 };
            audit.compare(&view(&SEEN), output.as_bytes(), others, 9)
        };
        let outcome = compare(&by_ledger, "0\n1\n5\n", 0).expect("it is a ledger");
        assert_eq!(outcome, AuditOutcome { answered: 3, ..AuditOutcome::default() });
        let by_count = audit(&[], &["count"]);
        let outcome = compare(&by_count, "9\n", 5).expect("it is a number");
        assert_eq!((outcome.lost, outcome.invented), (0, 0));
        let error = compare(&by_count, &"many".repeat(100), 0).expect_err("it is none").to_string();
        assert!(error.contains("has to write one number") && error.len() < 200, "{error}");
        let error = audit(&["{directry}"], &[]).command(&values).expect_err("it is none");
        assert!(error.to_string().contains("did you mean {directory}"), "{error}");
    }
}
