//! Which prefix stands for which namespace, element by element.

use crate::name::{XML, XMLNS};

/// The declarations in scope.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Innermost last. An empty prefix is the default namespace, an empty URI takes it back.
    bindings: Vec<(String, String)>,
}

impl Namespaces {
    /// The namespace of a prefix; an empty one is the default namespace. `None` if it is not
    /// declared.
    pub fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "xml" => Some(XML),
            "xmlns" => Some(XMLNS),
            _ => {
                let bound = self.bindings.iter().rev().find(|(bound, _)| bound == prefix);
                match bound {
                    Some((_, uri)) => Some(uri),
                    None if prefix.is_empty() => Some(""),
                    None => None,
                }
            }
        }
    }

    /// Prefixes and namespaces in scope, each prefix once.
    pub fn in_scope(&self) -> impl Iterator<Item = (&str, &str)> {
        self.bindings.iter().enumerate().filter_map(|(at, (prefix, uri))| {
            let hidden = self.bindings[at + 1..].iter().any(|(later, _)| later == prefix);
            (!hidden && !uri.is_empty()).then_some((prefix.as_str(), uri.as_str()))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn declare(&mut self, prefix: &str, uri: &str) {
        self.bindings.push((prefix.to_owned(), uri.to_owned()));
    }

    /// Forgets what was declared beyond the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bindings.truncate(len);
    }
}
