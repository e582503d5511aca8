//! The verbs a service exposes on every face, with their signatures (paper 000, section 4.4).
//!
//! This is the one table behind the WSDL, the dispatch, the page for people and the client.

use crate::job::JobState;
use crate::limits::DEFAULTS;
use crate::service::{DataType, Operation, Parameter, Service, Signature};

/// Where data by reference is, and uploads go.
pub const DATA: &str = "data";
/// Where ranks of communication domains are reached, and domains have their pages.
pub const DOMAINS: &str = "domains";
/// Tools of assistants (Model Context Protocol).
pub const MCP: &str = "mcp";
/// Counters.
pub const METRICS: &str = "metrics";
/// OGC API - Processes.
pub const OGC: &str = "ogc";
/// What callers may use, and have used.
pub const QUOTA: &str = "quota";
/// Where servers are reached that have dialled this one.
pub const SITES: &str = "sites";

/// First segments of the addresses of a server that are no service's, and that no service may be called therefore: these, and
/// probes. A policy names them as if they were services.
pub const RESERVED_NAMES: [&str; 9] =
    [DATA, DOMAINS, MCP, METRICS, OGC, QUOTA, SITES, "healthz", "readyz"];

/// What a caller can ask of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Run the operation and wait for its results.
    Call,
    /// Accept the operation as a job and answer with its ID.
    Spawn,
    /// The results of a job of the operation.
    Results,
    /// Start the operation as a rank of a communication domain (paper 002, section 3.2).
    Init,
    /// Whether a job has not ended yet.
    Running,
    /// End a job and all of its processes.
    Kill,
    /// All there is to tell of a job.
    Status,
    /// What a job's program wrote to standard output or standard error.
    Log,
    /// The caller's jobs on this service.
    Jobs,
    /// Forget an ended job and free its space.
    Remove,
}

impl Verb {
    /// All of them, in the order of the WSDL.
    pub const ALL: [Self; 10] = [
        Self::Call,
        Self::Spawn,
        Self::Results,
        Self::Init,
        Self::Running,
        Self::Kill,
        Self::Status,
        Self::Log,
        Self::Jobs,
        Self::Remove,
    ];

    /// Its name, in a service whose only operation is [`SOLE_OPERATION`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => SOLE_OPERATION,
            Self::Spawn => "spawn",
            Self::Results => "results",
            Self::Init => "init",
            Self::Running => "running",
            Self::Kill => "kill",
            Self::Status => "status",
            Self::Log => "log",
            Self::Jobs => "jobs",
            Self::Remove => "remove",
        }
    }

    /// It is about one operation of a service, not about its jobs.
    pub fn is_of_operation(self) -> bool {
        matches!(self, Self::Call | Self::Spawn | Self::Results | Self::Init)
    }

    /// The name of the same in a service that has an operation of this name.
    fn name_of(self, operation: &str) -> String {
        match self {
            Self::Call => operation.to_owned(),
            verb if operation == SOLE_OPERATION => verb.name().to_owned(),
            verb => format!("{operation}_{}", verb.name()),
        }
    }

    /// What a service means by one of its names, and of which operation: [`Interface::of`] backwards.
    pub fn from_name<'n>(name: &'n str, names: &[&'n str]) -> (Self, &'n str) {
        let find = |name: &str| Self::ALL.into_iter().find(|verb| verb.name() == name);
        let on_jobs = |name: &str| find(name).filter(|verb| !verb.is_of_operation());
        if let Some(verb) = on_jobs(name) {
            return (verb, "");
        }
        let (operation, last) = match name.rsplit_once('_') {
            Some((operation, last)) if operation != SOLE_OPERATION => (operation, last),
            _ => (SOLE_OPERATION, name),
        };
        let is_operation = names.contains(&operation) && on_jobs(operation).is_none();
        match find(last).filter(|_| is_operation) {
            Some(verb @ (Self::Spawn | Self::Results | Self::Init)) => (verb, operation),
            _ => (Self::Call, name),
        }
    }
}

/// One verb of a service under the name that callers use.
#[derive(Clone, Debug, PartialEq)]
pub struct VerbDefinition {
    /// `call`, `spawn`, `status`...; for an operation named `X`: `X`, `X_spawn`, `X_results`, `X_init`.
    pub name: String,
    /// What it does.
    pub verb: Verb,
    /// The operation it is about, for `Call`, `Spawn`, `Results` and `Init`; else empty.
    pub operation: String,
    /// What it does, for people.
    pub documentation: String,
    /// What it takes and gives.
    pub signature: Signature,
}

/// All verbs of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// In the order of the WSDL.
    pub verbs: Vec<VerbDefinition>,
}

/// Name of the operation of a service that has only one.
pub const SOLE_OPERATION: &str = "call";

impl Interface {
    /// What this service exposes.
    pub fn of(service: &Service) -> Self {
        let mut verbs = Vec::new();
        for operation in &service.operations {
            verbs.extend(verbs_of(operation));
        }
        verbs.extend(verbs_on_jobs());
        Self { verbs }
    }

    /// The same of a service whose program may be a rank: `init` of each operation too.
    #[must_use]
    pub fn with_init(mut self, service: &Service) -> Self {
        let first = self.verbs.iter().position(|of| !of.verb.is_of_operation());
        let at = first.unwrap_or(self.verbs.len());
        self.verbs.splice(at..at, service.operations.iter().map(init_of));
        self
    }

    /// The verb that callers know by this name.
    pub fn find(&self, name: &str) -> Option<&VerbDefinition> {
        self.verbs.iter().find(|definition| definition.name == name)
    }

    /// The place of the verb that callers know by this name; no two have the same.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.verbs.iter().position(|definition| definition.name == name)
    }
}

fn verbs_of(operation: &Operation) -> [VerbDefinition; 3] {
    let Signature { inputs, outputs } = operation.signature.clone();
    let what = if operation.documentation.is_empty() {
        String::new()
    } else {
        format!(" {}", operation.documentation)
    };
    let definition = |verb: Verb, inputs, outputs, documentation| VerbDefinition {
        name: verb.name_of(&operation.name),
        verb,
        operation: operation.name.clone(),
        documentation,
        signature: Signature { inputs, outputs },
    };
    [
        definition(
            Verb::Call,
            inputs.clone(),
            outputs.clone(),
            format!("Runs the program and waits for its results.{what}"),
        ),
        definition(
            Verb::Spawn,
            inputs,
            vec![job_parameter()],
            format!("Starts the program as a job and answers with the job's ID at once.{what}"),
        ),
        definition(
            Verb::Results,
            vec![job_parameter()],
            outputs,
            "The results of a job that has ended.".to_owned(),
        ),
    ]
}

/// What `init` takes beside the operation's own inputs, of which none may be called so.
pub fn rank_parameters() -> [Parameter; 6] {
    let mut transport = Parameter::new("transport", DataType::String)
        .default("shared-memory")
        .help("What carries messages, the same for all ranks: shared-memory between ranks of one server and tcp between others, tcp, or soap (calls of store).");
    transport.choices = ["shared-memory", "tcp", "soap"].map(str::to_owned).into();
    [
        Parameter::new("domain", DataType::String)
            .help("ID of the communication domain: 32 hexadecimal digits."),
        Parameter::new("rank", DataType::Int).help("The rank that it becomes, from 0."),
        Parameter::new("ranks", DataType::Int).help("How many ranks the domain has."),
        Parameter::new("credential", DataType::String)
            .help("The domain's credential, 64 hexadecimal digits: the same for all of its ranks."),
        transport,
        Parameter::new("direct", DataType::Bool).default("false").help(
            "Whether ranks of other servers reach it at a port of its own, not through its server's.",
        ),
    ]
}

fn init_of(operation: &Operation) -> VerbDefinition {
    let inputs = rank_parameters().into_iter().chain(operation.signature.inputs.clone());
    VerbDefinition {
        name: Verb::Init.name_of(&operation.name),
        verb: Verb::Init,
        operation: operation.name.clone(),
        documentation: "Starts the program as a rank of a communication domain, in a place that \
                        was reserved (service domain), and answers with the job's ID at once."
            .to_owned(),
        signature: Signature { inputs: inputs.collect(), outputs: vec![job_parameter()] },
    }
}

fn job_parameter() -> Parameter {
    Parameter::new("job", DataType::String).help("ID of the job: 32 hexadecimal digits.")
}

fn verbs_on_jobs() -> Vec<VerbDefinition> {
    let definition = |verb: Verb, documentation: &str, inputs, outputs| VerbDefinition {
        name: verb.name().to_owned(),
        verb,
        operation: String::new(),
        documentation: documentation.to_owned(),
        signature: Signature { inputs, outputs },
    };
    vec![
        definition(
            Verb::Running,
            "Whether a job has not ended yet.",
            vec![job_parameter()],
            vec![
                Parameter::new("running", DataType::Bool)
                    .help("True while its data is fetched, it is queued or runs."),
            ],
        ),
        definition(
            Verb::Kill,
            "Ends a job and all of its processes. Harmless on a job that has ended.",
            vec![job_parameter()],
            vec![
                Parameter::new("state", DataType::String).help("The job's state now."),
                Parameter::new("message", DataType::String).help("What was done, and how."),
            ],
        ),
        definition(
            Verb::Status,
            "All there is to tell of a job.",
            vec![job_parameter()],
            status_fields(),
        ),
        definition(
            Verb::Log,
            "What a job's program wrote, from an offset, while it runs and after.",
            vec![
                job_parameter(),
                stream_parameter(),
                Parameter::new("offset", DataType::Long)
                    .default("0")
                    .help("First byte wanted; the next field of the answer before."),
            ],
            vec![
                Parameter::new("text", DataType::String)
                    .help("The bytes from the offset as UTF-8; what is not is replaced."),
                Parameter::new("next", DataType::Long)
                    .help("The offset to ask for next, in bytes."),
                Parameter::new("end", DataType::Bool)
                    .help("True if the job has ended and this was the rest."),
            ],
        ),
        definition(
            Verb::Jobs,
            "The caller's jobs on this service, newest first.",
            vec![
                state_filter(),
                Parameter::new("limit", DataType::Int)
                    .default("100")
                    .help(format!("How many at the most, 1 to {}.", DEFAULTS.jobs_page)),
                Parameter::new("after", DataType::String)
                    .optional()
                    .help("The last job of the page before."),
            ],
            vec![
                Parameter::new("job", DataType::Record(status_fields())).repeated().help("A job."),
                Parameter::new("more", DataType::Bool).help("True if there are more after these."),
            ],
        ),
        definition(
            Verb::Remove,
            "Forgets an ended job and frees its space.",
            vec![job_parameter()],
            vec![Parameter::new("removed", DataType::Bool).help("True.")],
        ),
    ]
}

fn stream_parameter() -> Parameter {
    let mut stream =
        Parameter::new("stream", DataType::String).default("stdout").help("stdout or stderr.");
    stream.choices = vec!["stdout".to_owned(), "stderr".to_owned()];
    stream
}

fn state_filter() -> Parameter {
    let mut state =
        Parameter::new("state", DataType::String).optional().help("Only jobs in this state.");
    state.choices = JobState::ALL.iter().map(|state| state.name().to_owned()).collect();
    state
}

/// The fields of a [`crate::JobReport`] as `status` and `jobs` give them.
fn status_fields() -> Vec<Parameter> {
    use DataType::{DateTime, Double, Int, Long, String as Text};
    vec![
        Parameter::new("id", Text).help("ID of the job."),
        Parameter::new("operation", Text).help("The operation it runs."),
        Parameter::new("state", Text)
            .help(format!("One of {}.", JobState::ALL.map(JobState::name).join(", "))),
        Parameter::new("message", Text).help("What it waits for, why it failed, how it was ended."),
        Parameter::new("progress", Double).optional().help("Share done, 0 to 1."),
        Parameter::new("submitted", DateTime).help("When it was accepted."),
        Parameter::new("started", DateTime).optional().help("When its program was started."),
        Parameter::new("ended", DateTime).optional().help("When it reached its final state."),
        Parameter::new("exitCode", Int).optional().help("The program's exit code."),
        Parameter::new("signal", Text).optional().help("The signal that ended the program."),
        Parameter::new("cpuSeconds", Double).optional().help("Processor time used, in seconds."),
        Parameter::new("maxMemory", Long).optional().help("Largest resident memory, in bytes."),
        Parameter::new("disk", Long).optional().help("Disk space occupied, in bytes."),
        Parameter::new("endedBy", Text)
            .optional()
            .help("How its processes were ended: cgroup or sweep."),
        Parameter::new("transfer", DataType::Record(transfer_fields()))
            .repeated()
            .help("Data that came or went by reference."),
    ]
}

/// The fields of a [`crate::Transfer`] in a report.
fn transfer_fields() -> Vec<Parameter> {
    use DataType::{Long, String as Text};
    vec![
        Parameter::new("parameter", Text).help("The parameter whose data it is."),
        Parameter::new("peer", Text).help("The other end: scheme and authority of its URL."),
        Parameter::new("state", Text).help("waiting, running, done or failed."),
        Parameter::new("bytes", Long).help("Bytes that are here, or there, by now."),
        Parameter::new("total", Long).optional().help("How many there will be, if it is known."),
        Parameter::new("placed", Text)
            .optional()
            .help("How it became a file of the job: reflink, link, move or copy."),
        Parameter::new("cached", DataType::Bool)
            .optional()
            .help("It was at this server before, or came for another job: its bytes were not sent for this one."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_it_was_made_of() {
        for names in [&["call"][..], &["mesh", "solve_it", "status_spawn"], &["call", "call_spawn"]]
        {
            let operation = |name: &&str| Operation {
                name: (*name).to_owned(),
                documentation: String::new(),
                signature: Signature::default(),
            };
            let operations = names.iter().map(operation).collect();
            let service = Service {
                name: String::new(),
                namespace: String::new(),
                title: String::new(),
                documentation: String::new(),
                operations,
            };
            let interface = Interface::of(&service);
            let interface = interface.with_init(&service);
            let names: Vec<&str> = interface.verbs.iter().map(|it| &*it.name).collect();
            for definition in &interface.verbs {
                let meant = Verb::from_name(&definition.name, &names);
                assert_eq!(meant, (definition.verb, &*definition.operation), "{}", definition.name);
            }
        }
    }
}
