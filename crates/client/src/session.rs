//! Sessions (paper 000, section 4.4): spaces on a server in which programs share files.
//!
//! ```no_run
//! # async fn example() -> Result<(), fishplate_client::Error> {
//! use fishplate_client::{CallOptions, Service, Sessions, Settings};
//!
//! let mesher = Service::connect("http://somewhere.example/mesher").await?;
//! let sessions = Sessions::find("http://somewhere.example", Settings::default()).await?;
//! let session = sessions.open(None).await?;
//! let options = CallOptions { session: Some(session.id), ..CallOptions::default() };
//! mesher.call("call", vec![], &options.into()).await?;
//! for file in session.files().await? {
//!     println!("{} {}", file.name, file.reference.url);
//! }
//! session.close().await?;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use fishplate_contract::{Argument, DataRef, Fault, FaultCode, SessionId, Timestamp, Value};

use crate::error::Error;
use crate::location;
use crate::report::Fields;
use crate::service::Service;
use crate::settings::{Options, Settings};

/// The namespace of the service that opens sessions.
const NAMESPACE: &str = "urn:fishplate:session:1";

/// The sessions of a server.
#[derive(Clone)]
pub struct Sessions {
    service: Service,
}

/// A session. Dropping it does not close it.
#[derive(Clone)]
pub struct Session {
    /// Its name: [`fishplate_contract::CallOptions::session`].
    pub id: SessionId,
    /// When it ends if nobody uses it, as last told.
    pub expires: Option<Timestamp>,
    service: Service,
}

/// A session as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// Its name.
    pub id: SessionId,
    /// When it was opened.
    pub opened: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
    /// When it ends if nobody uses it.
    pub expires: Timestamp,
}

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Its name: in a call of the session it can be had as `session:NAME`.
    pub name: String,
    /// Where it is.
    pub reference: DataRef,
}

impl Sessions {
    /// The sessions of the server that is meant by a URL: its own, one of its services, or its
    /// service `session`.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::NoSessions`] if it has none.
    pub async fn find(url: &str, settings: Settings) -> Result<Self, Error> {
        let found = built_in(url, "session", NAMESPACE, settings).await?;
        found
            .map(|service| Self { service })
            .ok_or_else(|| Error::NoSessions { url: url.to_owned() })
    }

    /// Opens a session; it ends when nobody has used it for `idle`, or for as long as the server
    /// lets it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn open(&self, idle: Option<Duration>) -> Result<Session, Error> {
        let idle = idle.map(|idle| Argument::text("idle", idle.as_secs().max(1).to_string()));
        let outputs = self.ask("open", idle.into_iter().collect()).await?;
        let fields = Fields(&outputs);
        let read = |fields: &Fields<'_>| {
            let id = fields.text("session")?;
            let id = id.parse().map_err(|error| format!("session is {id:?}: {error}"))?;
            Ok((id, fields.moment("expires")?))
        };
        let (id, expires) = read(&fields).map_err(|reason| self.bad_answer(reason))?;
        let service = self.service.clone();
        Ok(Session { id, expires: Some(expires), service })
    }

    /// A session that was opened before; nothing is asked yet.
    pub fn session(&self, id: SessionId) -> Session {
        Session { id, expires: None, service: self.service.clone() }
    }

    /// The caller's sessions, the last used first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self) -> Result<Vec<OpenSession>, Error> {
        let outputs = self.ask("list", vec![]).await?;
        let session = |fields: Fields<'_>| {
            let id = fields.text("session")?;
            let id = id.parse().map_err(|error| format!("session is {id:?}: {error}"))?;
            let moment = |name: &str| fields.moment(name);
            let (opened, used) = (moment("opened")?, moment("used")?);
            Ok(OpenSession { id, opened, used, expires: moment("expires")? })
        };
        let told: Result<_, String> = records(&outputs, "session").map(session).collect();
        told.map_err(|reason| self.bad_answer(reason))
    }

    async fn ask(&self, operation: &str, arguments: Vec<Argument>) -> Result<Vec<Argument>, Error> {
        let options = Options::default();
        self.service.call(operation, arguments, &options).await.map(|reply| reply.outputs)
    }

    fn bad_answer(&self, reason: String) -> Error {
        Error::BadAnswer { url: self.service.address(), reason }
    }
}

impl Session {
    /// Has it begin to idle anew, as every call in it does; when it ends then.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn touch(&mut self) -> Result<Timestamp, Error> {
        let outputs = self.ask("touch", None).await?;
        let expires =
            Fields(&outputs).moment("expires").map_err(|reason| self.bad_answer(reason))?;
        self.expires = Some(expires);
        Ok(expires)
    }

    /// Its files, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn files(&self) -> Result<Vec<SessionFile>, Error> {
        let outputs = self.ask("files", None).await?;
        let file = |fields: Fields<'_>| {
            let (url, len) = (fields.text("url")?.to_owned(), Some(fields.number("size")?));
            let reference = DataRef { url, len, digest: None };
            Ok(SessionFile { name: fields.text("name")?.to_owned(), reference })
        };
        let told: Result<_, String> = records(&outputs, "file").map(file).collect();
        told.map_err(|reason| self.bad_answer(reason))
    }

    /// Removes a file. Its address is good for nothing then, until a file of that name is put there
    /// again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.ask("removeFile", Some(Argument::text("name", name))).await.map(drop)
    }

    /// Closes it and removes its files. Jobs that run in it go on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(self) -> Result<(), Error> {
        self.ask("close", None).await.map(drop)
    }

    async fn ask(&self, operation: &str, more: Option<Argument>) -> Result<Vec<Argument>, Error> {
        let session = Argument::text("session", self.id.to_string());
        let arguments = [Some(session), more].into_iter().flatten().collect();
        Sessions { service: self.service.clone() }.ask(operation, arguments).await
    }

    fn bad_answer(&self, reason: String) -> Error {
        Error::BadAnswer { url: self.service.address(), reason }
    }
}

/// A service of the server itself, if it has it. The server is meant by a URL of its own, of one of its services, or of that
/// service.
pub(crate) async fn built_in(
    url: &str,
    name: &str,
    namespace: &str,
    settings: Settings,
) -> Result<Option<Service>, Error> {
    let mut refused = None;
    for candidate in location::beside(&location::parse(url)?, name)? {
        let found = Service::connect_with(&candidate.to_string(), settings.clone()).await;
        match found {
            Ok(service) if service.description().namespace == namespace => {
                return Ok(Some(match settings.address {
                    Some(_) => service,
                    None => service.called_where_described()?,
                }));
            }
            // It may be there, though not for everybody.
            Err(
                error @ (Error::Http { status: 407 | 429 | 500.., .. }
                | Error::Fault(Fault {
                    code: FaultCode::Unauthenticated | FaultCode::Forbidden,
                    ..
                })),
            ) => {
                refused.get_or_insert(error);
            }
            Ok(_) | Err(Error::Http { .. } | Error::NotWsdl { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// The records of that name among outputs.
pub(crate) fn records<'o>(outputs: &'o [Argument], name: &str) -> impl Iterator<Item = Fields<'o>> {
    outputs.iter().filter_map(move |output| match &output.value {
        Value::Record(fields) if output.name == name => Some(Fields(fields)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_the_name_alone() {
        let record = |name: &str, of: &str| {
            Argument::new(name, Value::Record(vec![Argument::text("name", of)]))
        };
        let outputs = [
            record("folder", "no file"),
            record("file", "one"),
            Argument::text("file", "no record"),
            record("file", "two"),
            record("files", "another"),
        ];
        let names: Vec<&str> =
            records(&outputs, "file").map(|fields| fields.text("name").unwrap()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(records(&outputs, "fil").count(), 0);
    }
}
