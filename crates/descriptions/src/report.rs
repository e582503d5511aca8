//! What came of an import.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::field::items;

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

    /// Nobody who calls would notice; said once, of however many it holds.
    pub(crate) fn noted_of_all(&mut self, field: &str, reason: &str) {
        if !self.list.iter().any(|gap| gap.field == field) {
            self.noted(field, reason);
        }
    }

    /// Names those of these members that an object has, once for all objects of a section.
    pub(crate) fn for_people(&mut self, of: &Map<String, Value>, section: &str, keys: &[&str]) {
        for key in keys.iter().filter(|key| of.contains_key(**key)) {
            self.noted_of_all(&format!("{section}.*.{key}"), "for people and other tools");
        }
    }

    /// Says the first of the media types of a file, and names the others.
    pub(crate) fn media_type(
        &mut self,
        of: &Map<String, Value>,
        field: &str,
        is_file: bool,
    ) -> Option<String> {
        let types = items(of.get("media-types"));
        let field = format!("{field}.media-types");
        if !is_file {
            types.first().into_iter().for_each(|_| self.noted(&field, "it is no file"));
            return None;
        }
        for other in types.iter().skip(1) {
            self.noted(&field, format!("a file has one media type, the first; not {other}"));
        }
        types.first().and_then(|it| it.as_str()).map(str::to_owned)
    }

    /// Names the members of an object that are not read.
    pub(crate) fn unread(&mut self, of: &Map<String, Value>, field: &str, read: &[&str]) {
        for key in of.keys().filter(|key| !read.contains(&key.as_str())) {
            self.unread_member(field, key);
        }
    }

    /// Names one of them.
    pub(crate) fn unread_member(&mut self, field: &str, key: &str) {
        let field = format!("{field}.{key}");
        match key.contains(':') {
            true => self.noted(field, "for other tools"),
            false => self.lost(field, "not known here"),
        }
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
