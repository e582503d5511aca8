//! The file of a domain: which services, how many ranks of each, with which arguments.

use std::path::Path;

use anyhow::{Context as _, Result};
use fishplate_client::arguments::{ArgumentWord, WordError, without_files};
use fishplate_client::domain::Instances;
use fishplate_jobs::descriptor::table::{self, Table, wrong_type};
use fishplate_jobs::descriptor::{DiagnosticReport, SourceText};

use crate::output::diagnostics::Mistakes;

/// Reads it.
///
/// # Errors
/// It can't be read; [`Mistakes`].
pub(super) fn read(path: &Path) -> Result<Vec<Instances>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let source = SourceText { name: path.display().to_string(), text };
    let mut report = DiagnosticReport::new(&source.text);
    let instances = instances(&source, &mut report);
    let diagnostics = report.finish();
    Mistakes::rejected(source, diagnostics)?;
    Ok(instances)
}

fn instances(source: &SourceText, report: &mut DiagnosticReport<'_>) -> Vec<Instances> {
    let mut instances = Vec::new();
    let Some(parsed) = table::parse(source, report) else { return instances };
    let mut root = Table::root(parsed.get_ref(), "the file of a domain");
    for item in root.list("instances", "a list of tables", report) {
        let Some(entries) = item.get_ref().as_table() else {
            wrong_type(report, "an item of `instances`", "a table", item);
            continue;
        };
        let mut table = Table::root(entries, "[[instances]]");
        table.span = item.span();
        instances.extend(read_instances(table, report));
    }
    let is_empty = root.key_span("instances").is_none();
    root.finish(report);
    if is_empty && !report.has_errors() {
        report
            .error(0..0, "the domain has no ranks: there are no [[instances]]")
            .hint("[[instances]] with service = \"http://somewhere.com/moldyn\" and ranks = 2");
    }
    instances
}

fn read_instances(mut table: Table<'_>, report: &mut DiagnosticReport<'_>) -> Option<Instances> {
    let service = table.string("service", report);
    let ranks = table.count("ranks", report);
    let operation = table.string("operation", report);
    let words = table.strings("arguments", report);
    for (key, example) in [("service", "the URL of a service"), ("ranks", "how many there are")] {
        if table.key_span(key).is_none() {
            let span = table.span.clone();
            report.error(span, format!("{} has no `{key}`: {example}", table.name));
        }
    }
    table.finish(report);
    let mut inputs = Vec::new();
    for word in words {
        match input(&word.value) {
            Ok(read) => inputs.extend(read),
            Err(error) => {
                report.error(word.span, error.to_string()).hint(
                    "write arguments as for `fishplate call`: [\"x=1\", \"y:FILE\"]; --results gets the outputs",
                );
            }
        }
    }
    Some(Instances {
        url: service?.value,
        ranks: ranks?.0,
        operation: operation.map(|name| name.value),
        inputs,
    })
}

/// An input as it is typed for `fishplate call`.
fn input(word: &str) -> Result<Vec<ArgumentWord>, WordError> {
    let (inputs, outputs) = without_files(&[word.to_owned()])?;
    match outputs.into_iter().next() {
        Some(output) => Err(WordError::OutOfSpawn(output.name)),
        None => Ok(inputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let source = SourceText { name: "d".to_owned(), text: text.to_owned() };
        let mut report = DiagnosticReport::new(&source.text);
        instances(&source, &mut report);
        report.finish().iter().map(|it| it.line(&source)).collect()
    }

    #[test]
    fn instances_are_read_in_their_order() {
        let text = "[[instances]]\nservice = 'http://a/s'\nranks = 2\narguments = ['x=1']\n\
                    [[instances]]\nservice = 'http://b/t'\nranks = 1\noperation = 'solve'\n";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("domain.toml");
        std::fs::write(&path, text).unwrap();
        let read = read(&path).unwrap();
        let shown: Vec<_> = read
            .iter()
            .map(|of| (of.url.as_str(), of.ranks, of.operation.as_deref(), of.inputs.len()))
            .collect();
        assert_eq!(shown, [("http://a/s", 2, None, 1), ("http://b/t", 1, Some("solve"), 0)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            ("", "d:1:1: error: the domain has no ranks"),
            ("[[instances]]\nranks = 1\n", "d:1:1: error: [[instances]] has no `service`"),
            ("[[instances]]\nservice = 'u'\n", "d:1:1: error: [[instances]] has no `ranks`"),
            (
                "[[instances]]\nservice = 'u'\nranks = 0\n",
                "d:3:9: error: `ranks` is a whole number from 1",
            ),
            (
                "[[instances]]\nservice = 'u'\nranks = 1\nrank = 2\n",
                "d:4:1: error: [[instances]] has no key `rank`",
            ),
            (
                "[[instances]]\nservice = 'u'\nranks = 1\narguments = ['out:x=y']\n",
                "d:4:14: error: ",
            ),
            ("instances = 3", "d:1:13: error: `instances` is a list of tables"),
        ] {
            let said = said(text);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{text}: {said:?}");
        }
    }
}
