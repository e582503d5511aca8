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
pub struct At {
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
    /// Where.
    pub at: At,
    /// What is wrong.
    pub message: String,
    /// What stands at the place, in few words; may be empty.
    pub label: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Problem {
    /// Something that must be put right.
    pub(super) fn error(at: At, message: impl Into<String>) -> Self {
        let (message, label) = (message.into(), String::new());
        Self { severity: Severity::Error, at, message, label, hint: None }
    }

    /// Something that is hardly meant so.
    pub(super) fn warning(at: At, message: impl Into<String>) -> Self {
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

/// The one of `known` that was probably meant by `text`.
pub fn closest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A third of the letters may differ, as rustc has it: more confuses rather than helps.
    let text = text.to_ascii_lowercase();
    let length = text.chars().count();
    let most = (length.max(3) / 3).min(length.saturating_sub(1));
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&text, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
