//! Types of inputs and outputs.

use fishplate_contract::DataType;
use serde_json::{Map, Value};

use super::document::local;
use crate::report::Gaps;

/// A type, as far as it can be said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CwlType {
    /// A value, a file (`raw`) or a directory.
    One(DataType),
    /// A text of these.
    Enum(Vec<String>),
    /// Several of these, with the binding of each.
    Array(Box<CwlType>, Option<Map<String, Value>>),
    /// The program's stream.
    Stdout,
    /// The program's stream.
    Stderr,
    /// Cannot be said: why.
    Other(String),
}

/// A type, and whether it may be left out.
pub(super) fn read(value: Option<&Value>) -> (CwlType, bool) {
    match value {
        None => (CwlType::Other("it has no type".to_owned()), false),
        Some(Value::String(name)) => named(name),
        Some(Value::Array(union)) => union_of(union),
        Some(Value::Object(schema)) => (schema_of(schema), false),
        Some(other) => (CwlType::Other(format!("{other} is no type")), false),
    }
}

fn named(name: &str) -> (CwlType, bool) {
    let stripped = name.trim_end_matches('?');
    if stripped.len() < name.len() {
        return (named(stripped).0, true);
    }
    if let Some(item) = name.strip_suffix("[]") {
        if item.ends_with(['?', ']']) {
            return (CwlType::Other("a list of lists, or with holes".to_owned()), false);
        }
        return (array(named(item).0, None), false);
    }
    let one = |data_type| CwlType::One(data_type);
    let of = match name {
        "int" => one(DataType::Int),
        "long" => one(DataType::Long),
        "float" => one(DataType::Float),
        "double" => one(DataType::Double),
        "boolean" => one(DataType::Bool),
        "string" => one(DataType::String),
        "File" => one(DataType::Raw),
        "Directory" => one(DataType::Dir),
        "stdout" => CwlType::Stdout,
        "stderr" => CwlType::Stderr,
        "stdin" => CwlType::Other("stdin as a type".to_owned()),
        other => CwlType::Other(format!("the type {other}")),
    };
    (of, false)
}

fn union_of(union: &[Value]) -> (CwlType, bool) {
    let is_null = |value: &&Value| value.as_str() == Some("null");
    let optional = union.iter().any(|value| is_null(&value));
    let others: Vec<&Value> = union.iter().filter(|value| !is_null(value)).collect();
    match others[..] {
        [one] => {
            let (of, may_lack) = read(Some(one));
            (of, optional || may_lack)
        }
        _ => (CwlType::Other("one of several types".to_owned()), optional),
    }
}

fn array(item: CwlType, binding: Option<Map<String, Value>>) -> CwlType {
    match item {
        CwlType::One(DataType::Bool) => CwlType::Other("a list of truth values".to_owned()),
        CwlType::One(_) | CwlType::Enum(_) => CwlType::Array(Box::new(item), binding),
        CwlType::Array(..) => CwlType::Other("a list of lists".to_owned()),
        CwlType::Other(why) => CwlType::Other(format!("a list: {why}")),
        CwlType::Stdout | CwlType::Stderr => CwlType::Other("a list of streams".to_owned()),
    }
}

fn schema_of(schema: &Map<String, Value>) -> CwlType {
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let (item, may_lack) = read(schema.get("items"));
            if may_lack {
                return CwlType::Other("a list with holes".to_owned());
            }
            array(item, schema.get("inputBinding").and_then(Value::as_object).cloned())
        }
        Some("enum") => {
            let symbols = schema.get("symbols").and_then(Value::as_array).into_iter().flatten();
            CwlType::Enum(symbols.filter_map(Value::as_str).map(symbol).collect())
        }
        Some("record") => CwlType::Other("a record".to_owned()),
        Some(name) => named(name).0,
        None => CwlType::Other("it has no type".to_owned()),
    }
}

/// Names what a type that can be said has beside it.
pub(super) fn unread(value: Option<&Value>, field: &str, gaps: &mut Gaps) {
    match value {
        Some(Value::Array(union)) => {
            let others = union.iter().filter(|of| of.is_object());
            others.for_each(|of| unread(Some(of), field, gaps));
        }
        Some(Value::Object(schema)) => {
            for key in schema.keys() {
                match (key.as_str(), schema.get("type").and_then(Value::as_str)) {
                    ("type", _) | ("symbols", Some("enum")) => {}
                    ("items", Some("array")) => {
                        unread(schema.get(key), &format!("{field}.items"), gaps);
                    }
                    // `command` reads it: of each item.
                    ("inputBinding", Some("array")) => {}
                    ("inputBinding" | "outputBinding", _) => {
                        let reason = "a binding of the type; put it at the parameter itself";
                        gaps.lost(format!("{field}.{key}"), reason);
                    }
                    ("name" | "label" | "doc", _) => {
                        gaps.noted(format!("{field}.{key}"), "for people and other tools");
                    }
                    _ => gaps.unread_member(field, key),
                }
            }
        }
        _ => {}
    }
}

/// A symbol of an enumeration: it may be an IRI, of which it is what stands behind the last slash of the fragment.
fn symbol(name: &str) -> String {
    name.rsplit_once('#').map_or(name, |(_, fragment)| local(fragment)).to_owned()
}
