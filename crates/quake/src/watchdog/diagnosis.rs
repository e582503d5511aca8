//! Which class of failure the last seconds are, and what speaks for it.

use fishplate_formats::units;

use super::history::{History, Second, Window, seconds};
use crate::experiment::Watchdog;
use crate::probe::{self, NOBODY_LISTENS};
use crate::record::{FailureClass, Outcome, Outcomes};

/// A port that refuses is believed after so many seconds: a server that is busy may refuse for a moment.
const REFUSES_FOR: usize = 2;

/// What was found.
#[derive(Debug, PartialEq)]
pub(super) struct Diagnosis {
    pub(super) class: FailureClass,
    /// Seconds since the common start.
    pub(super) since: f64,
    pub(super) cause: String,
}

/// The gravest of what can be said of the last seconds.
pub(super) fn diagnose(history: &History, settings: &Watchdog) -> Option<Diagnosis> {
    let found = [
        gone(history),
        silent(history, settings),
        low(history, settings),
        wrong(history),
        faulty(history, settings),
    ];
    found.into_iter().flatten().min_by_key(|found| found.class)
}

/// Nothing is answered, and the port refuses.
fn gone(history: &History) -> Option<Diagnosis> {
    let refuses = |second: &&Second| {
        let refused = match &second.probe {
            Some(answer) => answer.as_ref().is_err_and(|wrong| wrong.starts_with(NOBODY_LISTENS)),
            None => {
                let unreachable = second.outcomes.unreachable;
                unreachable > 0 && unreachable == second.outcomes.total()
            }
        };
        second.answers() == 0 && refused
    };
    let refusing: Vec<&Second> = history.latest_first().take_while(refuses).collect();
    if refusing.len() < REFUSES_FOR {
        return None;
    }
    let cause = format!("its port has refused connections for {} s", refusing.len());
    Some(Diagnosis { class: FailureClass::Crash, since: first_of(&refusing), cause })
}

/// Nothing is answered at all.
fn silent(history: &History, settings: &Watchdog) -> Option<Diagnosis> {
    let silence: Vec<&Second> =
        history.latest_first().take_while(|second| is_silent(second)).collect();
    let asked = history.load_is_offered() || silence.iter().any(|second| second.probe.is_some());
    if silence.len() < seconds(settings.hang_after) || !asked {
        return None;
    }
    let busy = busy(&silence);
    let thrashes = busy.is_some_and(|cores| cores > settings.busy_above);
    let class = if thrashes { FailureClass::Zombie } else { FailureClass::Hang };
    let mut cause = format!("no answer to clients or probe for {} s", silence.len());
    add_processor(&mut cause, busy, thrashes);
    add_memory(&mut cause, history);
    Some(Diagnosis { class, since: first_of(&silence), cause })
}

/// Neither clients nor probe had an answer.
fn is_silent(second: &Second) -> bool {
    let probe = match &second.probe {
        Some(Ok(_)) => false,
        Some(Err(wrong)) => probe::is_silence(wrong),
        None => true,
    };
    second.answers() == 0 && probe
}

/// Goodput is low.
fn low(history: &History, settings: &Watchdog) -> Option<Diagnosis> {
    let window = history.window()?;
    let part = window.goodput_part()?;
    // Silence is judged when it has lasted for its time.
    let silence = history.last().is_none_or(is_silent);
    if part >= settings.degraded_below || !history.load_is_offered() || silence {
        return None;
    }
    let Outcomes { wrong, error, refused, .. } = window.outcomes;
    let reasons = [
        (wrong, FailureClass::Wrong),
        (error, FailureClass::Error),
        (refused, FailureClass::Refused),
    ];
    let (most, reason) = reasons.into_iter().max_by_key(|(count, _)| *count)?;
    let explained = 2 * (wrong + error + refused) >= window.outcomes.total() && most > 0;
    let below =
        if part < settings.zombie_below { settings.zombie_below } else { settings.degraded_below };
    let low: Vec<&Second> =
        history.latest_first().take_while(|one| window.is_low(one, below)).collect();
    // The window may be low by its older seconds only.
    let since = if low.is_empty() { first_of(&window.seconds) } else { first_of(&low) };
    let mut cause = figures(&window);
    if explained {
        return Some(Diagnosis { class: reason, since, cause });
    }
    let busy = busy(&window.seconds);
    let thrashes = busy.is_some_and(|cores| cores > settings.busy_above);
    let class =
        if part < settings.zombie_below { FailureClass::Zombie } else { FailureClass::Degraded };
    add_processor(&mut cause, busy, thrashes);
    add_memory(&mut cause, history);
    Some(Diagnosis { class, since, cause })
}

/// It lies.
fn wrong(history: &History) -> Option<Diagnosis> {
    let last = history.last()?;
    let Outcomes { right, wrong, .. } = last.outcomes;
    let cause = format!("{wrong} answers were wrong{}, {right} right", last.wrong_requests);
    (wrong > 0).then(|| Diagnosis {
        class: FailureClass::Wrong,
        since: f64::from(last.second),
        cause,
    })
}

/// Too much of what ended is faults or refusals.
fn faulty(history: &History, settings: &Watchdog) -> Option<Diagnosis> {
    let window = history.window()?;
    let ended = window.outcomes.total() as f64;
    let kinds = [
        (FailureClass::Error, settings.error_above, Outcome::Error),
        (FailureClass::Refused, settings.refused_above, Outcome::Refused),
    ];
    kinds.into_iter().find_map(|(class, above, outcome)| {
        if window.outcomes.count(outcome) as f64 <= above * ended {
            return None;
        }
        let mut of_them = window.seconds.clone();
        of_them.retain(|second| second.outcomes.count(outcome) > 0);
        Some(Diagnosis { class, since: first_of(&of_them), cause: figures(&window) })
    })
}

/// The first of some of the last seconds.
fn first_of(seconds: &[&Second]) -> f64 {
    f64::from(seconds.iter().map(|second| second.second).min().unwrap_or(0))
}

/// Processor time that the server used, in cores, if it is known.
fn busy(seconds: &[&Second]) -> Option<f64> {
    let known: Vec<u64> =
        seconds.iter().filter_map(|second| Some(second.server?.processor)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64 / 1e6)
}

fn figures(window: &Window<'_>) -> String {
    let Outcomes { right, .. } = window.outcomes;
    let (length, expected) = (window.seconds.len(), window.expected);
    let mut text = format!("{right} right answers in {length} s, {expected:.0} expected");
    for outcome in Outcome::ALL {
        let count = window.outcomes.count(outcome);
        if outcome != Outcome::Right && count > 0 {
            text += &format!(", {count} {}", outcome.word());
        }
    }
    text
}

fn add_processor(cause: &mut String, busy: Option<f64>, thrashes: bool) {
    if let Some(cores) = busy {
        let word = if thrashes { "thrashing" } else { "idle" };
        *cause += &format!("; it used {cores:.2} cores ({word})");
    }
}

fn add_memory(cause: &mut String, history: &History) {
    let now = history.last().and_then(|last| last.server).map(|server| server.all.memory);
    if let (Some(now), Some(first)) = (now, history.memory_at_first) {
        let (now, first) = (units::rounded(now), units::rounded(first));
        *cause += &format!("; memory {now}, {first} at the beginning");
    }
}
