//! Indented XML, for people who read a WSDL.

use crate::xml::{push_attribute, push_text};

/// A document as it is written.
pub(crate) struct Markup {
    out: Vec<u8>,
    open: Vec<&'static str>,
}

impl Markup {
    pub(crate) fn new() -> Self {
        Self { out: b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n".to_vec(), open: Vec::new() }
    }

    /// A start tag on a line of its own.
    pub(crate) fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.out.extend_from_slice(b">\n");
        self.open.push(name);
    }

    /// The end tag of the element opened last.
    pub(crate) fn close(&mut self) {
        let Some(name) = self.open.pop() else { return };
        self.indent();
        self.end(name);
    }

    /// An empty element.
    pub(crate) fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.out.extend_from_slice(b"/>\n");
    }

    /// An element that holds text alone, so that its white space stays.
    pub(crate) fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.tag(name, attributes);
        self.out.push(b'>');
        push_text(text, &mut self.out);
        self.end(name);
    }

    pub(crate) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        String::from_utf8_lossy(&self.out).into_owned()
    }

    fn indent(&mut self) {
        for _ in &self.open {
            self.out.extend_from_slice(b"  ");
        }
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.indent();
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        for (attribute, value) in attributes {
            self.out.push(b' ');
            self.out.extend_from_slice(attribute.as_bytes());
            self.out.extend_from_slice(b"=\"");
            push_attribute(value, &mut self.out);
            self.out.push(b'"');
        }
    }

    fn end(&mut self, name: &str) {
        self.out.extend_from_slice(b"</");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b">\n");
    }
}
