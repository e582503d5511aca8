//! One complete start tag: its name and attributes.

use std::borrow::Cow;

use memchr::memchr;

use super::escape::is_xml_char;
use super::is_space;
use super::namespaces::Namespaces;
use crate::name::{QName, XML, XMLNS, XSI};

/// A start tag, resolved.
#[derive(Debug)]
pub struct StartTag<'a> {
    /// Namespace of the element; empty if none.
    pub namespace: &'a str,
    /// Local name.
    pub local: &'a str,
    /// The name as it stands, prefix included.
    pub raw: &'a str,
    /// Attributes without namespace declarations.
    pub attributes: &'a [Attribute<'a>],
    /// Namespace declarations of this tag: prefix (empty for the default) and URI.
    pub declarations: &'a [(&'a str, Cow<'a, str>)],
    /// All declarations in scope.
    pub namespaces: &'a Namespaces,
    /// Bytes of the tag as it stands; for an empty element what an end tag would add is taken off.
    pub len: usize,
}

impl StartTag<'_> {
    /// Its name.
    pub fn name(&self) -> QName {
        QName::new(self.namespace, self.local)
    }

    /// Whether it has this name.
    pub fn is(&self, namespace: &str, local: &str) -> bool {
        self.local == local && self.namespace == namespace
    }

    /// The value of an attribute.
    pub fn attribute(&self, namespace: &str, local: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|has| has.local == local && has.namespace == namespace);
        found.map(|attribute| attribute.value.as_ref())
    }

    /// `xsi:nil` is true.
    pub fn is_nil(&self) -> bool {
        self.attribute(XSI, "nil").is_some_and(|value| matches!(value.trim(), "true" | "1"))
    }
}

/// An attribute, resolved.
#[derive(Debug)]
pub struct Attribute<'a> {
    /// Namespace; empty if none.
    pub namespace: &'a str,
    /// Local name.
    pub local: &'a str,
    /// The name as it stands, prefix included.
    pub raw: &'a str,
    /// The value, references resolved.
    pub value: Cow<'a, str>,
}

/// What a tag says before its prefixes are resolved.
pub(super) struct RawTag<'a> {
    pub(super) name: &'a str,
    pub(super) attributes: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) declarations: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) empty: bool,
}

/// Why a tag is wrong; a limit is told apart so that the fault can name it.
pub(super) enum TagError {
    Malformed(String),
    TooManyAttributes,
}

fn malformed(what: impl Into<String>) -> TagError {
    TagError::Malformed(what.into())
}

/// Parses what stands between `<` and `>`.
pub(super) fn parse(tag: &str, most: usize) -> Result<RawTag<'_>, TagError> {
    let (tag, empty) = match tag.strip_suffix('/') {
        Some(tag) => (tag, true),
        None => (tag, false),
    };
    let end = tag.bytes().position(is_space).unwrap_or(tag.len());
    let (name, mut rest) = tag.split_at(end);
    check_name(name)?;
    let mut raw = RawTag { name, attributes: Vec::new(), declarations: Vec::new(), empty };
    loop {
        let next = without_space(rest);
        if next.is_empty() {
            break;
        }
        if next.len() == rest.len() {
            return Err(malformed(format!("no space between the attributes of {name}")));
        }
        let (attribute, value, after) = split_attribute(name, next)?;
        if raw.attributes.len() + raw.declarations.len() == most {
            return Err(TagError::TooManyAttributes);
        }
        let value = attribute_value(value)?;
        let (list, attribute) = match attribute.strip_prefix("xmlns") {
            Some("") => (&mut raw.declarations, ""),
            Some(prefixed) if prefixed.starts_with(':') => {
                check_declaration(&prefixed[1..], &value)?;
                (&mut raw.declarations, &prefixed[1..])
            }
            _ => (&mut raw.attributes, attribute),
        };
        if list.iter().any(|(has, _)| *has == attribute) {
            return Err(malformed(format!("attribute {attribute} of {name} stands twice")));
        }
        list.push((attribute, value));
        rest = after;
    }
    Ok(raw)
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// What follows the space at the beginning.
fn without_space(text: &str) -> &str {
    let space = text.bytes().take_while(|byte| is_space(*byte)).count();
    &text[space..]
}

/// Name, raw value and what follows.
fn split_attribute<'a>(
    element: &str,
    text: &'a str,
) -> Result<(&'a str, &'a str, &'a str), TagError> {
    let wrong = || malformed(format!("an attribute of {element} is not NAME=\"VALUE\""));
    let equals = memchr(b'=', text.as_bytes()).ok_or_else(wrong)?;
    let attribute = text[..equals].trim_end_matches(SPACE);
    check_name(attribute)?;
    let rest = without_space(&text[equals + 1..]);
    let quote = rest.bytes().next().filter(|c| matches!(c, b'"' | b'\'')).ok_or_else(wrong)?;
    let value = &rest[1..];
    let end = memchr(quote, value.as_bytes()).ok_or_else(wrong)?;
    Ok((attribute, &value[..end], &value[end + 1..]))
}

fn check_declaration(prefix: &str, uri: &str) -> Result<(), TagError> {
    let reserved = match prefix {
        "xml" => uri != XML,
        "xmlns" => true,
        _ => uri.is_empty() || uri == XML || uri == XMLNS,
    };
    if reserved {
        return Err(malformed(format!("prefix {prefix} cannot stand for {uri:?}")));
    }
    Ok(())
}

/// References resolved and white space made blanks (XML 1.0 section 3.3.3).
fn attribute_value(raw: &str) -> Result<Cow<'_, str>, TagError> {
    if raw.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'&' | b'<' | 0xEF)) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '<' => return Err(malformed("'<' in the value of an attribute")),
            '&' => {
                let (name, after) =
                    rest.split_once(';').ok_or_else(|| malformed("'&' without ';'"))?;
                value.push(resolve(name).ok_or_else(|| unknown_reference(name))?);
                rest = after;
            }
            '\r' => {
                rest = rest.strip_prefix('\n').unwrap_or(rest);
                value.push(' ');
            }
            '\t' | '\n' => value.push(' '),
            c if is_xml_char(c) => value.push(c),
            _ => return Err(malformed(format!("the character {:?}", c.escape_unicode()))),
        }
    }
    Ok(Cow::Owned(value))
}

fn unknown_reference(name: &str) -> TagError {
    let name = fishplate_contract::lexical::shortened(name);
    malformed(format!("the reference &{name}; in an attribute"))
}

/// The character that a reference (without `&` and `;`) stands for.
pub(super) fn resolve(reference: &str) -> Option<char> {
    let number = match reference {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "apos" => return Some('\''),
        "quot" => return Some('"'),
        _ => reference.strip_prefix('#')?,
    };
    let code = match number.strip_prefix('x') {
        Some(digits) => code_point(digits, 16)?,
        None => code_point(number, 10)?,
    };
    char::from_u32(code).filter(|c| is_xml_char(*c))
}

/// `from_str_radix` alone would take a sign.
fn code_point(digits: &str, radix: u32) -> Option<u32> {
    if digits.starts_with('+') { None } else { u32::from_str_radix(digits, radix).ok() }
}

/// Checks a qualified name (Namespaces in XML 1.0, section 4).
pub(super) fn check_name(name: &str) -> Result<(), TagError> {
    let good = match memchr(b':', name.as_bytes()) {
        Some(colon) => is_ncname(&name[..colon]) && is_ncname(&name[colon + 1..]),
        None => is_ncname(name),
    };
    if good {
        return Ok(());
    }
    Err(malformed(format!("{:?} is not a name", fishplate_contract::lexical::shortened(name))))
}

/// Whether it is a name without a colon (Namespaces in XML 1.0, production 4).
pub(crate) fn is_ncname(name: &str) -> bool {
    let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let continues =
        |byte: &u8| starts(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let ascii = name.as_bytes();
    if ascii.first().is_some_and(starts) && ascii.iter().all(continues) {
        return true;
    }
    let mut chars = name.chars();
    chars.next().is_some_and(starts_name) && chars.all(|c| starts_name(c) || continues_name(c))
}

fn starts_name(c: char) -> bool {
    matches!(c,
        'A'..='Z' | 'a'..='z' | '_'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn continues_name(c: char) -> bool {
    matches!(c,
        '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
