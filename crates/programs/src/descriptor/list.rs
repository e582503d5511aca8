//! Inputs that stand several times, and words of the command line that belong to an input.

use std::ops::Range;

use super::description::{Input, ListForm};
use super::diagnostic::DiagnosticReport;
use super::parameter::SlotPlacement;
use super::table::{Table, as_text, wrong_type};
use crate::template::Slot;

/// The keys of a list.
pub(super) const KEYS: [&str; 6] =
    ["repeated", "separator", "repeat_prefix", "min_count", "max_count", "default_file"];

/// One word as a string, or several as a list of strings; none of them is empty, or there is none.
pub(super) fn words(
    key: &'static str,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<(Vec<String>, Range<usize>)> {
    let value = table.get(key)?;
    if let Some(text) = as_text(value) {
        return Some(([text.value].into_iter().filter(|it| !it.is_empty()).collect(), text.span));
    }
    let Some(items) = value.get_ref().as_array() else {
        wrong_type(report, &format!("`{key}`"), "a word, or a list of words", value);
        return None;
    };
    let mut words = Vec::new();
    for item in items {
        match as_text(item) {
            Some(text) if text.value.is_empty() => {
                report.error(text.span, format!("a word of `{key}` is not empty"));
            }
            Some(text) => words.push(text.value),
            None => wrong_type(report, &format!("a word of `{key}`"), "a string", item),
        }
    }
    Some((words, value.span()))
}

/// Reads the keys of a list into an input whose other keys were read.
pub(super) fn read(
    input: &mut Input,
    slot: &Slot,
    standing: SlotPlacement,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) {
    let repeated = table.boolean("repeated", report).filter(|(repeated, _)| *repeated);
    let separator = table.string("separator", report);
    let prefixed = table.boolean("repeat_prefix", report);
    let least = table.count("min_count", report);
    let most = table.count("max_count", report);
    default_file(input, slot, table, report);
    let Some((_, span)) = repeated else {
        for key in ["separator", "repeat_prefix", "min_count", "max_count"] {
            if let Some(span) = table.key_span(key) {
                report
                    .error(span, format!("`{key}` is for an input that may stand several times"))
                    .hint("write `repeated = true` beside it");
            }
        }
        return;
    };
    if let Some(why) = misfit(input, slot, standing) {
        report.error(span, format!("{why}, so it is not `repeated`"));
        return;
    }
    let parameter = &mut input.parameter;
    parameter.repeated = true;
    parameter.min_count =
        least.as_ref().map_or(u32::from(!parameter.optional), |(least, _)| *least);
    parameter.max_count = most.as_ref().map(|(most, _)| *most);
    if let Some((most, span)) = most {
        if most < 2 {
            report
                .error(span, "`max_count` is 2 or more")
                .hint("leave `repeated` out for one value");
        } else if most < parameter.min_count {
            report
                .error(span, format!("`max_count` is below `min_count`, {}", parameter.min_count))
                .label("no number of values fits");
        }
    }
    input.list = Some(match (separator, prefixed) {
        (Some(_), Some((true, span))) => {
            report.error(span, "values in one word have one prefix").hint("leave `separator` out");
            return;
        }
        (Some(text), _) => ListForm::Joined(text.value),
        (None, Some((true, span))) if input.prefix.is_empty() => {
            report.error(span, "there is no `prefix` to repeat").hint("prefix = \"-x\"");
            return;
        }
        (None, Some((true, _))) => ListForm::Prefixed,
        (None, _) => ListForm::Words,
    });
}

/// Why an input has one value only.
fn misfit(input: &Input, slot: &Slot, standing: SlotPlacement) -> Option<&'static str> {
    match standing {
        SlotPlacement::Redirected => return Some("a stream is redirected to one file"),
        SlotPlacement::Shared => return Some("the slot's word has other slots"),
        SlotPlacement::Whole | SlotPlacement::Part => {}
    }
    if slot.direction.gives() {
        Some("the program changes one file")
    } else if slot.data_type.as_array().is_some() {
        Some("an array is a list of numbers already")
    } else if !input.flag.is_empty() {
        Some("a `flag` stands once")
    } else if input.parameter.default.is_some() {
        Some("it has a `default`, which is one value")
    } else if input.filename.as_ref().is_some_and(|name| name.contains('/')) {
        Some("its `filename` has a directory, and its files have one of their own")
    } else {
        None
    }
}

/// The owner's file that stands in for one that is left out.
fn default_file(
    input: &mut Input,
    slot: &Slot,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) {
    let Some(text) = table.string("default_file", report) else { return };
    let listed = table.key_span("repeated").is_some();
    if input.filename.is_none() || slot.data_type.as_array().is_some() || listed {
        report
            .error(text.span, "`default_file` is for one input `file` that is no array")
            .hint("`default` is for values");
    } else if input.parameter.default.is_some() {
        report.error(text.span, "an input has a `default` or a `default_file`, not both");
    } else if text.value.is_empty() {
        report.error(text.span, "a file's name is not empty");
    } else {
        input.parameter.optional = true;
        input.default_file = Some(text.value.into());
    }
}
