//! The charts of a cell: what the paper shows (throughput and latency over time, its figures 4 to 10), and what speaks
//! for their cause.

use std::collections::BTreeSet;

use super::chart::{Band, Chart, Line, Mark, Scale};
use crate::figures::{CellSeries, Figures, LoadPoint, ProcessPoint, SystemPoint};
use crate::record::{Happening, Outcome, Quantiles};
use crate::words;

/// Colours that lines of one chart take in turn.
const COLOURS: usize = 8;

/// What a process uses.
type OfProcess = fn(&ProcessPoint) -> u64;
/// One of the quantiles.
type OfTimes = fn(&Quantiles) -> u64;

fn colour(at: usize) -> String {
    format!("c{}", at % COLOURS + 1)
}

/// What happened, to be drawn behind every chart.
pub(super) fn marks(figures: &Figures, series: &CellSeries) -> Vec<Mark> {
    let (mut marks, end) = (Vec::new(), until(figures, series));
    let timeline = &series.timeline;
    for span in &timeline.stresses {
        marks.push(Mark {
            class: "stress",
            letter: 'S',
            words: format!("stress: {}", span.name),
            from: span.from,
            to: Some(span.to.unwrap_or(end)),
        });
    }
    for failure in &timeline.failures {
        let by = failure.provoked_by.as_ref().map_or(String::new(), |by| format!(", after {by}"));
        marks.push(Mark {
            class: "failure",
            letter: '✕',
            words: format!("{}{by}: {}", failure.class.name(), failure.cause),
            // One of the warm-up was before the first second.
            from: failure.since.max(0.0),
            to: Some(failure.to_recover.map_or(end, |time| failure.recovers_from() + time)),
        });
    }
    let mut moment = |class, letter, at, words| {
        marks.push(Mark { class, letter, words, from: at, to: None });
    };
    for (at, words) in &timeline.faults {
        moment("fault", 'F', *at, format!("fault: {words}"));
    }
    for (at, why) in &timeline.rejuvenations {
        moment("restart", 'R', *at, format!("rejuvenated: {why}"));
    }
    for (at, agent) in &timeline.agents_lost {
        moment("agent", 'A', *at, format!("agent {agent} was lost"));
    }
    for event in series.events.iter().filter(|event| event.at > 0.0) {
        if let Happening::Started { process, .. } = &event.what {
            moment("restart", '↻', event.at, format!("{process} was started"));
        }
    }
    marks
}

/// The last second of a cell.
pub(super) fn until(figures: &Figures, series: &CellSeries) -> f64 {
    let points = series.load.points.len().max(series.system.points.len());
    figures.seconds.max(points as f64 * f64::from(series.load.width))
}

/// What the generator did itself, beside every figure of its load.
pub(super) fn generator(figures: &Figures) -> String {
    let of = &figures.generator;
    let held = match of.held_back {
        0 => String::new(),
        held => format!("; held back {} requests", words::count(held)),
    };
    format!(
        "Generator: lag {} (median), {} (most); {} of a processor, {} a request{held}",
        words::micros(of.lag_median),
        words::micros(of.lag_max),
        words::share(of.processor),
        words::micros_of(of.processor_per_request)
    )
}

/// Right answers a second, alone: for small multiples.
pub(super) fn goodput<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    Chart {
        title: "Goodput, right answers a second".to_owned(),
        unit: words::number,
        scale: Scale::Linear,
        lines: vec![load_line(series, "right", 0, |seen, width| {
            Some(seen.outcomes.right as f64 / width)
        })],
        bands: Vec::new(),
        marks,
        until: until(figures, series),
        labels: Vec::new(),
        top: None,
        note: generator(figures),
    }
}

/// Memory of all processes, its floor and what goes above it.
pub(super) fn memory<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    let mut chart = system_chart(figures, series, marks, "Memory", words::bytes);
    chart.scale = Scale::Binary;
    for (at, process) in processes(series).into_iter().enumerate() {
        let of = |seen: &SystemPoint| seen.processes.get(&process).copied();
        chart.lines.push(system_line(series, &process, at, |seen| {
            of(seen).map(|of: ProcessPoint| of.memory.0 as f64)
        }));
        let band = system_points(series, |seen| {
            of(seen).map(|of| (of.memory.0 as f64, of.memory.1 as f64))
        });
        chart.bands.push(Band { class: colour(at), points: band });
        chart.lines.extend(trend(figures, &process));
    }
    chart
}

/// Sen's slope over what was judged.
fn trend(figures: &Figures, process: &str) -> Option<Line> {
    let of =
        |of: &&crate::figures::ResourceAgeing| of.process == process && of.resource == "memory";
    let ageing = &figures.ageing.iter().find(of)?.ageing;
    let slope = ageing.per_hour?.slope / 3600.0;
    let middle = f64::midpoint(ageing.since, ageing.until);
    let at = |second: f64| (second, Some((ageing.level + slope * (second - middle)).max(0.0)));
    Some(Line {
        name: format!("{process}, Sen's slope (of what stays)"),
        class: "trend".to_owned(),
        points: vec![at(ageing.since), at(ageing.until)],
    })
}

/// All charts of a cell.
pub(super) fn all<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Vec<Chart<'a>> {
    let mut charts = vec![answers(figures, series, marks), latency(figures, series, marks)];
    charts.push(memory(figures, series, marks));
    let mut count =
        system_chart(figures, series, marks, "Descriptors, threads, connections", words::number);
    for (at, process) in processes(series).into_iter().enumerate() {
        let kinds: [(&str, OfProcess); 2] =
            [("descriptors", |of| of.descriptors), ("threads", |of| of.threads)];
        for (kind, (name, of)) in kinds.into_iter().enumerate() {
            let line = system_line(series, &format!("{process}, {name}"), 2 * at + kind, |seen| {
                seen.processes.get(&process).map(|process| of(process) as f64)
            });
            count.lines.push(line);
        }
    }
    let connections = system_line(series, "connections", 7, |seen| Some(seen.connections as f64));
    count.lines.push(connections);
    charts.push(count);
    charts.push(processor(figures, series, marks));
    charts.push(lag(figures, series, marks));
    charts
        .retain(|chart| chart.lines.iter().any(|line| line.points.iter().any(|at| at.1.is_some())));
    charts
}

/// What became of requests: goodput, and every other kind that there was.
fn answers<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    let mut chart = goodput(figures, series, marks);
    chart.title = "Answers a second; the right ones are the goodput".to_owned();
    let kinds = Outcome::ALL.into_iter().enumerate().skip(1);
    for (at, kind) in kinds.filter(|(_, kind)| figures.outcomes.count(*kind) > 0) {
        chart.lines.push(load_line(series, &kind.word(), at, |seen, width| {
            Some(seen.outcomes.count(kind) as f64 / width)
        }));
    }
    chart
}

/// Quantiles of the latency, on a logarithmic axis.
fn latency<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    let quantiles: Vec<(f64, Option<Quantiles>)> = load_points(series, |seen, _| seen.latency);
    let kinds: [(&str, usize, OfTimes); 4] = [
        ("median", 0, |of| of.p50),
        ("90 %", 4, |of| of.p90),
        ("99 %", 1, |of| of.p99),
        ("longest", 2, |of| of.max),
    ];
    let line = |(name, at, of): (&str, usize, OfTimes)| Line {
        name: name.to_owned(),
        class: colour(at),
        points: quantiles
            .iter()
            .map(|(second, seen)| (*second, seen.as_ref().map(|seen| of(seen) as f64)))
            .collect(),
    };
    let band = |from: fn(&Quantiles) -> u64, to: fn(&Quantiles) -> u64| Band {
        class: colour(0),
        points: quantiles
            .iter()
            .map(|(second, seen)| {
                (*second, seen.as_ref().map(|seen| (from(seen) as f64, to(seen) as f64)))
            })
            .collect(),
    };
    Chart {
        title: "Latency of answers, from when the request should have begun".to_owned(),
        unit: words::micros_of,
        scale: Scale::Decades,
        bands: vec![band(|of| of.p50, |of| of.p90), band(|of| of.p90, |of| of.p99)],
        lines: kinds.into_iter().map(line).collect(),
        ..goodput(figures, series, marks)
    }
}

/// Processor time of the system, its host and the generator.
fn processor<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    let mut chart = system_chart(figures, series, marks, "Processor", words::share);
    for (at, process) in processes(series).into_iter().enumerate() {
        chart.lines.push(system_line(series, &format!("{process}, of one"), at, |seen| {
            let of = seen.processes.get(&process)?;
            Some(of.processor as f64 / 1e6 / f64::from(seen.seconds))
        }));
    }
    chart.lines.push(system_line(series, "host, of all", 5, |seen| {
        Some(seen.processor / f64::from(seen.seconds))
    }));
    chart.lines.push(load_line(series, "generator, of one", 6, |seen, width| {
        Some(seen.processor as f64 / 1e6 / width)
    }));
    chart
}

/// How late the generator was, and how fast the probe was answered.
fn lag<'a>(figures: &Figures, series: &CellSeries, marks: &'a [Mark]) -> Chart<'a> {
    let lag = load_line(series, "generator's lag", 6, |seen, _| {
        Some(seen.lag as f64).filter(|lag| *lag > 0.0)
    });
    let probe = system_line(series, "probe's answer", 3, |seen| seen.probe.map(|time| time as f64));
    Chart {
        title: "The generator's longest lag, the probe's slowest answer".to_owned(),
        unit: words::micros_of,
        scale: Scale::Decades,
        lines: vec![lag, probe],
        ..goodput(figures, series, marks)
    }
}

fn system_chart<'a>(
    figures: &Figures,
    series: &CellSeries,
    marks: &'a [Mark],
    title: &str,
    unit: fn(f64) -> String,
) -> Chart<'a> {
    Chart {
        title: title.to_owned(),
        unit,
        lines: Vec::new(),
        note: format!(
            "{}. Watching: {} of a processor",
            generator(figures),
            words::share(figures.watching)
        ),
        ..goodput(figures, series, marks)
    }
}

fn processes(series: &CellSeries) -> BTreeSet<String> {
    let points = series.system.seen().flat_map(|(_, seen)| seen.processes.keys());
    points.cloned().collect()
}

fn load_points<T>(
    series: &CellSeries,
    of: impl Fn(&LoadPoint, f64) -> Option<T>,
) -> Vec<(f64, Option<T>)> {
    let width = f64::from(series.load.width);
    let points = series.load.points.iter().enumerate();
    points
        .map(|(at, seen)| (at as f64 * width, seen.as_ref().and_then(|seen| of(seen, width))))
        .collect()
}

fn load_line(
    series: &CellSeries,
    name: &str,
    at: usize,
    of: impl Fn(&LoadPoint, f64) -> Option<f64>,
) -> Line {
    Line { name: name.to_owned(), class: colour(at), points: load_points(series, of) }
}

fn system_points<T>(
    series: &CellSeries,
    of: impl Fn(&SystemPoint) -> Option<T>,
) -> Vec<(f64, Option<T>)> {
    let width = f64::from(series.system.width);
    let points = series.system.points.iter().enumerate();
    points.map(|(at, seen)| (at as f64 * width, seen.as_ref().and_then(&of))).collect()
}

fn system_line(
    series: &CellSeries,
    name: &str,
    at: usize,
    of: impl Fn(&SystemPoint) -> Option<f64>,
) -> Line {
    Line { name: name.to_owned(), class: colour(at), points: system_points(series, of) }
}
