//! A failure as its user reads it: `error:` with a sentence, details, and `hint:` lines.

use std::io;

use fishplate_client::arguments::WordError;
use fishplate_client::deliver::DeliveryError;
use fishplate_client::{Credentials, Error};
use fishplate_contract::{Fault, FaultCode, SessionId};
use fishplate_data::http::UNKNOWN_ISSUER;
use fishplate_data::transfer::TransferError;
use fishplate_programs::descriptor;
use fishplate_quake::agent::AgentError;
use fishplate_quake::agent::token::TokenError;
use fishplate_quake::experiment::ExperimentError;
use fishplate_quake::management::RunError;
use fishplate_quake::record::RecordError;
use fishplate_server::assembly::AssemblyError;
use fishplate_server::policy::file::PolicyError;
use serde_json::{Value, json};

use crate::commands::Interruption;
use crate::exit::Exit;
use crate::output::diagnostics::Mistakes;
use crate::output::text::harmless;

/// What a command is about, for hints.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailureContext<'a> {
    /// The service, the server or the reference.
    pub(crate) url: Option<&'a str>,
    /// The session.
    pub(crate) session: Option<SessionId>,
}

/// A failure, ready to be told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FailureReport {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// What kind of failure it is, if faults have a name for it.
    pub(crate) code: Option<FaultCode>,
    /// The service's fault, if it is one.
    pub(crate) fault: Option<Fault>,
    /// What went wrong, in a sentence.
    pub(crate) message: String,
    /// More about it, each with a name.
    pub(crate) details: Vec<(&'static str, String)>,
    /// What to do.
    pub(crate) hints: Vec<String>,
}

impl FailureReport {
    /// What this error means to the user of a command.
    pub(crate) fn of(error: &anyhow::Error, about: FailureContext<'_>) -> Self {
        let mut failure = Self {
            exit: Exit::Other,
            code: None,
            fault: None,
            message: message(error),
            details: Vec::new(),
            hints: Vec::new(),
        };
        for cause in error.chain() {
            if let Some(interruption) = cause.downcast_ref::<Interruption>() {
                failure.exit = interruption.exit;
                failure.hints.clone_from(&interruption.hints);
            } else if let Some(error) = cause.downcast_ref::<Error>() {
                failure.exit = match error {
                    Error::File { doing: "write", source, .. }
                        if source.kind() == io::ErrorKind::BrokenPipe =>
                    {
                        Exit::BrokenPipe
                    }
                    error => Exit::of_error(error),
                };
                failure.tell(error, about);
            } else if let Some(source) = cause.downcast_ref::<io::Error>() {
                failure.exit = match source.kind() {
                    io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
                    _ => Exit::Usage,
                };
            } else if cause.is::<WordError>()
                || cause.is::<DeliveryError>()
                || cause.is::<UsageError>()
                || cause.is::<descriptor::ReadError>()
                || cause.is::<Mistakes>()
                || cause.is::<PolicyError>()
                || cause.is::<RecordError>()
                || matches!(cause.downcast_ref(), Some(AssemblyError::Policy(_)))
            {
                failure.exit = Exit::Usage;
            } else if cause.is::<AgentError>()
                || matches!(cause.downcast_ref(), Some(RunError::AgentsMissing { .. }))
            {
                failure.exit = Exit::Unreachable;
            } else if cause.is::<ExperimentError>()
                || cause.is::<TokenError>()
                || matches!(cause.downcast_ref(), Some(RunError::NoSuchCell { .. }))
            {
                failure.exit = Exit::Usage;
            } else if let Some(error) = cause.downcast_ref::<clap::Error>() {
                return Self::of_words(error);
            } else {
                continue;
            }
            break;
        }
        if let Some(RecoveryHint(hints)) = error.downcast_ref() {
            failure.hints.extend_from_slice(hints);
        }
        failure
    }

    /// A fault of our own, whose message has been printed.
    pub(crate) fn of_ourselves() -> Self {
        Self {
            exit: Exit::Other,
            code: None,
            fault: None,
            message: "fishplate stopped at a fault of its own".to_owned(),
            details: Vec::new(),
            hints: vec!["please report it with the lines above".to_owned()],
        }
    }

    /// Words that the grammar does not allow.
    pub(crate) fn of_words(error: &clap::Error) -> Self {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let mut failure = Self {
            exit: Exit::Usage,
            code: None,
            fault: None,
            message: first.strip_prefix("error: ").unwrap_or(first).to_owned(),
            details: Vec::new(),
            hints: Vec::new(),
        };
        for line in lines {
            match line.strip_prefix("tip: ") {
                Some(tip) => failure.hints.push(tip.to_owned()),
                None if line.starts_with("Usage: ") => failure.hints.push(line.to_owned()),
                // What the first line announces: the arguments that are missing, the values there are.
                None if failure.hints.is_empty() => {
                    failure.message = format!("{} {line}", failure.message);
                }
                None => {}
            }
        }
        failure
    }

    fn tell(&mut self, error: &Error, about: FailureContext<'_>) {
        let url = about.url.unwrap_or("URL");
        self.code = code_of(error);
        match error {
            Error::Fault(fault) => self.tell_fault(fault, about),
            Error::UnknownOperation { closest, known, .. }
            | Error::UnknownParameter { closest, known, .. } => {
                self.hints.push(match closest {
                    Some(name) => format!("did you mean {name}?"),
                    None if known.is_empty() => "it has none".to_owned(),
                    None => format!("there are {}", known.join(", ")),
                });
            }
            Error::NoService { server, known, .. } => self.hints.push(match known.is_empty() {
                true => format!("{server} has no services"),
                false => format!("its services are {server}{}", known.join(&format!(", {server}"))),
            }),
            Error::MissingParameter { name, .. } => self.hints.push(format!(
                "add {name}=VALUE or {name}:FILE; `fishplate usage {url}` lists the inputs"
            )),
            Error::Unreachable { reason, .. } if reason.contains("certificate") => {
                self.hints.extend(about_certificate(reason).map(str::to_owned));
            }
            Error::Unreachable { url: at, .. }
                if about.url.is_some_and(|url| !same_host(at, url)) =>
            {
                self.hints.push(format!(
                    "this address stands in the description of the service; --address calls another, \
                     such as {url}"
                ));
            }
            Error::Unreachable { .. } => self.hints.push(
                "is that its address and port, and does a server run there (`fishplate serve`)?"
                    .to_owned(),
            ),
            Error::TimedOut { .. } => {
                self.hints.push("--timeout allows more; without it there is no limit".to_owned());
            }
            Error::Http { status: 404, .. } | Error::NotWsdl { .. } => {
                self.hints
                    .push("is it the URL of a service? `curl URL` shows what is there".to_owned());
            }
            Error::Transfer(
                TransferError::Unreachable { .. } | TransferError::Unresolved { .. },
            ) => self.hints.push("is the address right, and does its server run?".to_owned()),
            Error::Transfer(TransferError::Refused { .. }) => self.hints.push(
                "a reference expires, and its owner can revoke it: ask the service for a new one"
                    .to_owned(),
            ),
            Error::NoSessions { .. } => self.hints.push(
                "write the address of a Fishplate server, or of one of its services".to_owned(),
            ),
            Error::CannotOffer { .. } => self.hints.push(
                "--offer tells an address of this machine that the server can reach; NAME:FILE \
                 sends the file by value"
                    .to_owned(),
            ),
            Error::NoAddress { version: "1.2", .. } => {
                self.hints.push("leave --soap out to use SOAP 1.1".to_owned());
            }
            _ => {}
        }
    }

    fn tell_fault(&mut self, fault: &Fault, about: FailureContext<'_>) {
        let url = about.url.unwrap_or("URL");
        let session = about.session.map_or_else(|| "SESSION".to_owned(), |id| id.to_string());
        self.fault = Some(fault.clone());
        let job = fault.job.map(|job| job.to_string());
        let details = [
            ("parameter", fault.parameter.clone()),
            ("limit", limit(fault)),
            ("job", job.clone()),
            ("exit code", fault.exit_code.map(|code| code.to_string())),
            ("signal", fault.signal.clone()),
            ("stderr", fault.stderr.clone().filter(|text| !text.trim().is_empty())),
        ];
        self.details.extend(details.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let job = job.unwrap_or_else(|| "JOB".to_owned());
        if let Some(wait) = fault.retry_after {
            self.hints.push(format!("try again in {} s", wait.as_secs().max(1)));
        }
        match fault.code {
            FaultCode::Unauthenticated => {
                self.hints.push(format!(
                    "`fishplate login {url}` keeps a token or a password for this server; --user NAME, --token-file \
                     FILE and the variable FISHPLATE_TOKEN tell one for a command"
                ));
                if let Some(path) = Credentials::of_user().unusable_netrc() {
                    self.hints.push(format!(
                        "{} can't be read as a .netrc: nothing in it is used",
                        path.display()
                    ));
                }
            }
            FaultCode::NotFinished => {
                self.hints.push(format!("`fishplate wait {url} {job}` waits for it"));
            }
            FaultCode::NoSuchJob => {
                self.hints.push(format!("`fishplate jobs {url}` lists your jobs"));
            }
            FaultCode::ProgramFailed | FaultCode::ProgramKilled | FaultCode::OutputInvalid
                if fault.job.is_some() =>
            {
                self.hints
                    .push(format!("`fishplate log {url} {job}` shows what the program wrote"));
            }
            FaultCode::InvalidValue | FaultCode::ValueOutOfRange | FaultCode::MissingParameter => {
                self.hints.push(format!("`fishplate usage {url}` lists what it takes"));
            }
            FaultCode::NoSuchData if fault.message.contains("session has no file") => self
                .hints
                .push(format!("`fishplate session files {url} {session}` lists what it has")),
            FaultCode::NoSuchData => self.hints.push(
                "a reference expires, and its owner can revoke it: ask the service for a new one"
                    .to_owned(),
            ),
            FaultCode::AddressForbidden => {
                let rule = fault.limit.as_ref().map_or("", |limit| &limit.name);
                self.hints.push(way_around(rule).to_owned());
            }
            FaultCode::QuotaExceeded => {
                let quota = fault.limit.as_ref().map_or("", |limit| limit.name.as_str());
                self.hints.push(match quota {
                    "session_quota" => {
                        format!("`fishplate session remove {url} {session} NAME` makes room")
                    }
                    "owner_cpu_time" | "owner_traffic" => {
                        format!("`fishplate quota {url}` tells what you have used")
                    }
                    _ => {
                        "`fishplate revoke REF` gives up a reference of yours, and with it its data"
                            .to_owned()
                    }
                });
            }
            FaultCode::NoSuchSession => {
                self.hints.push(format!("`fishplate session open {url}` opens one"));
            }
            // The program ended well; only its output could not be brought where it was to go.
            FaultCode::TransferFailed if fault.job.is_some() && fault.exit_code == Some(0) => {
                let output = fault.parameter.as_deref().unwrap_or("NAME");
                self.hints.push(format!(
                    "`fishplate results {url} {job} out:{output}` gets the output all the same"
                ));
            }
            FaultCode::TransferFailed if fault.parameter.is_some() && fault.exit_code.is_none() => {
                self.hints.push(
                    "is its address right, and can the server reach it? NAME:FILE sends a file by \
                     value"
                        .to_owned(),
                );
            }
            FaultCode::KeyConflict => self.hints.push(
                "a key belongs to one call with its arguments: leave --key out for a new call"
                    .to_owned(),
            ),
            _ => {}
        }
    }

    /// As lines of text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        for (name, value) in &self.details {
            if value.contains('\n') {
                let lines: String = value.lines().map(|line| format!("    {line}\n")).collect();
                text.push_str(&format!("  {name}:\n{lines}"));
            } else {
                text.push_str(&format!("  {name}: {value}\n"));
            }
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        harmless(&text)
    }

    /// As JSON: `{"error": {...}}`.
    pub(crate) fn json(&self) -> Value {
        let fault = self.fault.as_ref();
        let limit = fault.and_then(|fault| fault.limit.as_ref());
        json!({ "error": {
            "exit": self.exit.code(),
            "code": self.code.map(FaultCode::name),
            "message": self.message,
            "parameter": fault.and_then(|fault| fault.parameter.as_deref()),
            "limit": limit.map(|limit| json!({ "name": limit.name, "value": limit.value })),
            "job": fault.and_then(|fault| fault.job).map(|job| job.to_string()),
            "exitCode": fault.and_then(|fault| fault.exit_code),
            "signal": fault.and_then(|fault| fault.signal.as_deref()),
            "stderr": fault.and_then(|fault| fault.stderr.as_deref()),
            "retryAfter": fault.and_then(|fault| fault.retry_after).map(|wait| wait.as_secs_f64()),
            "hints": self.hints,
        } })
    }
}

/// A command used in a way that its grammar allows and its meaning does not.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// How to go on after a failure; a context that adds nothing to its message.
#[derive(Clone, Debug, thiserror::Error)]
#[error("")]
pub(crate) struct RecoveryHint(pub(crate) Vec<String>);

fn message(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).filter(|text| !text.is_empty());
    said.collect::<Vec<_>>().join(": ")
}

/// The limit that was met, unless the message has told all of it: a rule is broken by an address.
fn limit(fault: &Fault) -> Option<String> {
    let limit = fault.limit.as_ref()?;
    let told = fault.code == FaultCode::AddressForbidden
        && fault.message.contains(&*limit.name)
        && fault.message.contains(&*limit.value);
    (!told).then(|| format!("{} = {}", limit.name, limit.value))
}

/// The name that faults have for an error.
fn code_of(error: &Error) -> Option<FaultCode> {
    Some(match error {
        Error::Fault(fault) => fault.code,
        Error::DataMismatch { .. } => FaultCode::DataMismatch,
        // What is wrong on this machine is no fault of a server.
        Error::Transfer(TransferError::Local { .. }) => return None,
        Error::Transfer(error) => error.code(),
        _ => return None,
    })
}

/// What to do about an address that a rule forbids. Some rules nobody can lift.
fn way_around(rule: &str) -> &'static str {
    match rule {
        "credentials" => {
            "leave the user's name and password out of the address: they are never sent; NAME:FILE \
             sends a file by value"
        }
        "transfer_redirects" | "redirect_scheme" | "https_downgrade" => {
            "write the address that it leads to in the end; NAME:FILE sends a file by value"
        }
        "schemes" => "write an address of a scheme that is named above",
        "transfer.s3" => "only the server's operator can make a store known to it",
        "transfer.mail" => {
            "only the server's operator can set up mail; out:NAME brings the output here"
        }
        rule if rule == "mail_to" || rule.ends_with(".write") => {
            "only the server's operator can allow that address; out:NAME brings the output here"
        }
        rule if rule.ends_with(".read") => {
            "only the server's operator can allow that address; NAME:FILE sends a file by value"
        }
        _ => {
            "only the server's operator can allow that address; NAME:FILE sends a file by value, \
             out:NAME brings an output here"
        }
    }
}

/// What to do about a certificate of a server that is not taken, if its reason has not told that.
fn about_certificate(reason: &str) -> Option<&'static str> {
    if reason.contains(UNKNOWN_ISSUER) {
        return Some(
            "--ca FILE (FISHPLATE_CA_FILE) trusts the authority whose certificate is in FILE, or the \
             server's own certificate if it has issued that itself",
        );
    }
    let named = reason.contains("not valid for name");
    named.then_some("write the address with a name that is in the certificate")
}

fn same_host(a: &str, b: &str) -> bool {
    let host = |url: &str| -> Option<String> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.split(['/', '?', '#']).next().map(str::to_owned)
    };
    host(a) == host(b)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(error: impl Into<anyhow::Error>) -> FailureReport {
        FailureReport::of(&error.into(), FailureContext { url: Some("http://h/s"), session: None })
    }

    #[test]
    fn a_programs_failure_is_told_with_all_that_is_known() {
        let job = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let mut fault = Fault::new(FaultCode::ProgramFailed, "exit code 201: did not converge");
        fault.job = Some(job);
        fault.exit_code = Some(201);
        fault.stderr = Some("reading\n*ERROR: \x1b[31mno element\n".to_owned());
        let failure = of(Error::Fault(fault));
        insta::assert_snapshot!(failure.text(), @r"
        error: ProgramFailed: exit code 201: did not converge
          job: 000102030405060708090a0b0c0d0e0f
          exit code: 201
          stderr:
            reading
            *ERROR: [31mno element
        hint: `fishplate log http://h/s 000102030405060708090a0b0c0d0e0f` shows what the program wrote
        ");
        assert_eq!(failure.exit.code(), 5);
        let json = failure.json();
        assert_eq!(json["error"]["exitCode"], 201);
        assert_eq!(json["error"]["code"], "ProgramFailed");
    }

    #[test]
    fn where_nobody_answers_the_hint_is_about_the_address_that_was_given() {
        let hint = |given| {
            let (url, reason) = ("http://down/s?wsdl".to_owned(), "Connection refused".to_owned());
            let about = FailureContext { url: given, session: None };
            FailureReport::of(&Error::Unreachable { url, reason }.into(), about).text()
        };
        for given in [Some("http://down/s"), None] {
            assert!(hint(given).contains("does a server run there"), "{}", hint(given));
        }
        assert!(hint(Some("http://h/s")).contains("--address calls another, such as http://h/s"));
    }

    #[test]
    fn a_full_queue_says_when_to_try_again() {
        let fault = Fault::new(FaultCode::QueueFull, "100 jobs wait")
            .limit("queue", 100)
            .retry_after(Duration::from_secs(7));
        insta::assert_snapshot!(of(Error::Fault(fault)).text(), @r"
        error: QueueFull: 100 jobs wait
          limit: queue = 100
        hint: try again in 7 s
        ");
    }

    #[test]
    fn a_forbidden_address_is_told_once_and_with_what_can_be_done_about_it() {
        let forbidden = |address: &str, rule| {
            let address = address.to_owned();
            of(Error::Fault(TransferError::Forbidden { address, rule }.into()))
        };
        insta::assert_snapshot!(forbidden("10.0.0.7 is private", "allow_private").text(), @r"
        error: AddressForbidden: 10.0.0.7 is private: the rule allow_private does not allow that
        hint: only the server's operator can allow that address; NAME:FILE sends a file by value, out:NAME brings an output here
        ");
        let json = forbidden("10.0.0.7 is private", "allow_private").json();
        assert_eq!(json["error"]["limit"]["name"], "allow_private");
        for (rule, hint) in [
            ("credentials", "leave the user's name and password out"),
            ("transfer_redirects", "write the address that it leads to"),
            ("redirect_scheme", "write the address that it leads to"),
            ("https_downgrade", "write the address that it leads to"),
            ("schemes", "a scheme that is named above"),
            ("file_roots", "only the server's operator"),
            ("transfer.mail", "out:NAME brings the output here"),
            ("transfer.s3", "a store known to it"),
        ] {
            let hints = forbidden("x", rule).hints;
            assert!(hints.len() == 1 && hints[0].contains(hint), "{rule}: {hints:?}");
        }
    }

    #[test]
    fn nobody_reads_what_is_written_or_the_connection_is_lost() {
        let unread = Error::File {
            doing: "write",
            path: "standard output".into(),
            source: io::ErrorKind::BrokenPipe.into(),
        };
        assert_eq!(of(unread).exit.code(), 141);
        let lost = Error::ConnectionLost { url: "http://h/data/x".into(), reason: "reset".into() };
        let lost = anyhow::Error::from(lost).context(RecoveryHint(vec!["run it again".to_owned()]));
        insta::assert_snapshot!(of(lost).text(), @r"
        error: lost the connection to http://h/data/x: reset
        hint: run it again
        ");
    }

    #[test]
    fn an_input_that_cannot_be_fetched_has_a_hint() {
        let error =
            TransferError::Unreachable { peer: "http://h:1".into(), reason: "refused".into() };
        let failure = of(Error::Fault(Fault::from(error).parameter("mesh")));
        insta::assert_snapshot!(failure.text(), @r"
        error: TransferFailed: the connection to http://h:1 failed: refused
          parameter: mesh
        hint: is its address right, and can the server reach it? NAME:FILE sends a file by value
        ");
    }

    #[test]
    fn a_file_that_a_session_lacks_is_no_reference_that_expired() {
        let fault = Fault::new(FaultCode::NoSuchData, "the session has no file \"mesh\"");
        let hints = of(Error::Fault(fault)).hints;
        assert!(hints[0].contains("fishplate session files"), "{hints:?}");
    }

    #[test]
    fn a_full_quota_says_what_a_caller_can_give_up() {
        let id = "000102030405060708090a0b0c0d0e0f";
        let about = FailureContext { url: Some("http://h/s"), session: Some(id.parse().unwrap()) };
        for (quota, hint) in [
            ("session_quota", format!("`fishplate session remove http://h/s {id} NAME`")),
            ("owner_disk", "`fishplate revoke REF`".to_owned()),
            ("owner_traffic", "`fishplate quota http://h/s`".to_owned()),
        ] {
            let fault = Fault::new(FaultCode::QuotaExceeded, "no room").limit(quota, "1 bytes");
            let hints = FailureReport::of(&Error::Fault(fault).into(), about).hints;
            assert!(hints.len() == 1 && hints[0].starts_with(&hint), "{hints:?}");
        }
    }

    #[test]
    fn words_that_nobody_understands_are_told_as_json_with_the_usage() {
        let words = clap::Command::new("get").arg(clap::Arg::new("REF").required(true));
        let failure = FailureReport::of_words(&words.try_get_matches_from(["get"]).unwrap_err());
        assert!(failure.message.ends_with("were not provided: <REF>"), "{failure:?}");
        assert_eq!((failure.exit.code(), &*failure.hints[0]), (2, "Usage: get <REF>"));
    }

    #[test]
    fn errors_of_our_own_side_have_their_exit_codes_and_hints() {
        let unknown = of(Error::UnknownParameter {
            operation: "call".to_owned(),
            direction: "input",
            name: "dekc".to_owned(),
            closest: Some("deck".to_owned()),
            known: vec!["deck".to_owned()],
        });
        assert_eq!(
            unknown.text(),
            "error: operation call has no input dekc\nhint: did you mean deck?\n"
        );
        assert_eq!(unknown.exit.code(), 2);
        let elsewhere = of(Error::Unreachable {
            url: "http://inside/s".to_owned(),
            reason: "Connection refused".to_owned(),
        });
        assert_eq!(elsewhere.exit.code(), 6);
        assert!(elsewhere.hints[0].contains("--address"), "{elsewhere:?}");
        assert_eq!(of(WordError::NoForm("x".to_owned())).exit.code(), 2);
        assert_eq!(of(io::Error::from(io::ErrorKind::BrokenPipe)).exit.code(), 141);
        assert_eq!(of(anyhow::anyhow!("impossible")).exit.code(), 1);
        let file = Error::File {
            doing: "read",
            path: "two".into(),
            source: io::ErrorKind::NotFound.into(),
        };
        let file = of(file);
        assert_eq!((file.exit.code(), &*file.message), (2, "cannot read two: entity not found"));
    }
}
