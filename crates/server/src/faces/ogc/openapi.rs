//! The API as a document of OpenAPI, made from the services that the caller may know of: each process has a path of its own, with
//! a schema of its inputs and outputs.

use fishplate_contract::{DataType, Fault, Parameter, Principal};
use fishplate_formats::schema::{self, Dialect, Direction};
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

use super::documents::{OPENAPI_30, OPENAPI_31};
use super::handle::json_of;
use super::list::{self, STATUSES};
use super::process::{self, Process};
use super::query::{Query, invalid};
use super::results;
use crate::host::Host;
use crate::http::HttpResponse;
use crate::http::accept::Accepted;

/// The document in the version that is asked for: `version=3.1`, or in `Accept`.
///
/// # Errors
/// `InvalidValue` for another version.
pub(super) fn reply(host: &Host, asked: &Parts, caller: &Principal) -> Result<HttpResponse, Fault> {
    let accepted = Accepted::of(&asked.headers);
    let newer = accepted.weight(OPENAPI_31) > accepted.weight(OPENAPI_30);
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

/// The document in its older version, for people.
pub(super) fn document_for(host: &Host, caller: &Principal) -> Value {
    document(host, process::all(host, caller), Dialect::OpenApi30)
}

/// What operations are about: generated clients have a class of each.
const PROCESSES: &str = "Processes";
const JOBS: &str = "Jobs";

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
            "content": { "application/problem+json": component("problem") },
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
    let mut item = in_query("item", &json!({ "type": "integer", "minimum": 0 }));
    item["description"] = json!(
        "One value as a file: of an output that stands several times, the value of this number."
    );
    let output = &json!([in_path("jobID"), in_path("outputID"), item]);
    let of_job = &json!([in_path("jobID")]);
    let of_process = &json!([in_path("processID")]);
    let dismissal = get("dismiss", "Ends a job, or forgets it", of_job, "statusInfo", &["404"]);
    let mut results =
        get("getResult", "The results of a job", of_job, "results", &["404", "410", "422"]);
    results["responses"]["200"]["content"]["*/*"] = json!({ "schema": bytes() });
    results["responses"]["204"] =
        json!({ "description": "All results are at the addresses of the header Link" });
    let mut single = get(
        "getResultOutput",
        "An output of a job",
        output,
        "results",
        &["400", "404", "410", "422"],
    );
    single["responses"]["200"] = json!({
        "description": "The output as it is", "content": { "*/*": { "schema": bytes() } },
    });
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
    let Value::Object(mut paths) = paths else { return Map::new() };
    for (path, operations) in &mut paths {
        let tag = if path.starts_with("/jobs") { JOBS } else { PROCESSES };
        for (_, operation) in operations.as_object_mut().into_iter().flatten() {
            operation["tags"] = json!([tag]);
        }
    }
    paths
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
        "content": { "application/json": { "schema": results }, "*/*": { "schema": bytes() } },
    });
    all["204"] = json!({ "description": "All results are at the addresses of the header Link" });
    all
}

/// One process: what it takes, and what it gives. Of what the face reads, the document tells the plainest form of each value, so that
/// generated clients take numbers as numbers; titles are the names of their types.
fn execution(process: Process<'_>, dialect: Dialect) -> Value {
    let signature = &process.call.signature;
    let title = |part: &str| format!("{} {part}", process.id().replace(':', " "));
    let titled = |kind: &str, it: &Parameter| title(&format!("{kind} {}", it.name));
    let inputs = signature.inputs.iter();
    let inputs = inputs.map(|it| (it.name.clone(), input(it, &titled("input", it), dialect)));
    let required: Vec<&str> =
        signature.inputs.iter().filter(|it| it.is_required()).map(|it| it.name.as_str()).collect();
    let inputs = without_empty(json!({
        "title": title("inputs"),
        "type": "object",
        "properties": inputs.collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    }));
    let fields = signature.inputs.iter().map(|it| (it.name.clone(), field(it, dialect)));
    let form = without_empty(json!({
        "title": title("form"),
        "type": "object",
        "properties": fields.collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    }));
    let outputs = signature.outputs.iter().map(|it| (it.name.clone(), choice(it)));
    let request = without_empty(json!({
        "title": title("request"),
        "type": "object",
        "properties": {
            "inputs": inputs,
            "outputs": {
                "title": title("outputs"),
                "type": "object",
                "properties": outputs.collect::<Map<_, _>>(),
                "additionalProperties": false,
            },
            "response": { "type": "string", "enum": ["raw", "document"] },
            "subscriber": reference("subscriber"),
        },
        "required": if required.is_empty() { json!([]) } else { json!(["inputs"]) },
    }));
    let given = signature.outputs.iter();
    let given = given.map(|it| (it.name.clone(), output(it, &titled("output", it), dialect)));
    let given = json!({
        "title": title("results"), "type": "object", "properties": given.collect::<Map<_, _>>(),
    });
    // An only output that JSON has may come as it is.
    let answer = match &signature.outputs[..] {
        [one] if results::is_json(one) => {
            let one = schema::of(one, dialect, Direction::Out);
            json!({ "title": title("answer"), "oneOf": [given, one] })
        }
        _ => given,
    };
    json!({
        "operationId": format!("execute-{}", process.id()),
        "tags": [PROCESSES],
        "summary": process.entry.service().title,
        "description": process.call.documentation,
        "parameters": [session(), prefer()],
        "requestBody": { "required": !required.is_empty(), "content": {
            "application/json": { "schema": request }, "multipart/form-data": { "schema": form },
        } },
        "responses": executed(&answer),
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

/// What an input may be: a value; of an array also a reference to one; of a file its content or a reference.
fn input(parameter: &Parameter, title: &str, dialect: Dialect) -> Value {
    let mut schema = repeated(parameter, one(parameter, title, dialect, Direction::In));
    // Beside a reference nothing else counts in OpenAPI 3.0.
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = json!(schema::about(parameter));
    if !parameter.unit.is_empty() {
        schema["x-ogc-unit"] = json!(parameter.unit);
    }
    schema
}

/// What an input is as a field of a form: a value; an array as text; a file.
fn field(parameter: &Parameter, dialect: Dialect) -> Value {
    let mut schema = match &parameter.data_type {
        of if of.is_binary() => bytes(),
        DataType::Array(_) => json!({ "type": "string" }),
        _ => schema::of(parameter, dialect, Direction::In),
    };
    schema = repeated(parameter, schema);
    schema["description"] = json!(schema::about(parameter));
    schema
}

/// What an output is in a document: a value; of an array also a reference to one; of a file its content or a reference.
fn output(parameter: &Parameter, title: &str, dialect: Dialect) -> Value {
    repeated(parameter, one(parameter, title, dialect, Direction::Out))
}

/// How an output is wanted: what is short comes by value.
fn choice(parameter: &Parameter) -> Value {
    let is_large = parameter.data_type.is_binary() || parameter.data_type.as_array().is_some();
    reference(if is_large { "output" } else { "valueOutput" })
}

fn one(parameter: &Parameter, title: &str, dialect: Dialect, direction: Direction) -> Value {
    if parameter.data_type.is_binary() {
        return reference("fileValue");
    }
    let value = schema::of(parameter, dialect, direction);
    match parameter.data_type.as_array() {
        Some(_) => json!({ "title": title, "oneOf": [value, reference("link")] }),
        None => value,
    }
}

/// A list of values, if a parameter may have several.
fn repeated(parameter: &Parameter, one: Value) -> Value {
    if !parameter.repeated {
        return one;
    }
    let mut list = json!({ "type": "array", "items": one });
    if parameter.min_count > 0 {
        list["minItems"] = json!(parameter.min_count);
    }
    if let Some(most) = parameter.max_count {
        list["maxItems"] = json!(most);
    }
    list
}

fn object(required: &[&str], properties: &Value) -> Value {
    without_empty(json!({ "type": "object", "required": required, "properties": properties }))
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Bytes of any type.
fn bytes() -> Value {
    json!({ "type": "string", "format": "binary" })
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
        "valueOutput": object(&[], &json!({ "transmissionMode": { "type": "string", "enum": ["value"] } })),
        "fileValue": { "oneOf": [reference("fileContent"), reference("link")] },
        "fileContent": object(&["value"], &json!({
            "value": { "type": "string", "description": "Text, or bytes in base64: as `encoding` says, else as `mediaType` is text or not" },
            "encoding": { "type": "string", "enum": ["base64", "utf-8"] },
            "mediaType": text,
            "title": text,
        })),
        "subscriber": object(&[], &json!({ "successUri": address, "inProgressUri": address, "failedUri": address })),
        "statusInfo": object(&["jobID", "status", "type"], &json!({
            "id": text, "jobID": text, "process": reference("link"), "processID": text, "exception": reference("problem"),
            "type": { "type": "string", "enum": ["process"] },
            "status": { "type": "string", "enum": STATUSES },
            "message": text, "created": moment, "started": moment, "finished": moment, "updated": moment,
            "progress": { "type": "integer", "minimum": 0, "maximum": 100 },
            "links": links,
        })),
        "jobList": object(&["jobs", "links"], &json!({ "jobs": list("statusInfo"), "links": links })),
        "results": { "description": "The outputs by name; the only one may come as it is" },
        "log": object(&["stream", "text", "next", "end", "links"], &json!({
            "stream": text, "text": text, "next": { "type": "integer" }, "end": { "type": "boolean" }, "links": links,
        })),
        "problem": object(&["type"], &json!({
            "type": text, "title": text, "status": { "type": "integer" }, "detail": text, "instance": text,
            "code": text, "parameter": text, "job": text, "stderr": text, "exitCode": { "type": "integer" }, "signal": text,
            "limit": object(&["name", "value"], &json!({ "name": text, "value": text })),
        })),
    })
}
