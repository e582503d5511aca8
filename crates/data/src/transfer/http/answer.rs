//! Reading: what is asked for, and what the answer's header tells.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fishplate_contract::Digest;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use super::ask::{HttpRequest, HttpResponse, Requester, refused};
use super::body::{SizedBody, SourceBody};
use super::peer;
use crate::transfer::{EmptyBody, OpenedSource, ReadRequest, TransferError, Validator};

const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// Opens data, from an offset if it still is the version that was wanted.
pub(super) async fn open(
    asking: &Arc<Requester>,
    url: &Url,
    want: ReadRequest,
) -> Result<OpenedSource, TransferError> {
    let answer = asking.ask(url, &reading(Method::GET, Some(&want))).await?;
    let whole = ReadRequest::default();
    match answer.response.status() {
        StatusCode::OK => opened(asking, answer, &whole),
        StatusCode::PARTIAL_CONTENT => {
            let version = version(answer.response.headers());
            if want.version.is_some() && version != want.version {
                // It did not heed If-Range: these are bytes of other data.
                return begin_again(asking, url).await;
            }
            opened(asking, answer, &want)
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let total = answer.response.headers().get(CONTENT_RANGE).and_then(unsatisfied_total);
            // Had If-Range not matched, the range would not have been looked at.
            let told = version(answer.response.headers());
            let same = told.is_none() || want.version.is_none() || told == want.version;
            if total == Some(want.offset) && same {
                let version = told.or(want.version);
                let body = Box::new(EmptyBody);
                return Ok(OpenedSource {
                    offset: want.offset,
                    total,
                    version,
                    digest: None,
                    body,
                });
            }
            begin_again(asking, url).await
        }
        _ => Err(refused(answer).await),
    }
}

async fn begin_again(asking: &Arc<Requester>, url: &Url) -> Result<OpenedSource, TransferError> {
    let answer = asking.ask(url, &reading(Method::GET, None)).await?;
    match answer.response.status() {
        StatusCode::OK => opened(asking, answer, &ReadRequest::default()),
        _ => Err(refused(answer).await),
    }
}

/// The digest that a peer tells of the whole once it was read, if it is still that version.
pub(super) async fn digest_after(
    asking: &Requester,
    url: &Url,
    read: Option<&Validator>,
) -> Result<Option<Digest>, TransferError> {
    if asking.is_silent(&peer(url)) {
        return Ok(None);
    }
    let HttpResponse { response, .. } = asking.ask(url, &reading(Method::HEAD, None)).await?;
    let told = digest(response.headers(), response.status() == StatusCode::OK);
    if told.is_none() {
        asking.note_silence(peer(url));
    }
    Ok(told.filter(|_| version(response.headers()).as_ref() == read))
}

fn reading(method: Method, want: Option<&ReadRequest>) -> HttpRequest<'static> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(WANT_REPR_DIGEST, HeaderValue::from_static("sha-256=1"));
    if let Some(ReadRequest { offset, len, version }) = want
        && (*offset > 0 || len.is_some())
    {
        let range = match len {
            Some(len) => format!("bytes={offset}-{}", (offset + len).saturating_sub(1)),
            None => format!("bytes={offset}-"),
        };
        if let Ok(range) = range.parse() {
            headers.insert(RANGE, range);
        }
        if let Some(version) = version.as_ref().and_then(|version| version.0.parse().ok()) {
            headers.insert(IF_RANGE, version);
        }
    }
    HttpRequest { method, headers, body: &|| Ok(SizedBody::nothing()) }
}

fn opened(
    asking: &Arc<Requester>,
    answer: HttpResponse,
    want: &ReadRequest,
) -> Result<OpenedSource, TransferError> {
    let HttpResponse { response, url } = answer;
    let headers = response.headers();
    let strange = |reason: String| TransferError::Strange { peer: peer(&url), reason };
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        return Err(strange(format!("it sends {encoding} where identity was asked for")));
    }
    let partial = response.status() == StatusCode::PARTIAL_CONTENT;
    let (offset, total) = if partial {
        let range = headers.get(CONTENT_RANGE).and_then(content_range);
        let Some(range) = range.filter(|range| range.first == want.offset) else {
            return Err(strange("it sends another range than was asked for".to_owned()));
        };
        let promised = length(headers);
        if promised.is_some_and(|len| len != range.len()) {
            return Err(strange("Content-Length and Content-Range differ".to_owned()));
        }
        (want.offset, range.total)
    } else {
        (0, length(headers))
    };
    let (version, digest) = (version(headers), digest(headers, !partial));
    let body = SourceBody::new(Arc::clone(asking), url, response.into_body(), version.clone());
    Ok(OpenedSource { offset, total, version, digest, body: Box::new(body) })
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What tells this version from others byte by byte, as `If-Range` takes it (RFC 9110, 13.1.5): a
/// strong entity tag, or a time of change that is at least a second ago.
fn version(headers: &HeaderMap) -> Option<Validator> {
    if let Some(tag) = headers.get(ETAG) {
        let tag = tag.to_str().ok()?;
        return tag.starts_with('"').then(|| Validator(tag.to_owned()));
    }
    let text = headers.get(LAST_MODIFIED)?.to_str().ok()?;
    let (changed, now) = (httpdate::parse_http_date(text).ok()?, date(headers)?);
    (changed + Duration::from_secs(1) <= now).then(|| Validator(text.to_owned()))
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// The digest of the whole (RFC 9530, sections 2 and 3).
fn digest(headers: &HeaderMap, whole: bool) -> Option<Digest> {
    let field = |name: &HeaderName| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| Digest::from_field(value.to_str().ok()?))
            .max()
    };
    field(&REPR_DIGEST).or_else(|| field(&CONTENT_DIGEST).filter(|_| whole))
}

struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

impl ContentRange {
    fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// `bytes 0-99/1000` (RFC 9110, section 14.4).
fn content_range(value: &HeaderValue) -> Option<ContentRange> {
    let (range, total) = value.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    let fits = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    fits.then_some(ContentRange { first, last, total })
}

/// `bytes */1000`.
fn unsatisfied_total(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.strip_prefix("bytes */")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn ranges_are_read_strictly() {
        let read = |text: &'static str| {
            content_range(&HeaderValue::from_static(text)).map(|r| (r.first, r.len(), r.total))
        };
        assert_eq!(read("bytes 0-99/1000"), Some((0, 100, Some(1000))));
        assert_eq!(read("bytes 5-5/*"), Some((5, 1, None)));
        for wrong in [
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes -4/10",
            "lines 0-1/2",
            "bytes 0-1",
            "bytes */9",
            "bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(unsatisfied_total(&HeaderValue::from_static("bytes */9")), Some(9));
    }

    #[test]
    fn only_what_is_strong_tells_versions() {
        let version = |fields: &[_]| version(&headers(fields)).map(|version| version.0);
        assert_eq!(version(&[("etag", "\"a\"")]).as_deref(), Some("\"a\""));
        assert_eq!(version(&[("etag", "W/\"a\"")]), None);
        let (at, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(version(&[("last-modified", at), ("date", later)]).as_deref(), Some(at));
        assert_eq!(version(&[("last-modified", at), ("date", at)]), None);
        assert_eq!(version(&[("last-modified", at)]), None);
    }

    #[test]
    fn a_digest_of_a_part_is_none_of_the_whole() {
        let field = Digest::Sha256([1; 32]).to_string();
        let content = headers(&[("content-digest", &field)]);
        assert_eq!(digest(&content, true), Some(Digest::Sha256([1; 32])));
        assert_eq!(digest(&content, false), None);
        let whole = headers(&[("repr-digest", &field)]);
        assert_eq!(digest(&whole, false), Some(Digest::Sha256([1; 32])));
    }
}
