//! How requests and connections are passed on: to ranks, and to sites of which this server is the relay.

use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::Fault;
use futures_util::stream::try_unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Body, Frame, Incoming as Answer};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::http::body::Incoming;
use crate::http::timeout::TimeoutStream;
use crate::http::{HttpBody, HttpResponse};
use crate::status::{Protocol, retry_after, status};

/// Bytes that are passed on at once, each way.
const PIECE: usize = 256 << 10;

/// Fields that are of one connection only, beside those that `Connection` names (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // It was obeyed on the way here.
    header::EXPECT,
];

/// A request's body on its way on.
pub(crate) type PassedBody = UnsyncBoxBody<Bytes, io::Error>;

/// A request was not answered.
pub(crate) type PassError = Box<dyn std::error::Error + Send + Sync>;

/// Whether a request is one for a connection in this protocol (RFC 9110, 7.8).
pub(crate) fn asks_for(method: &Method, headers: &HeaderMap, protocol: &str) -> bool {
    *method == Method::GET && is_upgrade_to(headers, protocol)
}

/// Whether a connection in this protocol is asked for, or granted.
pub(crate) fn is_upgrade_to(fields: &HeaderMap, protocol: &str) -> bool {
    let named = fields.get(header::UPGRADE).map(HeaderValue::as_bytes);
    named.is_some_and(|named| named.eq_ignore_ascii_case(protocol.as_bytes()))
}

/// A request to be passed on: its head without what is of one connection only, its body byte for byte.
pub(super) fn request_to_pass<B>(mut asked: Parts, body: Incoming<B>) -> Request<PassedBody>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    asked.extensions.clear();
    strip(&mut asked.headers);
    let body = if body.is_untouched() {
        StreamBody::new(try_unfold(body, async |mut body| {
            let next = body.next().await;
            let next = next.map_err(|error| io::Error::other(error.into_fault().message))?;
            Ok::<_, io::Error>(next.map(|bytes| (Frame::data(bytes), body)))
        }))
        .boxed_unsync()
    } else {
        nothing()
    };
    Request::from_parts(asked, body)
}

/// An answer that is passed back, likewise.
pub(super) fn passed(answer: Response<Answer>) -> HttpResponse {
    let (mut head, body) = answer.into_parts();
    strip(&mut head.headers);
    Response::from_parts(head, HttpBody::passed(body))
}

/// The body of a request that has none.
pub(crate) fn nothing() -> PassedBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The answer to a request that did not get through: 502 if nobody knows what came of it; a fault says by itself what it is, as of a request of
/// which nothing was sent.
pub(crate) fn not_answered(who: &str, error: &PassError) -> HttpResponse {
    tracing::debug!(%error, who, "a request that is passed on was not answered");
    let Some(fault) = error.downcast_ref::<Fault>() else {
        let what = format!("{who} did not answer: {error}\n");
        return with_status(StatusCode::BAD_GATEWAY, HttpBody::bytes(what));
    };
    let code = StatusCode::from_u16(status(Protocol::Http, fault.code));
    let code = code.unwrap_or(StatusCode::BAD_GATEWAY);
    let mut reply = with_status(code, HttpBody::bytes(format!("{fault}\n")));
    if let Some(seconds) = retry_after(fault) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

/// Two ends that are joined: what either says goes to the other, whatever it is.
pub(super) struct Passage<T> {
    /// What is kept until it has ended.
    pub(super) permit: T,
    /// Where it leads, as others know it.
    pub(super) url: String,
    /// How long one end may take nothing, or stay after the other has ended.
    pub(super) stall: Duration,
}

impl<T: Send + 'static> Passage<T> {
    /// The answer to a request for a connection, which from then on is one to this other end.
    pub(super) fn switch(
        self,
        upgrade: OnUpgrade,
        to: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        protocol: &'static str,
    ) -> HttpResponse {
        let Self { permit, url, stall } = self;
        tokio::spawn(async move {
            let passed = async {
                let from = upgrade.await.map_err(io::Error::other)?;
                // Who takes nothing for too long is let go; it dials again.
                let to = TimeoutStream::new(to, stall, Duration::ZERO, None);
                pass_on(TokioIo::new(from), to, stall).await
            };
            match passed.await {
                Ok((sent, answered)) => tracing::debug!(url, sent, answered, "a passage ended"),
                Err(error) => tracing::debug!(url, %error, "a passage broke"),
            }
            drop(permit);
        });
        switched(protocol)
    }
}

/// The answer to a request for a connection in this protocol: it is one from here on.
pub(super) fn switched(protocol: &'static str) -> HttpResponse {
    let mut reply = with_status(StatusCode::SWITCHING_PROTOCOLS, HttpBody::bytes(""));
    upgrade_to(reply.headers_mut(), protocol);
    reply
}

/// Asks for a connection in this protocol, or grants it.
pub(crate) fn upgrade_to(fields: &mut HeaderMap, protocol: &'static str) {
    fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static(protocol));
}

fn with_status(status: StatusCode, body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

/// Passes on what either side says; once one has ended, the other may go on for `stall`.
async fn pass_on(
    from: impl AsyncRead + AsyncWrite + Unpin,
    to: impl AsyncRead + AsyncWrite + Unpin,
    stall: Duration,
) -> io::Result<(u64, u64)> {
    let ended = Notify::new();
    let mut from = Side { stream: from, ended: &ended };
    let mut to = Side { stream: to, ended: &ended };
    tokio::select! {
        passed = copy_bidirectional_with_sizes(&mut from, &mut to, PIECE, PIECE) => passed,
        () = async { ended.notified().await; sleep(stall).await } => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "one side has ended, and the other has not"))
        }
    }
}

/// One side of what is passed on, which tells when it has ended.
struct Side<'a, S> {
    stream: S,
    ended: &'a Notify,
}

impl<S: AsyncRead + Unpin> AsyncRead for Side<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.remaining();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && before > 0 && buffer.remaining() == before {
            self.ended.notify_one();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Side<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Takes out what is of one connection only.
pub(super) fn strip(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed = listed.flat_map(|value| value.split(','));
    let listed: Vec<HeaderName> = listed.filter_map(|name| name.trim().parse().ok()).collect();
    for name in listed.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_side_that_does_not_end_after_the_other_is_let_go() {
        const STALL: Duration = Duration::from_secs(60);
        let (ours, mut sender) = duplex(16);
        let (far, mut rank) = duplex(16);
        let passing = tokio::spawn(pass_on(ours, far, STALL));
        sender.write_all(b"last").await.unwrap();
        // One that only says nothing is not let go.
        sleep(10 * STALL).await;
        sender.shutdown().await.unwrap();
        let mut said = String::new();
        rank.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "last");
        rank.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        sender.read_exact(&mut answer).await.unwrap();
        let passed = timeout(2 * STALL, passing).await.expect("it ends").unwrap();
        assert_eq!(passed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_is_of_one_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "Fishplate-Pipelined, keep-alive"),
            ("connection", "close"),
            ("fishplate-pipelined", "1"),
            ("te", "trailers"),
            ("content-length", "7"),
            ("authorization", "Bearer x"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["content-length", "authorization"]);
    }
}
