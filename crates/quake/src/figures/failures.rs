//! Failures of a cell, with what came before and after each.

use serde::{Deserialize, Serialize};

use crate::experiment::FaultAction;
use crate::record::{Event, Failure, FailureClass, Happening};

/// A failure is laid to a fault that came no later than this after it seemed to begin: both are seen second by second.
const SAME_SECOND: f64 = 1.0;
/// And no earlier than this before, in seconds, unless it has not recovered since.
const AFTERMATH: f64 = 30.0;
/// How a stress is told that provoked a failure; its resource follows.
const STRESS: &str = "stress of ";

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
    /// Whether right answers went on, if fewer, when it was said.
    #[serde(default)]
    pub still_answers: bool,
    /// When the stress that provoked it had ended, if it had not recovered before: it recovers from then.
    #[serde(default)]
    pub released: Option<f64>,
    /// From when it began, or was released, until there were right answers again; none if there were not, or if they had
    /// never stopped.
    pub to_answer: Option<f64>,
    /// Until goodput was back at 90 % of the baseline, likewise.
    pub to_recover: Option<f64>,
}

/// A span of time in which something was on, with its name.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Span {
    /// What was on, as the experiment names it.
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
    /// Those that could not be: when, and which and why.
    pub faults_failed: Vec<(f64, String)>,
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
        // That of which it was so until the last came, should that turn out to be none.
        let mut before: Option<(f64, String)> = None;
        for event in events {
            match &event.what {
                Happening::Fault { action, process } => {
                    let words = in_words(*action, process);
                    all.faults.push((event.at, words.clone()));
                    before = fault.replace((event.at, words));
                }
                Happening::FaultFailed { action, process, why } => {
                    let words = in_words(*action, process);
                    let told = all.faults.iter().rposition(|(_, told)| *told == words);
                    let at = told.map_or(event.at, |told| all.faults.remove(told).0);
                    // One that was injected before may not be over.
                    if fault.as_ref().is_some_and(|of| *of == (at, words.clone())) {
                        fault = before.take();
                    }
                    all.faults_failed.push((at, format!("{words}: {why}")));
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
                        all.release(event.at);
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
                    figures.released = all.released(failure).filter(|_| figures.is_by_stress());
                    all.failures.push(figures);
                }
                Happening::Answered => {
                    for failure in all.failures.iter_mut().filter(|of| of.to_answer.is_none()) {
                        failure.to_answer = Some(event.at - failure.recovers_from());
                    }
                }
                Happening::Recovered => {
                    (fault, before) = (None, None);
                    for failure in all.failures.iter_mut().filter(|of| of.to_recover.is_none()) {
                        failure.to_recover = Some(event.at - failure.recovers_from());
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
        let stress = || self.stresses.iter().find(|span| span.is_on(failure.since));
        fault.or_else(|| stress().map(|span| (failure.since, format!("{STRESS}{}", span.name))))
    }

    /// When the last of the stresses had ended under which it failed, of those that have.
    fn released(&self, failure: &Failure) -> Option<f64> {
        let under = self.stresses.iter().filter(|span| span.is_on(failure.since));
        under.filter_map(|span| span.to).reduce(f64::max)
    }

    /// A stress ended, the last that was pushed or one before: failures under it recover from now.
    fn release(&mut self, now: f64) {
        let ended = self.stresses.iter().filter(|span| span.to == Some(now));
        for span in ended {
            let failures = self.failures.iter_mut().filter(|of| of.to_recover.is_none());
            for failure in failures.filter(|of| of.is_by_stress() && span.is_on(of.since)) {
                failure.released = Some(now);
            }
        }
    }

    /// The first failure of the gravest class that the system owes to nobody but itself.
    pub fn gravest(failures: &[FailureFigures]) -> Option<&FailureFigures> {
        let own = failures.iter().filter(|failure| failure.provoked_by.is_none());
        own.min_by_key(|failure| failure.class)
    }
}

/// A fault in words: `kill of server`.
fn in_words(action: FaultAction, process: &str) -> String {
    format!("{action:?} of {process}").to_lowercase()
}

impl Span {
    /// Whether something that began then, as far as is seen by whole seconds, began in it.
    fn is_on(&self, at: f64) -> bool {
        self.from <= at + SAME_SECOND && self.to.is_none_or(|to| to >= at)
    }
}

impl FailureFigures {
    /// From when on its recovery counts.
    pub fn recovers_from(&self) -> f64 {
        self.released.unwrap_or(self.since)
    }

    fn is_by_stress(&self) -> bool {
        self.provoked_by.as_ref().is_some_and(|by| by.starts_with(STRESS))
    }

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
            still_answers: failure.still_answers,
            released: None,
            to_answer: None,
            to_recover: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(class: FailureClass, since: f64) -> Happening {
        let (cause, still_answers) = ("seen".to_owned(), false);
        Happening::Failure(Failure { class, since, after_requests: 10, cause, still_answers })
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
    fn recovery_after_a_stress_counts_from_its_end() {
        let stress = |resource: &str, on| {
            let resource = resource.to_owned();
            Happening::Stress { resource, on, short: None }
        };
        let of = timeline(vec![
            (15.0, stress("disk-full", true)),
            (16.0, stress("memory", true)),
            (20.0, failure(FailureClass::Refused, 17.0)),
            (40.0, stress("memory", false)),
            (45.5, stress("disk-full", false)),
            (46.0, Happening::Answered),
            (47.0, Happening::Recovered),
            // This one is over before its stress is.
            (60.0, stress("memory", true)),
            (66.0, failure(FailureClass::Degraded, 61.0)),
            (70.0, Happening::Recovered),
            (80.0, stress("memory", false)),
            // Nor does another stress's end count for it, or one of its own for what nobody provoked.
            (90.0, failure(FailureClass::Hang, 85.0)),
            (91.0, stress("memory", true)),
            (95.0, stress("memory", false)),
            (99.0, Happening::Recovered),
        ]);
        let times: Vec<_> = of.failures.iter().map(|of| (of.to_answer, of.to_recover)).collect();
        assert_eq!(times, [(Some(0.5), Some(1.5)), (None, Some(9.0)), (None, Some(14.0))]);
    }

    #[test]
    fn a_fault_that_could_not_be_injected_provokes_nothing() {
        let process = || "server".to_owned();
        let kill = || Happening::Fault { action: FaultAction::Kill, process: process() };
        let why = "process server does not run".to_owned();
        let failed = || Happening::FaultFailed {
            action: FaultAction::Kill,
            process: process(),
            why: why.clone(),
        };
        let of = timeline(vec![
            (10.0, kill()),
            (10.5, failed()),
            (12.0, failure(FailureClass::Hang, 11.0)),
            (13.0, Happening::Recovered),
            // The first is not over when the second comes too early.
            (20.0, kill()),
            (20.5, kill()),
            (20.6, failed()),
            (21.0, failure(FailureClass::Crash, 20.9)),
        ]);
        let told = "kill of server";
        assert_eq!(of.faults, [(20.0, told.to_owned())]);
        let failed = [10.0, 20.5].map(|at| (at, format!("{told}: {why}")));
        assert_eq!(of.faults_failed, failed);
        let by: Vec<_> = of.failures.iter().map(|of| of.provoked_by.as_deref()).collect();
        assert_eq!(by, [None, Some(told)], "{of:?}");
        assert!((of.failures[1].to_detect - 1.0).abs() < 1e-9, "from the first: {of:?}");
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
