//! Which prefix stands for which namespace, element by element.

use crate::name::{XML, XMLNS};

/// The declarations in scope.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Innermost last. An empty prefix is the default namespace, an empty URI takes it back.
    bindings: Vec<NamespaceBinding>,
    /// Their texts, one after another.
    text: String,
}

/// A declaration; both texts are in [`Namespaces::text`].
#[derive(Debug)]
struct NamespaceBinding {
    start: usize,
    prefix_end: usize,
    end: usize,
}

impl Namespaces {
    /// The namespace of a prefix; an empty one is the default namespace. `None` if it is not
    /// declared.
    pub fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "xml" => Some(XML),
            "xmlns" => Some(XMLNS),
            _ => {
                let mut bindings = self.bindings.iter().rev();
                let bound = bindings.find(|binding| self.prefix(binding) == prefix);
                match bound {
                    Some(binding) => Some(self.uri(binding)),
                    None if prefix.is_empty() => Some(""),
                    None => None,
                }
            }
        }
    }

    /// Prefixes and namespaces in scope, each prefix once.
    pub fn in_scope(&self) -> impl Iterator<Item = (&str, &str)> {
        self.bindings.iter().enumerate().filter_map(|(at, binding)| {
            let (prefix, uri) = (self.prefix(binding), self.uri(binding));
            let hidden = self.bindings[at + 1..].iter().any(|later| self.prefix(later) == prefix);
            (!hidden && !uri.is_empty()).then_some((prefix, uri))
        })
    }

    fn prefix(&self, binding: &NamespaceBinding) -> &str {
        &self.text[binding.start..binding.prefix_end]
    }

    fn uri(&self, binding: &NamespaceBinding) -> &str {
        &self.text[binding.prefix_end..binding.end]
    }

    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn declare(&mut self, prefix: &str, uri: &str) {
        let start = self.text.len();
        self.text.reserve(prefix.len() + uri.len());
        self.text.push_str(prefix);
        let prefix_end = self.text.len();
        self.text.push_str(uri);
        self.bindings.push(NamespaceBinding { start, prefix_end, end: self.text.len() });
    }

    /// Forgets what was declared beyond the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(first) = self.bindings.get(len) {
            self.text.truncate(first.start);
            self.bindings.truncate(len);
        }
    }
}
