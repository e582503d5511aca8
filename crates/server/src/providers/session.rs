//! The service `session` of every server (paper 000, section 4.4): opens, keeps and closes the
//! spaces in which programs share files. It is no program and has no jobs: its verbs are answered
//! here.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, Call, DataType, Fault, FaultCode, Operation, Outcome, Parameter, Service, SessionId,
    Value, lexical,
};
use fishplate_data::session::{Session, SessionError, SessionFile};

use super::built_in::BuiltIn;
use crate::data::{Data, blocking};
use crate::dispatch::report::date_time;
use crate::dispatch::scalars::Scalars;

/// Its name: no other service of a server that offers sessions may have it.
pub const NAME: &str = "session";

/// The service, which every server has unless it offers no sessions.
pub fn provider() -> BuiltIn {
    BuiltIn {
        service: service(),
        answer: |host, operation, call| Box::pin(answer(&host.data, operation, call)),
    }
}

fn service() -> Service {
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
        operations: vec![open(), close(), touch(), list(), files(), remove_file()],
    }
}

fn open() -> Operation {
    let idle = Parameter {
        min: Some("1".to_owned()),
        unit: "s".to_owned(),
        ..Parameter::new("idle", DataType::Long)
            .optional()
            .help("How long it may idle, at most what the server allows.")
    };
    Operation::new("open", "Opens a session.", vec![idle], vec![session(), expires()])
}

fn close() -> Operation {
    Operation::new(
        "close",
        "Closes a session and removes its files. Jobs that run in it go on.",
        vec![session()],
        vec![Parameter::new("closed", DataType::Bool).help("True.")],
    )
}

fn touch() -> Operation {
    Operation::new(
        "touch",
        "Has a session begin to idle anew, as every call in it does.",
        vec![session()],
        vec![expires()],
    )
}

fn list() -> Operation {
    let fields = vec![
        session(),
        Parameter::new("opened", DataType::DateTime).help("When it was opened."),
        Parameter::new("used", DataType::DateTime).help("When it was last used."),
        expires(),
    ];
    Operation::new(
        "list",
        "The caller's sessions, the last used first, where callers are known by name.",
        vec![],
        vec![Parameter::new("session", DataType::Record(fields)).repeated().help("A session.")],
    )
}

fn remove_file() -> Operation {
    Operation::new(
        "removeFile",
        "Removes a file from a session. Its address is good for nothing then, until a file of that \
         name is put there again; whoever reads it meanwhile reads it to its end.",
        vec![session(), name()],
        vec![Parameter::new("removed", DataType::Bool).help("True.")],
    )
}

fn files() -> Operation {
    let fields = vec![
        name(),
        Parameter::new("size", DataType::Long).help("Its length in bytes."),
        Parameter::new("url", DataType::String)
            .help("Its address. Who has it can read this file, and nothing else of the session."),
    ];
    Operation::new(
        "files",
        "The files of a session, by name.",
        vec![session()],
        vec![Parameter::new("file", DataType::Record(fields)).repeated().help("A file.")],
    )
}

fn session() -> Parameter {
    Parameter::new("session", DataType::String).help("ID of the session: 32 hexadecimal digits.")
}

fn name() -> Parameter {
    Parameter::new("name", DataType::String).help("Name of a file in the session.")
}

fn expires() -> Parameter {
    Parameter::new("expires", DataType::DateTime).help("When it ends if nobody uses it.")
}

/// Answers a call of one of the operations.
///
/// # Errors
/// `NoSuchSession`, `InvalidValue`, what the disk says.
async fn answer(data: &Arc<Data>, operation: &Operation, call: Call) -> Outcome {
    let Some(sessions) = data.sessions.clone() else {
        return Err(Fault::new(FaultCode::NotSupported, "this server offers no sessions"));
    };
    let Call { arguments, principal: owner, .. } = call;
    let given = Scalars::accept(&operation.signature, arguments)?;
    let data = Arc::clone(data);
    let name = operation.name.clone();
    blocking(move || -> Outcome {
        match name.as_str() {
            "open" => {
                let session = sessions.open(&owner, idle(&given)?)?;
                Ok(vec![
                    Argument::text("session", session.id.to_string()),
                    Argument::text("expires", date_time(session.expires)),
                ])
            }
            "touch" => {
                let session = sessions.touch(&owner, &session_of(&given)?)?;
                Ok(vec![Argument::text("expires", date_time(session.expires))])
            }
            "close" => {
                sessions.close(&owner, &session_of(&given)?)?;
                Ok(vec![Argument::text("closed", "true")])
            }
            "list" if owner.is_anonymous() => {
                // Its ID is all that keeps a session from others who have no name.
                let what = "this server does not know its callers by name, and without one a \
                            session is theirs who have its ID: none is listed";
                Err(Fault::new(FaultCode::NotSupported, what))
            }
            "list" => {
                let told = |session: Session| {
                    let fields = vec![
                        Argument::text("session", session.id.to_string()),
                        Argument::text("opened", date_time(session.opened)),
                        Argument::text("used", date_time(session.used)),
                        Argument::text("expires", date_time(session.expires)),
                    ];
                    Argument::new("session", Value::Record(fields))
                };
                Ok(sessions.list(&owner)?.into_iter().map(told).collect())
            }
            "removeFile" => {
                let (id, name) = (session_of(&given)?, given.text("name").unwrap_or_default());
                let removed = sessions.remove_file(&owner, &id, name);
                let removed = removed.map_err(|error| of_name(error.into()))?;
                if !removed {
                    let name = name.to_owned();
                    return Err(of_name(SessionError::NoSuchFile { name }.into()));
                }
                Ok(vec![Argument::text("removed", "true")])
            }
            _ => {
                let id = session_of(&given)?;
                let files = sessions.files(&owner, &id)?;
                let record = |file: SessionFile| {
                    let url = data.session_file_url(&sessions, &id, &file.name)?;
                    let fields = vec![
                        Argument::text("name", file.name),
                        Argument::text("size", file.len.to_string()),
                        Argument::text("url", url),
                    ];
                    Ok(Argument::new("file", Value::Record(fields)))
                };
                files.into_iter().map(record).collect()
            }
        }
    })
    .await
}

/// A fault that is about the file, if it is not about the session.
fn of_name(fault: Fault) -> Fault {
    match fault.code {
        FaultCode::NoSuchData | FaultCode::InvalidValue => fault.parameter("name"),
        _ => fault,
    }
}

fn session_of(given: &Scalars) -> Result<SessionId, Fault> {
    let text = given.text("session").unwrap_or_default();
    lexical::trimmed(text).parse().map_err(|error| {
        let shown = lexical::shortened(text);
        let what = format!("there is no session {shown:?}: {error}");
        Fault::new(FaultCode::NoSuchSession, what).parameter("session")
    })
}

fn idle(given: &Scalars) -> Result<Option<Duration>, Fault> {
    let seconds = given.text("idle").map(str::parse).transpose();
    let seconds = seconds.map_err(|_| {
        let what = "idle is a number of seconds";
        Fault::new(FaultCode::InvalidValue, what).parameter("idle")
    })?;
    Ok(seconds.map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::provider::calls_only;

    #[test]
    fn the_interface_is_the_operations_and_nothing_about_jobs() {
        let service = service();
        let names: Vec<String> =
            calls_only(&service).verbs.into_iter().map(|definition| definition.name).collect();
        assert_eq!(names, ["open", "close", "touch", "list", "files", "removeFile"]);
    }

    #[test]
    fn what_is_no_session_is_told() {
        let given = |text: &str| {
            let arguments = vec![Argument::text("session", text)];
            session_of(&Scalars::accept(&close().signature, arguments).unwrap())
        };
        let fault = given("../../etc").unwrap_err();
        assert_eq!(fault.code, FaultCode::NoSuchSession);
        assert!(given(&format!(" {} ", "0f".repeat(16))).is_ok());
        let idle = vec![Argument::text("idle", "0")];
        assert!(Scalars::accept(&open().signature, idle).is_err());
    }
}
