//! What stands in a description, by its path.

use serde_json::{Map, Value};

/// A scalar as the text that a caller would send for it.
pub(crate) fn lexical(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        // As both languages print it: without a fraction that says nothing.
        Value::Number(number) => {
            let text = number.to_string();
            Some(text.strip_suffix(".0").map_or(text.clone(), str::to_owned))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text, or the lines of one.
pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => {
            let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            Some(lines.join("\n"))
        }
        _ => None,
    }
}

/// Whether a member is `true`.
pub(crate) fn is_true(of: &Map<String, Value>, key: &str) -> bool {
    of.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list; one that is no list is its only item.
pub(crate) fn items(value: Option<&Value>) -> Vec<&Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().collect(),
        Some(one) => vec![one],
    }
}

/// In one line, for help and messages.
pub(crate) fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
