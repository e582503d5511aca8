//! The service `session` of every server (paper 000, section 4.4): opens, keeps and closes the
//! spaces in which programs share files. It is no program and has no jobs: its verbs are answered
//! here.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, DataType, Exposed, Fault, FaultCode, Interface, Operation, Outcome, Parameter,
    Principal, Service, SessionId, Signature, Timestamp, Value, Verb, lexical,
};

use crate::data::{Data, blocking};

/// Its name: no other service of a server that offers sessions may have it.
pub const NAME: &str = "session";

/// What it offers.
pub fn service() -> Service {
    Service {
        name: NAME.to_owned(),
        namespace: "urn:fishplate:session:1".to_owned(),
        title: "Sessions".to_owned(),
        documentation:
            "A session is a space on this server in which programs share files. Open one, \
             name it in the calls of the services here (header session of urn:fishplate:options:1, \
             or a WS-Context context urn:fishplate:session:ID), and their outputs stay there; the \
             input session:NAME is the file of that name."
                .to_owned(),
        operations: vec![open(), close(), touch(), files()],
    }
}

/// Its operations under their own names, and no verbs about jobs.
pub fn interface(service: &Service) -> Interface {
    let exposed = service.operations.iter().map(|operation| Exposed {
        name: operation.name.clone(),
        verb: Verb::Call,
        operation: operation.name.clone(),
        documentation: operation.documentation.clone(),
        signature: operation.signature.clone(),
    });
    Interface { exposed: exposed.collect() }
}

fn open() -> Operation {
    let idle = Parameter {
        min: Some("1".to_owned()),
        unit: "s".to_owned(),
        ..Parameter::new("idle", DataType::Long)
            .optional()
            .help("How long it may idle, at most what the server allows.")
    };
    operation(
        "open",
        "Opens a session.",
        vec![idle],
        vec![
            session(),
            Parameter::new("url", DataType::String)
                .help("Below which its files are. Who has it can read them: it is a secret."),
            expires(),
        ],
    )
}

fn close() -> Operation {
    operation(
        "close",
        "Closes a session and removes its files. Jobs that run in it go on.",
        vec![session()],
        vec![Parameter::new("closed", DataType::Bool).help("True.")],
    )
}

fn touch() -> Operation {
    operation(
        "touch",
        "Has a session begin to idle anew, as every call in it does.",
        vec![session()],
        vec![expires()],
    )
}

fn files() -> Operation {
    let fields = vec![
        Parameter::new("name", DataType::String).help("Its name in the session."),
        Parameter::new("size", DataType::Long).help("Its length in bytes."),
        Parameter::new("url", DataType::String).help("Its address."),
    ];
    operation(
        "files",
        "The files of a session, by name.",
        vec![session()],
        vec![Parameter::new("file", DataType::Record(fields)).repeated().help("A file.")],
    )
}

fn operation(
    name: &str,
    documentation: &str,
    inputs: Vec<Parameter>,
    outputs: Vec<Parameter>,
) -> Operation {
    let (name, documentation) = (name.to_owned(), documentation.to_owned());
    Operation { name, documentation, signature: Signature { inputs, outputs } }
}

fn session() -> Parameter {
    Parameter::new("session", DataType::String).help("ID of the session: 32 hexadecimal digits.")
}

fn expires() -> Parameter {
    Parameter::new("expires", DataType::DateTime).help("When it ends if nobody uses it.")
}
