//! Data over plain HTTP: `PUBLIC/data/` takes uploads, `PUBLIC/data/TOKEN/NAME` is a grant of the
//! pool, `PUBLIC/session/ID/NAME` a file of a session.
//!
//! Who has the address of data may read it: it is the permission, so that other servers can be
//! given it, and no caller need be named. Everything else is its owner's.
//!
//! Reading order: `send` (GET and HEAD: `conditions`, `range`), `receive` and `resume` (uploads:
//! `intake`, `uploads`), `problem` (faults).

mod conditions;
mod intake;
mod problem;
mod range;
mod receive;
mod resume;
mod send;
mod uploads;

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, Held as _, Principal, SessionId};
use hyper::body::Body;
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use fishplate_data::session::SessionError;
use fishplate_data::{Granted, PoolError};

use crate::data::{Data, blocking};
use crate::host::Host;
use crate::http::body::Incoming;
use crate::http::{Reply, ReplyBody};
use send::{Representation, put, send};

pub use uploads::Uploads;

/// Asks for a digest of the whole (RFC 9530).
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// First segment of an upload's path, which no token is.
const UPLOADS: &str = "uploads";

/// What a path below the public URL means to this face.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// `data/NAME`: where uploads go, and what a grant begins with.
    Data(&'p str),
    /// `data/uploads/ID`.
    Upload(&'p str),
    /// `session/ID/NAME`.
    Session(&'p str, &'p str),
}

impl<'p> Place<'p> {
    /// The place of a path without slashes at its ends, if it is one of ours.
    pub fn of(path: &'p str) -> Option<Self> {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        match (first, rest.split_once('/')) {
            ("data", Some((UPLOADS, id))) => Some(Self::Upload(id)),
            ("data", _) => Some(Self::Data(rest)),
            ("session", Some((id, name))) => Some(Self::Session(id, name)),
            _ => None,
        }
    }

    /// Whether the address itself is all the permission that this takes.
    pub fn is_open(&self, method: &Method) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && !matches!(self, Self::Upload(_))
    }
}

/// Answers a request for data.
pub async fn answer<B>(
    host: &Arc<Host>,
    place: Place<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    owner: &Principal,
) -> Reply
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let data = &host.data;
    let (method, headers) = (&asked.method, &asked.headers);
    let answered = match place {
        Place::Session(id, name) => match *method {
            Method::GET | Method::HEAD => in_session(host, id, name, asked).await,
            _ => Ok(not_allowed("GET, HEAD")),
        },
        Place::Upload(id) => match (&data.uploads, id.parse()) {
            (Some(uploads), Ok(id)) => {
                resume::answer(uploads, data, id, method, body, headers, owner).await
            }
            _ => Err(Fault::new(FaultCode::NoSuchData, "there is no such upload")),
        },
        Place::Data(rest) => match *method {
            Method::GET | Method::HEAD if rest.is_empty() => Ok(not_allowed("OPTIONS, PUT, POST")),
            Method::GET | Method::HEAD => granted(host, rest, asked).await,
            Method::DELETE if !rest.is_empty() => revoke(data, rest, owner).await,
            Method::PUT | Method::POST => upload(data, rest, asked, body, owner).await,
            Method::OPTIONS => Ok(resume::options(data)),
            _ => Ok(not_allowed("GET, HEAD, DELETE, PUT, POST, OPTIONS")),
        },
    };
    let mut reply = answered.unwrap_or_else(|fault| {
        tracing::debug!(%fault, path = "data", "refused");
        problem::reply(&fault, headers)
    });
    // A sender who is still busy gets to see the answer; one who waits to be asked sees it now.
    let waits = headers.contains_key(header::EXPECT) && body.is_untouched();
    if waits || !body.drain().await {
        put(&mut reply, header::CONNECTION, "close");
    }
    reply
}

/// The answer to a method that makes no sense.
fn not_allowed(allow: &str) -> Reply {
    let body = ReplyBody::bytes(format!("here one can {allow}\n"));
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    put(&mut reply, header::ALLOW, allow);
    put(&mut reply, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    reply
}

/// Takes an upload; its name is the last segment of the path, if there is one.
async fn upload<B>(
    data: &Arc<Data>,
    rest: &str,
    asked: &Parts,
    body: &mut Incoming<B>,
    owner: &Principal,
) -> Result<Reply, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let Some(uploads) = &data.uploads else {
        let what = "this server takes no uploads; give it a reference to fetch from, or send the \
                    data with the call";
        return Err(Fault::new(FaultCode::NotSupported, what));
    };
    let name = decoded(rest).filter(|name| !name.contains('/') && !name.contains('\0'));
    let name = name.ok_or_else(|| {
        let what = "upload to data/NAME, where NAME is a file's name in UTF-8 without a slash";
        Fault::new(FaultCode::InvalidValue, what)
    })?;
    receive::refuse_coding(&asked.headers)?;
    if resume::is_begin(&asked.headers) {
        return resume::begin(uploads, data, body, name, &asked.headers, owner).await;
    }
    receive::receive(data, body, name, &asked.headers, owner).await
}

async fn granted(host: &Host, rest: &str, asked: &Parts) -> Result<Reply, Fault> {
    let token = rest.split('/').next().unwrap_or_default().to_owned();
    let wait = asked.method == Method::HEAD && asked.headers.contains_key(WANT_REPR_DIGEST);
    let pool = host.data.pool.clone();
    let found = blocking(move || pool.redeem(&token)?.map(|it| open(it, wait)).transpose());
    let representation = found.await?.ok_or_else(no_such_data)?;
    Ok(sent(host, &representation, asked))
}

/// What a grant gives, open.
fn open(granted: Granted, wait: bool) -> Result<Representation, PoolError> {
    let lease = granted.lease;
    let digest = if wait { Some(lease.settled_digest()?) } else { lease.digest() };
    let file = lease.file().try_clone().map_err(|error| PoolError::Io {
        what: "opening",
        path: lease.path().to_owned(),
        source: error,
    })?;
    Ok(Representation {
        modified: file.metadata().and_then(|about| about.modified()).ok(),
        len: lease.len(),
        file,
        // That of the grant, which never means other data. The digest of what was adopted becomes
        // known while it is being fetched: a tag that changed then would begin a broken download
        // anew.
        tag: format!("\"{}\"", granted.id),
        expires: Some(granted.expires),
        media_type: granted.media_type,
        name: granted.name,
        digest,
    })
}

/// A file of a session. Its ID is the permission, as a grant's token is.
async fn in_session(host: &Host, id: &str, name: &str, asked: &Parts) -> Result<Reply, Fault> {
    let no_session = || {
        let what = "there is no such session; it may have been closed, or have expired";
        Fault::new(FaultCode::NoSuchSession, what)
    };
    let sessions = host.data.sessions.clone().ok_or_else(no_session)?;
    let id: SessionId = id.parse().map_err(|_| no_session())?;
    let name = decoded(name).ok_or_else(no_such_data)?;
    let found = blocking(move || {
        let held = sessions.get_by_address(&id, &name)?;
        let file = held.file().try_clone().map_err(|error| SessionError::Io {
            what: "opening",
            path: held.path().to_owned(),
            source: error,
        })?;
        Ok::<_, SessionError>(Representation {
            modified: Some(send::moment(held.put())),
            expires: None,
            len: held.len(),
            file,
            tag: format!("\"{}\"", held.version()),
            media_type: String::new(),
            name,
            digest: None,
        })
    });
    Ok(sent(host, &found.await?, asked))
}

fn no_such_data() -> Fault {
    let what = "there is no data at this address; it may have expired, or have been revoked";
    Fault::new(FaultCode::NoSuchData, what)
}

async fn revoke(data: &Arc<Data>, rest: &str, owner: &Principal) -> Result<Reply, Fault> {
    let token = rest.split('/').next().unwrap_or_default().to_owned();
    let (pool, owner) = (data.pool.clone(), owner.clone());
    if !blocking(move || pool.revoke(&owner, &token)).await? {
        return Err(no_such_data());
    }
    let mut reply = Response::new(ReplyBody::bytes(""));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    Ok(reply)
}

fn sent(host: &Host, representation: &Representation, asked: &Parts) -> Reply {
    let (reply, bytes) = send(representation, &asked.method, &asked.headers);
    host.data.figures.served(bytes);
    reply
}

fn decoded(text: &str) -> Option<String> {
    let bytes: Vec<u8> = percent_encoding::percent_decode_str(text).collect();
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_place_of_ours_or_not() {
        for (path, place) in [
            ("data", Some(Place::Data(""))),
            ("data/mesh.frd", Some(Place::Data("mesh.frd"))),
            ("data/TOKEN/mesh.frd", Some(Place::Data("TOKEN/mesh.frd"))),
            ("data/uploads/12", Some(Place::Upload("12"))),
            ("session/12/mesh", Some(Place::Session("12", "mesh"))),
            ("session", None),
            ("session/12", None),
            ("database", None),
            ("", None),
        ] {
            assert_eq!(Place::of(path), place, "{path}");
        }
    }

    #[test]
    fn only_reading_by_address_takes_no_name() {
        assert!(Place::Data("TOKEN").is_open(&Method::GET));
        assert!(Place::Session("12", "a").is_open(&Method::HEAD));
        for method in [Method::DELETE, Method::PUT, Method::POST, Method::PATCH] {
            assert!(!Place::Data("TOKEN").is_open(&method));
        }
        assert!(!Place::Upload("12").is_open(&Method::HEAD));
    }
}
