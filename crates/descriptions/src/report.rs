//! What came of an import.

use std::collections::BTreeMap;

/// A description as a service file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The service's name.
    pub name: String,
    /// The service file, which `fishplate check` finds nothing wrong with; `None` if what cannot be said is
    /// needed for every call.
    pub service_file: Option<String>,
    /// What the service file does not say, in the order of the description.
    pub gaps: Vec<Gap>,
    /// Identifiers of the description that are no names of parameters, and what they are called instead:
    /// `inputs/ID` or `outputs/ID`.
    pub renamed: BTreeMap<String, String>,
}

/// Something that the service file does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it stands in the description, such as `inputs.mask.type`.
    pub field: String,
    /// Why, and what became of it.
    pub reason: String,
    /// Callers, the program or its outputs would notice; else it is for people, or for other tools.
    pub lost: bool,
}

/// Why there is nothing to import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("it is no {format}: {reason}")]
    Syntax {
        /// JSON or YAML.
        format: &'static str,
        /// What the parser said.
        reason: String,
    },
    /// It can be read, but is not such a description.
    #[error("it is no {wanted}: {reason}")]
    Kind {
        /// What it should be.
        wanted: &'static str,
        /// Why it is none.
        reason: String,
    },
}

impl Imported {
    /// The service file says all that the program, its callers and its outputs need.
    pub fn is_whole(&self) -> bool {
        self.service_file.is_some() && !self.gaps.iter().any(|gap| gap.lost)
    }
}

/// The gaps of an import while it is made.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    pub(crate) list: Vec<Gap>,
    /// No call could work without it.
    pub(crate) fatal: bool,
}

impl Gaps {
    /// Somebody would notice.
    pub(crate) fn lost(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.list.push(Gap { field: field.into(), reason: reason.into(), lost: true });
    }

    /// Nobody who calls would notice.
    pub(crate) fn noted(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.list.push(Gap { field: field.into(), reason: reason.into(), lost: false });
    }

    /// No call could work.
    pub(crate) fn fatal(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.lost(field, reason);
        self.fatal = true;
    }

    /// Lost; fatal if it is needed.
    pub(crate) fn needed(&mut self, needed: bool, field: String, reason: impl Into<String>) {
        self.lost(field, reason);
        self.fatal |= needed;
    }
}
