//! A service as a CommandLineTool that calls it with `fishplate call`.

use fishplate_contract::{DataType, Parameter};
use serde_json::{Map, Value, json};

use crate::exported::{Exported, describe, in_file, is_directory, lead, output_word, place};
use crate::names::name;

/// A tool, as JSON (which is YAML), that calls an operation of a service.
pub fn export(service: &Exported<'_>) -> Value {
    let (inputs, outputs) = service.named(str::to_owned);
    let fixed =
        |(position, word): (i32, String)| json!({ "position": position, "valueFrom": word });
    let before = service.words().map(|word| (0, word.to_owned()));
    let after = outputs.iter().map(|(_, parameter)| (2, output_word(parameter)));
    let inputs = inputs.into_iter().map(|(name, parameter)| (name, input(parameter)));
    let arguments: Vec<Value> = before.chain(after).map(fixed).collect();
    let outputs = outputs.into_iter().map(|(name, parameter)| (name, output(parameter)));
    json!({
        "cwlVersion": "v1.2",
        "class": "CommandLineTool",
        "label": service.title,
        "doc": service.documentation,
        "requirements": { "NetworkAccess": { "networkAccess": true } },
        "baseCommand": ["fishplate", "call"],
        "arguments": arguments,
        "inputs": inputs.collect::<Map<_, _>>(),
        "outputs": outputs.collect::<Map<_, _>>(),
    })
}

fn input(parameter: &Parameter) -> Value {
    let lead = lead(parameter);
    let is_plain = |text: &String| !text.is_empty() && name(text) == *text;
    let one: Value = match &parameter.data_type {
        _ if !parameter.choices.is_empty()
            && parameter.data_type == DataType::String
            && parameter.choices.iter().all(is_plain) =>
        {
            json!({ "type": "enum", "symbols": parameter.choices })
        }
        DataType::Int => json!("int"),
        DataType::Long => json!("long"),
        DataType::Float => json!("float"),
        DataType::Double => json!("double"),
        DataType::Bool => json!("boolean"),
        DataType::Dir => json!("Directory"),
        _ if in_file(parameter) => json!("File"),
        _ => json!("string"),
    };
    let mut described = Map::new();
    let binding = json!({ "position": 1, "prefix": lead, "separate": false });
    let of = if parameter.repeated {
        described.insert("inputBinding".to_owned(), json!({ "position": 1 }));
        json!({ "type": "array", "items": one, "inputBinding": { "prefix": lead, "separate": false } })
    } else if parameter.data_type == DataType::Bool {
        // A binding says nothing for `false`; a text with a reference in it does.
        let value = format!("{lead}$(self)");
        described.insert("inputBinding".to_owned(), json!({ "position": 1, "valueFrom": value }));
        one
    } else {
        described.insert("inputBinding".to_owned(), binding);
        one
    };
    let may_lack = !parameter.is_required();
    described.insert("type".to_owned(), if may_lack { json!(["null", of]) } else { of });
    describe(&mut described, "doc", parameter);
    Value::Object(described)
}

fn output(parameter: &Parameter) -> Value {
    let may_lack = parameter.optional || parameter.repeated;
    let of = if is_directory(parameter) { "Directory" } else { "File" };
    let mut described = Map::from_iter([
        ("type".to_owned(), json!(format!("{of}{}", if may_lack { "?" } else { "" }))),
        ("outputBinding".to_owned(), json!({ "glob": place(parameter).trim_end_matches('/') })),
    ]);
    describe(&mut described, "doc", parameter);
    Value::Object(described)
}
