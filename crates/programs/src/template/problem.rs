//! What is wrong with a command line, and where in it.

use std::ops::Range;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The service cannot be offered like this.
    Error,
    /// It can, but it is hardly meant so.
    Warning,
    /// Worth knowing.
    Note,
}

/// A place in a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandPosition {
    /// Index of the word, the program's being 0.
    pub word: usize,
    /// Bytes within the word.
    pub span: Range<usize>,
}

/// Something to be said about a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What part of the text it is about.
    pub at: CommandPosition,
    /// What is wrong.
    pub message: String,
    /// What stands at the place, in few words; may be empty.
    pub label: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Problem {
    /// Something that must be put right.
    pub(super) fn error(at: CommandPosition, message: impl Into<String>) -> Self {
        let (message, label) = (message.into(), String::new());
        Self { severity: Severity::Error, at, message, label, hint: None }
    }

    /// Something that is hardly meant so.
    pub(super) fn warning(at: CommandPosition, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(at, message) }
    }

    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
