//! The gateway: by `/domains/DOMAIN/RANK`, through the server's one port, those elsewhere reach a rank that runs here
//! (docs/decisions/0023).
//!
//! Ranks ask for a connection (`Upgrade`), and what either side says then is passed on as it is, whatever the transport. Any other request
//! passes alone: its head without what is of one connection only, its body byte for byte. The permission is the domain's
//! credential.

use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode};
use fishplate_ranks::transport::route::PROTOCOL;
use fishplate_ranks::transport::url;
use fishplate_ranks::{DomainId, Rank};
use futures_util::stream::try_unfold;
use http_body_util::{Either, Empty, StreamBody};
use hyper::body::{Body, Frame};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::audit::CALLER;
use crate::host::Host;
use crate::http::body::Incoming;
use crate::http::timeout::TimeoutStream;
use crate::http::{HttpBody, HttpResponse};

/// The first segment of its addresses, and the service name by which a policy knows them.
pub(crate) const DOMAINS: &str = "domains";

/// Bytes that are passed on at once, each way.
const PIECE: usize = 256 << 10;
/// When somebody who finds no place may ask again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

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

/// Where a rank is, at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankAddress {
    domain: DomainId,
    rank: Rank,
}

impl RankAddress {
    /// That of a path below the public URL.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (domain, rank) = url::member(path).filter(|_| path.starts_with(DOMAINS))?;
        Some(Self { domain, rank })
    }
}

/// Where a rank is, below a server's public URL.
pub(crate) fn url(public_url: &str, domain: DomainId, rank: Rank) -> String {
    format!("{public_url}/{DOMAINS}/{domain}/{rank}")
}

/// A connection to a rank for somebody who may have it.
#[derive(Debug)]
pub(crate) struct Passage {
    to: TcpStream,
    turn: OwnedSemaphorePermit,
    /// Where it leads, as others know it.
    url: String,
    stall: Duration,
}

/// Connects to a rank.
///
/// # Errors
/// `Unauthenticated` without the domain's credential, whether the domain is here or not; `QueueFull`; `Unavailable`, if it can't be
/// reached.
pub(crate) async fn admit(
    host: &Host,
    address: RankAddress,
    headers: &HeaderMap,
) -> Result<Passage, Fault> {
    let RankAddress { domain, rank } = address;
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let bearer = shown.map(|(_, bearer)| bearer.trim()).unwrap_or_default();
    let found = host.domains.locate(domain, rank).filter(|found| {
        found.credential.is(bearer) || found.credential.is_token(bearer, domain, rank)
    });
    let Some(found) = found else {
        let what = "a rank is reached with the credential of its domain (Authorization: Bearer CREDENTIAL), and no domain of this \
                    server that was named has the one that was shown";
        let fault = Fault::new(FaultCode::Unauthenticated, what);
        host.audit.refusal(None, CALLER.try_with(|client| *client).ok(), &fault);
        return Err(fault);
    };
    let at = found.socket(&host.engine).await?.ok_or_else(|| {
        let what =
            format!("rank {rank} of the domain is not here: it runs elsewhere, or has ended");
        Fault::new(FaultCode::Unavailable, what)
    })?;
    let turn = host.domains.passages().try_acquire_owned().map_err(|_| {
        let most = host.settings.gateway_connections;
        let what = format!("the gateway has {most} connections to ranks, and all are in use");
        Fault::new(FaultCode::QueueFull, what)
            .limit("gateway_connections", most as u64)
            .retry_after(ASK_AGAIN)
    })?;
    let connected = timeout(host.settings.header_timeout, TcpStream::connect(at)).await;
    let to = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let to = to.and_then(|to| to.set_nodelay(true).map(|()| to)).map_err(|error| {
        Fault::new(FaultCode::Unavailable, format!("rank {rank} can't be reached: {error}"))
    })?;
    let url = url(&host.settings.public_url, domain, rank);
    Ok(Passage { to, turn, url, stall: host.settings.answer_stall })
}

impl Passage {
    /// Passes on what comes: a connection, if that is asked for; else one request.
    pub(crate) async fn pass<B>(self, asked: Parts, body: Incoming<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Display,
    {
        let wanted = asked.headers.get(header::UPGRADE).map(HeaderValue::as_bytes);
        if asked.method == Method::GET
            && wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(PROTOCOL.as_bytes()))
        {
            return self.switch(asked);
        }
        match self.pass_request(asked, body).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::debug!(%error, "a request to a rank did not get through");
                let what = format!("the rank did not answer: {error}\n");
                with_status(StatusCode::BAD_GATEWAY, HttpBody::bytes(what))
            }
        }
    }

    /// From the answer on, the connection is one to the rank.
    fn switch(self, asked: Parts) -> HttpResponse {
        let Self { to, turn, stall, url } = self;
        let upgrade = hyper::upgrade::on(Request::from_parts(asked, ()));
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
            drop(turn);
        });
        let mut reply = with_status(StatusCode::SWITCHING_PROTOCOLS, HttpBody::bytes(""));
        let fields = reply.headers_mut();
        fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
        reply
    }

    async fn pass_request<B>(
        self,
        mut asked: Parts,
        body: Incoming<B>,
    ) -> Result<HttpResponse, Box<dyn std::error::Error + Send + Sync>>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Display,
    {
        // The whole URL (RFC 9112, 3.2.2), so that the rank's WSDL has it.
        let query = asked.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        asked.uri = format!("{}{query}", self.url).parse::<Uri>()?;
        asked.extensions.clear();
        strip(&mut asked.headers);
        let (mut sender, connection) = http1::handshake(TokioIo::new(self.to)).await?;
        let turn = self.turn;
        tokio::spawn(async move {
            // Its end is that of the answer too, which tells why.
            let _ = connection.await;
            drop(turn);
        });
        let body = if body.is_untouched() {
            Either::Right(StreamBody::new(try_unfold(body, async |mut body| {
                let next = body.next().await;
                let next = next.map_err(|error| io::Error::other(error.into_fault().message))?;
                Ok::<_, io::Error>(next.map(|bytes| (Frame::data(bytes), body)))
            })))
        } else {
            Either::Left(Empty::new())
        };
        let answer = sender.send_request(Request::from_parts(asked, body)).await?;
        let (mut head, body) = answer.into_parts();
        strip(&mut head.headers);
        Ok(Response::from_parts(head, HttpBody::passed(body)))
    }
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

fn with_status(status: StatusCode, body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

fn strip(headers: &mut HeaderMap) {
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

    use super::*;

    #[test]
    fn an_address_is_of_a_rank_or_none() {
        let domain = DomainId::from_bytes([7; 16]);
        let address = RankAddress { domain, rank: 3 };
        assert_eq!(RankAddress::of(&format!("domains/{domain}/3")), Some(address));
        for other in
            [format!("domain/{domain}/3"), format!("x/domains/{domain}/3"), "domains".to_owned()]
        {
            assert_eq!(RankAddress::of(&other), None, "{other}");
        }
    }

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
