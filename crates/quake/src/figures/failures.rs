//! Failures of a cell, with what came before and after each.

use serde::{Deserialize, Serialize};

use crate::record::{Event, Failure, FailureClass, Happening};

/// A failure is laid to a fault that came no later than this after it seemed to begin: both are seen second by second.
const SAME_SECOND: f64 = 1.0;
/// And no earlier than this before, in seconds, unless it has not recovered since.
const AFTERMATH: f64 = 30.0;

/// A failure, and how it went on. Times in seconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FailureFigures {
    /// Of which class.
    pub class: FailureClass,
    /// Since the common start.
    pub since: f64,
    /// Right answers until then.
    pub after_requests: u64,
    /// What speaks for it.
    pub cause: String,
    /// The fault or stress that QUAKE itself had put upon the system; none if the failure is the system's own.
    pub provoked_by: Option<String>,
    /// Until the watchdog said so: from the fault, if this is the first failure after it; else from when it began.
    pub to_detect: f64,
    /// Until the first right answer.
    pub to_answer: Option<f64>,
    /// Until goodput was back at 90 % of the baseline.
    pub to_recover: Option<f64>,
}

/// A span of time in which something was on, with its name.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Span {
    /// What.
    pub name: String,
    /// From this second
    pub from: f64,
    /// to this; none if it lasted to the end.
    pub to: Option<f64>,
    /// What could not be had of it, in words; why it ended before its time.
    pub short: Option<String>,
}

/// What the events of a cell tell together. They have to be in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Failures.
    pub failures: Vec<FailureFigures>,
    /// Stresses.
    pub stresses: Vec<Span>,
    /// Faults that were injected: when, and in words.
    pub faults: Vec<(f64, String)>,
    /// Preventive restarts: when, and why.
    pub rejuvenations: Vec<(f64, String)>,
    /// Agents that were lost.
    pub agents_lost: Vec<(f64, u32)>,
}

impl Timeline {
    /// Of a cell's events.
    pub fn of(events: &[Event]) -> Self {
        let mut all = Self::default();
        // The fault since which the system has not been well again.
        let mut fault: Option<(f64, String)> = None;
        for event in events {
            match &event.what {
                Happening::Fault { action, process } => {
                    let words = format!("{action:?} of {process}").to_lowercase();
                    all.faults.push((event.at, words.clone()));
                    fault = Some((event.at, words));
                }
                Happening::Stress { resource, on: true, short } => {
                    let (name, short) = (resource.clone(), short.clone());
                    all.stresses.push(Span { name, from: event.at, to: None, short });
                }
                Happening::Stress { resource, on: false, short } => {
                    let mut open = all.stresses.iter_mut().rev();
                    if let Some(span) = open.find(|of| of.to.is_none() && of.name == *resource) {
                        span.to = Some(event.at);
                        // What is told last is what it came to.
                        span.short = short.clone().or(span.short.take());
                    }
                }
                Happening::Failure(failure) => {
                    let provoked = all.provoked(failure, fault.as_ref());
                    let mut figures = FailureFigures::new(failure, event.at, provoked.as_ref());
                    if let Some((fault, _)) = provoked
                        && all.failures.iter().all(|earlier| earlier.since < fault)
                    {
                        figures.to_detect = event.at - fault;
                    }
                    all.failures.push(figures);
                }
                Happening::Answered => {
                    for failure in all.failures.iter_mut().filter(|of| of.to_answer.is_none()) {
                        failure.to_answer = Some(event.at - failure.since);
                    }
                }
                Happening::Recovered => {
                    fault = None;
                    for failure in all.failures.iter_mut().filter(|of| of.to_recover.is_none()) {
                        failure.to_recover = Some(event.at - failure.since);
                        failure.to_answer.get_or_insert(event.at - failure.since);
                    }
                }
                Happening::Rejuvenated { because } => {
                    all.rejuvenations.push((event.at, because.clone()));
                    fault = Some((event.at, "rejuvenation".to_owned()));
                }
                Happening::AgentLost { agent } => all.agents_lost.push((event.at, *agent)),
                Happening::Started { .. } | Happening::Ready | Happening::Ended { .. } => {}
            }
        }
        all
    }

    /// What QUAKE has done that may have caused it, and since when.
    fn provoked(&self, failure: &Failure, fault: Option<&(f64, String)>) -> Option<(f64, String)> {
        let is_down = |by: &String| {
            let mut failures = self.failures.iter();
            failures.any(|of| of.provoked_by.as_ref() == Some(by) && of.to_recover.is_none())
        };
        let may = |(at, by): &&(f64, String)| {
            *at <= failure.since + SAME_SECOND && (failure.since - at <= AFTERMATH || is_down(by))
        };
        let fault = fault.filter(may).cloned();
        let during = |span: &&Span| {
            span.from <= failure.since + SAME_SECOND && span.to.is_none_or(|to| to >= failure.since)
        };
        let stress = || self.stresses.iter().find(during);
        fault.or_else(|| stress().map(|span| (failure.since, format!("stress of {}", span.name))))
    }

    /// The first failure of the gravest class that the system owes to nobody but itself.
    pub fn gravest(failures: &[FailureFigures]) -> Option<&FailureFigures> {
        let own = failures.iter().filter(|failure| failure.provoked_by.is_none());
        own.min_by_key(|failure| failure.class)
    }
}

impl FailureFigures {
    fn new(failure: &Failure, said: f64, provoked: Option<&(f64, String)>) -> Self {
        // Not before it was provoked: what is seen is seen by whole seconds.
        let since = provoked.map_or(failure.since, |(at, _)| failure.since.max(*at));
        Self {
            class: failure.class,
            since,
            after_requests: failure.after_requests,
            cause: failure.cause.clone(),
            provoked_by: provoked.map(|(_, by)| by.clone()),
            to_detect: (said - since).max(0.0),
            to_answer: None,
            to_recover: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::FaultAction;

    fn failure(class: FailureClass, since: f64) -> Happening {
        Happening::Failure(Failure { class, since, after_requests: 10, cause: "seen".to_owned() })
    }

    fn timeline(events: Vec<(f64, Happening)>) -> Timeline {
        let events: Vec<Event> = events.into_iter().map(|(at, what)| Event { at, what }).collect();
        Timeline::of(&events)
    }

    #[test]
    fn a_failure_after_a_fault_is_not_the_systems_own_until_it_is_well_again() {
        let kill = Happening::Fault { action: FaultAction::Kill, process: "server".to_owned() };
        let of = timeline(vec![
            (10.4, kill),
            (11.2, failure(FailureClass::Crash, 10.0)),
            (12.5, Happening::Answered),
            (13.5, Happening::Recovered),
            (40.0, failure(FailureClass::Hang, 35.0)),
        ]);
        let [first, second] = &of.failures[..] else { panic!("{of:?}") };
        assert_eq!(first.provoked_by.as_deref(), Some("kill of server"));
        assert!((first.since - 10.4).abs() < 1e-9 && (first.to_detect - 0.8).abs() < 1e-9);
        assert!((first.to_answer.expect("it was") - 2.1).abs() < 1e-9, "{first:?}");
        assert!((first.to_recover.expect("it did") - 3.1).abs() < 1e-9, "{first:?}");
        assert_eq!((&second.provoked_by, second.to_detect, second.to_recover), (&None, 5.0, None));
        assert_eq!(Timeline::gravest(&of.failures), Some(second));
    }

    #[test]
    fn a_failure_is_detected_after_the_fault_and_not_after_it_was_seen() {
        let kill = Happening::Fault { action: FaultAction::Kill, process: "server".to_owned() };
        let stop = Happening::Fault { action: FaultAction::Stop, process: "server".to_owned() };
        let of = timeline(vec![
            // As it is live: the process ends at once, and that is heard a little later.
            (10.4, kill),
            (10.52, failure(FailureClass::Crash, 10.5)),
            // Whatever comes while it starts again has a beginning of its own.
            (15.0, failure(FailureClass::Hang, 12.0)),
            (20.0, Happening::Recovered),
            (30.25, stop),
            (37.0, failure(FailureClass::Hang, 31.0)),
        ]);
        let detected: Vec<f64> = of.failures.iter().map(|of| of.to_detect).collect();
        let expected = [0.12, 3.0, 6.75];
        for (detected, expected) in detected.iter().zip(expected) {
            assert!((detected - expected).abs() < 1e-9, "{of:?}");
        }
        assert_eq!(detected.len(), expected.len());
    }

    #[test]
    fn a_fault_that_was_survived_excuses_nothing_later() {
        let stop = || Happening::Fault { action: FaultAction::Stop, process: "server".to_owned() };
        let own = timeline(vec![(10.0, stop()), (105.0, failure(FailureClass::Crash, 100.0))]);
        assert_eq!(own.failures[0].provoked_by, None);
        let still_down = timeline(vec![
            (10.0, stop()),
            (15.0, failure(FailureClass::Hang, 10.0)),
            (105.0, failure(FailureClass::Crash, 100.0)),
        ]);
        assert_eq!(Timeline::gravest(&still_down.failures), None, "{still_down:?}");
    }

    #[test]
    fn a_failure_under_stress_is_laid_to_it_and_not_one_before() {
        let why = "it ended before its time: signal 9";
        let stress = |on: bool| {
            let short = (!on).then(|| why.to_owned());
            Happening::Stress { resource: "memory".to_owned(), on, short }
        };
        let of = timeline(vec![
            (4.0, failure(FailureClass::Degraded, 2.0)),
            (5.0, stress(true)),
            (9.0, failure(FailureClass::Refused, 7.0)),
            (10.0, stress(false)),
            (20.0, failure(FailureClass::Zombie, 15.0)),
        ]);
        let by: Vec<_> = of.failures.iter().map(|of| of.provoked_by.as_deref()).collect();
        assert_eq!(by, [None, Some("stress of memory"), None]);
        let (name, short) = ("memory".to_owned(), Some(why.to_owned()));
        assert_eq!(of.stresses, [Span { name, from: 5.0, to: Some(10.0), short }]);
        let gravest = Timeline::gravest(&of.failures).expect("two are its own");
        assert_eq!(gravest.class.name(), "ZOMBIE", "worse than DEGRADED, though later");
    }
}
