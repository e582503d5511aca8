//! A service as a descriptor that calls it with `fishplate call`.

use fishplate_contract::{DataType, Parameter, Signature};
use serde_json::{Map, Value, json};

use crate::exported::{about, in_file, lead, place};

/// A descriptor that calls an operation of the service at `url`. `verb` is what callers call; a service's only
/// operation is called `call`, and no other need be named.
pub fn export(
    url: &str,
    operation: Option<&str>,
    title: &str,
    text: &str,
    signature: &Signature,
) -> Value {
    let mut words = vec!["fishplate call".to_owned(), shell_words::quote(url).into_owned()];
    if let Some(verb) = operation {
        words.push(format!("--operation {}", shell_words::quote(verb)));
    }
    let inputs: Vec<Value> = signature.inputs.iter().map(input).collect();
    words.extend(signature.inputs.iter().map(key));
    let mut outputs: Vec<Value> = Vec::new();
    for parameter in &signature.outputs {
        words.push(format!("out:{}={}", parameter.name, place(parameter)));
        outputs.push(output(parameter, signature));
    }
    let mut descriptor = json!({
        "name": title,
        "description": if text.trim().is_empty() { title } else { text.trim() },
        "tool-version": env!("CARGO_PKG_VERSION"),
        "schema-version": "0.5",
        "command-line": words.join(" "),
        "inputs": inputs,
    });
    if !outputs.is_empty() {
        descriptor["output-files"] = json!(outputs);
    }
    descriptor
}

/// The value key of an input.
fn key(parameter: &Parameter) -> String {
    format!("[{}]", identifier(&parameter.name).to_uppercase())
}

/// Identifiers are letters, digits and `_`.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn input(parameter: &Parameter) -> Value {
    let lead = lead(parameter);
    let mut input = Map::from_iter([
        ("id".to_owned(), json!(identifier(&parameter.name))),
        ("name".to_owned(), json!(parameter.name)),
        ("value-key".to_owned(), json!(key(parameter))),
        ("command-line-flag".to_owned(), json!(lead)),
        ("command-line-flag-separator".to_owned(), json!("")),
        ("optional".to_owned(), json!(!parameter.is_required())),
    ]);
    let about = about(parameter);
    if !about.is_empty() {
        input.insert("description".to_owned(), about.into());
    }
    let mut put = |key: &str, value: Value| drop(input.insert(key.to_owned(), value));
    match &parameter.data_type {
        DataType::Int | DataType::Long => {
            put("type", json!("Number"));
            put("integer", json!(true));
        }
        DataType::Float | DataType::Double => put("type", json!("Number")),
        DataType::Bool => {
            put("type", json!("String"));
            put("value-choices", json!(["true", "false"]));
        }
        _ if in_file(parameter) => put("type", json!("File")),
        _ => put("type", json!("String")),
    }
    let is_number = matches!(
        parameter.data_type,
        DataType::Int | DataType::Long | DataType::Float | DataType::Double
    );
    if is_number {
        for (theirs, bound) in [("minimum", &parameter.min), ("maximum", &parameter.max)] {
            let bound = bound.as_deref().and_then(|it| it.parse::<serde_json::Number>().ok());
            if let Some(bound) = bound {
                put(theirs, bound.into());
            }
        }
    }
    if !parameter.choices.is_empty() {
        let choice = |text: &String| match is_number {
            true => text.parse::<serde_json::Number>().map_or(json!(text), Value::Number),
            false => json!(text),
        };
        put("value-choices", parameter.choices.iter().map(choice).collect());
    }
    if parameter.repeated {
        put("list", json!(true));
        put("list-separator", json!(format!(" {lead}")));
        if parameter.min_count > 0 {
            put("min-list-entries", json!(parameter.min_count));
        }
        if let Some(most) = parameter.max_count {
            put("max-list-entries", json!(most));
        }
    }
    Value::Object(input)
}

fn output(parameter: &Parameter, signature: &Signature) -> Value {
    let id = identifier(&parameter.name);
    let id = match signature.input(&parameter.name) {
        Some(_) => format!("{id}_out"),
        None => id,
    };
    let pattern = if parameter.repeated { "*" } else { "" };
    let mut output = json!({
        "id": id,
        "name": parameter.name,
        "path-template": format!("{}{pattern}", place(parameter)),
        "optional": parameter.optional || parameter.repeated,
    });
    if parameter.repeated {
        output["list"] = json!(true);
    }
    let about = about(parameter);
    if !about.is_empty() {
        output["description"] = about.into();
    }
    output
}
