//! Delivery: PUT, or POST of what is not to be stored.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use fishplate_contract::Payload;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tokio::sync::mpsc;
use url::Url;

use super::ask::{HttpRequest, Requester, refused};
use super::body::{SizedBody, local};
use crate::transfer::{Delivery, PostKey, TransferError};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// Tells a message that is posted again from another one.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How much of a file is read at once.
const PIECE: usize = 1 << 20;
/// Pieces that wait for the connection.
const WAITING: usize = 2;

pub(super) async fn deliver(
    asking: &Requester,
    parcel: &Delivery,
    to: &Url,
) -> Result<Option<Url>, TransferError> {
    let len = parcel.payload.len().unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    if let Ok(media_type) = HeaderValue::try_from(&parcel.media_type)
        && !parcel.media_type.is_empty()
    {
        headers.insert(CONTENT_TYPE, media_type);
    }
    if let Some(digest) = parcel.digest.and_then(|digest| digest.to_string().parse().ok()) {
        headers.insert(REPR_DIGEST, digest);
    }
    let body = || {
        // A redirect, or a connection that had gone, begins again.
        parcel.progress.set(0);
        Ok(SizedBody::new(pieces(&parcel.payload)?, len, parcel.progress.clone()))
    };
    // A string of structured fields (RFC 9651), which has its quotes.
    let key = parcel.posts.as_ref().map(|PostKey(key)| format!("\"{key}\""));
    if let Some(key) = key.and_then(|key| HeaderValue::try_from(key).ok()) {
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    let method = if parcel.posts.is_some() { Method::POST } else { Method::PUT };
    let answer = asking.ask(to, &HttpRequest { method, headers, body: &body }).await?;
    if !answer.response.status().is_success() {
        return Err(refused(answer).await);
    }
    Ok(created(&answer.response, &answer.url))
}

/// Where what was put is, if that is elsewhere (RFC 9110, section 15.3.2).
fn created<B>(answer: &Response<B>, asked: &Url) -> Option<Url> {
    let location =
        answer.headers().get(LOCATION).filter(|_| answer.status() == StatusCode::CREATED)?;
    let made = asked.join(location.to_str().ok()?).ok()?;
    let can_be_told = matches!(made.scheme(), "http" | "https") && made.username().is_empty();
    (can_be_told && made.password().is_none() && made != *asked).then_some(made)
}

fn pieces(payload: &Payload) -> Result<mpsc::Receiver<io::Result<Bytes>>, TransferError> {
    if let Some(pieces) = payload.pieces() {
        let (send, receive) = mpsc::channel(pieces.len().max(1));
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let _ = send.try_send(Ok(piece.clone())); // there is room for all
        }
        return Ok(receive);
    }
    let Payload::Spooled(held) = payload else {
        return Err(TransferError::Unsupported("a reference can't be delivered".to_owned()));
    };
    let (path, len) = (held.path().to_owned(), held.len());
    let held = std::sync::Arc::clone(held); // what it holds stays until all was read
    let file = File::open(&path).map_err(local)?;
    let (send, receive) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = read(file, len, &send) {
            let _ = send.blocking_send(Err(context(&path, &error)));
        }
        drop(held);
    });
    Ok(receive)
}

fn read(file: File, len: u64, to: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let mut file = file.take(len);
    loop {
        let mut piece = BytesMut::zeroed(PIECE);
        let mut got = 0;
        while got < PIECE {
            match file.read(&mut piece[got..])? {
                0 => break,
                more => got += more,
            }
        }
        piece.truncate(got);
        if got == 0 || to.blocking_send(Ok(piece.freeze())).is_err() {
            return Ok(()); // all was read, or nobody wants it any more
        }
    }
}

fn context(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_where_the_other_end_says() {
        let asked = Url::parse("http://there.example/data/mesh").unwrap();
        let made = |status: u16, location: &str| {
            let answer = Response::builder().status(status).header(LOCATION, location);
            created(&answer.body(()).unwrap(), &asked).map(String::from)
        };
        let token = "http://there.example/data/TOKEN/mesh";
        assert_eq!(made(201, token).as_deref(), Some(token));
        assert_eq!(made(201, "TOKEN/mesh").as_deref(), Some(token));
        assert_eq!(made(201, "mesh"), None);
        for not_told in ["http://me:secret@there.example/x", "file:///etc/passwd", "http://["] {
            assert_eq!(made(201, not_told), None);
        }
        assert_eq!(made(204, token), None);
    }
}
