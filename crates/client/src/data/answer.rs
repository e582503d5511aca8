//! What an offer answers (RFC 9110): the file or a range of it, its version, and its digest
//! (RFC 9530), before it if it is known by then, else after it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Digest;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

use crate::body::SegmentBody;
use crate::data::offer::OfferedFile;

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The body of an answer.
pub(crate) struct DataBody {
    body: SegmentBody,
    /// The digest to be told after the body.
    after: Option<PendingRead>,
}

type PendingRead = Pin<Box<dyn Future<Output = Option<Digest>> + Send>>;

/// There is no such file.
pub(crate) fn nothing() -> Response<DataBody> {
    empty(StatusCode::NOT_FOUND)
}

/// The answer to a request for a file.
pub(crate) async fn of(
    file: &Arc<OfferedFile>,
    method: &Method,
    asked: &HeaderMap,
) -> Response<DataBody> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    // RFC 9110, section 14.2: a Range is for GET only.
    let range = if *method == Method::GET { range(asked, file) } else { Range::Whole };
    let (status, from, to) = match range {
        Range::Whole => (StatusCode::OK, 0, file.len),
        Range::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Range::Outside => {
            let mut answer = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            insert(&mut answer, header::CONTENT_RANGE, format!("bytes */{}", file.len));
            return answer;
        }
    };
    let (body, _) = SegmentBody::of_file(&file.path, from, to, None);
    let body = if *method == Method::HEAD { SegmentBody::empty() } else { body };
    let digest = *file.digest.borrow();
    let takes_trailers = asked.get_all(header::TE).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("trailers"))
    });
    let tell_after =
        digest.is_none() && takes_trailers && *method == Method::GET && range == Range::Whole;
    let after = tell_after.then(|| waiting(file.digest.clone()));
    let mut answer = Response::new(DataBody { body, after });
    *answer.status_mut() = status;
    insert(&mut answer, header::ETAG, file.etag.clone());
    insert(&mut answer, header::ACCEPT_RANGES, "bytes".to_owned());
    insert(&mut answer, header::CONTENT_TYPE, "application/octet-stream".to_owned());
    if status == StatusCode::PARTIAL_CONTENT {
        let last = to.saturating_sub(1);
        insert(&mut answer, header::CONTENT_RANGE, format!("bytes {from}-{last}/{}", file.len));
    }
    match digest {
        Some(digest) => insert(&mut answer, REPR_DIGEST, digest.to_string()),
        None if tell_after => insert(&mut answer, header::TRAILER, REPR_DIGEST.to_string()),
        None => {}
    }
    if *method == Method::HEAD {
        answer.headers_mut().insert(header::CONTENT_LENGTH, (to - from).into());
    }
    answer
}

fn waiting(mut digest: watch::Receiver<Option<Digest>>) -> PendingRead {
    Box::pin(async move {
        let known = digest.wait_for(Option::is_some).await;
        known.ok().and_then(|digest| *digest)
    })
}

/// Which bytes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Whole,
    /// From the first of these to before the second.
    Part(u64, u64),
    Outside,
}

/// One range; of several, or of what nobody understands, all is sent, as the standard allows.
fn range(asked: &HeaderMap, file: &OfferedFile) -> Range {
    let text = |name| asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(range) = text(header::RANGE).and_then(|range| range.strip_prefix("bytes=")) else {
        return Range::Whole;
    };
    if text(header::IF_RANGE).is_some_and(|version| version != file.etag) {
        return Range::Whole;
    }
    let Some((first, last)) = range.trim().split_once('-') else { return Range::Whole };
    let (first, last) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(file.len)),
        (Ok(first), Err(_)) if last.is_empty() => (first, file.len),
        (Err(_), Ok(0)) if first.is_empty() => return Range::Outside,
        (Err(_), Ok(most)) if first.is_empty() => (file.len.saturating_sub(most), file.len),
        _ => return Range::Whole,
    };
    if first < last { Range::Part(first, last) } else { Range::Outside }
}

fn empty(status: StatusCode) -> Response<DataBody> {
    let mut answer = Response::new(DataBody { body: SegmentBody::empty(), after: None });
    *answer.status_mut() = status;
    answer
}

fn insert(answer: &mut Response<DataBody>, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        answer.headers_mut().insert(name, value);
    }
}

impl Body for DataBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
            return Poll::Ready(Some(frame));
        }
        let Some(after) = &mut self.after else { return Poll::Ready(None) };
        let digest = std::task::ready!(after.as_mut().poll(context));
        self.after = None;
        let value = digest.and_then(|digest| HeaderValue::try_from(digest.to_string()).ok());
        Poll::Ready(
            value.map(|value| Ok(Frame::trailers(HeaderMap::from_iter([(REPR_DIGEST, value)])))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.after.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Only a body of unknown length can have something after it.
        if self.after.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}
