//! TOML's own mistakes: those of a file's syntax, of which the first of a line is told.

use toml::Spanned;
use toml::de::DeTable;

use super::diagnostic::{DiagnosticReport, SourceText};

/// Parses a file; `None` if its syntax is wrong, which is reported.
pub fn parse<'t>(
    source: &'t SourceText,
    report: &mut DiagnosticReport<'_>,
) -> Option<Spanned<DeTable<'t>>> {
    let (root, errors) = DeTable::parse_recoverable(&source.text);
    let mut line_before = 0;
    let mut errors: Vec<_> = errors
        .into_iter()
        .map(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))
        .collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, message) in errors {
        // What else the parser says of the same line follows from the first.
        let (line, _) = source.position(span.start);
        if line != line_before {
            let hint = message.contains("escape").then(|| {
                "between double quotes a backslash begins an escape: write \\\\, or put the text \
                 between single quotes"
                    .to_owned()
            });
            report.error(span, message).maybe_hint(hint);
        }
        line_before = line;
    }
    // What follows from a syntax error would hide it.
    (!report.has_errors()).then_some(root)
}
