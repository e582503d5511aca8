//! PUT and POST of data: into the pool, and a grant for it back.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Digest, Fault, FaultCode, FileHandle as _, Principal};
use fishplate_data::{Grant, Incoming as Arriving, PoolError};
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::conditions::lines;
use super::intake::{IntakeResult, take_in};
use super::problem;
use super::send::{REPR_DIGEST, moment};
use crate::data::{Data, blocking};
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse, put};

/// The digest of a message's content (RFC 9530).
pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// What a command line tool says of any file: it tells nothing.
const NO_TYPES: &[&str] = &["application/x-www-form-urlencoded", "application/octet-stream"];

/// Takes a whole body and answers with its address.
pub(super) async fn receive<B>(
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
    let content = content_digest(asked)?;
    let whole = digest(asked, &REPR_DIGEST)?;
    let told = body.told();
    let (from, whose) = (Arc::clone(data), owner.clone());
    // Quotas and the disk are asked before a byte is read.
    let arriving = blocking(move || from.pool.receive(&whose, None, told)).await?;
    let IntakeResult { arriving, ended } = take_in(body, arriving, content, None).await?;
    if let Err(error) = ended {
        drop_beside(arriving);
        return Err(error.into_fault());
    }
    let media_type = media_type(asked);
    let stored = keep(data, arriving, whole, owner, name, media_type).await?;
    Ok(created(&stored, asked))
}

/// What is not kept is removed beside the runtime: a large file takes its time.
pub(super) fn drop_beside(arriving: Arriving) {
    tokio::task::spawn_blocking(move || drop(arriving));
}

/// Gives whole data its place in the pool, and an address.
pub(super) async fn keep(
    data: &Arc<Data>,
    arriving: Arriving,
    must_be: Option<Digest>,
    owner: &Principal,
    name: String,
    media_type: String,
) -> Result<StoredUpload, Fault> {
    let (data, owner) = (Arc::clone(data), owner.clone());
    blocking(move || {
        let lease = arriving.commit(must_be.as_ref(), true)?;
        let grant = data.grant(&lease, &owner, &name, &media_type)?;
        data.figures.received(lease.len());
        Ok::<_, PoolError>(StoredUpload { grant, len: lease.len(), digest: lease.digest() })
    })
    .await
}

/// Data in the pool, as its sender is told of it.
pub(super) struct StoredUpload {
    pub(super) grant: Grant,
    pub(super) len: u64,
    digest: Option<Digest>,
}

/// 201: where the data is, for how long, and what it is.
pub(super) fn created(stored: &StoredUpload, asked: &HeaderMap) -> HttpResponse {
    let StoredUpload { grant, len, digest } = stored;
    let expires = httpdate::fmt_http_date(moment(grant.expires));
    let (content_type, text) = if problem::wants_json(asked) {
        let at = jiff::Timestamp::from_millisecond(grant.expires.0).unwrap_or_default();
        let digest = digest.map(|digest| digest.to_string());
        let told = json!({
            "url": grant.url, "length": len, "digest": digest, "expires": at.to_string(),
        });
        ("application/json", format!("{told}\n"))
    } else {
        ("text/plain; charset=utf-8", format!("{}\n", grant.url))
    };
    let mut reply = Response::new(HttpBody::bytes(text));
    *reply.status_mut() = StatusCode::CREATED;
    put(&mut reply, header::CONTENT_TYPE, content_type);
    put(&mut reply, header::LOCATION, &grant.url);
    put(&mut reply, header::EXPIRES, &expires);
    put(&mut reply, header::CACHE_CONTROL, "no-store");
    reply
}

/// What the content of this request must be.
pub(super) fn content_digest(asked: &HeaderMap) -> Result<Option<Digest>, Fault> {
    digest(asked, &CONTENT_DIGEST)
}

/// What a field of RFC 9530 says. One of other algorithms says nothing to us; one that is no such
/// field is refused, because its sender believes that the data is verified.
pub(super) fn digest(asked: &HeaderMap, name: &HeaderName) -> Result<Option<Digest>, Fault> {
    let Some(field) = lines(asked, name) else { return Ok(None) };
    let digest = Digest::from_field(&field);
    // A member of a dictionary (RFC 9651) whose value is bytes; neither holds a comma.
    let is_other = |member: &str| {
        let Some((key, value)) = member.trim().split_once('=') else { return false };
        let value = value.strip_prefix(':').and_then(|value| value.split_once(':'));
        let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        value.is_some()
            && !key.is_empty()
            && key.chars().all(is_key)
            && !matches!(key, "sha-256" | "sha-512")
    };
    if digest.is_none() && !field.split(',').all(is_other) {
        let shown = fishplate_contract::lexical::shortened(&field);
        let what = format!("{name} {shown:?} is none; it is such as sha-256=:BASE64:");
        return Err(Fault::new(FaultCode::InvalidValue, what));
    }
    Ok(digest)
}

/// The media type that a sender tells; empty if it is what tools say of any file.
pub(super) fn media_type(asked: &HeaderMap) -> String {
    let told = asked.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if NO_TYPES.contains(&told) { String::new() } else { told.to_owned() }
}

/// Content that is coded (gzip, ...) would be kept as it is and sent as what it is not.
pub(super) fn refuse_coding(asked: &HeaderMap) -> Result<(), Fault> {
    match asked.get(header::CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let what = format!("content coding {coding:?} is not taken; send the data plain");
            Err(Fault::new(FaultCode::UnsupportedMediaType, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_digest_that_is_none_is_refused_and_one_of_another_algorithm_passed_over() {
        let read = |field: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_DIGEST, HeaderValue::from_static(field));
            content_digest(&headers)
        };
        assert_eq!(read("md5=:AAAA:"), Ok(None));
        assert_eq!(read("md5=:AAAA:, sha=:AAAA:;a=1"), Ok(None));
        for broken in ["sha-256=:AAAA:", "garbage", "", "md5=AAAA", "sha-256", "=:AAAA:"] {
            assert_eq!(read(broken).unwrap_err().code, FaultCode::InvalidValue, "{broken}");
        }
        let good = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
        assert_eq!(read(good).unwrap().unwrap().to_string(), good);
        assert_eq!(content_digest(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_tools_say_of_any_file_is_no_media_type() {
        let read = |told: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(told));
            media_type(&headers)
        };
        assert_eq!(read("application/x-www-form-urlencoded"), "");
        assert_eq!(read("model/mesh"), "model/mesh");
    }
}
