//! A document in YAML (JSON is such), and what stands in it as a list or by names.

use serde_json::{Map, Value};

use crate::report::ImportError;

/// Reads a tool.
///
/// # Errors
/// If it is no YAML, or another kind of document.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, ImportError> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let read: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ImportError::Syntax { format: "YAML", reason: error.to_string() })?;
    let none = |reason: String| ImportError::Kind { wanted: "CWL CommandLineTool", reason };
    let Value::Object(document) = read else { return Err(none("it is no mapping".to_owned())) };
    if document.contains_key("$graph") {
        return Err(none("it is a $graph of several; give the file of one tool".to_owned()));
    }
    match document.get("class").and_then(Value::as_str) {
        Some("CommandLineTool") => {}
        Some(class) => return Err(none(format!("it is of class {class}"))),
        None => return Err(none("it has no `class`".to_owned())),
    }
    match document.get("cwlVersion").and_then(Value::as_str) {
        None | Some("v1.0" | "v1.1" | "v1.2") => Ok(document),
        Some(version) => Err(none(format!("{version} is none of v1.0, v1.1, v1.2"))),
    }
}

/// What stands by names, or as a list of objects with `key`: names without what is in front of a `#` or `/`,
/// and objects. Something else stands under `short` in its object.
pub(super) fn named(
    value: Option<&Value>,
    key: &str,
    short: &str,
) -> Vec<(String, Map<String, Value>)> {
    let object = |value: &Value| match value {
        Value::Object(object) => object.clone(),
        other => Map::from_iter([(short.to_owned(), other.clone())]),
    };
    let named: Vec<(String, Map<String, Value>)> = match value {
        Some(Value::Object(entries)) => {
            entries.iter().map(|(name, value)| (name.clone(), object(value))).collect()
        }
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(Value::as_object)
            .map(|item| {
                let name = item.get(key).and_then(Value::as_str).unwrap_or_default();
                (name.to_owned(), item.clone())
            })
            .collect(),
        _ => Vec::new(),
    };
    named.into_iter().map(|(name, object)| (local(&name).to_owned(), object)).collect()
}

/// An identifier without the document and the process that it is in.
pub(super) fn local(id: &str) -> &str {
    id.rsplit(['#', '/']).next().unwrap_or(id)
}
