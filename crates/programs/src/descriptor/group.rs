//! `[group.NAME]`: inputs of which not every choice makes sense.

use super::description::{Group, Input};
use super::diagnostic::DiagnosticReport;
use super::operation::{ParameterTable, open};
use fishplate_contract::lexical::closest;

/// Reads the groups of an operation with these inputs.
pub(super) fn read(
    tables: &[ParameterTable<'_>],
    parent: &str,
    inputs: &[Input],
    report: &mut DiagnosticReport<'_>,
) -> Vec<Group> {
    tables.iter().filter_map(|entry| group(entry, parent, inputs, report)).collect()
}

fn group(
    entry: &ParameterTable<'_>,
    parent: &str,
    inputs: &[Input],
    report: &mut DiagnosticReport<'_>,
) -> Option<Group> {
    let mut table = open(entry, parent, report)?;
    let name = &entry.0;
    let mut members: Vec<String> = Vec::new();
    for text in table.strings("inputs", report) {
        if members.contains(&text.value) {
            report.error(text.span, format!("the input `{}` stands twice", text.value));
            continue;
        }
        if !inputs.iter().any(|input| input.parameter.name == text.value) {
            let known = inputs.iter().map(|input| input.parameter.name.as_str());
            let near = closest(&text.value, known).map(|near| format!("`{near}` is one"));
            report.error(text.span, format!("there is no input `{}`", text.value)).maybe_hint(near);
            continue;
        }
        members.push(text.value);
    }
    let mut rule = |key| table.boolean(key, report).is_some_and(|(holds, _)| holds);
    let (exclusive, required, together) = (rule("exclusive"), rule("required"), rule("together"));
    let group = Group { name: name.value.clone(), inputs: members, exclusive, required, together };
    let span = name.span.clone();
    if table.key_span("inputs").is_none() || group.inputs.len() < 2 && !report.has_errors() {
        report.error(span, "a group has two `inputs` or more").hint("inputs = [\"a\", \"b\"]");
    } else if !exclusive && !required && !together {
        report
            .error(span, format!("the group `{}` demands nothing", group.name))
            .hint("`exclusive`: at most one; `required`: at least one; `together`: all or none");
    } else if exclusive && together {
        report
            .error(span, "inputs that exclude each other don't go together")
            .hint("leave `exclusive` or `together` out");
    } else {
        check_members(&group, inputs, entry, report);
    }
    table.finish(report);
    Some(group)
}

/// Whether each member may be left out, which is what a group is about.
fn check_members(
    group: &Group,
    inputs: &[Input],
    entry: &ParameterTable<'_>,
    report: &mut DiagnosticReport<'_>,
) {
    let members = inputs.iter().filter(|input| group.inputs.contains(&input.parameter.name));
    for input in members {
        let name = &input.parameter.name;
        let off = matches!(input.parameter.default.as_deref(), Some("false" | "0"));
        if !input.parameter.optional {
            report
                .error(entry.0.span.clone(), format!("the input `{name}` is never left out"))
                .hint(format!("write `optional = true` in [input.{name}]"));
        } else if input.parameter.default.is_some() && (!off || input.flag.is_empty()) {
            report
                .error(entry.0.span.clone(), format!("the input `{name}` has a `default`"))
                .hint("what is never absent excludes nothing: leave the `default` out");
        }
    }
}
