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
    login: Option<ExampleLogin>,
}

/// How whoever calls says who they are, by variables of the environment. Our own clients have that from `fishplate login`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ExampleLogin {
    /// `FISHPLATE_USER` and `FISHPLATE_PASSWORD`.
    Basic,
    /// `FISHPLATE_TOKEN`.
    Bearer,
}

impl ExampleLogin {
    /// What a server asks for; `None` if it asks for nothing, or for what stands in no request: a certificate, a proxy.
    fn of(host: &Host) -> Option<Self> {
        let asked = |scheme: &str| {
            host.authenticators.challenges().any(|it| it.as_bytes().starts_with(scheme.as_bytes()))
        };
        let basic = asked("Basic").then_some(Self::Basic);
        basic.or_else(|| asked("Bearer").then_some(Self::Bearer))
    }

    fn variables(self) -> &'static str {
        match self {
            Self::Basic => "<code>FISHPLATE_USER</code> and <code>FISHPLATE_PASSWORD</code>",
            Self::Bearer => "<code>FISHPLATE_TOKEN</code>",
        }
    }
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

/// Those for which nobody reads an array's file.
const WITHOUT_ARRAY_FILES: [&str; 3] = ["soap", "zeep", "java"];

/// What stands in their place.
const NO_ARRAY_FILE: &str = "An array in a file can't be given so: write its numbers into the form, or take one of the calls above.";

impl<'e> ExampleCall<'e> {
    fn new(
        host: &Host,
        entry: &'e ServiceEntry,
        operation: &'e Operation,
        given: &GivenValues,
    ) -> Result<Self, String> {
        let (service, name) = (entry.service().name.as_str(), operation.name.as_str());
        let process = ProcessId { service, operation: name };
        let public = host.settings.public_url.as_str();
        let execution = format!("{public}/{OGC}/processes/{process}/execution");
        let arguments = arguments::of(operation, given)?;
        Ok(Self { entry, operation, arguments, execution, login: ExampleLogin::of(host) })
    }

    /// What somebody copies; or, in its place, why there is none.
    fn written(&self, (name, _, write): &Writer) -> String {
        let has_array_file = self.arguments.iter().any(ExampleArgument::is_array_file);
        match has_array_file && WITHOUT_ARRAY_FILES.contains(name) {
            true => NO_ARRAY_FILE.to_owned(),
            false => write(self),
        }
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
    if let Some(login) = ExampleLogin::of(host) {
        let _ = writeln!(
            body,
            "<p class=\"hint\">They log in by {} of the environment; the command line and Python by what <code>fishplate login</code> has kept.</p>",
            login.variables()
        );
    }
    for (at, writer) in writers.enumerate() {
        let (name, label, _) = writer;
        let open = if at == 0 { " open" } else { "" };
        let _ = writeln!(
            body,
            "<details name=\"examples-{}\"{open}><summary>{label}</summary>\n\
             <pre data-example=\"{name}\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{}</pre></details>",
            escaped(&operation.name),
            escaped(&call.as_ref().map_or_else(Clone::clone, |call| call.written(writer))),
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
