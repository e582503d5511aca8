//! Diagnostics of service files and policies as a compiler shows them: the line, what is wrong with it and
//! what would be right.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use fishplate_programs::descriptor::{CheckedService, Diagnostic, Severity, SourceText};

/// What is to be said about sources: by source, and in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mistakes(Vec<(SourceText, Vec<Diagnostic>)>);

impl Mistakes {
    /// Nothing, if no diagnostic of a source is an error.
    ///
    /// # Errors
    /// These, if one is.
    pub(crate) fn rejected(source: SourceText, diagnostics: Vec<Diagnostic>) -> Result<(), Self> {
        let mistakes = Self(vec![(source, diagnostics)]);
        if mistakes.has_errors() { Err(mistakes) } else { Ok(()) }
    }

    /// Those of services, but for notes, which are for `fishplate check`.
    pub(crate) fn of(checked: &[CheckedService]) -> Self {
        let told = |checked: &CheckedService| {
            let told = checked.diagnostics.iter().filter(|it| it.severity != Severity::Note);
            (checked.source.clone(), told.cloned().collect())
        };
        Self(checked.iter().map(told).collect())
    }

    /// Something must be put right first.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().flat_map(|(_, diagnostics)| diagnostics).any(is_error)
    }

    /// Shows all of them on standard error.
    pub(crate) fn show(&self) {
        self.0.iter().for_each(|(source, diagnostics)| show(source, diagnostics));
    }

    /// Each in a line, for a log.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let of = |(source, diagnostics): &(SourceText, Vec<Diagnostic>)| {
            diagnostics.iter().map(|diagnostic| diagnostic.line(source)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines().collect::<Vec<_>>().join("; "))
    }
}

impl std::error::Error for Mistakes {}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

/// Renders all that was said about a source, a blank line between diagnostics; empty if nothing
/// was. With `colour`, for a terminal.
pub(crate) fn render(source: &SourceText, diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut rendered = String::new();
    for diagnostic in diagnostics {
        rendered.push_str(&renderer.render(&[group(source, diagnostic)]));
        rendered.push_str("\n\n");
    }
    rendered
}

/// Shows all that was said about a source on standard error.
#[expect(clippy::print_stderr, reason = "what is not data goes to standard error")]
pub(crate) fn show(source: &SourceText, diagnostics: &[Diagnostic]) {
    eprint!("{}", render(source, diagnostics, std::io::stderr().is_terminal()));
}

/// Writes a JSON object a diagnostic to standard output.
pub(crate) fn show_json(source: &SourceText, diagnostics: &[Diagnostic]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for diagnostic in diagnostics {
        let (line, column) = source.position(diagnostic.span.start);
        let object = serde_json::json!({
            "file": source.name,
            "line": line,
            "column": column,
            "severity": diagnostic.severity.name(),
            "message": diagnostic.message,
            "hint": diagnostic.hint,
        });
        writeln!(stdout, "{object}")?;
    }
    Ok(())
}

/// The last line: how many errors and warnings there are; `None` if there are none.
pub(crate) fn summary<'d>(diagnostics: impl IntoIterator<Item = &'d Diagnostic>) -> Option<String> {
    let severities: Vec<_> = diagnostics.into_iter().map(|it| it.severity).collect();
    let count = |severity| severities.iter().filter(|it| **it == severity).count();
    let told = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        number => Some(format!("{number} {what}s")),
    };
    let parts = [told(count(Severity::Error), "error"), told(count(Severity::Warning), "warning")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn group<'d>(source: &'d SourceText, diagnostic: &'d Diagnostic) -> Group<'d> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut annotation = AnnotationKind::Primary.span(diagnostic.span.clone());
    if !diagnostic.label.is_empty() {
        annotation = annotation.label(diagnostic.label.as_str());
    }
    let snippet =
        Snippet::source(source.text.as_str()).path(source.name.as_str()).annotation(annotation);
    let group = level.primary_title(diagnostic.message.as_str()).element(snippet);
    match &diagnostic.hint {
        Some(hint) => group.element(Level::HELP.with_name("hint").message(hint.as_str())),
        None => group,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fishplate_programs::descriptor::{check_command_line, check_text};

    use super::*;

    fn rendered(text: &str) -> String {
        let source = SourceText { name: "ccx.toml".to_owned(), text: text.to_owned() };
        render(&source, &check_text(&source, Path::new("/owner")).diagnostics, false)
    }

    #[test]
    fn a_mistake_in_a_slot_is_shown_within_the_command() {
        insta::assert_snapshot!(rendered(
            "name = \"ccx\"\ncommand = [\"ccx\", \"-i\", \"[in file deck:row]\", \"2>\", \"[out val errors:string]\"]\n"
        ));
    }

    #[test]
    fn many_mistakes_are_shown_in_the_order_of_the_file() {
        insta::assert_snapshot!(rendered(
            "nmae = 'ccx'\ncommand = 'ccx [in val n:int] | tee log'\n\n[input.n]\nmin = 3\nmax = 2\n\n\
             [input.m]\nhelp = 'No such slot'\n\n[limits]\nmemory = 4\nwall_time = 'soon'\n"
        ));
    }

    #[test]
    fn a_mistake_in_a_string_of_several_lines_is_shown_in_its_line() {
        insta::assert_snapshot!(rendered(
            "command = \"\"\"\n  tetgen -pq[in val quality:float]\n  [in file mesh:raw] > /tmp/log\n\"\"\"\n"
        ));
    }

    #[test]
    fn a_syntax_error_is_shown_alone() {
        insta::assert_snapshot!(rendered("name = \"ccx\"\ncommand = [\"ccx\"\nfoo = 1\n"));
    }

    #[test]
    fn a_mistake_in_a_one_liner_is_shown_in_the_line() {
        let words = ["./add.sh", "[in val x:itn]", ">", "[in file r:int]"].map(str::to_owned);
        let directory = tempfile::tempdir().unwrap();
        let checked = check_command_line("add", Some("urn:test"), None, &words, directory.path());
        let rendered = render(&checked.source, &checked.diagnostics, false);
        insta::assert_snapshot!(rendered.replace(directory.path().to_str().unwrap(), "/owner"));
    }

    #[test]
    fn colours_are_for_terminals_only() {
        let source = SourceText { name: "x.toml".to_owned(), text: "x = 1".to_owned() };
        let checked = check_text(&source, Path::new("/"));
        let render = |colour| render(&source, &checked.diagnostics, colour);
        assert!(render(true).contains('\u{1b}') && !render(false).contains('\u{1b}'));
    }

    #[test]
    fn the_summary_counts() {
        let check = |text: &str| {
            let source = SourceText { name: "x.toml".to_owned(), text: text.to_owned() };
            check_text(&source, Path::new("/")).diagnostics
        };
        assert_eq!(summary(&check("command = 'p'")), None);
        let bad = check("command = 'p | q'\nx = 1\ny = 1");
        assert_eq!(summary(&[bad, check("z = 1")].concat()).unwrap(), "4 errors, 1 warning");
    }
}
