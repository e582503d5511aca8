//! An HTTP/1.1 answer as it comes (RFC 9112), cut anywhere. Sans-IO.

use ring::digest::{Context, Digest, SHA256};

/// The longest head that is read.
const HEAD: usize = 64 << 10;
/// The most headers in one.
const HEADERS: usize = 96;
/// So much of a body is kept to see whether it is a fault, if nothing else is asked of it.
pub(super) const FAULT_LENGTH: usize = 16 << 10;
/// What a client keeps of a buffer that had to grow.
const KEPT: usize = 1 << 20;

/// What is wrong with an answer: it can't be told where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAnswer {
    #[error("the answer is no HTTP/1.1")]
    Head,
    #[error("the answer's head is longer than 64 KiB or has more than 96 headers")]
    LongHead,
    #[error("the answer's body has more than {0} bytes (limits.answer_size)")]
    LongBody(usize),
    #[error("a chunk's length can't be read")]
    Chunk,
    #[error("the connection ended in the middle of the answer")]
    Cut,
    #[error("the connection ended before any answer")]
    None,
}

/// What is kept of answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    /// The whole body, if it has no more bytes than that; otherwise its beginning only.
    pub(crate) body: Option<usize>,
    /// Its SHA-256.
    pub(crate) digest: bool,
    /// Cookies that it sets.
    pub(crate) cookies: bool,
}

/// Reads one answer after another; its buffers are used again.
#[derive(Default)]
pub(crate) struct AnswerReader {
    state: State,
    keep: Keep,
    /// The beginning of a head that is not whole yet.
    head: Vec<u8>,
    status: u16,
    /// The connection can be used again.
    reusable: bool,
    body: Vec<u8>,
    digest: Option<Context>,
    cookies: Vec<String>,
    sets_cookies: bool,
    received: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes are missing.
    Length(u64),
    Chunked(Chunk),
    /// It ends with the connection.
    Close,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// The digits of its length.
    Size { length: u64, digits: u8 },
    /// What may follow them.
    Extension { length: u64 },
    /// So many bytes are missing.
    Data(u64),
    /// The end of its line.
    DataEnd,
    /// The headers after the last chunk; whether the line has something in it.
    Trailer { empty: bool },
}

impl AnswerReader {
    /// Begins anew.
    pub(crate) fn begin(&mut self, keep: Keep) {
        self.state = State::Head;
        self.keep = keep;
        self.head.clear();
        self.body.clear();
        self.body.shrink_to(KEPT);
        self.digest = keep.digest.then(|| Context::new(&SHA256));
        self.cookies.clear();
        self.sets_cookies = false;
        self.received = 0;
        self.status = 0;
        self.reusable = false;
    }

    /// Takes what has come; whether the answer is whole now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<bool, BadAnswer> {
        self.received += bytes.len() as u64;
        let mut rest = bytes;
        if self.state == State::Head {
            rest = match self.feed_head(bytes)? {
                Some(used) => &bytes[used..],
                None => return Ok(false),
            };
        }
        match self.state {
            State::Head => {}
            State::Length(left) => {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                self.add(&rest[..take])?;
                rest = &rest[take..];
                let left = left - take as u64;
                self.state = if left == 0 { State::Done } else { State::Length(left) };
            }
            State::Chunked(chunk) => rest = self.feed_chunks(chunk, rest)?,
            State::Close => {
                self.add(rest)?;
                rest = &[];
            }
            State::Done => {}
        }
        // More than one answer: nobody asked for it.
        self.reusable &= rest.is_empty();
        Ok(self.state == State::Done)
    }

    /// The connection has ended.
    pub(crate) fn end(&mut self) -> Result<(), BadAnswer> {
        match self.state {
            State::Close | State::Done => {
                self.state = State::Done;
                self.reusable = false;
                Ok(())
            }
            State::Head if self.received == 0 => Err(BadAnswer::None),
            _ => Err(BadAnswer::Cut),
        }
    }

    /// How many bytes of the slice belong to heads, once one is whole that is none of 1xx.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        let before = self.head.len();
        let joined = before > 0;
        if joined {
            self.head.extend_from_slice(bytes);
        }
        let head = std::mem::take(&mut self.head);
        let mut whole: &[u8] = if joined { &head } else { bytes };
        let all = whole.len();
        let used = loop {
            match self.parse_head(whole)? {
                None => {
                    self.head = whole.to_vec();
                    return if self.head.len() > HEAD {
                        Err(BadAnswer::LongHead)
                    } else {
                        Ok(None)
                    };
                }
                Some(used) => {
                    whole = &whole[used..];
                    if !(100..200).contains(&self.status) {
                        break all - whole.len();
                    }
                }
            }
        };
        Ok(Some(used - before))
    }

    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadAnswer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let used = match answer.parse(bytes) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(BadAnswer::LongHead),
            Err(_) => return Err(BadAnswer::Head),
        };
        self.status = answer.code.unwrap_or(0);
        self.reusable = answer.version == Some(1);
        let (mut length, mut chunked) = (None, false);
        for header in answer.headers.iter() {
            let value = header.value;
            if header.name.eq_ignore_ascii_case("content-length") {
                let told =
                    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
                length = Some(told.ok_or(BadAnswer::Head)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = has_token(value, "chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                if has_token(value, "close") {
                    self.reusable = false;
                } else if has_token(value, "keep-alive") {
                    self.reusable = true;
                }
            } else if header.name.eq_ignore_ascii_case("set-cookie") {
                self.sets_cookies = true;
                if self.keep.cookies {
                    let pair = value.split(|byte| *byte == b';').next().unwrap_or_default();
                    self.cookies.push(String::from_utf8_lossy(pair).trim().to_owned());
                }
            }
        }
        // RFC 9112, section 6.3.
        self.state = match (self.status, chunked, length) {
            (100..200, ..) => State::Head,
            (204 | 304, ..) => State::Done,
            (_, true, _) => State::Chunked(Chunk::Size { length: 0, digits: 0 }),
            (_, false, Some(0)) => State::Done,
            (_, false, Some(length)) => State::Length(length),
            (_, false, None) => State::Close,
        };
        Ok(Some(used))
    }

    fn feed_chunks<'b>(&mut self, chunk: Chunk, bytes: &'b [u8]) -> Result<&'b [u8], BadAnswer> {
        let mut chunk = chunk;
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if let Chunk::Data(left) = chunk {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                self.add(&rest[..take])?;
                rest = &rest[take..];
                let left = left - take as u64;
                chunk = if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) };
                continue;
            }
            rest = &rest[1..];
            chunk = match (chunk, byte) {
                (Chunk::Size { digits: 0, .. }, b'\n' | b'\r' | b';') => {
                    return Err(BadAnswer::Chunk);
                }
                (Chunk::Size { length, .. } | Chunk::Extension { length }, b'\n') => match length {
                    0 => Chunk::Trailer { empty: true },
                    length => Chunk::Data(length),
                },
                (Chunk::Size { length, .. }, b';' | b' ' | b'\t' | b'\r')
                | (Chunk::Extension { length }, _) => Chunk::Extension { length },
                (Chunk::Size { length, digits }, digit) => {
                    let value = char::from(digit).to_digit(16).ok_or(BadAnswer::Chunk)?;
                    if digits == 15 {
                        return Err(BadAnswer::Chunk);
                    }
                    Chunk::Size { length: length * 16 + u64::from(value), digits: digits + 1 }
                }
                (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
                (Chunk::DataEnd, b'\n') => Chunk::Size { length: 0, digits: 0 },
                (Chunk::DataEnd, _) => return Err(BadAnswer::Chunk),
                (Chunk::Trailer { empty: true }, b'\n') => {
                    self.state = State::Done;
                    return Ok(rest);
                }
                (Chunk::Trailer { .. }, b'\n') => Chunk::Trailer { empty: true },
                (Chunk::Trailer { empty }, b'\r') => Chunk::Trailer { empty },
                (Chunk::Trailer { .. }, _) => Chunk::Trailer { empty: false },
                (Chunk::Data(left), _) => Chunk::Data(left),
            };
        }
        self.state = State::Chunked(chunk);
        Ok(rest)
    }

    fn add(&mut self, data: &[u8]) -> Result<(), BadAnswer> {
        if let Some(digest) = &mut self.digest {
            digest.update(data);
        }
        let room = self.keep.body.unwrap_or(FAULT_LENGTH).saturating_sub(self.body.len());
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        match self.keep.body {
            Some(most) if data.len() > room => Err(BadAnswer::LongBody(most)),
            _ => Ok(()),
        }
    }

    /// Its status; 0 before there is one.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Its body, or the beginning of it.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The digest of its body, once.
    pub(crate) fn digest(&mut self) -> Option<Digest> {
        self.digest.take().map(Context::finish)
    }

    /// Cookies that it sets, as `NAME=VALUE`.
    pub(crate) fn cookies(&self) -> &[String] {
        &self.cookies
    }

    /// Whether it sets cookies, kept or not.
    pub(crate) fn sets_cookies(&self) -> bool {
        self.sets_cookies
    }

    /// Bytes that came, head included.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The request was not sent to its end: no other can go over the same connection.
    pub(crate) fn leave(&mut self) {
        self.reusable = false;
    }

    /// Another request can go over the same connection.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable && self.state == State::Done
    }
}

fn has_token(value: &[u8], token: &str) -> bool {
    let mut tokens = value.split(|byte| *byte == b',');
    tokens.any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Read {
        status: u16,
        body: Vec<u8>,
        cookies: Vec<String>,
        reusable: bool,
    }

    fn read(pieces: &[&[u8]]) -> Result<Read, BadAnswer> {
        let mut reader = AnswerReader::default();
        reader.begin(Keep { body: Some(1 << 20), digest: true, cookies: true });
        let mut done = false;
        for piece in pieces {
            assert!(!done || piece.is_empty(), "there is more than the answer");
            done |= reader.feed(piece)?;
        }
        if !done {
            reader.end()?;
        }
        let right = ring::digest::digest(&SHA256, reader.body());
        assert_eq!(reader.digest().expect("it was asked for").as_ref(), right.as_ref());
        Ok(Read {
            status: reader.status(),
            body: reader.body().to_vec(),
            cookies: reader.cookies().to_vec(),
            reusable: reader.is_reusable(),
        })
    }

    const ANSWERS: [(&str, u16, &str, bool); 7] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true),
        ("HTTP/1.1 500 no\r\ncontent-length: 0\r\nConnection: close\r\n\r\n", 500, "", false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, chunks!!\r\n0\r\nT: x\r\n\r\n",
            200,
            "hello, chunks!!",
            true,
        ),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, "", true),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            true,
        ),
    ];

    #[test]
    fn answers_are_read() {
        for (answer, status, body, reusable) in ANSWERS {
            let read = read(&[answer.as_bytes()]).expect(answer);
            assert_eq!(
                (read.status, &read.body[..], read.reusable),
                (status, body.as_bytes(), reusable),
                "{answer}"
            );
        }
    }

    #[test]
    fn cookies_are_told_without_what_is_said_of_them() {
        let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: JSESSIONID=a1; Path=/\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&[answer.as_bytes()]).expect("fine").cookies, ["JSESSIONID=a1", "b=2"]);
    }

    #[test]
    fn what_is_no_whole_answer_is_an_error() {
        for (answer, error) in [
            ("", BadAnswer::None),
            ("HTTP/1.1 200 OK\r\n", BadAnswer::Cut),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", BadAnswer::Cut),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello", BadAnswer::Head),
            ("SSH-2.0-x\r\n\r\n", BadAnswer::Head),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", BadAnswer::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", BadAnswer::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX", BadAnswer::Chunk),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", BadAnswer::Cut),
        ] {
            assert_eq!(read(&[answer.as_bytes()]), Err(error), "{answer:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD));
        assert_eq!(read(&[long.as_bytes()]), Err(BadAnswer::LongHead));
    }

    #[test]
    fn more_than_was_asked_for_ends_the_connection() {
        let mut reader = AnswerReader::default();
        reader.begin(Keep::default());
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200";
        assert_eq!(reader.feed(two), Ok(true));
        assert!(!reader.is_reusable());
    }

    proptest! {
        #[test]
        fn an_answer_is_the_same_however_it_is_cut(
            which in 0..ANSWERS.len(),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let answer = ANSWERS[which].0.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(answer.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&answer[from..cut]);
                from = cut;
            }
            pieces.push(&answer[from..]);
            prop_assert_eq!(read(&pieces), read(&[answer]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = AnswerReader::default();
            reader.begin(Keep { body: Some(1 << 20), digest: true, cookies: true });
            let _ = reader.feed(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat());
            reader.begin(Keep::default());
            let _ = reader.feed(&bytes);
        }
    }
}
