//! Resumable uploads: the core of draft-ietf-httpbis-resumable-upload-12. There are no interim
//! responses (104): who wants to resume creates the upload with `Upload-Complete: ?0` and so learns
//! its address.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Digest, Fault, FaultCode, Principal};
use fishplate_data::Incoming as Arriving;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Response, StatusCode};
use serde_json::{Map, json};

use super::conditions::lines;
use super::intake::{IntakeError, IntakeResult, take_in};
use super::receive::{content_digest, created, digest, keep, media_type};
use super::send::REPR_DIGEST;
use super::uploads::{AppendTurn, CompletedUpload, Upload, UploadId, Uploads};
use super::{not_allowed, problem};
use crate::data::{Data, blocking};
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse, put};

const COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// What is appended.
const PARTIAL: &str = "application/partial-upload";

const PROBLEMS: &str = "https://iana.org/assignments/http-problem-types#";

/// Whether a request begins an upload of several requests: `Upload-Complete: ?0`.
pub(super) fn is_begin(asked: &HeaderMap) -> bool {
    complete(asked) == Some(false)
}

/// Begins an upload with as much as came.
pub(super) async fn begin<B>(
    uploads: &Uploads,
    data: &Arc<Data>,
    body: &mut Incoming<B>,
    name: String,
    asked: &HeaderMap,
    owner: &Principal,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let id = on_disk(uploads, |_| UploadId::draw()).await?;
    let mut upload = Upload::new(owner, name, media_type(asked));
    upload.length = number(asked, &LENGTH);
    upload.digest = digest(asked, &REPR_DIGEST)?.map(|digest| digest.to_string());
    let content = content_digest(asked)?;
    let turn = uploads.turn(id);
    let _mine = turn.take().await;
    let new = upload.clone();
    if !on_disk(uploads, move |uploads| uploads.begin(id, &new)).await? {
        return Err(too_many(uploads.most()));
    }
    let begun = async {
        let arriving = open(data, id, &upload).await?;
        let IntakeResult { mut arriving, ended } =
            take_in(body, arriving, content, Some(&turn)).await?;
        let offset = arriving.len();
        let Err(error) = ended else {
            put_away(arriving).await;
            return Ok(offset);
        };
        // Its sender was not told its address: nobody comes for the rest.
        let emptied = blocking(move || arriving.truncate(0)).await;
        if let Err(error) = emptied {
            tracing::warn!(%error, "what came of an upload could not be removed");
        }
        Err(error.into_fault())
    };
    let offset = match begun.await {
        Ok(offset) => offset,
        Err(fault) => {
            on_disk(uploads, move |uploads| uploads.forget(id)).await?;
            return Err(fault);
        }
    };
    let mut reply = Response::new(HttpBody::bytes(""));
    *reply.status_mut() = StatusCode::CREATED;
    put(&mut reply, header::LOCATION, &data.upload_url(&id.to_string()));
    Ok(with_state(reply, data, offset, &upload))
}

/// Answers a request for an upload.
pub(super) async fn answer<B>(
    uploads: &Uploads,
    data: &Arc<Data>,
    id: UploadId,
    method: &Method,
    body: &mut Incoming<B>,
    asked: &HeaderMap,
    owner: &Principal,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    if !matches!(*method, Method::HEAD | Method::PATCH | Method::DELETE) {
        return Ok(not_allowed("HEAD, PATCH, DELETE"));
    }
    let turn = uploads.turn(id);
    let _mine = turn.take().await;
    let whose = owner.clone();
    let found = on_disk(uploads, move |uploads| uploads.find(id, &whose)).await?;
    let upload = found.ok_or_else(|| {
        let what = "there is no such upload of yours; it may have been completed long ago, \
                    cancelled, or have expired";
        Fault::new(FaultCode::NoSuchData, what)
    })?;
    match *method {
        Method::HEAD => state(data, id, &upload).await,
        Method::DELETE => cancel(uploads, data, id, &upload).await,
        _ => append(uploads, data, id, upload, body, asked, &turn).await,
    }
}

async fn state(data: &Arc<Data>, id: UploadId, upload: &Upload) -> Result<HttpResponse, Fault> {
    let mut reply = no_content();
    let offset = match &upload.done {
        Some(done) => {
            put(&mut reply, header::LOCATION, &done.url);
            done.length
        }
        None => {
            let arriving = open(data, id, upload).await?;
            let offset = arriving.len();
            put_away(arriving).await;
            offset
        }
    };
    Ok(with_state(reply, data, offset, upload))
}

async fn cancel(
    uploads: &Uploads,
    data: &Arc<Data>,
    id: UploadId,
    upload: &Upload,
) -> Result<HttpResponse, Fault> {
    if upload.done.is_none() {
        let mut arriving = open(data, id, upload).await?;
        blocking(move || arriving.truncate(0)).await?;
    }
    on_disk(uploads, move |uploads| uploads.forget(id)).await?;
    Ok(no_content())
}

async fn append<B>(
    uploads: &Uploads,
    data: &Arc<Data>,
    id: UploadId,
    mut upload: Upload,
    body: &mut Incoming<B>,
    asked: &HeaderMap,
    turn: &AppendTurn,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let (complete, at) = appended(asked)?;
    if let Some(done) = &upload.done {
        return Ok(completed(done, body.told(), asked));
    }
    let told = body.told().filter(|_| complete).map(|rest| at.saturating_add(rest));
    for length in [number(asked, &LENGTH), told].into_iter().flatten() {
        if upload.length.is_some_and(|before| before != length) {
            return Ok(inconsistent(asked));
        }
        upload.length = Some(length);
    }
    let content = content_digest(asked)?;
    let arriving = open(data, id, &upload).await?;
    let offset = arriving.len();
    if at != offset {
        put_away(arriving).await;
        return Ok(with_state(mismatching(offset, at, asked), data, offset, &upload));
    }
    remember(uploads, id, &upload).await?;
    let IntakeResult { arriving, ended } = take_in(body, arriving, content, Some(turn)).await?;
    let offset = arriving.len();
    if let Err(error) = ended {
        put_away(arriving).await;
        let more = matches!(&error, IntakeError::Pool(error) if is_mismatch(error));
        if more {
            // More than was announced: nothing of it is to be trusted.
            on_disk(uploads, move |uploads| uploads.forget(id)).await?;
            return Ok(inconsistent(asked));
        }
        return Err(error.into_fault());
    }
    if !complete {
        put_away(arriving).await;
        return Ok(with_state(no_content(), data, offset, &upload));
    }
    if upload.length.is_some_and(|length| length != offset) {
        put_away(arriving).await;
        return Ok(inconsistent(asked));
    }
    complete_upload(uploads, data, id, upload, arriving, asked).await
}

/// Gives what is there its place in the pool.
async fn complete_upload(
    uploads: &Uploads,
    data: &Arc<Data>,
    id: UploadId,
    mut upload: Upload,
    arriving: Arriving,
    asked: &HeaderMap,
) -> Result<HttpResponse, Fault> {
    let offset = arriving.len();
    let must_be = upload.digest.as_deref().and_then(Digest::from_field);
    let (name, media_type) = (upload.name.clone(), upload.media_type.clone());
    let kept = keep(data, arriving, must_be, &upload.owner(), name, media_type).await;
    let mut reply = match kept {
        Ok(stored) => {
            upload.done = Some(CompletedUpload { url: stored.grant.url.clone(), length: offset });
            remember(uploads, id, &upload).await?;
            created(&stored, asked)
        }
        Err(fault) if fault.code == FaultCode::DataMismatch => {
            on_disk(uploads, move |uploads| uploads.forget(id)).await?;
            problem::reply(&fault, asked)
        }
        // The bytes are there still.
        Err(fault) => return Err(fault),
    };
    put(&mut reply, COMPLETE, "?1");
    put(&mut reply, OFFSET, &offset.to_string());
    Ok(reply)
}

/// What an append says of itself.
fn appended(asked: &HeaderMap) -> Result<(bool, u64), Fault> {
    let content_type = lines(asked, &header::CONTENT_TYPE).unwrap_or_default();
    if content_type != PARTIAL {
        let what = format!("an upload is appended to with Content-Type {PARTIAL}");
        return Err(Fault::new(FaultCode::UnsupportedMediaType, what));
    }
    complete(asked).zip(number(asked, &OFFSET)).ok_or_else(|| {
        let what = "an append needs Upload-Offset: NUMBER and Upload-Complete: ?0 or ?1";
        Fault::new(FaultCode::InvalidValue, what)
    })
}

/// Does what concerns the memory of uploads beside the runtime.
async fn on_disk<T: Send + 'static>(
    uploads: &Uploads,
    work: impl FnOnce(&Uploads) -> std::io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    let uploads = uploads.clone();
    blocking(move || work(&uploads).map_err(|error| unreadable(&error))).await
}

async fn remember(uploads: &Uploads, id: UploadId, upload: &Upload) -> Result<(), Fault> {
    let upload = upload.clone();
    on_disk(uploads, move |uploads| uploads.keep(id, &upload)).await
}

fn too_many(most: usize) -> Fault {
    let what = format!("{most} uploads of yours are under way: complete one, or DELETE it");
    Fault::new(FaultCode::QuotaExceeded, what).limit("uploads_open", most.to_string())
}

/// The bytes that are there, locked against others.
async fn open(data: &Arc<Data>, id: UploadId, upload: &Upload) -> Result<Arriving, Fault> {
    let (data, owner, length) = (Arc::clone(data), upload.owner(), upload.length);
    blocking(move || data.pool.receive(&owner, Some(&id.key()), length)).await
}

/// Closes it beside the runtime, before anybody is told that it is closed.
async fn put_away(arriving: Arriving) {
    let _ = tokio::task::spawn_blocking(move || drop(arriving)).await;
}

fn is_mismatch(error: &fishplate_data::PoolError) -> bool {
    matches!(error, fishplate_data::PoolError::Mismatch { .. })
}

fn no_content() -> HttpResponse {
    let mut reply = Response::new(HttpBody::bytes(""));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

fn with_state(mut reply: HttpResponse, data: &Data, offset: u64, upload: &Upload) -> HttpResponse {
    put(&mut reply, OFFSET, &offset.to_string());
    put(&mut reply, COMPLETE, if upload.done.is_some() { "?1" } else { "?0" });
    if let Some(length) = upload.length {
        put(&mut reply, LENGTH, &length.to_string());
    }
    put(&mut reply, LIMIT, &limits(data, &upload.owner()));
    put(&mut reply, header::CACHE_CONTROL, "no-store");
    reply
}

fn limits(data: &Data, owner: &Principal) -> String {
    let settings = data.pool.settings();
    let age = format!("max-age={}", settings.incoming_life.as_secs());
    match settings.quota.into_iter().chain(settings.owner_quota.quota(owner)).min() {
        Some(quota) => format!("{age}, max-size={quota}"),
        None => age,
    }
}

/// What uploads are possible here.
pub(super) fn options(data: &Data, owner: &Principal) -> HttpResponse {
    let mut reply = no_content();
    put(&mut reply, header::ALLOW, "OPTIONS, PUT, POST");
    put(&mut reply, ACCEPT_PATCH, PARTIAL);
    put(&mut reply, LIMIT, &limits(data, owner));
    reply
}

fn mismatching(expected: u64, provided: u64, asked: &HeaderMap) -> HttpResponse {
    let what = format!("{expected} bytes are there, so the next is not byte {provided}");
    let fault = Fault::new(FaultCode::KeyConflict, what);
    let mut members = Map::new();
    members.insert("expected-offset".to_owned(), json!(expected));
    members.insert("provided-offset".to_owned(), json!(provided));
    let kind = format!("{PROBLEMS}mismatching-upload-offset");
    problem::typed(&fault, Some(&kind), members, asked)
}

fn inconsistent(asked: &HeaderMap) -> HttpResponse {
    let what = "the upload's length is not what was told of it before";
    let fault = Fault::new(FaultCode::InvalidValue, what);
    let kind = format!("{PROBLEMS}inconsistent-upload-length");
    problem::typed(&fault, Some(&kind), Map::new(), asked)
}

fn completed(done: &CompletedUpload, told: Option<u64>, asked: &HeaderMap) -> HttpResponse {
    if told != Some(0) {
        return inconsistent(asked);
    }
    let fault = Fault::new(FaultCode::InvalidValue, "the upload was completed before");
    let kind = format!("{PROBLEMS}completed-upload");
    let mut reply = problem::typed(&fault, Some(&kind), Map::new(), asked);
    *reply.status_mut() = StatusCode::GONE;
    put(&mut reply, header::LOCATION, &done.url);
    reply
}

/// A boolean of a structured field; what is none is as if it were not there.
fn complete(asked: &HeaderMap) -> Option<bool> {
    match lines(asked, &COMPLETE)?.trim() {
        "?1" => Some(true),
        "?0" => Some(false),
        _ => None,
    }
}

/// A number of a structured field; what is none is as if it were not there.
fn number(asked: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let field = lines(asked, name)?;
    let text = field.trim();
    let digits = !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn unreadable(error: &std::io::Error) -> Fault {
    if fishplate_formats::disk::is_full(error) {
        return Fault::new(FaultCode::StorageFull, "the disk of the server is full");
    }
    tracing::error!(%error, "an upload can't be remembered");
    Fault::new(FaultCode::Internal, "the upload can't be remembered; the server's log has more")
}
