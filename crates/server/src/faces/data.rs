//! Data over plain HTTP: `PUBLIC/data/` takes uploads, `PUBLIC/data/TOKEN/NAME` is a grant of the
//! pool, `PUBLIC/session/TOKEN/NAME` a file of a session.
//!
//! Who has the address of data may read it: it is the permission, so that other servers can be
//! given it, and no caller need be named. Everything else is its owner's.
//!
//! Reading order: `send` (GET and HEAD: `conditions`, `range`), `receive` and `resume` (uploads:
//! `intake`, `uploads`), `problem` (faults).

mod conditions;
mod intake;
pub(crate) mod problem;
mod range;
mod receive;
mod resume;
pub(crate) mod send;
mod uploads;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::interface::DATA;
use fishplate_contract::{Fault, FaultCode, FileHandle as _, JobState, Principal, lexical};
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tokio::time::Instant;

use fishplate_data::session::SessionError;
use fishplate_data::{GrantedData, Lease, Pool, PoolError};
use fishplate_jobs::store::quota::Quota;

use crate::data::{Data, blocking};
use crate::dispatch::authorise::Action;
use crate::host::Host;
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse, put};
use crate::providers::session;
use send::{Representation, send};

pub use uploads::Uploads;

/// Asks for a digest of the whole (RFC 9530).
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// How soon a digest that is being computed is looked for, and how seldom at last.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(500);

/// First segment of an upload's path, which no token is.
const UPLOADS: &str = "uploads";

/// What a path below the public URL means to this face.
#[derive(Debug, PartialEq, Eq)]
pub enum DataResource<'p> {
    /// `data/NAME`: where uploads go, and what a grant begins with.
    Data(&'p str),
    /// `data/uploads/ID`.
    Upload(&'p str),
    /// `session/TOKEN/NAME`.
    Session(&'p str, &'p str),
}

impl<'p> DataResource<'p> {
    /// The place of a path without slashes at its ends, if it is one of ours.
    pub fn of(path: &'p str) -> Option<Self> {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        match (first, rest.split_once('/')) {
            (DATA, Some((UPLOADS, id))) => Some(Self::Upload(id)),
            (DATA, _) => Some(Self::Data(rest)),
            ("session", Some((token, name))) => Some(Self::Session(token, name)),
            _ => None,
        }
    }

    /// Whether the address itself is all the permission that this takes.
    pub fn is_open(&self, method: &Method) -> bool {
        self.access(method).1 == Action::Read
    }

    /// What a request with this method is, of which service.
    pub fn access(&self, method: &Method) -> (&'static str, Action) {
        let read = matches!(*method, Method::GET | Method::HEAD);
        match self {
            Self::Session(..) if read => (session::NAME, Action::Read),
            Self::Session(..) => (session::NAME, Action::Describe),
            Self::Data(grant) if read && !grant.is_empty() => (DATA, Action::Read),
            Self::Data(grant) if *method == Method::DELETE && !grant.is_empty() => {
                (DATA, Action::Revoke)
            }
            Self::Data(_) | Self::Upload(_) => (DATA, Action::Upload),
        }
    }
}

/// Answers a request for data.
pub async fn answer<B>(
    host: &Arc<Host>,
    place: DataResource<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    owner: &Principal,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let headers = &asked.headers;
    body.count_as(host.data.transfer(owner, "upload"));
    let answered = answered(host, place, asked, body, owner).await;
    let mut reply = answered.unwrap_or_else(|fault| {
        tracing::debug!(%fault, path = "data", "refused");
        problem::reply(&fault, headers)
    });
    let is_done = reply.status().is_success();
    body.ended_as(if is_done { JobState::Done } else { JobState::Failed });
    // A sender who is still busy gets to see the answer; who waits to be asked for the data is not
    // asked for what nobody wants.
    let waits = headers.contains_key(header::EXPECT) && body.is_untouched();
    if waits || !body.drain().await {
        put(&mut reply, header::CONNECTION, "close");
    }
    reply
}

async fn answered<B>(
    host: &Arc<Host>,
    place: DataResource<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    owner: &Principal,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let data = &host.data;
    let (method, headers) = (&asked.method, &asked.headers);
    if matches!(*method, Method::PUT | Method::POST | Method::PATCH) {
        let wanted = [(Quota::Traffic, body.told().unwrap_or(0))];
        host.engine.check_quotas(owner, &wanted).await?;
    }
    match place {
        DataResource::Session(token, name) => match *method {
            Method::GET | Method::HEAD => in_session(host, token, name, asked).await,
            _ => Ok(not_allowed("GET, HEAD")),
        },
        DataResource::Upload(id) => match (&data.uploads, id.parse()) {
            (Some(uploads), Ok(id)) => {
                resume::answer(uploads, data, id, method, body, headers, owner).await
            }
            _ => Err(Fault::new(FaultCode::NoSuchData, "there is no such upload")),
        },
        DataResource::Data(rest) => match *method {
            Method::GET | Method::HEAD if rest.is_empty() => Ok(not_allowed("OPTIONS, PUT, POST")),
            Method::GET | Method::HEAD => granted(host, rest, asked).await,
            Method::DELETE if !rest.is_empty() => revoke(data, rest, owner).await,
            Method::PUT | Method::POST => upload(data, rest, asked, body, owner).await,
            Method::OPTIONS => Ok(resume::options(data, owner)),
            _ => Ok(not_allowed("GET, HEAD, DELETE, PUT, POST, OPTIONS")),
        },
    }
}

/// The answer to a method that makes no sense.
fn not_allowed(allow: &str) -> HttpResponse {
    let body = HttpBody::bytes(format!("here one can {allow}\n"));
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
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let Some(uploads) = &data.uploads else {
        let what = "this server takes no uploads; give it a reference to fetch from, or send the \
                    data with the call";
        return Err(Fault::new(FaultCode::NotSupported, what));
    };
    let name = decoded(rest).filter(|name| is_file_name(name)).ok_or_else(|| {
        let what = "upload to data/NAME, where NAME is a file's name in UTF-8 without slashes, \
                    control and direction characters, and not . or ..";
        Fault::new(FaultCode::InvalidValue, what)
    })?;
    receive::refuse_coding(&asked.headers)?;
    if asked.headers.contains_key(header::CONTENT_RANGE) {
        let what = "a part of a file (Content-Range) is not taken; to go on with an upload, use \
                    `fishplate put`, or a resumable upload with Upload-Complete: ?0";
        return Err(Fault::new(FaultCode::InvalidValue, what));
    }
    if let Some(failed) = failed_condition(data, rest, &asked.headers).await? {
        return Ok(failed);
    }
    if resume::is_begin(&asked.headers) {
        return resume::begin(uploads, data, body, name, &asked.headers, owner).await;
    }
    receive::receive(data, body, name, &asked.headers, owner).await
}

/// Whether a text can be told as a file's name without misleading anybody; empty: there is none.
fn is_file_name(name: &str) -> bool {
    let bad = |c: char| c == '/' || c.is_control() || lexical::turns_direction(c);
    !matches!(name, "." | "..") && !name.chars().any(bad)
}

/// Conditions of an upload (RFC 9110, section 13.1): it gets an address of its own, so there is
/// something at the address it is sent to only if that is a grant.
async fn failed_condition(
    data: &Arc<Data>,
    rest: &str,
    asked: &HeaderMap,
) -> Result<Option<HttpResponse>, Fault> {
    let must_be = asked.contains_key(header::IF_MATCH);
    if !must_be && !asked.contains_key(header::IF_NONE_MATCH) {
        return Ok(None);
    }
    let (pool, token) = (data.pool.clone(), rest.to_owned());
    let is_there = blocking(move || pool.redeem(&token)).await?.is_some();
    if !must_be && !is_there {
        return Ok(None);
    }
    let what = "data is never replaced: upload it to data/NAME without a condition, and it gets an \
                address of its own";
    let mut reply = problem::reply(&Fault::new(FaultCode::InvalidValue, what), asked);
    *reply.status_mut() = StatusCode::PRECONDITION_FAILED;
    Ok(Some(reply))
}

async fn granted(host: &Host, rest: &str, asked: &Parts) -> Result<HttpResponse, Fault> {
    let token = rest.split('/').next().unwrap_or_default().to_owned();
    let wait = asked.method == Method::HEAD && asked.headers.contains_key(WANT_REPR_DIGEST);
    let pool = host.data.pool.clone();
    let found = blocking(move || pool.redeem(&token)).await?.ok_or_else(no_such_data)?;
    if wait {
        digest_settles(&host.data.pool, &found.lease, host.data.digest_wait).await;
    }
    let owner = found.owner.clone();
    let representation = blocking(move || open(found)).await?;
    sent(host, &owner, &representation, asked).await
}

/// Waits until a digest is known, but not for ever. The pool computes it beside; nobody is held up
/// here, however many wait.
async fn digest_settles(pool: &Pool, lease: &Lease, most: Duration) {
    let (its, wanted) = (pool.clone(), lease.clone());
    // Who adopted it may have been killed.
    if let Err(fault) = blocking(move || its.hash_soon(&wanted)).await {
        tracing::warn!(%fault, "a digest is not computed");
    }
    look_until(most, || {
        let looking = lease.clone();
        let known = tokio::task::spawn_blocking(move || looking.digest().is_some());
        async { known.await.unwrap_or(true) }
    })
    .await;
}

/// Looks again and again, ever less often, until it is there or the time is over.
async fn look_until<L: Future<Output = bool>>(most: Duration, mut look: impl FnMut() -> L) {
    let (until, mut pause) = (Instant::now() + most, FIRST_LOOK);
    while !look().await {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// What a grant gives, open.
fn open(granted: GrantedData) -> Result<Representation, PoolError> {
    let lease = granted.lease;
    let digest = lease.digest();
    let file = lease.reopened().map_err(|error| PoolError::Io {
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

/// A file of a session. Its token is the permission, as a grant's is.
async fn in_session(
    host: &Host,
    token: &str,
    name: &str,
    asked: &Parts,
) -> Result<HttpResponse, Fault> {
    let no_session = || {
        let what = "there are no sessions here, so this is no file's address";
        Fault::new(FaultCode::NoSuchData, what)
    };
    let sessions = host.data.sessions.clone().ok_or_else(no_session)?;
    let token = token.to_owned();
    let name = decoded(name).ok_or_else(no_such_data)?;
    let found = blocking(move || {
        let (owner, held) = sessions.get_by_address(&token, &name)?;
        let file = held.file().try_clone().map_err(|error| SessionError::Io {
            what: "opening",
            path: held.path().to_owned(),
            source: error,
        })?;
        let representation = Representation {
            modified: Some(send::moment(held.put())),
            expires: None,
            len: held.len(),
            file,
            tag: format!("\"{}\"", held.version()),
            media_type: String::new(),
            name,
            digest: None,
        };
        Ok::<_, SessionError>((owner, representation))
    });
    let (owner, representation) = found.await?;
    sent(host, &owner, &representation, asked).await
}

/// What is said of an address at which there is nothing.
pub(crate) fn no_such_data() -> Fault {
    let what = "there is no data at this address; it may have expired, or have been revoked";
    Fault::new(FaultCode::NoSuchData, what)
}

async fn revoke(data: &Arc<Data>, rest: &str, owner: &Principal) -> Result<HttpResponse, Fault> {
    let token = rest.split('/').next().unwrap_or_default().to_owned();
    let (pool, owner) = (data.pool.clone(), owner.clone());
    if !blocking(move || pool.revoke(&owner, &token)).await? {
        return Err(no_such_data());
    }
    let mut reply = Response::new(HttpBody::bytes(""));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    Ok(reply)
}

/// The answer that sends what is this owner's.
///
/// # Errors
/// `QuotaExceeded`, if the owner's traffic is used up.
pub(crate) async fn sent(
    host: &Host,
    owner: &Principal,
    representation: &Representation,
    asked: &Parts,
) -> Result<HttpResponse, Fault> {
    if asked.method == Method::GET {
        host.engine.check_quotas(owner, &[(Quota::Traffic, 0)]).await?;
    }
    let (mut reply, bytes) = send(representation, &asked.method, &asked.headers);
    host.data.figures.served(bytes);
    if bytes > 0 {
        reply.body_mut().count_as(host.data.transfer(owner, "read"));
    }
    Ok(reply)
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
            ("data", Some(DataResource::Data(""))),
            ("data/mesh.frd", Some(DataResource::Data("mesh.frd"))),
            ("data/TOKEN/mesh.frd", Some(DataResource::Data("TOKEN/mesh.frd"))),
            ("data/uploads/12", Some(DataResource::Upload("12"))),
            ("session/12/mesh", Some(DataResource::Session("12", "mesh"))),
            ("session", None),
            ("session/12", None),
            ("database", None),
            ("", None),
        ] {
            assert_eq!(DataResource::of(path), place, "{path}");
        }
    }

    #[tokio::test]
    async fn a_digest_is_waited_for_and_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let settings = fishplate_data::PoolSettings::new(directory.path().join("pool"));
        let pool = Pool::open(settings, Arc::new(fishplate_contract::SystemClock)).unwrap();
        let file = directory.path().join("file");
        // It has holes only, and takes its time to be hashed.
        std::fs::File::create(&file).unwrap().set_len(512 << 20).unwrap();
        let owner = Principal::anonymous();
        let lease = pool.register(&owner, &file, fishplate_data::RegistrationMode::Link).unwrap();
        digest_settles(&pool, &lease, Duration::from_millis(1)).await;
        assert_eq!(lease.digest(), None, "nobody waits for the whole");
        digest_settles(&pool, &lease, Duration::from_secs(3600)).await;
        assert!(lease.digest().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_is_looked_for_ever_less_often() {
        let (begun, looks) = (Instant::now(), std::cell::Cell::new(0_u32));
        let looked = async |there_after: u32| {
            looks.set(0);
            look_until(Duration::from_secs(60), || {
                looks.set(looks.get() + 1);
                std::future::ready(looks.get() > there_after)
            })
            .await;
        };
        looked(3).await;
        assert_eq!((looks.get(), begun.elapsed()), (4, FIRST_LOOK * 7), "5, 10 and 20 ms");
        let begun = Instant::now();
        looked(u32::MAX).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
        assert!((120..140).contains(&looks.get()), "{} looks in a minute", looks.get());
    }

    #[test]
    fn only_reading_by_address_takes_no_name() {
        assert!(DataResource::Data("TOKEN").is_open(&Method::GET));
        assert!(DataResource::Session("12", "a").is_open(&Method::HEAD));
        for method in [Method::DELETE, Method::PUT, Method::POST, Method::PATCH] {
            assert!(!DataResource::Data("TOKEN").is_open(&method));
        }
        for place in [DataResource::Upload("12"), DataResource::Data("")] {
            assert!(!place.is_open(&Method::HEAD), "{place:?}");
        }
    }
}
