//! Two runs, cell by cell, and the conditions under which a build fails: `goodput < 0.9`. A condition on what was not
//! measured fails; a run that measured nothing passes none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{CellResult, Results};
use crate::figures::Figures;
use crate::record::Quantiles;
use crate::statistics::median;
use crate::words;

/// How two runs are compared in a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Measure {
    /// The second run's by the first run's.
    Ratio,
    /// The second run's alone.
    Value,
}

/// A figure of a cell, by the name that conditions have for it.
#[derive(Clone, Copy)]
pub struct Metric {
    /// As conditions write it.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    measure: Measure,
    of: fn(&Figures) -> Option<f64>,
}

impl fmt::Debug for Metric {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name)
    }
}

fn time(of: &Figures, pick: fn(&Quantiles) -> u64) -> Option<f64> {
    of.latency.as_ref().map(|of| pick(of) as f64)
}

fn served(of: &Figures) -> bool {
    of.outcomes.total() > 0
}

fn counted(of: &Figures, count: u64) -> Option<f64> {
    served(of).then_some(count as f64)
}

const fn ratio(
    name: &'static str,
    meaning: &'static str,
    of: fn(&Figures) -> Option<f64>,
) -> Metric {
    Metric { name, meaning, measure: Measure::Ratio, of }
}

const fn value(
    name: &'static str,
    meaning: &'static str,
    of: fn(&Figures) -> Option<f64>,
) -> Metric {
    Metric { name, meaning, measure: Measure::Value, of }
}

/// All that can be compared.
pub const METRICS: &[Metric] = &[
    ratio("goodput", "right answers a second, B by A", |of| served(of).then_some(of.goodput)),
    ratio("p50", "median latency, B by A", |of| time(of, |of| of.p50)),
    ratio("p90", "90 % of latencies, B by A", |of| time(of, |of| of.p90)),
    ratio("p99", "99 % of latencies, B by A", |of| time(of, |of| of.p99)),
    ratio("p999", "99.9 % of latencies, B by A", |of| time(of, |of| of.p999)),
    ratio(
        "p99-corrected",
        "the same of all that should have been made, answered or not, B by A",
        |of| of.latency_corrected.as_ref().map(|of| of.p99 as f64),
    ),
    ratio("memory", "the most memory, B by A", |of| {
        (of.memory_peak > 0).then_some(of.memory_peak as f64)
    }),
    ratio("processor", "the system's processor time a request, B by A", |of| {
        (of.processor_per_request > 0.0).then_some(of.processor_per_request)
    }),
    value("availability", "part of requests with a right answer in time, in B", |of| {
        of.availability_clients
    }),
    value("served", "part of seconds in which goodput was not degraded, in B", |of| {
        of.seconds_served
    }),
    value("leak", "bytes a request that memory may grow by within 95 %, in B", |of| {
        let memory = of.ageing.iter().filter(|of| of.resource == "memory");
        let upper = memory.map(|of| of.ageing.per_request.map(|per| per.upper));
        upper.reduce(|one, other| Some(one?.max(other?))).flatten()
    }),
    value("wrong", "answers that were not right, in B", |of| counted(of, of.outcomes.wrong)),
    value("errors", "faults and statuses of 4xx and 5xx, in B", |of| {
        counted(of, of.outcomes.error)
    }),
    value("refused", "deliberate refusals, in B", |of| counted(of, of.outcomes.refused)),
    value("unanswered", "requests without an answer, in B", |of| {
        let outcomes = &of.outcomes;
        counted(of, outcomes.unreachable + outcomes.broken + outcomes.unanswered)
    }),
    value("failures", "failures that no fault or stress provoked, in B", |of| {
        let own = of.failures.iter().filter(|of| of.provoked_by.is_none()).count();
        counted(of, own as u64)
    }),
    value("lost", "right answers that the audit did not find, in B", |of| {
        of.audit.as_ref().map(|of| of.lost as f64)
    }),
    value("doubled", "requests that were done more than once, in B", |of| {
        of.audit.as_ref().map(|of| of.doubled as f64)
    }),
];

/// A condition under which a build fails: `goodput < 0.9`.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    metric: Metric,
    above: bool,
    limit: f64,
}

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{text:?} is no condition: write a figure, < or >, and a number, such as `goodput < 0.9`; figures are {names}"
)]
pub struct NotACondition {
    text: String,
    names: String,
}

impl FromStr for Condition {
    type Err = NotACondition;

    fn from_str(text: &str) -> Result<Self, NotACondition> {
        let wrong = || {
            let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            NotACondition { text: text.to_owned(), names: names.join(", ") }
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(at);
        let metric = METRICS.iter().find(|metric| metric.name == name.trim()).ok_or_else(wrong)?;
        let limit: f64 = rest[1..].trim().parse().map_err(|_| wrong())?;
        if !limit.is_finite() {
            return Err(wrong());
        }
        Ok(Self { metric: *metric, above: rest.starts_with('>'), limit })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        write!(to, "{} {sign} {}", self.metric.name, self.limit)
    }
}

/// A figure of a cell in both runs: medians over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which figure.
    pub figure: &'static str,
    /// In the first run; none if it was not measured.
    pub first: Option<f64>,
    /// In the second.
    pub second: Option<f64>,
    /// The second by the first, if both were measured and the first is not 0.
    pub ratio: Option<f64>,
}

/// A cell of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    /// Its name.
    pub cell: String,
    /// The figures.
    pub changes: Vec<Change>,
}

/// Two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Cells that both have.
    pub cells: Vec<CellComparison>,
    /// Cells that only one of them has.
    pub unmatched: Vec<String>,
    /// Conditions that hold, and what could not be judged, in words. Not empty: the build fails.
    pub failed: Vec<String>,
}

/// Compares two runs; with conditions, whether the second is good enough.
pub fn compare(first: &Results, second: &Results, conditions: &[Condition]) -> Comparison {
    let (before, after) = (by_cell(first), by_cell(second));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).copied().collect();
    let mut comparison = Comparison::default();
    for name in names {
        let (Some(before), Some(after)) = (before.get(name), after.get(name)) else {
            comparison.unmatched.push(name.clone());
            continue;
        };
        let change = |metric: &Metric| {
            let (first, second) = (middle(before, metric), middle(after, metric));
            let ratio = first.filter(|first| *first != 0.0).zip(second);
            let ratio = ratio.map(|(first, second)| second / first);
            Change { figure: metric.name, first, second, ratio }
        };
        for condition in conditions {
            let change = change(&condition.metric);
            comparison.failed.extend(condition.failed(name, &change));
        }
        let changes = METRICS.iter().map(change);
        let changes = changes.filter(|change| change.first.is_some() || change.second.is_some());
        comparison.cells.push(CellComparison { cell: name.clone(), changes: changes.collect() });
    }
    if !conditions.is_empty() {
        for name in &comparison.unmatched {
            comparison.failed.push(format!("{}: only one of the runs has it", label(name)));
        }
        if comparison.cells.is_empty() {
            comparison.failed.push("the runs have no cell in common".to_owned());
        }
    }
    comparison
}

fn by_cell(of: &Results) -> BTreeMap<&String, Vec<&CellResult>> {
    let mut cells: BTreeMap<&String, Vec<&CellResult>> = BTreeMap::new();
    for cell in &of.cells {
        cells.entry(&cell.figures.cell).or_default().push(cell);
    }
    cells
}

/// The median over the repetitions; none unless each has it.
fn middle(repetitions: &[&CellResult], metric: &Metric) -> Option<f64> {
    let values = repetitions.iter().map(|cell| (metric.of)(&cell.figures));
    median(&mut values.collect::<Option<Vec<f64>>>()?)
}

fn label(cell: &str) -> &str {
    if cell.is_empty() { "the one cell" } else { cell }
}

impl Condition {
    /// In words, if it holds, or can't be judged.
    fn failed(&self, cell: &str, change: &Change) -> Option<String> {
        let (cell, name) = (label(cell), self.metric.name);
        let of = match self.metric.measure {
            Measure::Ratio => change.ratio,
            Measure::Value => change.second,
        };
        let Some(of) = of else {
            return Some(format!("{cell}: {name} was not measured, so `{self}` can't be judged"));
        };
        let holds = if self.above { of > self.limit } else { of < self.limit };
        holds.then(|| format!("{cell}: {name} is {}, `{self}`", words::number(of)))
    }
}

impl Comparison {
    /// As a table, for a terminal.
    pub fn text(&self) -> String {
        let mut rows = vec![["", "A", "B", "B by A"].map(str::to_owned)];
        let number = |of: Option<f64>| of.map_or("-".to_owned(), words::number);
        for cell in &self.cells {
            rows.push([label(&cell.cell).to_owned(), String::new(), String::new(), String::new()]);
            rows.extend(cell.changes.iter().map(|of| {
                let name = format!("  {}", of.figure);
                [name, number(of.first), number(of.second), number(of.ratio)]
            }));
        }
        let widest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let [name, first, second, by] = [0, 1, 2, 3].map(widest);
        let line = |row: &[String; 4]| {
            let [figure, a, b, ratio] = row;
            let text = format!("{figure:name$}  {a:>first$}  {b:>second$}  {ratio:>by$}");
            text.trim_end().to_owned() + "\n"
        };
        rows.iter().map(line).collect()
    }
}
