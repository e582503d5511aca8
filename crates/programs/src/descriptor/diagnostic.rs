//! What is wrong with a description, where, and what would be right. Data only: how it looks is
//! the affair of who shows it.

use std::ops::Range;

pub use crate::template::Severity;

/// A text that was checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceText {
    /// Path of the file, or `command line`.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// Something to be said about a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Where: bytes of the source, on character boundaries.
    pub span: Range<usize>,
    /// What stands at the place, in few words; may be empty.
    pub label: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl SourceText {
    /// Line and column of a byte, both from 1; columns count characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..floor(&self.text, offset)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

impl Diagnostic {
    /// In one line: `ccx.toml:3:14: error: message (hint)`.
    pub fn line(&self, source: &SourceText) -> String {
        let (line, column) = source.position(self.span.start);
        let severity = self.severity.name();
        let name = &source.name;
        let hint = self.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{name}:{line}:{column}: {severity}: {}{hint}", self.message)
    }
}

impl Severity {
    /// Its name, as compilers say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// The diagnostics of one source while it is being read.
#[derive(Debug)]
pub struct DiagnosticReport<'s> {
    pub(super) text: &'s str,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'s> DiagnosticReport<'s> {
    /// Nothing is said yet of this text.
    pub fn new(text: &'s str) -> Self {
        Self { text, diagnostics: Vec::new() }
    }

    pub(super) fn push(
        &mut self,
        severity: Severity,
        span: Range<usize>,
        message: String,
    ) -> LastDiagnostic<'_> {
        let start = floor(self.text, span.start);
        let span = start..floor(self.text, span.end).max(start);
        let label = String::new();
        self.diagnostics.push(Diagnostic { severity, message, span, label, hint: None });
        let last = self.diagnostics.len() - 1;
        LastDiagnostic(&mut self.diagnostics[last])
    }

    /// Something must be put right.
    pub fn error(&mut self, span: Range<usize>, message: impl Into<String>) -> LastDiagnostic<'_> {
        self.push(Severity::Error, span, message.into())
    }

    /// Something is odd.
    pub fn warning(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> LastDiagnostic<'_> {
        self.push(Severity::Warning, span, message.into())
    }

    /// What was reported, errors or not, in the order of the source.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        self.diagnostics
    }

    /// Something must be put right.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// The diagnostic just reported, to say more about it.
#[derive(Debug)]
pub struct LastDiagnostic<'d>(&'d mut Diagnostic);

impl LastDiagnostic<'_> {
    /// What stands at the place, in few words.
    pub fn label(self, label: impl Into<String>) -> Self {
        self.0.label = label.into();
        self
    }

    /// What would be right.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// What would be right, if that is known.
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        self.0.hint = hint;
        self
    }
}

/// The character boundary at or before an offset.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
