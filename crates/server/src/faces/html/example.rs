//! Calls of an operation from programs, ready to be pasted: with the values that a form holds, or with some that it takes.
//!
//! Reading order: `arguments` (the values), `shell`, `python`, `java` (how each language writes them).

mod arguments;
mod java;
mod python;
mod shell;

use std::fmt::Write as _;

use fishplate_contract::Operation;
use fishplate_contract::interface::{OGC, SOLE_OPERATION};
use fishplate_contract::lexical::escaped;
use url::form_urlencoded;

use arguments::ExampleArgument;
pub(super) use arguments::GivenValues;

use crate::faces::ogc::ProcessId;
use crate::host::{Host, ServiceEntry};

/// The parameter of a query at a service's address that asks for examples of an operation. The others are values.
const EXAMPLES: &str = "examples";

/// A call that is written in some language.
struct ExampleCall<'e> {
    entry: &'e ServiceEntry,
    operation: &'e Operation,
    arguments: Vec<ExampleArgument<'e>>,
    /// Where the process is run (OGC API - Processes).
    execution: String,
}

/// How an example is written: its name, what people call it, and what makes it.
type Writer = (&'static str, &'static str, fn(&ExampleCall<'_>) -> String);

/// All of them. Those that ask for a process have none for the server's own services.
const WRITERS: [Writer; 6] = [
    ("cli", "Command line", shell::fishplate),
    ("python", "Python", python::fishplate),
    ("curl", "curl, JSON", shell::curl_json),
    ("soap", "curl, SOAP", shell::curl_soap),
    ("zeep", "Python with zeep (SOAP)", python::zeep),
    ("java", "Java", java::http),
];

/// Those that ask for a process.
const OF_PROCESSES: [&str; 2] = ["curl", "java"];

impl<'e> ExampleCall<'e> {
    fn new(
        host: &Host,
        entry: &'e ServiceEntry,
        operation: &'e Operation,
        given: &GivenValues,
    ) -> Self {
        let (service, name) = (entry.service().name.as_str(), operation.name.as_str());
        let process = ProcessId { service, operation: name };
        let public = host.settings.public_url.as_str();
        let execution = format!("{public}/{OGC}/processes/{process}/execution");
        let arguments = arguments::of(operation, given);
        Self { entry, operation, arguments, execution }
    }

    /// Whether it is the service's only operation, which need not be named.
    fn is_sole(&self) -> bool {
        self.operation.name == SOLE_OPERATION
    }
}

/// Examples of an operation, one beside the other. The script `example.js` asks for them anew when its form changes.
pub(super) fn write(
    body: &mut String,
    host: &Host,
    entry: &ServiceEntry,
    operation: &Operation,
    given: &GivenValues,
) {
    let call = ExampleCall::new(host, entry, operation, given);
    let name = escaped(&operation.name);
    let process = ProcessId { service: &entry.service().name, operation: &operation.name };
    let _ = writeln!(
        body,
        "<div class=\"examples\" data-examples=\"{name}\" data-process=\"{}\">",
        escaped(&process.to_string())
    );
    let writers =
        WRITERS.iter().filter(|(name, ..)| !entry.is_built_in() || !OF_PROCESSES.contains(name));
    for (at, (name, label, write)) in writers.enumerate() {
        let open = if at == 0 { " open" } else { "" };
        let _ = writeln!(
            body,
            "<details name=\"examples-{}\"{open}><summary>{label}</summary>\n\
             <pre data-example=\"{name}\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{}</pre></details>",
            escaped(&operation.name),
            escaped(&write(&call)),
        );
    }
    body.push_str("</div>\n");
}

/// The examples that a query asks for: HTML without a frame. `None`: it asks for something else, or for no operation there is.
pub(crate) fn asked_for(host: &Host, entry: &ServiceEntry, query: &str) -> Option<String> {
    let mut fields = form_urlencoded::parse(query.as_bytes());
    let (first, name) = fields.next()?;
    let operation = entry.service().operation(&name).filter(|_| first == EXAMPLES)?;
    let given = GivenValues::of(operation, fields);
    let mut body = String::new();
    write(&mut body, host, entry, operation, &given);
    Some(body)
}
