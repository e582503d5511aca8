//! What can be said of a system, and what can't: one line for a system, a sentence for a cell.
//!
//! A failure is the system's own if QUAKE had injected no fault and put on no stress; only those make a verdict. Whether
//! memory, descriptors or threads are used up is judged within 95 % ([`crate::statistics`]). Where too little was seen
//! the verdict is that it is undecided, and it says why. Nothing that was not loaded is called flat.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::figures::{FailureFigures, Figures, ResourceAgeing, Timeline};
use crate::record::{CellDirectory, FailureClass, Outcomes, RecordError};
use crate::statistics::ageing::Judgement;
use crate::statistics::trend::Slope;
use crate::words;

/// What a cell came to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// It served, and used nothing up.
    Flat,
    /// It served; whether it uses anything up was not to be judged.
    Served,
    /// Too little was seen.
    Undecided,
    /// It is not complete.
    Incomplete,
    /// It served, and uses something up.
    Ageing,
    /// It failed, with nobody's help.
    Failed(FailureClass),
}

impl VerdictKind {
    /// In a word: `ZOMBIE`, `flat`.
    pub fn word(self) -> String {
        match self {
            Self::Flat => "flat".to_owned(),
            Self::Served => "no failure".to_owned(),
            Self::Undecided => "undecided".to_owned(),
            Self::Incomplete => "incomplete".to_owned(),
            Self::Ageing => "AGEING".to_owned(),
            Self::Failed(class) => class.name().to_owned(),
        }
    }

    /// Whether it speaks against the system.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Failed(_) | Self::Ageing)
    }

    /// The greater the worse.
    fn badness(self) -> u8 {
        match self {
            Self::Flat => 0,
            Self::Served => 1,
            Self::Undecided => 2,
            Self::Incomplete => 3,
            Self::Ageing => 4,
            Self::Failed(class) => u8::MAX - class as u8,
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// In a word.
    pub kind: VerdictKind,
    /// Right answers until it failed, or all of them.
    pub requests: u64,
    /// What led to it.
    pub cause: String,
    /// In one sentence.
    pub sentence: String,
}

/// The verdict on a cell.
///
/// # Errors
/// If its files can't be read.
pub fn verdict(cell: &CellDirectory, experiment: &Experiment) -> Result<Verdict, RecordError> {
    let (figures, _) = Figures::read(cell, experiment)?;
    Ok(Verdict::of(&figures))
}

impl Verdict {
    /// The verdict on a cell of these figures.
    pub fn of(figures: &Figures) -> Self {
        let rising: Vec<String> = rising(figures).map(growth).collect();
        let (kind, requests, mut cause) = judged(figures, &rising);
        let failed = matches!(kind, VerdictKind::Failed(_));
        if failed {
            cause = joined(cause, &rising);
        }
        if (failed || kind == VerdictKind::Ageing) && figures.dropped_sessions > 0 {
            let count = words::count(figures.dropped_sessions);
            cause += &format!("; {count} answers opened a session that no client used again");
        }
        let lost = figures.agents_lost.iter().map(|(at, agent)| {
            format!(
                "client agent {agent} was lost after {}, and its load with it",
                words::seconds(*at)
            )
        });
        let cause = joined(cause, &lost.collect::<Vec<_>>());
        let sentence = sentence(figures, kind, requests, &cause);
        Self { kind, requests, cause, sentence }
    }
}

/// What provoked the last failure, if that was not over at the end.
fn still_down(figures: &Figures) -> Option<&str> {
    let last = figures.failures.last()?;
    last.provoked_by.as_deref().filter(|_| last.to_recover.is_none())
}

/// What it is, after how many requests, and why.
fn judged(figures: &Figures, rising: &[String]) -> (VerdictKind, u64, String) {
    let (right, wrong) = (figures.outcomes.right, figures.outcomes.wrong);
    if let Some(failure) = Timeline::gravest(&figures.failures) {
        return (VerdictKind::Failed(failure.class), failure.after_requests, failure.cause.clone());
    }
    if let Some(audit) = figures.audit.as_ref().filter(|of| of.lost + of.doubled + of.invented > 0)
    {
        let [lost, doubled, invented] =
            [audit.lost, audit.doubled, audit.invented].map(words::count);
        let mut cause =
            format!("the audit found {lost} lost, {doubled} doubled, {invented} invented");
        if !audit.examples.is_empty() {
            let first: Vec<&str> =
                audit.examples.iter().take(words::NAMED).map(String::as_str).collect();
            cause += &format!(" (first {})", first.join(", "));
        }
        return (VerdictKind::Failed(FailureClass::Wrong), right, cause);
    }
    if wrong > 0 {
        let which = words::requests(&figures.wrong_requests);
        let cause = format!("{} answers were not right{which}", words::count(wrong));
        return (VerdictKind::Failed(FailureClass::Wrong), right, cause);
    }
    if figures.ended.is_none() {
        return (VerdictKind::Incomplete, right, "it was not run to its end".to_owned());
    }
    if right == 0 && figures.outcomes.error > 0 {
        let cause = format!("all {} answers were faults", words::count(figures.outcomes.error));
        return (VerdictKind::Failed(FailureClass::Error), 0, cause);
    }
    if right == 0 {
        return (VerdictKind::Undecided, 0, "nothing was answered rightly".to_owned());
    }
    if let Some(by) = still_down(figures) {
        let cause = format!("it had not recovered from what {by} did when the run ended");
        return (VerdictKind::Undecided, right, cause);
    }
    if figures.ageing_ignored {
        return (VerdictKind::Served, right, String::new());
    }
    if !rising.is_empty() {
        return (VerdictKind::Ageing, right, rising.join("; "));
    }
    match undecided(figures) {
        Some(why) => (VerdictKind::Undecided, right, why),
        None => (VerdictKind::Flat, right, String::new()),
    }
}

/// What is told beside any verdict.
fn notes(figures: &Figures) -> Vec<String> {
    let mut notes: Vec<String> = flat(figures).filter_map(|of| grew(of, figures)).collect();
    let Outcomes { refused, .. } = figures.outcomes;
    if refused > 0 {
        let part = words::percent(refused as f64 / figures.outcomes.total() as f64);
        let within = figures
            .refusal
            .map_or(String::new(), |of| format!(", 99 % of them within {}", words::micros(of.p99)));
        notes.push(format!("{part} of requests refused{within}"));
    }
    notes
}

/// Whether it failed so, working on, before there was a right answer.
fn is_from_the_start(kind: VerdictKind, requests: u64) -> bool {
    matches!(kind, VerdictKind::Failed(class) if !class.ends_it()) && requests == 0
}

fn rising(figures: &Figures) -> impl Iterator<Item = &ResourceAgeing> {
    figures.ageing.iter().filter(|of| of.ageing.judgement == Judgement::Rising)
}

/// Why nothing can be said of what is used up.
fn undecided(figures: &Figures) -> Option<String> {
    if figures.ageing.is_empty() {
        return Some("no process of it was watched".to_owned());
    }
    let why = figures.ageing.iter().find_map(|of| match &of.ageing.judgement {
        Judgement::Undecided(why) => Some(format!("{} of {}: {why}", of.resource, of.process)),
        _ => None,
    })?;
    Some(why)
}

fn joined(cause: String, more: &[String]) -> String {
    [cause]
        .into_iter()
        .chain(more.iter().cloned())
        .filter(|of| !of.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// An amount of a resource: bytes, or how many.
pub(crate) fn amount(of: f64, resource: &str) -> String {
    match resource {
        "memory" => words::bytes(of),
        _ => words::number(of),
    }
}

/// A slope with its bounds, for memory a request and for what is counted 1,000 requests.
pub(crate) fn slope(of: Slope, resource: &str) -> String {
    let (of, per) = match resource {
        "memory" => (of, "a request"),
        _ => (of.times(1000.0), "per 1,000 requests"),
    };
    let [slope, lower, upper] = [of.slope, of.lower, of.upper].map(|of| amount(of, resource));
    format!("{slope} {per} (95 %: {lower} to {upper})")
}

fn growth(of: &ResourceAgeing) -> String {
    let ageing = &of.ageing;
    let mut text = format!("{} of {} grows", of.resource, of.process);
    // Over requests if it surely does so; what grows by time, whether anybody asks or not, over time.
    let sure = |per: &Slope| per.lower > 0.0;
    match (ageing.per_request.filter(sure), ageing.per_hour) {
        (Some(per), _) => text += &format!(" by {}", slope(per, &of.resource)),
        (None, Some(per)) => {
            let [slope, lower, upper] =
                [per.slope, per.lower, per.upper].map(|per| amount(per, &of.resource));
            text += &format!(" by {slope} an hour (95 %: {lower} to {upper})");
        }
        (None, None) => {}
    }
    if let (Some((room, by)), Some(per)) = (&of.room, ageing.per_hour.filter(|per| per.lower > 0.0))
    {
        let hours = *room as f64 / per.slope;
        text += &format!("; {by} would last {}", words::seconds(3600.0 * hours));
    }
    text
}

fn flat(figures: &Figures) -> impl Iterator<Item = &ResourceAgeing> {
    figures.ageing.iter().filter(|of| of.ageing.judgement == Judgement::Flat)
}

/// Growth that is sure, and too little to be a leak.
fn grew(of: &ResourceAgeing, figures: &Figures) -> Option<String> {
    let ageing = &of.ageing;
    let per = ageing.per_request.filter(|per| per.lower > 0.0)?;
    let (per, unit) = match of.resource.as_str() {
        "memory" => (per, "a request"),
        _ => (per.times(1000.0), "per 1,000 requests"),
    };
    let [lower, upper] = [per.lower, per.upper].map(|of_it| amount(of_it, &of.resource));
    let mut text = format!("{} of {} grew by {lower} to {upper} {unit}", of.resource, of.process);
    if let Some(hour) = ageing.per_hour.filter(|_| ageing.level > 0.0) {
        let most = hour.upper * figures.seconds / 3600.0 / ageing.level;
        text += &format!(", at most {} of what it uses", words::share(most));
    }
    Some(text)
}

/// What is sure of what does not rise: no leak above so much a request.
fn excluded(figures: &Figures) -> Vec<String> {
    let unsure = flat(figures).filter(|of| grew(of, figures).is_none());
    let words = unsure.filter_map(|of| {
        let upper = of.ageing.per_request?.upper.max(0.0);
        if upper == 0.0 {
            return Some(format!("{} of {}", of.resource, of.process));
        }
        let (upper, per) = match of.resource.as_str() {
            "memory" => (words::bytes(upper), "a request"),
            _ => (words::number(1000.0 * upper), "per 1,000 requests"),
        };
        Some(format!("{} of {} above {upper} {per}", of.resource, of.process))
    });
    words.collect()
}

fn sentence(figures: &Figures, kind: VerdictKind, requests: u64, cause: &str) -> String {
    let count = words::count(requests);
    let mut text = match kind {
        VerdictKind::Failed(class) if is_from_the_start(kind, requests) => {
            format!("{}: from the start: {cause}", class.name())
        }
        VerdictKind::Failed(class) => {
            let after =
                Timeline::gravest(&figures.failures).map_or(String::new(), |of| match of.since {
                    ..0.0 => "before the load, ".to_owned(),
                    since => format!("{} after the start, ", words::seconds(since)),
                });
            format!("{}: {after}after {count} right answers: {cause}", class.name())
        }
        VerdictKind::Ageing => format!("It served {count} requests and ages: {cause}"),
        VerdictKind::Undecided => format!("Undecided after {count} right answers: {cause}"),
        VerdictKind::Incomplete => format!("Incomplete after {count} right answers: {cause}"),
        VerdictKind::Served => format!("No failure over {count} requests"),
        VerdictKind::Flat if cause.is_empty() => format!("Flat over {count} requests"),
        VerdictKind::Flat => format!("Flat over {count} requests, though {cause}"),
    };
    for note in notes(figures) {
        text += &format!("; {note}");
    }
    let excluded = excluded(figures);
    if !excluded.is_empty() {
        text += &format!("; within 95 % there is no growth in {}", excluded.join(", "));
    }
    let provoked: Vec<&FailureFigures> =
        figures.failures.iter().filter(|of| of.provoked_by.is_some()).collect();
    if figures.faults > 0 {
        text += &format!("; faults injected: {}", figures.faults);
    }
    if let Some((_, first)) = figures.faults_failed.first() {
        let count = figures.faults_failed.len();
        text += &format!("; faults that could not be injected: {count}, the first of them {first}");
    }
    for (stress, short) in figures.stresses.iter().filter_map(|of| Some((of, of.short.as_ref()?))) {
        text += &format!("; the stress of {} was short: {short}", stress.name);
    }
    if !provoked.is_empty() {
        text += &format!("; failures after those or under stress: {}", provoked.len());
        let median = |of: fn(&FailureFigures) -> Option<f64>| {
            let mut times: Vec<f64> = provoked.iter().filter_map(|failure| of(failure)).collect();
            crate::statistics::median(&mut times)
        };
        if let Some(time) = median(|of| Some(of.to_detect)) {
            text += &format!(", noticed after {}", words::seconds(time));
        }
        if let Some(time) = median(|of| of.to_recover) {
            text += &format!(", back after {}", words::seconds(time));
        }
        text += " (medians)";
    }
    text + "."
}

/// What the repetitions of a cell come to together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SystemVerdict {
    /// The system's name.
    pub system: String,
    /// The cell's name.
    pub cell: String,
    /// The matrix's values.
    pub values: BTreeMap<String, String>,
    /// The gravest of its repetitions.
    pub kind: VerdictKind,
    /// In one line, for a terminal.
    pub line: String,
}

/// A line for each cell, in the order in which they come; repetitions of a cell have to be neighbours.
pub fn systems(cells: &[(Figures, Verdict)]) -> Vec<SystemVerdict> {
    let lines = cells.chunk_by(|a, b| a.0.cell == b.0.cell).map(system);
    lines.collect()
}

fn system(repetitions: &[(Figures, Verdict)]) -> SystemVerdict {
    let (figures, verdict) = repetitions
        .iter()
        .max_by_key(|(_, verdict)| (verdict.kind.badness(), Reverse(verdict.requests)))
        .expect("chunks are not empty");
    let same: Vec<u64> = repetitions
        .iter()
        .filter(|(_, other)| other.kind == verdict.kind)
        .map(|(_, other)| other.requests)
        .collect();
    let (least, most) = (same.iter().min(), same.iter().max());
    let requests = match (least, most) {
        (Some(least), Some(most)) if least < most => {
            format!("{} to {} requests", words::count(*least), words::count(*most))
        }
        _ => format!("{} requests", words::count(verdict.requests)),
    };
    let over = match verdict.kind {
        kind if is_from_the_start(kind, most.copied().unwrap_or(0)) => "from the start".to_owned(),
        VerdictKind::Flat | VerdictKind::Served | VerdictKind::Ageing => format!("over {requests}"),
        _ => format!("after {requests}"),
    };
    let mut line = format!("{}: {} {over}", figures.system, verdict.kind.word());
    if repetitions.len() > 1 {
        line += &format!(" ({} of {} runs)", same.len(), repetitions.len());
    }
    if !verdict.cause.is_empty() {
        line += &format!(", {}", verdict.cause);
    }
    for note in notes(figures) {
        line += &format!(", {note}");
    }
    SystemVerdict {
        system: figures.system.clone(),
        cell: figures.cell.clone(),
        values: figures.values.clone(),
        kind: verdict.kind,
        line,
    }
}

/// What the cells that did badly have in common and no other has: `scope = session`.
pub fn contrast(cells: &[SystemVerdict]) -> Vec<(String, String)> {
    let (bad, good): (Vec<&SystemVerdict>, Vec<_>) =
        cells.iter().partition(|cell| cell.kind.is_bad());
    let values = |cells: &[&SystemVerdict], name: &str| -> BTreeSet<String> {
        cells.iter().filter_map(|cell| cell.values.get(name).cloned()).collect()
    };
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.values.keys()).collect();
    let tells = names.into_iter().filter_map(|name| {
        let (of_bad, of_good) = (values(&bad, name), values(&good, name));
        let only = of_bad.first().filter(|_| of_bad.len() == 1 && !good.is_empty())?;
        (!of_good.contains(only)).then(|| (name.clone(), only.clone()))
    });
    tells.collect()
}
