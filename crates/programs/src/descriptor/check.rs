//! From text to a description and everything there is to say about it.

use std::path::Path;

use fishplate_contract::interface::SOLE_OPERATION;

use super::command::Command;
use super::description::Description;
use super::diagnostic::{Diagnostic, DiagnosticReport, Severity, SourceText};
use super::operation;
use super::service::{self, Identity};
use super::table::{self, Table};
use super::text::SpannedText;
use super::verify::{self, SourceSpans};
use crate::template::words;

/// What came of a check.
#[derive(Clone, Debug)]
pub struct CheckedService {
    /// What was checked.
    pub source: SourceText,
    /// What it says; there unless a diagnostic is an error.
    pub description: Option<Description>,
    /// Everything there is to say, in the order of the source.
    pub diagnostics: Vec<Diagnostic>,
    /// Where the service's name stands.
    pub(super) name: std::ops::Range<usize>,
}

impl CheckedService {
    /// Something must be put right first.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    fn new(
        source: &SourceText,
        report: DiagnosticReport<'_>,
        made: Option<(Description, SourceSpans)>,
    ) -> Self {
        let has_errors = report.has_errors();
        let name = made.as_ref().map_or(0..0, |(_, places)| places.name.clone());
        Self {
            source: source.clone(),
            description: made.map(|(description, _)| description).filter(|_| !has_errors),
            diagnostics: report.finish(),
            name,
        }
    }
}

/// Checks a service file's text; looks at nothing else. Relative paths begin at `directory`.
pub fn check_text(source: &SourceText, directory: &Path) -> CheckedService {
    let mut report = DiagnosticReport::new(&source.text);
    let made = read(source, directory, &mut report);
    CheckedService::new(source, report, made)
}

/// Checks a service file, and whether the files it names are there.
///
/// # Errors
/// If the file cannot be read.
pub fn check_file(path: &Path) -> std::io::Result<CheckedService> {
    let text = std::fs::read_to_string(path)?;
    // A script is a text too, but no TOML: `#!` would be a comment, and the rest nonsense.
    if text.starts_with("#!") {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let source = SourceText { name: path.display().to_string(), text };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::path::absolute(parent)?,
        _ => std::env::current_dir()?,
    };
    let mut report = DiagnosticReport::new(&source.text);
    let made = read(&source, &directory, &mut report);
    if let Some((description, places)) = &made {
        verify::files(description, places, &mut report);
    }
    Ok(CheckedService::new(&source, report, made))
}

/// Checks a one-liner: `serve -n NAME -U NAMESPACE -N TITLE -- WORDS` (paper 000, Figure 4).
/// Diagnostics point into the line as a shell would take it.
pub fn check_command_line(
    name: &str,
    namespace: Option<&str>,
    title: Option<&str>,
    command_line: &[String],
    directory: &Path,
) -> CheckedService {
    let mut line: Vec<&str> = vec!["-n", name];
    line.extend(namespace.iter().flat_map(|namespace| ["-U", namespace]));
    line.extend(title.iter().flat_map(|title| ["-N", title]));
    line.push("--");
    let options = line.len();
    line.extend(command_line.iter().map(String::as_str));
    let source = SourceText { name: "command line".to_owned(), text: shell_words::join(&line) };
    let placed = words::split(&source.text).expect("a joined line has no open quote");
    let mut report = DiagnosticReport::new(&source.text);
    let text_of = |flag: &str| {
        let index = line.iter().position(|word| *word == flag)? + 1;
        let value = placed[index].text.clone();
        let all = Command { words: placed.clone(), span: 0..0 };
        Some(SpannedText { value, span: all.locate_word(index) })
    };
    let identity = Identity {
        name: text_of("-n").unwrap_or_else(|| SpannedText { value: String::new(), span: 0..0 }),
        title: title.and_then(|_| text_of("-N")),
        namespace: namespace.and_then(|_| text_of("-U")),
        documentation: None,
    };
    let command = Command { words: placed[options..].to_vec(), span: 0..source.text.len() };
    let operation = operation::of_command(SOLE_OPERATION, command, &mut report);
    let made = service::assemble(identity, vec![operation], Vec::new(), directory, &mut report);
    verify::files(&made.0, &made.1, &mut report);
    CheckedService::new(&source, report, Some(made))
}

fn read(
    source: &SourceText,
    directory: &Path,
    report: &mut DiagnosticReport<'_>,
) -> Option<(Description, SourceSpans)> {
    let root = table::parse(source, report)?;
    let stem = Path::new(&source.name).file_stem().and_then(|stem| stem.to_str());
    let default_name = stem.unwrap_or("service");
    Some(service::read(Table::of_service(root.get_ref()), default_name, directory, report))
}
