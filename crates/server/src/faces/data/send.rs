//! GET and HEAD of data: conditions, ranges, digests (RFC 9110, RFC 9530, RFC 6266).

use std::fs::File;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fishplate_contract::{Digest, Fault, FaultCode, Timestamp};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Response, StatusCode};

use super::conditions::{ConditionResult, Validators, lines};
use super::problem;
use super::range::{RangeChoice, wanted};
use crate::http::{BodySection, HttpBody, HttpResponse, put};

/// Digests of the whole, whatever part of it is sent (RFC 9530).
pub(super) const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// What a file is sent as if nothing is known of it.
pub(super) const BYTES: &str = "application/octet-stream";

/// Separates the parts of an answer with several ranges. Should a file hold it, nothing breaks: each
/// part tells where it is in the whole, and so how long it is.
const BOUNDARY: &str = "fishplate-ranges-9a6d1f0c2b7e";

/// Data that is sent.
#[derive(Debug)]
pub(crate) struct Representation {
    /// Its bytes, which do not change.
    pub(crate) file: File,
    pub(crate) len: u64,
    /// A strong entity tag, with its quotes.
    pub(crate) tag: String,
    /// When it came to be.
    pub(crate) modified: Option<SystemTime>,
    /// Until when it may be had.
    pub(crate) expires: Option<Timestamp>,
    /// Empty if it is not known.
    pub(crate) media_type: String,
    /// The file's name; empty if it has none.
    pub(crate) name: String,
    pub(crate) digest: Option<Digest>,
}

/// Answers a GET or HEAD; also tells how many bytes will be sent.
pub(super) fn send(
    data: &Representation,
    method: &Method,
    asked: &HeaderMap,
) -> (HttpResponse, u64) {
    let len = data.len;
    let validators = Validators { tag: data.tag.clone(), modified: data.modified };
    let verdict = validators.judge(asked);
    let parts = match verdict {
        ConditionResult::Proceed => parts(&validators, method, asked, len),
        ConditionResult::NotModified | ConditionResult::Failed => RangeChoice::All,
    };
    let media_type = if data.media_type.is_empty() { BYTES } else { &data.media_type };
    let (status, content_type, sections) = match (verdict, parts) {
        (ConditionResult::Failed, _) => {
            let reply =
                text(412, "the data is not what If-Match or If-Unmodified-Since asks for\n");
            return (with_fields(reply, data), 0);
        }
        (ConditionResult::NotModified, _) => (304, None, Vec::new()),
        (_, RangeChoice::Nothing) => {
            let reply = text(416, &format!("there are {len} bytes, and none in that range\n"));
            let mut reply = with_fields(reply, data);
            put(&mut reply, header::CONTENT_RANGE, &format!("bytes */{len}"));
            return (reply, 0);
        }
        (_, RangeChoice::All) => {
            (200, Some(media_type.to_owned()), vec![BodySection::File { at: 0, len }])
        }
        (_, RangeChoice::Parts(parts)) => {
            let (content_type, sections) = match &parts[..] {
                [part] => (media_type.to_owned(), vec![section(part)]),
                _ => multipart(&parts, media_type, len),
            };
            let mut reply = match body(data, method, sections) {
                Ok(body) => with_body(206, Some(&content_type), body),
                Err(fault) => return (problem::reply(&fault, asked), 0),
            };
            if let [part] = &parts[..] {
                let told = format!("bytes {}-{}/{len}", part.start, part.end - 1);
                put(&mut reply, header::CONTENT_RANGE, &told);
            }
            let sent = parts.iter().map(|part| part.end - part.start).sum();
            return (with_fields(reply, data), if method == Method::HEAD { 0 } else { sent });
        }
    };
    match body(data, method, sections) {
        Ok(body) => {
            let reply = with_fields(with_body(status, content_type.as_deref(), body), data);
            (reply, if status == 200 && method != Method::HEAD { len } else { 0 })
        }
        Err(fault) => (problem::reply(&fault, asked), 0),
    }
}

/// What to send; a range means something to GET only (RFC 9110, section 14.2).
fn parts(validators: &Validators, method: &Method, asked: &HeaderMap, len: u64) -> RangeChoice {
    match lines(asked, &header::RANGE) {
        Some(range) if method == Method::GET && validators.allows_range(asked) => {
            wanted(&range, len)
        }
        _ => RangeChoice::All,
    }
}

fn section(part: &Range<u64>) -> BodySection {
    BodySection::File { at: part.start, len: part.end - part.start }
}

fn multipart(parts: &[Range<u64>], media_type: &str, len: u64) -> (String, Vec<BodySection>) {
    let mut sections = Vec::new();
    for part in parts {
        let head = format!(
            "\r\n--{BOUNDARY}\r\nContent-Type: {media_type}\r\nContent-Range: bytes {}-{}/{len}\r\n\r\n",
            part.start,
            part.end - 1
        );
        sections.push(BodySection::Bytes(Bytes::from(head)));
        sections.push(section(part));
    }
    sections.push(BodySection::Bytes(Bytes::from(format!("\r\n--{BOUNDARY}--\r\n"))));
    (format!("multipart/byteranges; boundary={BOUNDARY}"), sections)
}

fn body(
    data: &Representation,
    method: &Method,
    sections: Vec<BodySection>,
) -> Result<HttpBody, Fault> {
    if sections.is_empty() {
        return Ok(HttpBody::bytes(""));
    }
    let body = match method {
        // Only its length is looked at.
        &Method::HEAD => HttpBody::length_of(&sections),
        _ => {
            let file = data.file.try_clone().map_err(|error| {
                tracing::error!(%error, "data of the pool could not be opened");
                let what = "the data could not be read; the server's log has more";
                Fault::new(FaultCode::Internal, what)
            })?;
            HttpBody::file(file, sections)
        }
    };
    Ok(body)
}

fn with_body(status: u16, content_type: Option<&str>, body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if let Some(content_type) = content_type {
        put(&mut reply, header::CONTENT_TYPE, content_type);
    }
    reply
}

fn text(status: u16, text: &str) -> HttpResponse {
    let body = HttpBody::bytes(text.to_owned());
    with_body(status, Some("text/plain; charset=utf-8"), body)
}

/// The fields that every answer about this data has.
fn with_fields(mut reply: HttpResponse, data: &Representation) -> HttpResponse {
    put(&mut reply, header::ETAG, &data.tag);
    put(&mut reply, header::ACCEPT_RANGES, "bytes");
    // It is for whoever has the address, not for those who share a cache with them.
    put(&mut reply, header::CACHE_CONTROL, "private");
    if let Some(modified) = data.modified {
        put(&mut reply, header::LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
    if let Some(expires) = data.expires {
        put(&mut reply, header::EXPIRES, &httpdate::fmt_http_date(moment(expires)));
    }
    if let Some(digest) = data.digest {
        put(&mut reply, REPR_DIGEST, &digest.to_string());
    }
    put(&mut reply, header::CONTENT_DISPOSITION, &disposition(&data.name));
    put(&mut reply, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // What somebody uploaded is no page of ours, whatever it says it is.
    put(&mut reply, header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
    reply
}

/// A moment as the system counts it.
pub(super) fn moment(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

/// `Content-Disposition` with the file's name: as it is in UTF-8, and for those who don't know that
/// form as ASCII (RFC 6266).
pub(crate) fn disposition(name: &str) -> String {
    if name.is_empty() {
        return "attachment".to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " !#$&'()+,-.;=@[]^_`{}~".contains(c);
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let mut value = format!("attachment; filename=\"{ascii}\"");
    if ascii != name {
        value.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    value.push(char::from(byte));
                }
                byte => value.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_is_told_to_old_readers_and_new_ones() {
        assert_eq!(disposition(""), "attachment");
        assert_eq!(disposition("a b.dat"), "attachment; filename=\"a b.dat\"");
        assert_eq!(
            disposition("Rohr \"ä\".msh"),
            "attachment; filename=\"Rohr ___.msh\"; filename*=UTF-8''Rohr%20%22%C3%A4%22.msh"
        );
        assert_eq!(
            disposition("a\r\nb"),
            "attachment; filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab"
        );
    }
}
