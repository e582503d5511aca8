//! Inline XML as a payload: the one element in `xdescr:XMLData`, written again as a document of its
//! own. Its root declares all namespaces in scope, because values may use their prefixes.

use crate::xml::{StartTag, push_attribute, push_text};

/// Appends a start tag. `root` is the element that the document consists of.
pub(super) fn push_start(tag: &StartTag<'_>, root: bool, out: &mut Vec<u8>) {
    out.push(b'<');
    out.extend_from_slice(tag.raw.as_bytes());
    if root {
        for (prefix, uri) in tag.namespaces.in_scope() {
            push_declaration(prefix, uri, out);
        }
    } else {
        for (prefix, uri) in tag.declarations {
            push_declaration(prefix, uri, out);
        }
    }
    for attribute in tag.attributes {
        push_pair(attribute.raw, &attribute.value, out);
    }
    out.push(b'>');
}

fn push_declaration(prefix: &str, uri: &str, out: &mut Vec<u8>) {
    let colon = if prefix.is_empty() { "" } else { ":" };
    push_pair(&format!("xmlns{colon}{prefix}"), uri, out);
}

fn push_pair(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    push_attribute(value, out);
    out.push(b'"');
}

/// Appends an end tag.
pub(super) fn push_end(raw: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"</");
    out.extend_from_slice(raw.as_bytes());
    out.push(b'>');
}

/// Appends text.
pub(super) fn push_content(text: &str, out: &mut Vec<u8>) {
    push_text(text, out);
}
