//! Tables for programs (RFC 4180): a row for each cell, and a row for each point of its charts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::RunReport;
use crate::figures::{FailureFigures, Figures, SystemPoint};
use crate::record::{Outcome, Outcomes, Quantiles};
use crate::statistics::median;

/// A field, in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn row(csv: &mut String, fields: impl IntoIterator<Item = String>) {
    let fields: Vec<String> = fields.into_iter().map(|text| field(&text)).collect();
    let _ = write!(csv, "{}\r\n", fields.join(","));
}

fn optional<T: ToString>(of: Option<T>) -> String {
    of.map_or(String::new(), |of| of.to_string())
}

fn quantiles(of: Option<Quantiles>) -> [String; 5] {
    [
        optional(of.map(|of| of.p50)),
        optional(of.map(|of| of.p90)),
        optional(of.map(|of| of.p99)),
        optional(of.map(|of| of.p999)),
        optional(of.map(|of| of.max)),
    ]
}

fn quantile_names(of: &str) -> [String; 5] {
    ["p50", "p90", "p99", "p999", "max"].map(|name| format!("{of}_{name}_us"))
}

fn kinds() -> Vec<String> {
    Outcome::ALL.map(Outcome::word).into()
}

fn counts(of: &Outcomes) -> Vec<String> {
    Outcome::ALL.map(|kind| of.count(kind).to_string()).into()
}

/// A row for each cell, each time. Times of requests in microseconds, of failures in seconds (medians), memory in bytes.
pub(super) fn results(run: &RunReport) -> String {
    let each = || run.cells.iter().map(|cell| &cell.figures);
    let names: BTreeSet<&String> = each().flat_map(|of| of.values.keys()).collect();
    let resources: BTreeSet<(&str, &str)> =
        each().flat_map(|of| of.ageing.iter().map(|of| (&*of.process, &*of.resource))).collect();
    let fixed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut csv = String::new();
    let mut head = fixed(&["cell", "repetition", "system"]);
    head.extend(names.iter().map(|name| (*name).clone()));
    head.extend(fixed(&["verdict", "sentence", "seconds", "begun"]));
    head.extend(kinds());
    head.extend(fixed(&["goodput", "goodput_median", "baseline"]));
    for times in ["latency", "latency_corrected", "service"] {
        head.extend(quantile_names(times));
    }
    head.extend(fixed(&[
        "availability_clients",
        "seconds_served",
        "availability_probe",
        "failures",
        "to_detect",
        "to_answer",
        "to_recover",
        "faults",
        "rejuvenations",
    ]));
    head.extend(fixed(&["memory_peak", "processor_per_request_us"]));
    for (process, resource) in &resources {
        let bounds =
            ["slope", "lower", "upper"].map(|of| format!("{process}_{resource}_per_request_{of}"));
        head.extend(bounds);
    }
    head.extend(fixed(&["generator_lag_max_us", "generator_processor_per_request_us"]));
    head.extend(fixed(&[
        "generator_processor",
        "held_back",
        "watching",
        "lost",
        "doubled",
        "invented",
    ]));
    row(&mut csv, head);
    for cell in &run.cells {
        let of = &cell.figures;
        let mut fields = vec![of.cell.clone(), of.repetition.to_string(), of.system.clone()];
        fields.extend(names.iter().map(|name| of.values.get(*name).cloned().unwrap_or_default()));
        fields.extend([cell.verdict.kind.word(), cell.verdict.sentence.clone()]);
        fields.extend([of.seconds.to_string(), of.begun.to_string()]);
        fields.extend(counts(&of.outcomes));
        fields.extend([of.goodput, of.goodput_median, of.baseline].map(|of| of.to_string()));
        for times in [of.latency, of.latency_corrected, of.service] {
            fields.extend(quantiles(times));
        }
        let available = [of.availability_clients, of.seconds_served, of.availability_probe];
        fields.extend(available.map(optional));
        fields.push(of.failures.len().to_string());
        let times: [fn(&FailureFigures) -> Option<f64>; 3] =
            [|of| Some(of.to_detect), |of| of.to_answer, |of| of.to_recover];
        fields.extend(times.map(|time| {
            optional(median(&mut of.failures.iter().filter_map(time).collect::<Vec<_>>()))
        }));
        fields.extend([of.faults, of.rejuvenations].map(|of| of.to_string()));
        fields.extend([of.memory_peak.to_string(), of.processor_per_request.to_string()]);
        for (process, resource) in &resources {
            fields.extend(bounds(of, process, resource));
        }
        let generator = &of.generator;
        fields.extend([generator.lag_max.to_string(), generator.processor_per_request.to_string()]);
        fields.extend([generator.processor.to_string(), generator.held_back.to_string()]);
        fields.push(of.watching.to_string());
        let audit = of.audit.as_ref().map(|of| [of.lost, of.doubled, of.invented]);
        fields.extend((0..3).map(|at| optional(audit.map(|of| of[at]))));
        row(&mut csv, fields);
    }
    csv
}

fn bounds(of: &Figures, process: &str, resource: &str) -> [String; 3] {
    let found = of.ageing.iter().find(|of| of.process == process && of.resource == resource);
    let per = found.and_then(|of| of.ageing.per_request);
    [per.map(|per| per.slope), per.map(|per| per.lower), per.map(|per| per.upper)].map(optional)
}

/// A row for each point of the charts: counts over `width` seconds from `second` on.
pub(super) fn series(run: &RunReport) -> String {
    let mut csv = String::new();
    let mut head: Vec<String> =
        ["cell", "repetition", "second", "width", "begun", "held_back"].map(str::to_owned).into();
    head.extend(kinds());
    head.extend(quantile_names("latency"));
    head.extend(["lag_us", "generator_processor_us"].map(str::to_owned));
    head.extend(["memory_least", "memory_most", "descriptors", "threads"].map(str::to_owned));
    head.extend(["connections", "processor_us", "probe_us", "probes_failed"].map(str::to_owned));
    row(&mut csv, head);
    for cell in &run.cells {
        let (of, series) = (&cell.figures, &cell.series);
        let width = series.load.width;
        for at in 0..series.load.points.len().max(series.system.points.len()) {
            let load = series.load.points.get(at).and_then(Option::as_ref);
            let system = series.system.points.get(at).and_then(Option::as_ref);
            let second = at as u64 * u64::from(width);
            let mut fields = vec![of.cell.clone(), of.repetition.to_string()];
            fields.extend([second.to_string(), width.to_string()]);
            fields
                .extend([optional(load.map(|of| of.begun)), optional(load.map(|of| of.held_back))]);
            match load {
                Some(load) => fields.extend(counts(&load.outcomes)),
                None => fields.extend(kinds().iter().map(|_| String::new())),
            }
            fields.extend(quantiles(load.and_then(|of| of.latency)));
            fields.extend([optional(load.map(|of| of.lag)), optional(load.map(|of| of.processor))]);
            fields.extend(sums(system));
            row(&mut csv, fields);
        }
    }
    csv
}

/// A row for each request that is named: what was found of it, and its number.
pub(super) fn requests(run: &RunReport) -> String {
    let mut csv = String::new();
    row(&mut csv, ["cell", "repetition", "found", "request"].map(str::to_owned));
    for cell in &run.cells {
        for named in &cell.series.named_requests {
            let (found, request) = named.split_once(' ').unwrap_or((named, ""));
            let of = &cell.figures;
            let fields = [&of.cell, &of.repetition.to_string(), found, request];
            row(&mut csv, fields.map(str::to_owned));
        }
    }
    csv
}

/// What all processes of the system use together.
fn sums(of: Option<&SystemPoint>) -> [String; 8] {
    let sum = |value: fn(&crate::figures::ProcessPoint) -> u64| {
        optional(of.map(|of| of.processes.values().map(value).sum::<u64>()))
    };
    [
        sum(|of| of.memory.0),
        sum(|of| of.memory.1),
        sum(|of| of.descriptors),
        sum(|of| of.threads),
        optional(of.map(|of| of.connections)),
        sum(|of| of.processor),
        optional(of.and_then(|of| of.probe)),
        optional(of.map(|of| of.probes_failed)),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_are_quoted_as_they_need() {
        let mut csv = String::new();
        super::row(&mut csv, ["plain", "a, b", "say \"no\""].map(str::to_owned));
        assert_eq!(csv, "plain,\"a, b\",\"say \"\"no\"\"\"\r\n");
    }
}
