//! Processes: their list, and their descriptions.

use std::sync::Arc;

use fishplate_contract::{Fault, FaultCode, Parameter, Principal, Verb, VerbDefinition};
use fishplate_formats::schema::{self, Dialect, Direction};
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

use super::address::ProcessId;
use super::links::{EXECUTE, JOB_LIST, Link};
use super::query::Query;
use crate::host::{Host, ServiceEntry};

/// The most processes of one answer, and how many there are if nobody says how many.
pub(super) const MOST: usize = 10_000;
pub(super) const DEFAULT: usize = 1000;

/// An operation of a service.
#[derive(Clone, Copy)]
pub(crate) struct Process<'h> {
    pub(super) entry: &'h Arc<ServiceEntry>,
    /// The verb that runs it.
    pub(super) call: &'h VerbDefinition,
}

impl<'h> Process<'h> {
    /// The process of that name.
    ///
    /// # Errors
    /// `UnknownOperation`.
    pub(super) fn find(host: &'h Host, id: ProcessId<'_>) -> Result<Self, Fault> {
        let entry = host.service(id.service).filter(|entry| !entry.is_built_in());
        let process = entry
            .and_then(|entry| all_of(entry).find(|process| process.call.operation == id.operation));
        process.ok_or_else(|| {
            let what =
                format!("there is no process {id} here; ogc/processes lists those there are");
            Fault::new(FaultCode::UnknownOperation, what)
        })
    }

    pub(super) fn id(&self) -> String {
        let (service, operation) = (&*self.entry.service().name, &*self.call.operation);
        ProcessId { service, operation }.to_string()
    }

    /// Its verb of another kind; `None`: it has none, as no job can be made of it.
    pub(super) fn verb(&self, verb: Verb) -> Option<&'h VerbDefinition> {
        let mut all = self.entry.interface.verbs.iter();
        all.find(|it| it.verb == verb && it.operation == self.call.operation)
    }

    /// Its outputs.
    pub(crate) fn outputs(&self) -> &'h [Parameter] {
        &self.call.signature.outputs
    }

    fn summary(&self, host: &Host) -> (Map<String, Value>, Vec<Link>) {
        let (service, id) = (self.entry.service(), self.id());
        let mut options = vec!["sync-execute"];
        if self.verb(Verb::Spawn).is_some() {
            options.extend(["async-execute", "dismiss"]);
        }
        let is_sole = service.operations.len() == 1;
        let documentation = if is_sole { &service.documentation } else { &self.call.documentation };
        let title = if is_sole {
            service.title.clone()
        } else {
            format!("{}: {}", service.title, self.call.operation)
        };
        let summary = json!({
            "id": id,
            "title": title,
            "description": documentation,
            // Services have no versions: it is their server's.
            "version": env!("CARGO_PKG_VERSION"),
            "jobControlOptions": options,
            "outputTransmission": ["value", "reference"],
        });
        let path = format!("/processes/{id}");
        let links = vec![
            Link::new(host, &path, "self", "The process"),
            Link::page(&self.entry.url, "alternate", "The service's page"),
            Link::new(host, &format!("{path}/execution"), EXECUTE, "Runs the process"),
            Link::new(host, &format!("/jobs?processID={id}"), JOB_LIST, "Jobs of the process"),
        ];
        let Value::Object(summary) = summary else { return (Map::new(), links) };
        (summary, links)
    }

    /// All there is to tell of it.
    pub(super) fn description(&self, host: &Host) -> (Value, Vec<Link>) {
        let (mut description, links) = self.summary(host);
        let described = |parameters: &[Parameter], direction| -> Value {
            let named = parameters.iter().map(|it| (it.name.clone(), parameter(it, direction)));
            Value::Object(named.collect())
        };
        let signature = &self.call.signature;
        description.insert("inputs".to_owned(), described(&signature.inputs, Direction::In));
        description.insert("outputs".to_owned(), described(&signature.outputs, Direction::Out));
        (Value::Object(description), links)
    }
}

/// The processes of a service.
pub(super) fn all_of(entry: &Arc<ServiceEntry>) -> impl Iterator<Item = Process<'_>> {
    let calls = entry.interface.verbs.iter().filter(|definition| definition.verb == Verb::Call);
    calls.map(move |call| Process { entry, call })
}

/// The processes of which a caller may know, by name.
pub(super) fn all<'h>(host: &'h Host, caller: &'h Principal) -> impl Iterator<Item = Process<'h>> {
    let known = host.services_for(caller).filter(|entry| !entry.is_built_in());
    let known = known.filter(|entry| caller.is_for(&entry.service().name));
    known.flat_map(all_of)
}

/// The list of processes, from one on.
///
/// # Errors
/// What is wrong with the query.
pub(super) fn list(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
) -> Result<(Value, Vec<Link>), Fault> {
    let query = Query::of(asked);
    let limit = query.limit(DEFAULT, MOST)?;
    let after = query.get("after");
    let mut left = all(host, caller).peekable();
    if let Some(after) = after {
        while left.next_if(|process| process.id() != after).is_some() {}
        left.next();
    }
    let processes: Vec<Process<'_>> = left.by_ref().take(limit).collect();
    let mut links = vec![Link::new(host, "/processes", "self", "Processes")];
    if let (Some(last), Some(_)) = (processes.last(), left.peek()) {
        let path = format!("/processes?limit={limit}&after={}", last.id());
        links.push(Link::new(host, &path, "next", "More processes"));
    }
    let summary = |process: &Process<'_>| {
        let (mut summary, links) = process.summary(host);
        summary.insert("links".to_owned(), super::links::in_body(&links));
        Value::Object(summary)
    };
    Ok((json!({ "processes": processes.iter().map(summary).collect::<Vec<_>>() }), links))
}

/// An input or an output.
fn parameter(parameter: &Parameter, direction: Direction) -> Value {
    let one = schema::of(parameter, Dialect::Description, direction);
    let schema = match (direction, parameter.repeated) {
        (Direction::Out, true) => json!({ "type": "array", "items": one }),
        _ => one,
    };
    let mut described = json!({ "title": parameter.name, "description": schema::about(parameter), "schema": schema });
    if !parameter.unit.is_empty() {
        described["metadata"] = json!([{ "title": parameter.unit, "role": "unit" }]);
    }
    if direction == Direction::In {
        let is_large = parameter.data_type.is_binary() || parameter.data_type.as_array().is_some();
        // Of the draft of 2.0.
        described["valuePassing"] = match is_large {
            true => json!(["byValue", "byReference"]),
            false => json!(["byValue"]),
        };
        let least = if parameter.is_required() { parameter.min_count.max(1) } else { 0 };
        described["minOccurs"] = json!(least);
        described["maxOccurs"] = match (parameter.repeated, parameter.max_count) {
            (true, None) => json!("unbounded"),
            (true, Some(most)) => json!(most),
            (false, _) => json!(1),
        };
    }
    described
}
