//! Uploads that go on where they broke (draft-ietf-httpbis-resumable-upload): created empty, filled
//! by appending, asked for their offset after a broken connection.

use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};

use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::transport::{Transport, no_soap};

pub(crate) const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub(crate) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub(crate) const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const YES: HeaderValue = HeaderValue::from_static("?1");
const NO: HeaderValue = HeaderValue::from_static("?0");
const PARTIAL_UPLOAD: HeaderValue = HeaderValue::from_static("application/partial-upload");

/// What the other end says of an upload.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It wants the bytes from here on.
    At(u64),
    /// All is there; the head of its last answer.
    Complete(Box<Parts>),
    /// It knows nothing of it (any more).
    Gone,
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
    let parts = sent(transport, Method::PUT, url, headers, SegmentBody::empty()).await?;
    located(&parts.headers, url)?.ok_or_else(|| Error::BadAnswer {
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
) -> Result<Parts, Error> {
    headers.insert(UPLOAD_COMPLETE, YES);
    sent(transport, Method::PUT, url, headers, body).await
}

/// Appends the rest, from an offset on.
pub(crate) async fn append(
    transport: &Transport,
    upload: &Uri,
    offset: u64,
    body: SegmentBody,
) -> Result<Standing, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(UPLOAD_COMPLETE, YES);
    headers.insert(UPLOAD_OFFSET, offset.into());
    headers.insert(header::CONTENT_TYPE, PARTIAL_UPLOAD);
    match sent(transport, Method::PATCH, upload, headers, body).await {
        Ok(parts) => Ok(Standing::Complete(Box::new(parts))),
        Err(Error::Http { status: 404 | 410, .. }) => Ok(Standing::Gone),
        // We were mistaken about the offset: what it is can be asked.
        Err(Error::Http { status: 409, .. }) => standing(transport, upload).await,
        Err(error) => Err(error),
    }
}

/// Asks how much is there.
pub(crate) async fn standing(transport: &Transport, upload: &Uri) -> Result<Standing, Error> {
    let (parts, answer) = head_of(transport, Method::HEAD, upload, HeaderMap::new()).await?;
    if matches!(parts.status.as_u16(), 404 | 410) {
        return Ok(Standing::Gone);
    }
    if !parts.status.is_success() {
        return Err(no_soap(upload, http::Response::from_parts(parts, answer)).await);
    }
    if parts.headers.get(UPLOAD_COMPLETE) == Some(&YES) {
        return Ok(Standing::Complete(Box::new(parts)));
    }
    let offset = parts.headers.get(UPLOAD_OFFSET).and_then(|value| value.to_str().ok());
    let offset = offset.and_then(|text| text.trim().parse().ok());
    offset.map(Standing::At).ok_or_else(|| Error::BadAnswer {
        url: upload.to_string(),
        reason: "it knows the upload, but tells no Upload-Offset".to_owned(),
    })
}

/// Where an answer says that something is.
pub(crate) fn located(headers: &HeaderMap, from: &Uri) -> Result<Option<Uri>, Error> {
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
) -> Result<Parts, Error> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    let answer = transport.send(request).await?;
    if !answer.status().is_success() {
        return Err(no_soap(url, answer).await);
    }
    let (parts, mut body) = answer.into_parts();
    drain(&mut body).await;
    Ok(parts)
}

async fn head_of(
    transport: &Transport,
    method: Method,
    url: &Uri,
    headers: HeaderMap,
) -> Result<(Parts, hyper::body::Incoming), Error> {
    let mut request = Request::new(SegmentBody::empty());
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    transport.send(request).await.map(http::Response::into_parts)
}

/// Reads a short answer to its end, so that its connection can be used again.
async fn drain(body: &mut hyper::body::Incoming) {
    use http_body_util::BodyExt as _;
    const MOST: usize = 64 << 10;
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, bytes::Bytes::len);
        if read > MOST {
            return;
        }
    }
}
