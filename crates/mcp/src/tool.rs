//! Descriptions of tools: what they take and give, as JSON Schema 2020-12.

use std::sync::Arc;

use fishplate_contract::interface::SOLE_OPERATION;
use fishplate_contract::{DataType, Parameter, VerbDefinition};
use fishplate_formats::schema::{self, Dialect, Direction};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::catalogue::{JOB_CANCEL, JOB_LOG, JOB_RESULTS, JOB_STATUS};
use crate::services::ServiceTools;

/// The tool that runs an operation. `paths`: files of this machine may be given.
pub(crate) fn of(name: &str, service: &ServiceTools, call: &VerbDefinition, paths: bool) -> Tool {
    let (input, output) = (input_schema(call, paths), output_schema(call));
    Tool::new(name.to_owned(), description(service, call), input)
        .with_title(title(service, call))
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false))
}

fn title(service: &ServiceTools, call: &VerbDefinition) -> String {
    match call.operation.as_str() {
        SOLE_OPERATION => service.title.clone(),
        operation => format!("{}: {operation}", service.title),
    }
}

fn description(service: &ServiceTools, call: &VerbDefinition) -> String {
    let own = if call.operation == SOLE_OPERATION { "" } else { call.documentation.trim() };
    let parts = [service.title.trim(), service.documentation.trim(), own];
    let told: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    told.join("\n\n")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn input_schema(call: &VerbDefinition, paths: bool) -> Map<String, Value> {
    let inputs = &call.signature.inputs;
    let required = inputs.iter().filter(|input| input.is_required());
    let required: Vec<&str> = required.map(|input| input.name.as_str()).collect();
    let properties: Map<String, Value> =
        inputs.iter().map(|input| (input.name.clone(), property(input, paths))).collect();
    object(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

/// What may be given for an input.
fn property(input: &Parameter, paths: bool) -> Value {
    let one = schema::of(input, Dialect::JsonSchema, Direction::In);
    let one = match &input.data_type {
        DataType::Raw | DataType::Xml | DataType::Dir => file_in(input, paths),
        DataType::Array(_) => json!({ "anyOf": [one, only("href", &HREF)] }),
        _ => one,
    };
    let mut property = match input.repeated {
        true => json!({ "anyOf": [one, { "type": "array", "items": one }] }),
        false => one,
    };
    let about = schema::about(input);
    if !about.is_empty() {
        property["description"] = json!(about);
    }
    property
}

const HREF: [&str; 2] = ["uri", "Its address: the service fetches it from there"];

/// An object with this member, whose format and meaning are these.
fn only(member: &str, [format, about]: &[&str; 2]) -> Value {
    let mut value = json!({ "type": "string", "description": about });
    if !format.is_empty() {
        value["format"] = json!(format);
    }
    json!({ "type": "object", "properties": { member: value }, "required": [member] })
}

/// A file that is given.
fn file_in(input: &Parameter, paths: bool) -> Value {
    let mut base64 = only("base64", &["", "Its bytes in base64 (a directory: of a tar archive)"]);
    base64["properties"]["base64"]["contentEncoding"] = json!("base64");
    base64["properties"]["base64"]["contentMediaType"] = json!(schema::media_type(input));
    let mut forms = vec![only("href", &HREF), base64];
    if input.data_type != DataType::Dir {
        forms.insert(0, json!({ "type": "string", "description": "The text of the file" }));
        forms.push(only("text", &["", "The text of the file"]));
    }
    if paths && input.data_type != DataType::Dir {
        forms.push(only("path", &["", "A file below the directory that this server was given"]));
    }
    json!({ "anyOf": forms })
}

/// What an answer holds: outputs, and the job that they are of. Without outputs the job has not ended yet.
fn output_schema(call: &VerbDefinition) -> Map<String, Value> {
    let outputs = &call.signature.outputs;
    let told = |output: &Parameter| {
        let one = given(output);
        let mut value = match output.repeated {
            true => json!({ "type": "array", "items": one }),
            false => one,
        };
        let about = schema::about(output);
        if !about.is_empty() {
            value["description"] = json!(about);
        }
        (output.name.clone(), value)
    };
    let properties: Map<String, Value> = outputs.iter().map(told).collect();
    object(json!({
        "type": "object",
        "properties": {
            "outputs": {
                "type": "object",
                "properties": properties,
                "description": "What it gave; absent as long as the job has not ended",
            },
            "job": job_schema(),
        },
    }))
}

/// An output as `output` makes it.
fn given(output: &Parameter) -> Value {
    let value = schema::of(output, Dialect::JsonSchema, Direction::Out);
    let file = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "base64": { "type": "string", "contentEncoding": "base64" },
            "uri": { "type": "string", "description": "The resource to read it as (resources/read)" },
            "href": { "type": "string", "description": "Its address, which other tools and services take as it is" },
            "mediaType": { "type": "string" },
            "size": { "type": "integer", "description": "Bytes" },
            "name": { "type": "string" },
        },
    });
    match &output.data_type {
        DataType::Raw | DataType::Xml | DataType::Dir => file,
        DataType::Array(_) | DataType::String => json!({ "anyOf": [value, file] }),
        _ => value,
    }
}

fn job_schema() -> Value {
    json!({
        "type": "object",
        "description": "The job behind it",
        "properties": {
            "job": { "type": "string", "description": "Its name, for job_status, job_results, job_log and job_cancel" },
            "state": { "type": "string" },
            "ended": { "type": "boolean" },
            "progress": { "type": "number", "description": "Share done, 0 to 1" },
            "message": { "type": "string" },
        },
        "required": ["job"],
    })
}

/// The tools about jobs.
pub(crate) fn of_jobs() -> Vec<Tool> {
    let job = json!({ "type": "string", "description": "The job, SERVICE/ID, as the tool that began it answered" });
    let taking = |more: Value| {
        let mut properties = Map::from_iter([("job".to_owned(), job.clone())]);
        properties.extend(object(more));
        object(json!({
            "type": "object",
            "properties": properties,
            "required": ["job"],
            "additionalProperties": false,
        }))
    };
    let looks = ToolAnnotations::new().read_only(true).open_world(false);
    let about_log = json!({
        "stream": { "type": "string", "enum": ["stdout", "stderr"], "default": "stdout" },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "First byte wanted: `next` of the answer before",
        },
    });
    vec![
        Tool::new(JOB_STATUS, "How a job stands: its state, its progress, when it began and ended.", taking(json!({})))
            .with_annotations(looks.clone()),
        Tool::new(JOB_RESULTS, "What a job gave. If it has not ended yet, waits for it for a while.", taking(json!({})))
            .with_annotations(looks.clone()),
        Tool::new(
            JOB_LOG,
            "What a job's program wrote to standard output or standard error, while it runs and after.",
            taking(about_log),
        )
        .with_annotations(looks),
        Tool::new(JOB_CANCEL, "Ends a job and all of its processes.", taking(json!({}))).with_annotations(
            ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false),
        ),
    ]
}
