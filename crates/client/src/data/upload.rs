//! Uploads that go on where they broke (draft-ietf-httpbis-resumable-upload): created empty, filled
//! by appending, asked for their offset after a broken connection.

use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};

use fishplate_contract::{Digest, Fault, FaultCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::transport::{IncomingBody, Transport, no_soap};

pub(crate) const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub(crate) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub(crate) const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const YES: HeaderValue = HeaderValue::from_static("?1");
const NO: HeaderValue = HeaderValue::from_static("?0");
/// Ours tell in JSON what they would tell people in a line.
const ACCEPT: HeaderValue =
    HeaderValue::from_static("application/json, application/problem+json, */*;q=0.5");
pub(crate) const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
const PARTIAL_UPLOAD: HeaderValue = HeaderValue::from_static("application/partial-upload");

/// Largest answer that is read.
const ANSWER_SIZE: usize = 64 << 10;

/// What the other end says of an upload.
#[derive(Debug)]
pub(crate) enum UploadState {
    /// It wants the bytes from here on.
    At(u64),
    /// All is there, at this address if the answer tells it.
    Complete(StoredData),
    /// It knows nothing of it (any more).
    Gone,
}

/// What the other end says of data that it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredData {
    /// Where it is.
    pub(crate) url: Option<Uri>,
    /// What arrived.
    pub(crate) digest: Option<Digest>,
}

/// Whether uploads to this URL can be taken up where they broke.
pub(crate) async fn is_resumable(transport: &Transport, url: &Uri) -> Result<bool, Error> {
    let (parts, _) = head_of(transport, Method::OPTIONS, url, HeaderMap::new()).await?;
    Ok(parts.status.is_success() && parts.headers.contains_key(UPLOAD_LIMIT))
}

/// Begins an upload of so many bytes; its own URL.
pub(crate) async fn create(transport: &Transport, url: &Uri, len: u64) -> Result<Uri, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(UPLOAD_COMPLETE, NO);
    headers.insert(UPLOAD_LENGTH, len.into());
    let stored = sent(transport, Method::PUT, url, headers, SegmentBody::empty()).await?;
    stored.url.ok_or_else(|| Error::BadAnswer {
        url: url.to_string(),
        reason: "it takes an upload, but tells no Location for it".to_owned(),
    })
}

/// Sends the whole in one request that can't be taken up again.
pub(crate) async fn whole(
    transport: &Transport,
    url: &Uri,
    mut headers: HeaderMap,
    body: SegmentBody,
) -> Result<StoredData, Error> {
    headers.insert(UPLOAD_COMPLETE, YES);
    sent(transport, Method::PUT, url, headers, body).await
}

/// Appends the rest, from an offset on.
pub(crate) async fn append(
    transport: &Transport,
    upload: &Uri,
    offset: u64,
    body: SegmentBody,
) -> Result<UploadState, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(UPLOAD_COMPLETE, YES);
    headers.insert(UPLOAD_OFFSET, offset.into());
    headers.insert(header::CONTENT_TYPE, PARTIAL_UPLOAD);
    match sent(transport, Method::PATCH, upload, headers, body).await {
        Ok(stored) => Ok(UploadState::Complete(stored)),
        Err(Error::Http { status: 404 | 410, .. }) => Ok(UploadState::Gone),
        // We were mistaken about the offset: what it is can be asked.
        Err(Error::Http { status: 409, .. }) => standing(transport, upload).await,
        Err(error) => Err(error),
    }
}

/// Asks how much is there.
pub(crate) async fn standing(transport: &Transport, upload: &Uri) -> Result<UploadState, Error> {
    let (parts, answer) = head_of(transport, Method::HEAD, upload, HeaderMap::new()).await?;
    if matches!(parts.status.as_u16(), 404 | 410) {
        return Ok(UploadState::Gone);
    }
    if !parts.status.is_success() {
        return Err(no_soap(upload, http::Response::from_parts(parts, answer)).await);
    }
    if parts.headers.get(UPLOAD_COMPLETE) == Some(&YES) {
        let url = located(&parts.headers, upload)?;
        return Ok(UploadState::Complete(StoredData { url, digest: told_digest(&parts.headers) }));
    }
    let offset = parts.headers.get(UPLOAD_OFFSET).and_then(|value| value.to_str().ok());
    let offset = offset.and_then(|text| text.trim().parse().ok());
    offset.map(UploadState::At).ok_or_else(|| Error::BadAnswer {
        url: upload.to_string(),
        reason: "it knows the upload, but tells no Upload-Offset".to_owned(),
    })
}

/// The digest of what is at this address, which may have to be computed first.
pub(crate) async fn digest_of(transport: &Transport, url: &Uri) -> Result<Option<Digest>, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(WANT_REPR_DIGEST, HeaderValue::from_static("sha-256=10"));
    let (parts, _) = head_of(transport, Method::HEAD, url, headers).await?;
    Ok(told_digest(&parts.headers))
}

fn told_digest(headers: &HeaderMap) -> Option<Digest> {
    headers.get(REPR_DIGEST)?.to_str().ok().and_then(Digest::from_field)
}

/// Where an answer says that something is.
fn located(headers: &HeaderMap, from: &Uri) -> Result<Option<Uri>, Error> {
    let Some(to) = headers.get(header::LOCATION) else { return Ok(None) };
    location::redirected(from, &String::from_utf8_lossy(to.as_bytes())).map(Some)
}

/// A request whose answer has to be a success.
pub(crate) async fn sent(
    transport: &Transport,
    method: Method,
    url: &Uri,
    headers: HeaderMap,
    body: SegmentBody,
) -> Result<StoredData, Error> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    request.headers_mut().insert(header::ACCEPT, ACCEPT);
    let answer = transport.send(request).await?;
    if !answer.status().is_success() {
        return Err(refused(url, answer).await);
    }
    let (parts, body) = answer.into_parts();
    // To its end, so that the connection can be used again.
    let body = Limited::new(body, ANSWER_SIZE).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let digest = told["digest"].as_str().and_then(Digest::from_field);
    let digest = told_digest(&parts.headers).or(digest);
    Ok(StoredData { url: located(&parts.headers, url)?, digest })
}

async fn head_of(
    transport: &Transport,
    method: Method,
    url: &Uri,
    headers: HeaderMap,
) -> Result<(Parts, IncomingBody), Error> {
    let mut request = Request::new(SegmentBody::empty());
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    transport.send(request).await.map(http::Response::into_parts)
}

/// Why a request was refused: a fault, if the server is ours.
async fn refused(url: &Uri, answer: http::Response<IncomingBody>) -> Error {
    // Those about the upload itself are ours to mend.
    let mended = matches!(answer.status().as_u16(), 404 | 409 | 410);
    let content_type = answer.headers().get(header::CONTENT_TYPE);
    let is_problem =
        content_type.is_some_and(|is| is.as_bytes().starts_with(b"application/problem+json"));
    if mended || !is_problem {
        return no_soap(url, answer).await;
    }
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_SIZE).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or_default().to_owned();
    let Some(code) = problem["code"].as_str().and_then(FaultCode::from_name) else {
        return Error::Http { url: url.to_string(), status, line: detail };
    };
    let fault = Fault::new(code, detail);
    let limit = |key: &str| problem["limit"][key].as_str();
    Error::Fault(match (limit("name"), limit("value")) {
        (Some(name), Some(value)) => fault.limit(name, value),
        _ => fault,
    })
}
