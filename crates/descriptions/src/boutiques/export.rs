//! A service as a descriptor that calls it with `fishplate call`.

use fishplate_contract::{DataType, Parameter};
use serde_json::{Map, Value, json};

use crate::exported::{Exported, describe, in_file, lead, output_word, place};

/// A descriptor that calls an operation of a service.
pub fn export(service: &Exported<'_>) -> Value {
    let (inputs, outputs) = service.named(identifier);
    let mut words = vec!["fishplate call".to_owned()];
    words.extend(service.words().map(|word| shell_words::quote(word).into_owned()));
    words.extend(inputs.iter().map(|(id, _)| key(id)));
    words.extend(outputs.iter().map(|(_, parameter)| output_word(parameter)));
    let (title, text) = (service.title, service.documentation.trim());
    let mut descriptor = json!({
        "name": title,
        "description": if text.is_empty() { title } else { text },
        "tool-version": env!("CARGO_PKG_VERSION"),
        "schema-version": "0.5",
        "command-line": words.join(" "),
        "inputs": inputs.iter().map(|(id, parameter)| input(id, parameter)).collect::<Vec<_>>(),
    });
    if !outputs.is_empty() {
        descriptor["output-files"] = outputs.iter().map(|(id, it)| output(id, it)).collect();
    }
    descriptor
}

/// The value key of an input: as its identifier, because those that are alike but for their case are two.
fn key(id: &str) -> String {
    format!("[{id}]")
}

/// Identifiers are letters, digits and `_`.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn input(id: &str, parameter: &Parameter) -> Value {
    let lead = lead(parameter);
    let mut input = Map::from_iter([
        ("id".to_owned(), json!(id)),
        ("name".to_owned(), json!(parameter.name)),
        ("value-key".to_owned(), json!(key(id))),
        ("command-line-flag".to_owned(), json!(lead)),
        ("command-line-flag-separator".to_owned(), json!("")),
        ("optional".to_owned(), json!(!parameter.is_required())),
    ]);
    describe(&mut input, "description", parameter);
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

fn output(id: &str, parameter: &Parameter) -> Value {
    let mut output = Map::from_iter([
        ("id".to_owned(), json!(id)),
        ("name".to_owned(), json!(parameter.name)),
        ("path-template".to_owned(), json!(place(parameter))),
        ("optional".to_owned(), json!(parameter.optional || parameter.repeated)),
    ]);
    describe(&mut output, "description", parameter);
    Value::Object(output)
}
