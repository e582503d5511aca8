//! A service as a CommandLineTool that calls it with `fishplate call`.

use fishplate_contract::{DataType, Parameter, Signature};
use serde_json::{Map, Value, json};

use crate::exported::{about, in_file, is_directory, lead, place};
use crate::names::name;

/// A tool, as JSON (which is YAML), that calls an operation of the service at `url`, which is named if
/// the service has several.
pub fn export(
    url: &str,
    operation: Option<&str>,
    title: &str,
    text: &str,
    signature: &Signature,
) -> Value {
    let mut inputs = Map::new();
    for parameter in &signature.inputs {
        inputs.insert(parameter.name.clone(), input(parameter));
    }
    let mut arguments: Vec<Value> = vec![json!({ "position": 0, "valueFrom": url })];
    if let Some(verb) = operation {
        arguments.push(json!({ "position": 0, "prefix": "--operation", "valueFrom": verb }));
    }
    let mut outputs = Map::new();
    for parameter in &signature.outputs {
        let word = format!("out:{}={}", parameter.name, place(parameter));
        arguments.push(json!({ "position": 2, "valueFrom": word }));
        outputs.insert(output_name(parameter, signature), output(parameter));
    }
    json!({
        "cwlVersion": "v1.2",
        "class": "CommandLineTool",
        "label": title,
        "doc": text,
        "requirements": { "NetworkAccess": { "networkAccess": true } },
        "baseCommand": ["fishplate", "call"],
        "arguments": arguments,
        "inputs": inputs,
        "outputs": outputs,
    })
}

/// An `in out` parameter stands on both sides, and CWL's names are one space.
fn output_name(parameter: &Parameter, signature: &Signature) -> String {
    match signature.input(&parameter.name) {
        Some(_) => format!("{}_out", parameter.name),
        None => parameter.name.clone(),
    }
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
    let about = about(parameter);
    if !about.is_empty() {
        described.insert("doc".to_owned(), about.into());
    }
    Value::Object(described)
}

fn output(parameter: &Parameter) -> Value {
    let (place, is_directory) = (place(parameter), is_directory(parameter));
    let place = place.trim_end_matches('/');
    let mut described = match (parameter.repeated, is_directory) {
        (true, _) => {
            json!({ "type": "File[]", "outputBinding": { "glob": format!("{place}/*") } })
        }
        (false, true) => json!({ "type": "Directory", "outputBinding": { "glob": place } }),
        (false, false) if parameter.optional => {
            json!({ "type": "File?", "outputBinding": { "glob": place } })
        }
        (false, false) => json!({ "type": "File", "outputBinding": { "glob": place } }),
    };
    let about = about(parameter);
    if !about.is_empty() {
        described["doc"] = about.into();
    }
    described
}
