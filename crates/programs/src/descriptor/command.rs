//! `command`: a list of words, or one line with shell quoting.

use std::ops::Range;

use super::diagnostic::DiagnosticReport;
use super::table::{Table, as_text, wrong_type};
use super::text::SpannedText;
use crate::template::words::{self, LocatedWord};
use crate::template::{CommandPosition, Parsed, parse};

/// The words of a command line and where their bytes stand in the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<LocatedWord>,
    /// All of it.
    pub(super) span: Range<usize>,
}

impl Command {
    /// Reads the key `command` of a table; reports it missing.
    pub(super) fn read(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Option<Self> {
        let Some(value) = table.get("command") else {
            report.error(table.span.clone(), format!("{} has no `command`", table.name)).hint(
                "write the program's command line: command = [\"./add.sh\", \"[in val x:int]\"]",
            );
            return None;
        };
        if let Some(line) = as_text(value) {
            return Self::of_line(&line, report);
        }
        let Some(items) = value.get_ref().as_array() else {
            wrong_type(report, "`command`", "a list of words or one string", value);
            return None;
        };
        let mut words = Vec::new();
        for item in items {
            match as_text(item) {
                Some(text) => words.push(text.placed(report.text)),
                None => wrong_type(report, "a word of `command`", "a string", item),
            }
        }
        Some(Self { words, span: value.span() })
    }

    fn of_line(line: &SpannedText, report: &mut DiagnosticReport<'_>) -> Option<Self> {
        let placed = line.placed(report.text);
        match words::split(&placed.text) {
            Ok(mut words) => {
                for offset in words.iter_mut().flat_map(|word| &mut word.offsets) {
                    *offset = placed.offsets[*offset];
                }
                Some(Self { words, span: line.span.clone() })
            }
            Err(open) => {
                let span = placed.offsets[open.span.start]..placed.offsets[open.span.end];
                report.error(span, open.to_string()).label("opened here");
                None
            }
        }
    }

    /// Parses it, and reports what is wrong at its place.
    pub(super) fn parse(&self, report: &mut DiagnosticReport<'_>) -> Parsed {
        let texts: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        let parsed = parse(&texts);
        for problem in &parsed.problems {
            report
                .push(problem.severity, self.locate(&problem.at), problem.message.clone())
                .label(problem.label.clone())
                .maybe_hint(problem.hint.clone());
        }
        parsed
    }

    /// Where a place in a word stands in the source.
    pub(super) fn locate(&self, at: &CommandPosition) -> Range<usize> {
        let Some(word) = self.words.get(at.word) else { return self.span.clone() };
        let start = word.offsets[at.span.start];
        // The end of the last byte, not the beginning of the next: a quote may stand between.
        let end = match at.span.end.checked_sub(1) {
            Some(last) if last >= at.span.start => word.offsets[last] + 1,
            _ => start,
        };
        start..end
    }

    /// Where a word stands in the source.
    pub(super) fn locate_word(&self, word: usize) -> Range<usize> {
        let length = self.words.get(word).map_or(0, |word| word.text.len());
        self.locate(&CommandPosition { word, span: 0..length })
    }
}
