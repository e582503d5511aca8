//! The API as a document of OpenAPI, made from the services that the caller may know of: each process has a path of its own, with
//! a schema of its inputs and outputs.

use fishplate_contract::{Fault, Parameter, Principal};
use fishplate_formats::schema::{self, Dialect, Direction};
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

use super::documents::{OPENAPI_30, OPENAPI_31};
use super::handle::json_of;
use super::list::{self, STATUSES};
use super::process::{self, Process};
use super::query::{Query, accepts, invalid};
use crate::host::Host;
use crate::http::HttpResponse;

/// The document in the version that is asked for: `version=3.1`, or in `Accept`.
///
/// # Errors
/// `InvalidValue` for another version.
pub(super) fn reply(host: &Host, asked: &Parts, caller: &Principal) -> Result<HttpResponse, Fault> {
    let newer = accepts(&asked.headers, "version=3.1");
    let query = Query::of(asked);
    let (dialect, media_type) = match query.get("version") {
        Some("3.1") => (Dialect::JsonSchema, OPENAPI_31),
        None if newer => (Dialect::JsonSchema, OPENAPI_31),
        None | Some("3.0") => (Dialect::OpenApi30, OPENAPI_30),
        Some(other) => return Err(invalid("version", other, "3.0 or 3.1")),
    };
    let processes = process::all(host, caller);
    Ok(json_of(StatusCode::OK, media_type, &document(host, processes, dialect)))
}

fn document<'h>(
    host: &Host,
    processes: impl Iterator<Item = Process<'h>>,
    dialect: Dialect,
) -> Value {
    let mut paths = fixed_paths();
    for process in processes {
        let path = format!("/processes/{}/execution", process.id());
        paths.insert(path, json!({ "post": execution(process, dialect) }));
    }
    let mut document = json!({
        "openapi": if dialect == Dialect::JsonSchema { "3.1.0" } else { "3.0.3" },
        "info": {
            "title": "Fishplate",
            "description": "Programs as processes of OGC API - Processes.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": [{ "url": super::links::address(host, "") }],
        "paths": paths,
        "components": { "schemas": components() },
    });
    if !host.authenticators.is_empty() {
        document["components"]["securitySchemes"] = json!({
            "basic": { "type": "http", "scheme": "basic" },
            "bearer": { "type": "http", "scheme": "bearer" },
        });
        // Or by what needs no header of the client's: a certificate, a proxy in front.
        document["security"] = json!([{ "basic": [] }, { "bearer": [] }, {}]);
    }
    document
}

/// Answers of a schema, and of problems.
fn answers(status: &str, schema: &str, problems: &[&str]) -> Value {
    let component =
        |name: &str| json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
    let mut all = Map::new();
    let found =
        json!({ "description": schema, "content": { "application/json": component(schema) } });
    all.insert(status.to_owned(), found);
    for status in problems.iter().copied().chain(["default"]) {
        let problem = json!({
            "description": "A problem (RFC 9457)",
            "content": { "application/problem+json": component("exception") },
        });
        all.insert(status.to_owned(), problem);
    }
    Value::Object(all)
}

fn get(id: &str, summary: &str, parameters: &Value, schema: &str, problems: &[&str]) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters,
        "responses": answers("200", schema, problems),
    })
}

fn in_path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn in_query(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "schema": schema })
}

fn several(name: &str, schema: &Value) -> Value {
    let mut parameter = in_query(name, &json!({ "type": "array", "items": schema }));
    parameter["style"] = json!("form");
    parameter["explode"] = json!(false);
    parameter
}

fn limit(most: usize, default: usize) -> Value {
    in_query(
        "limit",
        &json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default }),
    )
}

/// The paths that every server has.
fn fixed_paths() -> Map<String, Value> {
    let none = &json!([]);
    let text = json!({ "type": "string" });
    let seconds = json!({ "type": "number", "minimum": 0 });
    let version =
        json!([in_query("version", &json!({ "type": "string", "enum": ["3.0", "3.1"] }))]);
    let processes = &json!([limit(process::MOST, process::DEFAULT), in_query("after", &text)]);
    let jobs = &json!([
        limit(list::MOST, list::DEFAULT),
        in_query("after", &text),
        several("processID", &text),
        several("type", &json!({ "type": "string", "enum": ["process"] })),
        several("status", &json!({ "type": "string", "enum": STATUSES })),
        in_query("datetime", &text),
        in_query("minDuration", &seconds),
        in_query("maxDuration", &seconds),
    ]);
    let offset = json!({ "type": "integer", "minimum": 0, "default": 0 });
    let stream = json!({ "type": "string", "enum": ["stdout", "stderr"], "default": "stdout" });
    let log = &json!([in_path("jobID"), in_query("stream", &stream), in_query("offset", &offset)]);
    let output = &json!([in_path("jobID"), in_path("outputID")]);
    let of_job = &json!([in_path("jobID")]);
    let of_process = &json!([in_path("processID")]);
    let mut dismissal = get("dismiss", "Ends a job, or forgets it", of_job, "statusInfo", &["404"]);
    dismissal["tags"] = json!(["Dismiss"]);
    let mut results =
        get("getResult", "The results of a job", of_job, "results", &["404", "410", "422"]);
    results["responses"]["204"] =
        json!({ "description": "All results are at the addresses of the header Link" });
    let mut single =
        get("getResultOutput", "An output of a job", output, "value", &["404", "410", "422"]);
    single["responses"]["200"]["content"] = json!({ "*/*": { "schema": {} } });
    single["responses"]["204"] =
        json!({ "description": "The output is at the address of the header Link" });
    let run = json!({
        "operationId": "execute",
        "summary": "Runs a process",
        "parameters": [in_path("processID"), session(), prefer()],
        "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/execute" } } } },
        "responses": executed(&json!({ "$ref": "#/components/schemas/results" })),
    });
    let paths = json!({
        "/": { "get": get("getLandingPage", "What there is", none, "landingPage", &[]) },
        "/conformance": { "get": get("getConformanceClasses", "What of the standard holds", none, "confClasses", &[]) },
        "/openapi.json": { "get": get("getOpenApi", "This document", &version, "openapi", &["400"]) },
        "/processes": { "get": get("getProcesses", "Processes", processes, "processList", &["400"]) },
        "/processes/{processID}": { "get": get("getProcessDescription", "A process", of_process, "process", &["404"]) },
        "/processes/{processID}/execution": { "post": run },
        "/jobs": { "get": get("getJobs", "Jobs of the caller", jobs, "jobList", &["400"]) },
        "/jobs/{jobID}": {
            "get": get("getStatus", "How a job stands", of_job, "statusInfo", &["404"]),
            "delete": dismissal,
        },
        "/jobs/{jobID}/results": { "get": results },
        "/jobs/{jobID}/results/{outputID}": { "get": single },
        "/jobs/{jobID}/log": { "get": get("getLog", "What a job's program wrote", log, "log", &["400", "404"]) },
    });
    match paths {
        Value::Object(paths) => paths,
        _ => Map::new(),
    }
}

fn session() -> Value {
    let mut session = in_query("session", &json!({ "type": "string" }));
    session["description"] =
        json!("The session that the job runs in: an ID that the service `session` gave.");
    session
}

fn prefer() -> Value {
    json!({
        "name": "Prefer",
        "in": "header",
        "required": false,
        "description": "respond-async: a job instead of its results. return=minimal: files and arrays by reference (RFC 7240).",
        "schema": { "type": "string", "enum": ["respond-async", "return=minimal", "return=representation"] },
    })
}

/// Answers to a request to run a process.
fn executed(results: &Value) -> Value {
    let problems = ["400", "403", "404", "408", "413", "415", "422"];
    let mut all = answers("201", "statusInfo", &problems);
    all["201"]["description"] = json!("The job that was made");
    all["201"]["headers"] = json!({ "Location": { "description": "The job", "schema": { "type": "string", "format": "uri" } } });
    let linked = |operation: &str| json!({ "operationId": operation, "parameters": { "jobID": "$response.body#/jobID" } });
    all["201"]["links"] = json!({
        "status": linked("getStatus"),
        "log": linked("getLog"),
        "results": linked("getResult"),
        "dismissal": linked("dismiss"),
    });
    all["200"] = json!({
        "description": "The results: all of them as a document, or the only one itself",
        "content": { "application/json": { "schema": results }, "*/*": { "schema": {} } },
    });
    all["204"] = json!({ "description": "All results are at the addresses of the header Link" });
    all
}

/// One process: what it takes, and what it gives.
fn execution(process: Process<'_>, dialect: Dialect) -> Value {
    let signature = &process.call.signature;
    let inputs = signature.inputs.iter().map(|it| (it.name.clone(), input(it, dialect)));
    let inputs: Map<String, Value> = inputs.collect();
    let required: Vec<&str> =
        signature.inputs.iter().filter(|it| it.is_required()).map(|it| it.name.as_str()).collect();
    let chosen = |_: &Parameter| json!({ "$ref": "#/components/schemas/output" });
    let outputs = signature.outputs.iter().map(|it| (it.name.clone(), chosen(it)));
    let mut all = json!({ "type": "object", "properties": inputs, "additionalProperties": false });
    if !required.is_empty() {
        all["required"] = json!(required);
    }
    let request = json!({
        "type": "object",
        "properties": {
            "inputs": all,
            "outputs": { "type": "object", "properties": outputs.collect::<Map<_, _>>(), "additionalProperties": false },
            "response": { "type": "string", "enum": ["raw", "document"] },
            "subscriber": { "$ref": "#/components/schemas/subscriber" },
        },
        "required": if required.is_empty() { json!([]) } else { json!(["inputs"]) },
    });
    let request = without_empty(request);
    let given = signature.outputs.iter().map(|it| (it.name.clone(), output(it, dialect)));
    let given = json!({ "type": "object", "properties": given.collect::<Map<_, _>>() });
    // The only output may come as it is.
    let only = match &signature.outputs[..] {
        [one] => json!({ "anyOf": [given, output(one, dialect)] }),
        _ => given,
    };
    json!({
        "operationId": format!("execute-{}", process.id()),
        "summary": process.entry.service().title,
        "description": process.call.documentation,
        "parameters": [session(), prefer()],
        "requestBody": { "required": !required.is_empty(), "content": { "application/json": { "schema": request } } },
        "responses": executed(&only),
    })
}

/// `required` may not be empty in OpenAPI 3.0.
fn without_empty(mut schema: Value) -> Value {
    if schema["required"] == json!([])
        && let Some(members) = schema.as_object_mut()
    {
        members.remove("required");
    }
    schema
}

/// What an input may be: the value, or an object with the value or a reference.
fn input(parameter: &Parameter, dialect: Dialect) -> Value {
    let value = schema::of(parameter, dialect, Direction::In);
    let data_type = &parameter.data_type;
    let is_file = data_type.is_binary();
    let mut forms = vec![value.clone()];
    if is_file || data_type.as_array().is_some() {
        forms.push(json!({ "$ref": "#/components/schemas/link" }));
    }
    // Of a file, `encoding` tells how it is written, so that its text may be anything.
    let qualified = if is_file { json!({ "type": "string" }) } else { value };
    let encodings = if is_file { json!(["base64", "utf-8"]) } else { json!(["utf-8"]) };
    forms.push(json!({
        "type": "object",
        "properties": {
            "value": qualified,
            "mediaType": { "type": "string" },
            "encoding": { "type": "string", "enum": encodings },
        },
        "required": ["value"],
    }));
    let one = json!({ "anyOf": forms });
    let mut schema = if parameter.repeated {
        json!({ "anyOf": [one, { "type": "array", "items": one }] })
    } else {
        one
    };
    schema["description"] = json!(schema::about(parameter));
    if !parameter.unit.is_empty() {
        schema["x-ogc-unit"] = json!(parameter.unit);
    }
    schema
}

/// What an output is: the value, or an object with the value of a file or a reference.
fn output(parameter: &Parameter, dialect: Dialect) -> Value {
    let value = schema::of(parameter, dialect, Direction::Out);
    let one = if parameter.data_type.is_binary() {
        json!({
            "type": "object",
            "properties": { "value": value, "encoding": { "type": "string" }, "mediaType": { "type": "string" } },
            "required": ["value"],
        })
    } else {
        value
    };
    let one = json!({ "anyOf": [one, { "$ref": "#/components/schemas/link" }] });
    if parameter.repeated { json!({ "type": "array", "items": one }) } else { one }
}

fn object(required: &[&str], properties: &Value) -> Value {
    without_empty(json!({ "type": "object", "required": required, "properties": properties }))
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// What answers are made of (the schemas of 18-062r2, in short).
fn components() -> Value {
    let text = json!({ "type": "string" });
    let moment = json!({ "type": "string", "format": "date-time" });
    let address = json!({ "type": "string", "format": "uri" });
    let links = json!({ "type": "array", "items": reference("link") });
    let list = |of: &str| json!({ "type": "array", "items": reference(of) });
    json!({
        "link": object(&["href"], &json!({ "href": text, "rel": text, "type": text, "hreflang": text, "title": text })),
        "landingPage": object(&["links"], &json!({ "title": text, "description": text, "links": links })),
        "confClasses": object(&["conformsTo"], &json!({ "conformsTo": { "type": "array", "items": text } })),
        "openapi": object(&["openapi", "info", "paths"], &json!({ "openapi": text })),
        "processList": object(&["processes", "links"], &json!({ "processes": list("process"), "links": links })),
        "process": object(&["id", "version"], &json!({
            "id": text, "version": text, "title": text, "description": text,
            "jobControlOptions": { "type": "array", "items": text },
            "outputTransmission": { "type": "array", "items": text },
            "inputs": { "type": "object" }, "outputs": { "type": "object" }, "links": links,
        })),
        "execute": object(&[], &json!({
            "inputs": { "type": "object" },
            "outputs": { "type": "object", "additionalProperties": reference("output") },
            "response": { "type": "string", "enum": ["raw", "document"] },
            "subscriber": reference("subscriber"),
        })),
        "output": object(&[], &json!({
            "transmissionMode": { "type": "string", "enum": ["value", "reference"] },
            "format": object(&[], &json!({ "mediaType": text })),
        })),
        "subscriber": object(&[], &json!({ "successUri": address, "inProgressUri": address, "failedUri": address })),
        "statusInfo": object(&["jobID", "status", "type"], &json!({
            "jobID": text, "processID": text,
            "type": { "type": "string", "enum": ["process"] },
            "status": { "type": "string", "enum": STATUSES },
            "message": text, "created": moment, "started": moment, "finished": moment, "updated": moment,
            "progress": { "type": "integer", "minimum": 0, "maximum": 100 },
            "links": links,
        })),
        "jobList": object(&["jobs", "links"], &json!({ "jobs": list("statusInfo"), "links": links })),
        "results": json!({ "type": "object" }),
        "value": json!({}),
        "log": object(&["stream", "text", "next", "end", "links"], &json!({
            "stream": text, "text": text, "next": { "type": "integer" }, "end": { "type": "boolean" }, "links": links,
        })),
        "exception": object(&["type"], &json!({
            "type": text, "title": text, "status": { "type": "integer" }, "detail": text, "instance": text,
            "code": text, "parameter": text, "job": text, "stderr": text,
        })),
    })
}
