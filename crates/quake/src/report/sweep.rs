//! What a value of the matrix does: goodput, latency and time to a refusal over it (paper 004, figures 7 and 8).

use std::collections::{BTreeMap, BTreeSet};

use super::RunReport;
use super::chart::{Chart, Line, Scale};
use crate::figures::Figures;
use crate::record::Quantiles;
use crate::statistics::median;
use crate::words;

/// Fewer values make no sweep.
const FEWEST: usize = 3;
/// More lines can't be told apart.
const LINES: usize = 8;

/// A number that a value begins with: `300`, `64m`, `1 TiB`. A version (`1.2.1`) has none.
fn number(value: &str) -> Option<f64> {
    let (digits, unit) =
        value.split_at(value.find(|c: char| c.is_alphabetic()).unwrap_or(value.len()));
    let times = match unit.chars().next().map(|unit| unit.to_ascii_lowercase()) {
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        _ => 0,
    };
    digits.trim().parse::<f64>().ok().map(|number| number * (1_u64 << times) as f64)
}

/// What is drawn of a cell.
type Pick = fn(&Figures) -> Option<f64>;

fn of_quantiles(of: Option<Quantiles>, pick: fn(&Quantiles) -> u64) -> Option<f64> {
    of.as_ref().map(|of| pick(of) as f64)
}

/// The charts of each name of the matrix that has numbers enough.
pub(super) fn all(run: &RunReport) -> Vec<(String, Vec<Chart<'static>>)> {
    let cells = run.cells.iter().map(|cell| &cell.figures);
    let names: BTreeSet<&String> = cells.flat_map(|of| of.values.keys()).collect();
    names.into_iter().filter_map(|name| Some((name.clone(), of_name(run, name)?))).collect()
}

fn of_name(run: &RunReport, name: &str) -> Option<Vec<Chart<'static>>> {
    let cells = || run.cells.iter().map(|cell| &cell.figures);
    let values: BTreeSet<&String> = cells().filter_map(|of| of.values.get(name)).collect();
    let mut values: Vec<(f64, &String)> =
        values.into_iter().map(|value| Some((number(value)?, value))).collect::<Option<_>>()?;
    if values.len() < FEWEST {
        return None;
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Cells that differ in this value alone are a line.
    let mut groups: BTreeMap<String, Vec<&Figures>> = BTreeMap::new();
    for of in cells() {
        let others = of.values.iter().filter(|(other, _)| *other != name);
        let others: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
        groups.entry(others.join(",")).or_default().push(of);
    }
    let labels: Vec<String> = values.iter().map(|(_, value)| (*value).clone()).collect();
    let chart = |title: &str, unit: fn(f64) -> String, scale, pick: Pick| {
        let lines = groups.iter().take(LINES).enumerate().map(|(at, (others, cells))| {
            let at_value = |value: &String| {
                let of = cells.iter().filter(|of| of.values.get(name) == Some(value));
                median(&mut of.filter_map(|of| pick(of)).collect::<Vec<_>>())
            };
            let points = values.iter().enumerate();
            Line {
                name: if others.is_empty() { "all".to_owned() } else { others.clone() },
                class: format!("c{}", at % 8 + 1),
                points: points.map(|(at, (_, value))| (at as f64, at_value(value))).collect(),
            }
        });
        Chart {
            title: format!("{title} by {name}"),
            unit,
            scale,
            lines: lines.collect(),
            bands: Vec::new(),
            marks: &[],
            until: (labels.len() - 1) as f64,
            labels: labels.clone(),
            top: None,
            note: worst(run),
        }
    };
    let refused = cells().any(|of| of.refusal.is_some());
    let mut charts = vec![
        chart("Goodput, right answers a second,", words::number, Scale::Linear, |of| {
            Some(of.goodput)
        }),
        chart("Median latency", words::micros_of, Scale::Decades, |of| {
            of_quantiles(of.latency, |of| of.p50)
        }),
        chart("99 % of latencies", words::micros_of, Scale::Decades, |of| {
            of_quantiles(of.latency, |of| of.p99)
        }),
    ];
    if refused {
        charts.push(chart("Refused requests, a second,", words::number, Scale::Linear, |of| {
            Some(of.outcomes.refused as f64 / of.seconds.max(1.0))
        }));
        charts.push(chart("99 % of times to a refusal", words::micros_of, Scale::Decades, |of| {
            of_quantiles(of.refusal, |of| of.p99)
        }));
    }
    Some(charts)
}

/// The generator's own part, of the cell in which it was greatest.
fn worst(run: &RunReport) -> String {
    let most = |of: fn(&Figures) -> f64| {
        run.cells.iter().map(|cell| of(&cell.figures)).fold(0.0, f64::max)
    };
    format!(
        "Generator, the most of all cells: lag {} (median), {} (most); {} of a processor",
        words::micros_of(most(|of| of.generator.lag_median as f64)),
        words::micros_of(most(|of| of.generator.lag_max as f64)),
        words::share(most(|of| of.generator.processor))
    )
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_units_and_versions_are_none() {
        let numbers = ["25", "0.5", "64m", "1TiB", "1 KiB"].map(number);
        assert_eq!(numbers, [25.0, 0.5, 67_108_864.0, 1_099_511_627_776.0, 1024.0].map(Some));
        assert_eq!(["1.2.1", "session", "", "-"].map(number), [None; 4]);
    }
}
