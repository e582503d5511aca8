//! HTTP/1.1 as far as an endpoint needs it (RFC 9112): heads, bodies by length or in chunks, answers. `httparse` reads the lines.

use std::io;

use httparse::{EMPTY_HEADER, Status, parse_chunk_size};

/// Header fields of a request, at the most.
const FIELDS: usize = 64;
/// Bytes of a trailer or of a chunk's first line, at the most.
const LONGEST_LINE: usize = 4 << 10;

/// What a sender says that is connected directly: acknowledgements may come late. It is named in `Connection`, so nobody passes it on
/// (RFC 9110, 7.6.1).
pub(super) const PIPELINED: &str = "Fishplate-Pipelined";
/// What a frame is answered with.
pub(super) const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
/// What a request is told that waits for it before its body.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request that can't be read; the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpError(pub(super) &'static str);

/// What the head of a request says.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) host: String,
    /// What stands behind `Authorization: Bearer`.
    pub(super) bearer: Option<String>,
    pub(super) content_type: String,
    pub(super) soap_action: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) body: Body,
    pub(super) pipelined: bool,
    pub(super) expects_continue: bool,
    /// It is the last one of its connection.
    pub(super) close: bool,
}

/// The head that `bytes` begin with and its length; `None` if it is not all here.
pub(super) fn read_request(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, HttpError> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(_) => return Err(HttpError("it is no request of HTTP/1.1")),
    };
    let target = request.path.unwrap_or_default();
    let (path, query) =
        target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut head = RequestHead {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.map(str::to_owned),
        close: request.version == Some(0),
        ..RequestHead::default()
    };
    let mut length_told = None;
    for field in request.headers.iter() {
        let value = || String::from_utf8_lossy(field.value).trim().to_owned();
        let listed =
            |word: &str| value().split(',').any(|one| one.trim().eq_ignore_ascii_case(word));
        match field.name.to_ascii_lowercase().as_str() {
            "host" => head.host = value(),
            "authorization" => {
                let value = value();
                let (scheme, token) = value.split_once(' ').unwrap_or_default();
                head.bearer =
                    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned());
            }
            "content-type" => head.content_type = value(),
            "soapaction" => head.soap_action = Some(value()),
            "accept" => head.accept = Some(value()),
            "content-length" => {
                let told = super::layout::read_number(value().as_bytes());
                let told = told.filter(|_| !field.value.is_empty());
                let told = told.ok_or(HttpError("its Content-Length is no number"))?;
                if length_told.replace(told).is_some_and(|before| before != told) {
                    return Err(HttpError("it has two lengths"));
                }
            }
            "transfer-encoding" if listed("chunked") && !value().contains(',') => {
                head.body = Body::Chunk(ChunkState::Size);
            }
            "transfer-encoding" => return Err(HttpError("its Transfer-Encoding is not known")),
            "connection" => head.close |= listed("close"),
            "expect" => head.expects_continue = value().eq_ignore_ascii_case("100-continue"),
            name if name.eq_ignore_ascii_case(PIPELINED) => head.pipelined = true,
            _ => {}
        }
    }
    match (length_told, head.body) {
        (Some(_), Body::Chunk(_)) => return Err(HttpError("it has a length and chunks")),
        (Some(length), _) => head.body = Body::Length(length),
        _ => {}
    }
    Ok(Some((head, length)))
}

/// What is to come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks (RFC 9112, 7.1).
    Chunk(ChunkState),
}

/// Where in its chunks a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    Size,
    Content(u64),
    /// The line end behind a chunk.
    End,
    Trailer,
    Over,
}

impl Default for Body {
    fn default() -> Self {
        Self::Length(0)
    }
}

/// What the next bytes of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodySpan {
    /// These are not content.
    pub(super) skipped: usize,
    /// Those behind them are.
    pub(super) content: usize,
}

impl Body {
    /// All of it was taken.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunk(ChunkState::Over))
    }

    /// Takes from the beginning of `bytes`; nothing if more has to come first.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<BodySpan, HttpError> {
        let content = |left: &mut u64| {
            let content = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            *left -= content as u64;
            Ok(BodySpan { skipped: 0, content })
        };
        let state = match self {
            Self::Length(left) => return content(left),
            Self::Chunk(ChunkState::Content(left)) if *left > 0 => return content(left),
            Self::Chunk(state) => state,
        };
        let wait = BodySpan { skipped: 0, content: 0 };
        let skip = |skipped| Ok(BodySpan { skipped, content: 0 });
        match state {
            ChunkState::Size => match parse_chunk_size(bytes) {
                Ok(Status::Complete((length, size))) => {
                    *state =
                        if size == 0 { ChunkState::Trailer } else { ChunkState::Content(size) };
                    skip(length)
                }
                Ok(Status::Partial) if bytes.len() < LONGEST_LINE => Ok(wait),
                _ => Err(HttpError("a chunk has no size")),
            },
            ChunkState::Content(_) | ChunkState::End => {
                *state = ChunkState::End;
                match bytes {
                    [b'\r', b'\n', ..] => {
                        *state = ChunkState::Size;
                        skip(2)
                    }
                    [] | [b'\r'] => Ok(wait),
                    _ => Err(HttpError("a chunk is longer than its size")),
                }
            }
            ChunkState::Trailer => match bytes.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    if bytes[..end].trim_ascii().is_empty() {
                        *state = ChunkState::Over;
                    }
                    skip(end + 1)
                }
                None if bytes.len() < LONGEST_LINE => Ok(wait),
                None => Err(HttpError("a trailer has no end")),
            },
            ChunkState::Over => Ok(wait),
        }
    }
}

/// An answer, whole.
pub(super) fn answer(status: u16, fields: &[(&str, &str)], body: &[u8], close: bool) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let mut text = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if close {
        text.push_str("Connection: close\r\n");
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An answer that a sender got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HttpReply<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
    /// Bytes of all of it.
    pub(super) length: usize,
}

/// The answer that `bytes` begin with; `None` if it is not all here. One whose length nobody knows is none of a rank's.
pub(super) fn read_answer(bytes: &[u8]) -> io::Result<Option<HttpReply<'_>>> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let strange = || io::Error::other("it gave a strange answer");
    let head = match response.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < LONGEST_ANSWER => return Ok(None),
        _ => return Err(strange()),
    };
    let told = response.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let body = match told {
        Some(field) => super::layout::read_number(field.value.trim_ascii()),
        None => (response.code == Some(202) || response.code < Some(200)).then_some(0),
    };
    let body =
        body.and_then(|body| usize::try_from(body).ok()).filter(|&body| body < LONGEST_ANSWER);
    let length = head + body.ok_or_else(strange)?;
    let status = response.code.unwrap_or_default();
    Ok(bytes.get(head..length).map(|body| HttpReply { status, body, length }))
}

/// Bytes of an answer to a frame, at the most: those of a fault are about a thousand.
const LONGEST_ANSWER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The content of a body, given in pieces of so many bytes.
    fn content(mut body: Body, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), HttpError> {
        let (mut content, mut at, mut end) = (Vec::new(), 0, 0);
        while !body.is_over() {
            let taken = body.take(&bytes[at..end])?;
            content.extend_from_slice(&bytes[at + taken.skipped..][..taken.content]);
            at += taken.skipped + taken.content;
            if taken.skipped + taken.content == 0 {
                if end == bytes.len() {
                    return Err(HttpError("cut off"));
                }
                end = (end + piece).min(bytes.len());
            }
        }
        Ok((content, at))
    }

    #[test]
    fn chunks_are_joined_however_they_are_cut() {
        let sent = b"5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: x\r\n\r\nGET";
        for piece in 1..sent.len() {
            let joined = content(Body::Chunk(ChunkState::Size), sent, piece);
            assert_eq!(joined, Ok((b"hello world".to_vec(), sent.len() - 3)), "{piece}");
        }
        for wrong in [&b"5\r\nhello!\r\n"[..], b"x\r\n", b"5\r\nhell"] {
            assert!(content(Body::Chunk(ChunkState::Size), wrong, 3).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(bytes: Vec<u8>) {
            let _ = read_request(&bytes);
            let _ = read_answer(&bytes);
            let _ = content(Body::Chunk(ChunkState::Size), &bytes, 2);
        }
    }

    #[test]
    fn a_request_says_what_it_is() {
        let text = b"POST /a?wsdl HTTP/1.1\r\nHost: h\r\nauthorization: bearer x\r\nContent-Length: 0012\r\n\
                     Connection: Fishplate-Pipelined, close\r\nFishplate-Pipelined: 1\r\n\r\nbody";
        let (head, length) = read_request(text).unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.query.as_deref()), ("/a", Some("wsdl")));
        assert_eq!((head.bearer.as_deref(), head.body), (Some("x"), Body::Length(12)));
        assert!(head.pipelined && head.close);
        assert_eq!(&text[length..], b"body");
        assert!(read_request(&text[..length - 1]).unwrap().is_none());
        for wrong in [
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: -1",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip",
        ] {
            let text = format!("POST / HTTP/1.1\r\n{wrong}\r\n\r\n");
            assert!(read_request(text.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let fault = answer(500, &[("Content-Type", "text/xml")], b"<fault/>", false);
        let both = [ACCEPTED, &fault].concat();
        let first = read_answer(&both).unwrap().unwrap();
        assert_eq!((first.status, first.length), (202, ACCEPTED.len()));
        let second = read_answer(&both[first.length..]).unwrap().unwrap();
        assert_eq!(
            (second.status, second.body, second.length),
            (500, &b"<fault/>"[..], fault.len())
        );
        assert_eq!(read_answer(&fault[..fault.len() - 1]).unwrap(), None);
        assert!(read_answer(b"SSH-2.0-x\r\n").is_err());
    }
}
