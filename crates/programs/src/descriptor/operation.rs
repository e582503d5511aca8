//! One operation: a command line, its parameters, and what its end means.

use std::collections::BTreeMap;
use std::ops::Range;

use fishplate_contract::lexical::closest;
use fishplate_contract::{DataType, Operation, Signature};
use toml::Spanned;
use toml::de::DeValue;

use super::command::Command;
use super::description::{Group, Input, Invocation, Output};
use super::diagnostic::DiagnosticReport;
use super::group;
use super::parameter::{self, SlotPlacement};
use super::shape;
use super::table::{Table, as_table, as_text, wrong_type};
use super::text::SpannedText;
use super::workspace::{FileRole, WorkspaceFile};
use crate::plan::{OutputSource, ProgressRule, SuccessRules};
use crate::template::{
    CommandItem, Parsed, Slot, StreamTarget, Template, is_name, reject_file_name,
};

/// An operation as it was read, with what later checks need to point at.
pub(super) struct ReadOperation {
    pub(super) operation: Operation,
    pub(super) invocation: Invocation,
    pub(super) command: Command,
    pub(super) files: Vec<WorkspaceFile>,
}

/// An entry of `[input]` or `[output]`.
pub(super) type ParameterTable<'t> = (SpannedText, &'t Spanned<DeValue<'t>>);

/// The keys of an operation, wherever they stand.
pub(super) const KEYS: [&str; 7] =
    ["command", "input", "output", "group", "exit", "failure", "progress"];

/// Reads the keys of an operation from its table; the table itself is finished by the caller.
pub(super) fn read(
    name: &str,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<ReadOperation> {
    let command = Command::read(table, report);
    let inputs = table.named("input", report);
    let outputs = table.named("output", report);
    let groups = table.named("group", report);
    let success = success(table, report);
    let progress = table.table("progress", report).and_then(|table| progress(table, report));
    let command = command?;
    let parsed = command.parse(report);
    let mut parts = Parts::new(command, parsed);
    parts.read_inputs(&inputs, &outputs, &table.nested("input"), report);
    parts.read_outputs(&outputs, &table.nested("output"), report);
    parts.redirections();
    parts.groups = group::read(&groups, &table.nested("group"), &parts.inputs, report);
    shape::check(&parts.inputs, &parts.outputs, &parts.named, report);
    Some(parts.assemble(name, success, progress))
}

/// A one-liner: a command line and nothing more.
pub(super) fn of_command(
    name: &str,
    command: Command,
    report: &mut DiagnosticReport<'_>,
) -> ReadOperation {
    let parsed = command.parse(report);
    let mut parts = Parts::new(command, parsed);
    parts.read_inputs(&[], &[], "", report);
    parts.read_outputs(&[], "", report);
    parts.redirections();
    shape::check(&parts.inputs, &parts.outputs, &parts.named, report);
    parts.assemble(name, SuccessRules::default(), None)
}

struct Parts {
    command: Command,
    parsed: Parsed,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    groups: Vec<Group>,
    /// Where each output is named.
    named: Vec<Range<usize>>,
    files: Vec<WorkspaceFile>,
}

impl Parts {
    fn new(command: Command, parsed: Parsed) -> Self {
        let (inputs, outputs, groups, named, files) = Default::default();
        Self { command, parsed, inputs, outputs, groups, named, files }
    }

    fn place(&self, index: usize) -> Range<usize> {
        self.command.locate(&self.parsed.places[index].at)
    }

    /// Input slots in the order of the command line, then files that it does not mention.
    fn read_inputs(
        &mut self,
        tables: &[ParameterTable<'_>],
        outputs: &[ParameterTable<'_>],
        parent: &str,
        report: &mut DiagnosticReport<'_>,
    ) {
        let slots = standing_slots(&self.parsed.template);
        for (index, (slot, standing)) in slots.iter().enumerate() {
            if !slot.direction.takes() {
                continue;
            }
            let table = tables.iter().find(|(name, _)| name.value == slot.name);
            let table = table.and_then(|entry| open(entry, parent, report));
            let input = parameter::slot_input(slot, *standing, table, report);
            if let Some(filename) = &input.filename {
                // Several files have a directory of their own.
                let path = if input.list.is_some() { &slot.name } else { filename };
                let name = slot.name.clone();
                let role = if slot.direction.gives() {
                    FileRole::InOut(name)
                } else {
                    FileRole::Input(name)
                };
                let directory = slot.data_type == DataType::Dir;
                let (path, span) = (path.clone(), self.place(index));
                self.files.push(WorkspaceFile { path, role, directory, span });
            }
            self.inputs.push(input);
        }
        for entry in tables {
            let name = &entry.0;
            if slots.iter().any(|(slot, _)| slot.direction.takes() && slot.name == name.value) {
                continue;
            }
            let Some(table) = open(entry, parent, report) else { continue };
            if table.key_span("type").is_none() && table.key_span("filename").is_none() {
                let twin = slots.iter().any(|(slot, _)| slot.name == name.value);
                let elsewhere = twin && !outputs.iter().any(|(other, _)| other.value == name.value);
                self.unknown(name, "input", elsewhere.then_some("output"), report);
                continue;
            }
            check_name(name, report);
            if let Some(input) = parameter::file_input(name, table, report) {
                let path = input.filename.clone().unwrap_or_default();
                let role = FileRole::Input(name.value.clone());
                let directory = input.parameter.data_type == DataType::Dir;
                self.files.push(WorkspaceFile { path, role, directory, span: name.span.clone() });
                self.inputs.push(input);
            }
        }
    }

    fn read_outputs(
        &mut self,
        tables: &[ParameterTable<'_>],
        parent: &str,
        report: &mut DiagnosticReport<'_>,
    ) {
        let slots = standing_slots(&self.parsed.template);
        for (index, (slot, _)) in slots.iter().enumerate() {
            if !slot.direction.gives() {
                continue;
            }
            let table = tables.iter().find(|(name, _)| name.value == slot.name);
            let table = table.and_then(|entry| open(entry, parent, report));
            let input = self
                .inputs
                .iter()
                .find(|input| slot.direction.takes() && input.parameter.name == slot.name);
            let output = parameter::slot_output(slot, input, table, report);
            if let (OutputSource::Path(path), false) = (&output.source, slot.direction.takes()) {
                let role = FileRole::Output(slot.name.clone());
                let directory = slot.data_type == DataType::Dir;
                let (path, span) = (path.clone(), self.place(index));
                self.files.push(WorkspaceFile { path, role, directory, span });
            }
            self.outputs.push(output);
            self.named.push(self.place(index));
        }
        for entry in tables {
            let name = &entry.0;
            if slots.iter().any(|(slot, _)| slot.direction.gives() && slot.name == name.value) {
                continue;
            }
            let Some(table) = open(entry, parent, report) else { continue };
            if ["type", "path", "glob"].iter().all(|key| table.key_span(key).is_none()) {
                let twin = slots.iter().any(|(slot, _)| slot.name == name.value);
                self.unknown(name, "output", twin.then_some("input"), report);
                continue;
            }
            check_name(name, report);
            if let Some(output) = parameter::found_output(name, &self.inputs, table, report) {
                if let OutputSource::Path(path) = &output.source {
                    let role = FileRole::Found(name.value.clone());
                    let directory = output.parameter.data_type == DataType::Dir;
                    let (path, span) = (path.clone(), name.span.clone());
                    self.files.push(WorkspaceFile { path, role, directory, span });
                }
                self.outputs.push(output);
                self.named.push(name.span.clone());
            }
        }
    }

    /// A table about a slot that does not exist.
    fn unknown(
        &self,
        name: &SpannedText,
        side: &str,
        other: Option<&str>,
        report: &mut DiagnosticReport<'_>,
    ) {
        if self.parsed.nameless {
            // It may be meant for the slot whose name could not be read.
            return;
        }
        let takes = side == "input";
        let known: Vec<&str> = self
            .parsed
            .template
            .slots()
            .filter(|slot| if takes { slot.direction.takes() } else { slot.direction.gives() })
            .map(|slot| slot.name.as_str())
            .collect();
        let hint = match (other, closest(&name.value, known.iter().copied())) {
            (Some(other), _) => {
                format!("`{0}` is an {other} slot: write [{other}.{0}]", name.value)
            }
            (None, Some(near)) => format!("`{near}` is one"),
            (None, None) if takes => {
                "a file that the command line does not mention needs `type` and `filename`"
                    .to_owned()
            }
            (None, None) => {
                "an output that the program names itself needs `type` and `path` or `glob`"
                    .to_owned()
            }
        };
        report
            .error(
                name.span.clone(),
                format!("the command line has no {side} slot `{}`", name.value),
            )
            .hint(hint);
    }

    fn redirections(&mut self) {
        // Words and redirections alternate as in the command line: count words to find the place.
        let mut word = 0;
        for item in &self.parsed.template.items {
            match item {
                CommandItem::Word(_) => word += 1,
                CommandItem::Redirect(stream, target) => {
                    if let StreamTarget::File(path) = target
                        && reject_file_name(path).is_none()
                    {
                        let span = self.command.locate_word(word + 1);
                        let role = FileRole::Stream(*stream);
                        let (path, directory) = (path.clone(), false);
                        self.files.push(WorkspaceFile { path, role, directory, span });
                    }
                    word += 2;
                }
            }
        }
    }

    fn assemble(
        self,
        name: &str,
        success: SuccessRules,
        progress: Option<ProgressRule>,
    ) -> ReadOperation {
        let signature = Signature {
            inputs: self.inputs.iter().map(|input| input.parameter.clone()).collect(),
            outputs: self.outputs.iter().map(|output| output.parameter.clone()).collect(),
        };
        let demands: Vec<String> = self.groups.iter().map(Group::sentence).collect();
        let documentation = demands.join("\n");
        ReadOperation {
            operation: Operation { name: name.to_owned(), documentation, signature },
            invocation: Invocation {
                operation: name.to_owned(),
                template: self.parsed.template,
                inputs: self.inputs,
                outputs: self.outputs,
                groups: self.groups,
                success,
                progress,
            },
            command: self.command,
            files: self.files,
        }
    }
}

pub(super) fn open<'t>(
    entry: &ParameterTable<'t>,
    parent: &str,
    report: &mut DiagnosticReport<'_>,
) -> Option<Table<'t>> {
    let (name, value) = entry;
    let parent = parent.trim_matches(['[', ']']);
    let table = as_table(value, name.span.clone(), format!("[{parent}.{}]", name.value));
    if table.is_none() {
        wrong_type(report, &format!("`{}`", name.value), "a table", value);
    }
    table
}

fn check_name(name: &SpannedText, report: &mut DiagnosticReport<'_>) {
    if !is_name(&name.value) || matches!(name.value.as_str(), "out" | "ref") {
        report
            .error(name.span.clone(), format!("`{}` is no name for a parameter", name.value))
            .hint(
                "a name begins with a letter or `_` and goes on with letters, digits, `_`, `-` and \
             `.`; `out` and `ref` are reserved",
            );
    }
}

/// Every slot and how it stands in its word.
fn standing_slots(template: &Template) -> Vec<(Slot, SlotPlacement)> {
    let mut slots = Vec::new();
    for item in &template.items {
        match item {
            CommandItem::Word(word) => {
                let standing = match (word.slots().count(), word.parts.len()) {
                    (1, 1) => SlotPlacement::Whole,
                    (1, _) => SlotPlacement::Part,
                    _ => SlotPlacement::Shared,
                };
                slots.extend(word.slots().map(|slot| (slot.clone(), standing)));
            }
            CommandItem::Redirect(_, StreamTarget::Slot(slot)) => {
                slots.push((slot.clone(), SlotPlacement::Redirected));
            }
            CommandItem::Redirect(_, StreamTarget::File(_)) => {}
        }
    }
    slots
}

fn success(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> SuccessRules {
    let mut rules = SuccessRules::default();
    if let Some(mut exit) = table.table("exit", report) {
        let codes = exit.list("success", "a list of exit codes", report);
        let mut success: Vec<i32> = Vec::new();
        for item in codes {
            let code = item
                .get_ref()
                .as_integer()
                .and_then(|number| i32::from_str_radix(number.as_str(), number.radix()).ok());
            match code.filter(|code| (0..=255).contains(code)) {
                Some(code) => success.push(code),
                None => drop(report.error(item.span(), "an exit code is a number from 0 to 255")),
            }
        }
        match exit.key_span("success") {
            Some(span) if codes.is_empty() => {
                report.error(span, "`success` lists at least one exit code");
            }
            Some(_) => rules.exit_codes = success,
            None => {}
        }
        rules.meanings = meanings(exit.named("meaning", report), &rules.exit_codes, report);
        exit.finish(report);
    }
    if let Some(mut failure) = table.table("failure", report) {
        for pattern in failure.strings("log", report) {
            if regex(&pattern, report).is_some() {
                rules.failure_patterns.push(pattern.value);
            }
        }
        failure.finish(report);
    }
    rules
}

fn meanings(
    entries: Vec<ParameterTable<'_>>,
    success: &[i32],
    report: &mut DiagnosticReport<'_>,
) -> BTreeMap<i32, String> {
    let mut meanings = BTreeMap::new();
    for (code, meaning) in entries {
        let number = code.value.parse().ok().filter(|code| (0..=255).contains(code));
        let Some(number) = number else {
            report.error(code.span, format!("`{}` is no exit code from 0 to 255", code.value));
            continue;
        };
        if success.contains(&number) {
            report.warning(
                code.span,
                format!("exit code {number} means success, so nobody sees this"),
            );
        }
        match as_text(meaning) {
            Some(text) => drop(meanings.insert(number, text.value)),
            None => wrong_type(report, "a meaning", "a string", meaning),
        }
    }
    meanings
}

fn progress(mut table: Table<'_>, report: &mut DiagnosticReport<'_>) -> Option<ProgressRule> {
    let pattern = table.string("pattern", report);
    let stream = table.string("stream", report);
    if table.key_span("pattern").is_none() {
        report.error(table.span.clone(), "[progress] has no `pattern`");
    }
    let stream = match stream {
        Some(stream) => parameter::file_name(stream, report),
        None => "stdout".to_owned(),
    };
    table.finish(report);
    let pattern = pattern?;
    let regex = regex(&pattern, report)?;
    let groups = regex.captures_len() - 1;
    if !matches!(groups, 1 | 2) {
        report
            .error(pattern.span, format!("the pattern has {groups} groups, not one or two"))
            .hint("one group is per cent, two are what is done and of how many; `(?:...)` is no group");
        return None;
    }
    Some(ProgressRule { pattern: pattern.value, stream })
}

fn regex(pattern: &SpannedText, report: &mut DiagnosticReport<'_>) -> Option<regex::Regex> {
    match regex::Regex::new(&pattern.value) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
            report
                .error(
                    pattern.span.clone(),
                    format!("the regular expression cannot be read: {reason}"),
                )
                .maybe_hint(
                    text.contains("look-around")
                        .then(|| "look-around and back-references are not supported".to_owned()),
                );
            None
        }
    }
}
