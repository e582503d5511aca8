//! Requirements and hints.

use serde_json::{Map, Value};

use super::document::named;
use super::reference;
use crate::field::{items, lexical};
use crate::report::Gaps;
use crate::service_file::ServiceFile;

/// Reads both; a hint is never more than noted.
pub(super) fn read(tool: &Map<String, Value>, service: &mut ServiceFile, gaps: &mut Gaps) {
    for side in ["requirements", "hints"] {
        for (class, told) in named(tool.get(side), "class", "class") {
            let field = format!("{side}.{class}");
            if told.contains_key("$import") {
                gaps.lost(format!("{side}.$import"), "other files are not read");
                continue;
            }
            one(side == "requirements", &class, field, &told, tool, service, gaps);
        }
    }
}

/// How many processors a tool asks for at least.
pub(super) fn cores(tool: &Map<String, Value>) -> u64 {
    let all = ["requirements", "hints"]
        .into_iter()
        .flat_map(|side| named(tool.get(side), "class", "class"));
    let mut asked = all.filter(|(class, _)| class == "ResourceRequirement");
    let least = asked.find_map(|(_, told)| told.get("coresMin").and_then(Value::as_u64));
    least.unwrap_or(1).max(1)
}

fn one(
    required: bool,
    class: &str,
    field: String,
    told: &Map<String, Value>,
    tool: &Map<String, Value>,
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    let say = |gaps: &mut Gaps, reason: &str| match required {
        true => gaps.lost(field.clone(), reason),
        false => gaps.noted(field.clone(), reason),
    };
    let read: &[&str] = match class {
        "EnvVarRequirement" => &["class", "envDef"],
        "ToolTimeLimit" => &["class", "timelimit"],
        _ => &[],
    };
    if !read.is_empty() {
        gaps.unread(told, &field, read);
    }
    match class {
        "EnvVarRequirement" => {
            for (name, variable) in named(told.get("envDef"), "envName", "envValue") {
                gaps.unread(&variable, &format!("{field}.envDef.{name}"), &["envName", "envValue"]);
                let value = variable.get("envValue").and_then(lexical);
                match value.as_deref().and_then(reference::literal) {
                    Some(value) => drop(service.environment.insert(name, value)),
                    None => say(gaps, "a variable is made of inputs"),
                }
            }
        }
        "ToolTimeLimit" => match told.get("timelimit").and_then(Value::as_u64) {
            Some(0) => {}
            Some(seconds) => service.wall_time = Some(seconds),
            None => say(gaps, "the time is computed"),
        },
        "DockerRequirement" => gaps.noted(
            field,
            "the program is the one of the server's machine; `container` in the service file has it \
             run in an image of Apptainer's",
        ),
        "InlineJavascriptRequirement" => {
            gaps.noted(field, "JavaScript is not run; where it is needed, that is said");
        }
        "ShellCommandRequirement" => {
            let arguments = items(tool.get("arguments"));
            let bindings = named(tool.get("inputs"), "id", "type");
            let bindings = bindings.iter().filter_map(|(_, input)| input.get("inputBinding"));
            let unquoted = |binding: &Value| binding.get("shellQuote") == Some(&Value::Bool(false));
            if arguments.into_iter().chain(bindings).any(unquoted) {
                gaps.fatal(field, "no shell runs; put what needs one into a script");
            } else {
                gaps.noted(field, "all words are quoted, so no shell is needed");
            }
        }
        "ResourceRequirement" => {
            gaps.noted(field, "`limits` of the service file bounds what a job may use");
        }
        "NetworkAccess" | "WorkReuse" | "LoadListingRequirement" | "SubworkflowFeatureRequirement"
        | "ScatterFeatureRequirement" | "MultipleInputFeatureRequirement"
        | "StepInputExpressionRequirement" => gaps.noted(field, "not needed to run it"),
        "InitialWorkDirRequirement" => say(gaps, "files that are made or named by it are not there"),
        "SchemaDefRequirement" => say(gaps, "types of its own are not known"),
        "InplaceUpdateRequirement" => say(gaps, "an input that the program changes is not an output"),
        _ => say(gaps, "not known here"),
    }
}
