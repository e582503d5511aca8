//! Text for people and for their pipes.

use std::path::Path;

use fishplate_client::arguments::STDOUT;
use fishplate_client::deliver::{DeliveredValue, ValueFate};
use fishplate_client::{Description, JobPage};
use fishplate_contract::{
    ArrayType, DataType, Dimension, JobReport, Parameter, Timestamp, Transfer, TransferState, Verb,
};
use fishplate_formats::json::array_as_text;
use fishplate_formats::units::rounded;
use fishplate_launch::{Cause, Report};
use fishplate_wire::wsdl::DescribedOperation;

use crate::output::ranks;

/// What a service takes and gives, as in Figure 5 of paper 000, with more after each type. The verbs
/// that every service has (jobs, logs) are named only, unless `all` are asked for.
pub(crate) fn usage(description: &Description, all: bool) -> String {
    let (own, common): (Vec<_>, Vec<_>) = description
        .operations
        .iter()
        .partition(|described| all || described.definition.verb == Verb::Call);
    let mut parts: Vec<String> = own.into_iter().map(operation).collect();
    if !common.is_empty() {
        let names: Vec<&str> = common.iter().map(|verb| verb.definition.name.as_str()).collect();
        parts.push(format!("and, for jobs: {} (--all shows them)\n", names.join(", ")));
    }
    parts.join("\n")
}

/// What went wrong with ranks, and what became of the others.
pub(crate) fn launch(report: &Report) -> Option<String> {
    let mut text = String::new();
    if let Some(cause) = report.cause {
        text = cause.to_string();
        if let Some(rank) = cause.rank().and_then(|rank| report.ranks.get(rank as usize)) {
            text.push_str(&format!(": {}, process {}", rank.program.display(), rank.pid));
        }
    }
    if report.swept > 0 {
        let separator = if text.is_empty() { "" } else { "\n" };
        let what = if report.swept == 1 { "a process" } else { "processes" };
        text.push_str(&format!(
            "{separator}{what} that ranks had left running ended: {}",
            report.swept
        ));
    }
    // Whoever closed the output or ended the command knows.
    if matches!(report.cause, Some(Cause::OutputClosed | Cause::Interrupted { .. })) {
        text.clear();
    }
    if let Some(known) = &report.snapshot {
        let separator = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{separator}{}", ranks::snapshot(known)));
    }
    (!text.is_empty()).then_some(text)
}

fn operation(described: &DescribedOperation) -> String {
    let definition = &described.definition;
    let mut text = format!("{}\n", definition.name);
    for (title, parameters) in
        [("input", &definition.signature.inputs), ("output", &definition.signature.outputs)]
    {
        text.push_str(&format!("  {title}:{}\n", if parameters.is_empty() { " none" } else { "" }));
        for parameter in parameters {
            push_parameter(parameter, 4, &mut text);
        }
    }
    if !definition.documentation.is_empty() {
        text.push_str(&format!("  ({})\n", one_line(&definition.documentation)));
    }
    text
}

fn push_parameter(parameter: &Parameter, indent: usize, text: &mut String) {
    text.push_str(&format!("{:indent$}{}: {}", "", parameter.name, parameter.data_type.name()));
    let facts = facts(parameter);
    let help = one_line(&parameter.help);
    match (help.is_empty(), facts.is_empty()) {
        (true, true) => {}
        (true, false) => text.push_str(&format!("  ({facts})")),
        (false, true) => text.push_str(&format!("  {help}")),
        (false, false) => text.push_str(&format!("  {help} ({facts})")),
    }
    text.push('\n');
    if let DataType::Record(fields) = &parameter.data_type {
        for field in fields {
            push_parameter(field, indent + 2, text);
        }
    }
}

fn facts(parameter: &Parameter) -> String {
    let mut facts = Vec::new();
    if !parameter.unit.is_empty() {
        facts.push(parameter.unit.clone());
    }
    if !parameter.media_type.is_empty() {
        facts.push(parameter.media_type.clone());
    }
    match (&parameter.min, &parameter.max) {
        (Some(min), Some(max)) => facts.push(format!("{min} to {max}")),
        (Some(min), None) => facts.push(format!("at least {min}")),
        (None, Some(max)) => facts.push(format!("at most {max}")),
        (None, None) => {}
    }
    if !parameter.choices.is_empty() {
        facts.push(format!("one of {}", parameter.choices.join(", ")));
    }
    match &parameter.default {
        Some(default) => facts.push(format!("default {default}")),
        None if parameter.repeated => {
            facts.push(parameter.count_text());
            if parameter.optional && parameter.min_count > 0 {
                facts.push("optional".to_owned());
            }
        }
        None if parameter.optional => facts.push("optional".to_owned()),
        None => {}
    }
    facts.join("; ")
}

/// Numbers of an array that is printed.
const SHOWN_NUMBERS: usize = 100;

/// The outputs of a call: those in no file on standard output, and remarks for standard error.
pub(crate) fn outputs(delivered: &[DeliveredValue], command: &str) -> (String, Vec<String>) {
    let (mut text, mut remarks) = (String::new(), Vec::new());
    for output in delivered {
        let name = match &output.label {
            Some(label) => format!("{} ({label})", output.name),
            None => output.name.clone(),
        };
        match &output.fate {
            // A text that ends its last line itself needs no second end.
            ValueFate::Shown(value) => {
                text.push_str(&format!("{name}: {}\n", value.strip_suffix('\n').unwrap_or(value)));
            }
            ValueFate::Numbers { element, shape, bytes, size } => match bytes {
                Some(shown) if shown.len() <= SHOWN_NUMBERS * element.size() => {
                    let numbers = array_as_text(*element, shape, shown);
                    text.push_str(&format!("{name}: {numbers}\n"));
                }
                _ => {
                    let dimensions = shape.iter().copied().map(Dimension::Fixed).collect();
                    let array = ArrayType { element: *element, dimensions };
                    remarks.push(format!(
                        "{name}: {array}, {}, not written; {} writes it (as text, or as FILE's suffix \
                         says: .npy, .csv, .bin)",
                        rounded(*size),
                        with_word(command, &format!("out:{}=FILE", output.name))
                    ));
                }
            },
            ValueFate::Saved { .. } => {}
            ValueFate::Referred(reference) => {
                text.push_str(&format!("{name}: {}\n", reference.url));
            }
            ValueFate::NotAsked { size } => {
                let size = size.map_or_else(|| "data".to_owned(), rounded);
                remarks.push(format!(
                    "{name}: {size}, not written; {} writes it",
                    with_word(command, &format!("out:{}", output.name))
                ));
            }
        }
    }
    // Standard output is the data's.
    let is_data = |output: &DeliveredValue| matches!(&output.fate, ValueFate::Saved { path, .. } if path == Path::new(STDOUT));
    if delivered.iter().any(is_data) {
        remarks.extend(std::mem::take(&mut text).lines().map(str::to_owned));
    }
    (text, remarks)
}

/// A command, in backticks or described, with one word more.
fn with_word(command: &str, word: &str) -> String {
    match command.strip_suffix('`') {
        Some(command) => format!("{command} {word}`"),
        None => format!("{command} {word}"),
    }
}

/// All there is to tell of a job, a line each.
pub(crate) fn report(report: &JobReport) -> String {
    let usage = report.usage;
    let lines = [
        ("job", Some(report.id.to_string())),
        ("operation", Some(report.operation.clone())),
        ("state", Some(report.state.name().to_owned())),
        ("message", Some(report.message.clone())),
        ("progress", report.progress.map(percent)),
        ("submitted", Some(moment(report.submitted))),
        ("started", report.started.map(moment)),
        ("ended", report.ended.map(moment)),
        ("exit code", report.exit_code.map(|code| code.to_string())),
        ("signal", report.signal.clone()),
        ("processor time", usage.map(|usage| format!("{:.2} s", usage.cpu_seconds))),
        ("largest memory", usage.map(|usage| rounded(usage.max_memory))),
        ("disk", usage.map(|usage| rounded(usage.disk))),
        ("ended by", Some(report.ended_by.clone())),
    ];
    let given = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let transfers = report.transfers.iter().map(|of| ("transfer", transfer(of)));
    given
        .chain(transfers)
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}: {}\n", one_line(&value)))
        .collect()
}

/// `mesh, from http://h: done, 1.0 GiB, was here, placed as link`
fn transfer(of: &Transfer) -> String {
    let moved = match (of.state, of.total) {
        (TransferState::Waiting, None) => String::new(),
        (TransferState::Done, _) | (_, None) => format!(", {}", rounded(of.bytes)),
        (_, Some(total)) => format!(", {} of {}", rounded(of.bytes), rounded(total)),
    };
    let placed = of.placed.map(|placed| format!(", placed as {}", placed.name()));
    let peer = if of.peer.is_empty() { String::new() } else { format!(", {}", of.peer) };
    let cached = if of.cached { ", was here" } else { "" };
    let placed = placed.unwrap_or_default();
    format!("{}{peer}: {}{moved}{cached}{placed}", of.parameter, of.state.name())
}

/// A table of jobs, a line each under a line of titles.
pub(crate) fn jobs(page: &JobPage) -> String {
    let row = |report: &JobReport| {
        [
            report.id.to_string(),
            report.state.name().to_owned(),
            report.progress.map_or_else(|| "-".to_owned(), percent),
            moment(report.submitted),
            report.service.clone(),
            report.operation.clone(),
            one_line(&report.message),
        ]
    };
    let titles = ["JOB", "STATE", "DONE", "SUBMITTED", "SERVICE", "OPERATION", "MESSAGE"];
    let rows: Vec<[String; 7]> =
        std::iter::once(titles.map(str::to_owned)).chain(page.jobs.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..titles.len()).map(|at| width(at).unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        })
        .collect()
}

/// A moment in UTC, to the second.
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map(|moment| moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text from elsewhere without what could command a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{Interface, Operation, PlacementMethod, Service, Signature};
    use fishplate_wire::QName;

    use super::*;

    fn described(inputs: Vec<Parameter>, outputs: Vec<Parameter>) -> Description {
        let operation = Operation {
            name: "call".to_owned(),
            documentation: String::new(),
            signature: Signature { inputs, outputs },
        };
        let service = Service {
            name: "s".to_owned(),
            namespace: "urn:test".to_owned(),
            title: "S".to_owned(),
            documentation: String::new(),
            operations: vec![operation],
        };
        let definition = Interface::of(&service).verbs.into_iter();
        let operations = definition.map(|definition| DescribedOperation {
            action: String::new(),
            request: QName::new("urn:test", &*definition.name),
            response: QName::new("urn:test", format!("{}Response", definition.name)),
            qualified: true,
            items: Vec::new(),
            fault: None,
            definition,
        });
        Description {
            name: service.name,
            namespace: service.namespace,
            title: service.title,
            documentation: String::new(),
            operations: operations.collect(),
            addresses: Vec::new(),
            ours: true,
        }
    }

    #[test]
    fn usage_is_figure_5_and_goes_on_with_the_other_operations() {
        let inputs = vec![Parameter::new("x", DataType::Int), Parameter::new("y", DataType::Int)];
        let outputs = vec![Parameter::new("result", DataType::Int)];
        let described = described(inputs, outputs);
        insta::assert_snapshot!(usage(&described, true));
        insta::assert_snapshot!(usage(&described, false), @r"
        call
          input:
            x: int
            y: int
          output:
            result: int
          (Runs the program and waits for its results.)

        and, for jobs: spawn, results, running, kill, status, log, jobs, remove (--all shows them)
        ");
    }

    #[test]
    fn usage_tells_help_units_ranges_choices_and_defaults_after_the_type() {
        let mut size = Parameter::new("size", DataType::Double).default("0.5").help("Edge length");
        size.unit = "mm".to_owned();
        size.min = Some("0.01".to_owned());
        let mut order = Parameter::new("order", DataType::Int);
        order.choices = vec!["1".to_owned(), "2".to_owned()];
        let deck = Parameter::new("deck", DataType::Raw).optional();
        let meshes = Parameter::new("mesh", DataType::Raw).repeated().help("A mesh.");
        let text = usage(&described(vec![size, order, deck], vec![meshes]), false);
        let call = text.split("\n\n").next().unwrap();
        insta::assert_snapshot!(call, @r"
        call
          input:
            size: double  Edge length (mm; at least 0.01; default 0.5)
            order: int  (one of 1, 2)
            deck: raw  (optional)
          output:
            mesh: raw  A mesh. (any number)
          (Runs the program and waits for its results.)
        ");
    }

    #[test]
    fn a_transfer_tells_its_ends_its_bytes_and_how_it_was_placed() {
        let mut of = Transfer {
            parameter: "mesh".to_owned(),
            peer: "http://h:8080".to_owned(),
            state: TransferState::Running,
            bytes: 1 << 20,
            total: Some(3 << 20),
            placed: None,
            cached: false,
        };
        assert_eq!(transfer(&of), "mesh, http://h:8080: running, 1.0 MiB of 3.0 MiB");
        (of.state, of.bytes, of.placed) =
            (TransferState::Done, 3 << 20, Some(PlacementMethod::Link));
        assert_eq!(transfer(&of), "mesh, http://h:8080: done, 3.0 MiB, placed as link");
        of.cached = true;
        assert_eq!(transfer(&of), "mesh, http://h:8080: done, 3.0 MiB, was here, placed as link");
        (of.state, of.total, of.placed, of.cached) = (TransferState::Waiting, None, None, false);
        assert_eq!(transfer(&of), "mesh, http://h:8080: waiting");
    }

    #[test]
    fn nothing_from_elsewhere_commands_the_terminal() {
        assert_eq!(harmless("a\x1b[2J\r\x07b\tc\n"), "a[2Jb\tc\n");
    }
}
