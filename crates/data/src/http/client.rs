//! One request, and its answer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, RequestBody};
use super::dial::dial;
use super::idle::Idle;
use super::tls::{self, TlsError, Trust};
use crate::transfer::{Addresses, TransferError};

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("fishplate/", env!("CARGO_PKG_VERSION")));

/// Connections that are kept and used again. It connects to what `addresses` gives it, and to nothing
/// else.
pub struct Client<B: RequestBody> {
    addresses: Arc<dyn Addresses>,
    trust: Trust,
    connect_time: Duration,
    interim: u32,
    idle: Idle<B>,
    /// Made when it is needed: reading the system's certificates takes longer than a call.
    tls: OnceLock<TlsConnector>,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host has no address that may be asked.
    #[error("{0}")]
    Address(TransferError),
    /// No connection came about, so nothing was sent.
    #[error("{0}")]
    Connect(io::Error),
    /// The same: it took longer than this.
    #[error("no connection came about within {0:?}")]
    Late(Duration),
    /// The same: there are no certificates to trust.
    #[error("{0}")]
    Tls(TlsError),
    /// The connection broke; what was sent may have arrived.
    #[error("the connection broke: {error}")]
    Broken {
        /// What hyper says of it.
        error: hyper::Error,
        /// It was one that had waited since the request before: its peer may just have closed it,
        /// which says nothing of this request.
        reused: bool,
    },
}

impl<B: RequestBody> Client<B> {
    /// A client that trusts these authorities. A connection may take
    /// `connect_time`, name and TLS included; before an answer at most `interim` others (1xx) may come.
    pub fn new(
        addresses: Arc<dyn Addresses>,
        trust: Trust,
        connect_time: Duration,
        interim: u32,
    ) -> Self {
        let (idle, tls) = (Idle::default(), OnceLock::new());
        Self { addresses, trust, connect_time, interim, idle, tls }
    }

    /// Sends a request to an absolute `http:` or `https:` address and waits for the head of the answer,
    /// which may be a redirect. A request of which nothing was sent goes over another connection.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(
        &self,
        mut request: Request<B>,
    ) -> Result<Response<ResponseBody<B>>, ClientError> {
        let uri = prepare(&mut request);
        let peer = peer(&uri);
        while let Some(mut connection) = self.idle.take(&peer) {
            match connection.ask(request).await {
                Ok(answer) => return Ok(self.answered(answer, connection, peer)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => {
                        return Err(ClientError::Broken {
                            error: error.into_error(),
                            reused: true,
                        });
                    }
                },
            }
        }
        // On the heap: it is much larger than what a kept connection takes, and moved about with it.
        let mut connection = Box::pin(self.connect(&uri)).await?;
        let answer = connection.ask(request).await;
        let answer = answer.map_err(|error| newly_broken(error.into_error()))?;
        Ok(self.answered(answer, connection, peer))
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<Connection<B>>, ClientError> {
        let tls = if uri.scheme() == Some(&Scheme::HTTPS) {
            Some(self.tls().map_err(ClientError::Tls)?)
        } else {
            None
        };
        let (stream, _) = dial(uri, &*self.addresses, tls, self.connect_time).await?;
        Connection::new(stream, self.interim).await.map(Box::new).map_err(newly_broken)
    }

    fn answered(
        &self,
        answer: Response<Incoming>,
        connection: Box<Connection<B>>,
        peer: String,
    ) -> Response<ResponseBody<B>> {
        let idle = self.idle.clone();
        answer.map(|body| {
            let mut body = ResponseBody { body, connection: Some(connection), idle, peer };
            if body.body.is_end_stream() {
                body.end();
            }
            body
        })
    }

    /// Whether TLS can be spoken: told before the first request.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn check_tls(&self) -> Result<(), TlsError> {
        self.tls().map(drop)
    }

    fn tls(&self) -> Result<&TlsConnector, TlsError> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls);
        }
        let mut config = tls::config(&self.trust)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(self.tls.get_or_init(|| TlsConnector::from(Arc::new(config))))
    }
}

impl<B: RequestBody> std::fmt::Debug for Client<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("connect_time", &self.connect_time).finish_non_exhaustive()
    }
}

/// A connection broke before its first answer.
fn newly_broken(error: hyper::Error) -> ClientError {
    ClientError::Broken { error, reused: false }
}

/// Gives a request the form that goes over a connection (RFC 9112, section 3.2.1); the address it had.
fn prepare<B>(request: &mut Request<B>) -> Uri {
    let path = request.uri().path_and_query().cloned();
    let path = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    let uri = std::mem::replace(request.uri_mut(), path);
    let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
    // A user's name and password are nobody's business.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Ok(host) = HeaderValue::from_str(host) {
        request.headers_mut().insert(HOST, host);
    }
    request.headers_mut().insert(USER_AGENT, AGENT);
    uri
}

/// Scheme and authority: what a connection is good for.
fn peer(uri: &Uri) -> String {
    let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
    [uri.scheme_str().unwrap_or_default(), "://", authority].concat()
}

/// The body of an answer. Its connection takes another request when all has come.
pub struct ResponseBody<B: RequestBody> {
    body: Incoming,
    /// `None` once all has come. It is large, and moved about with the answer.
    connection: Option<Box<Connection<B>>>,
    idle: Idle<B>,
    peer: String,
}

impl<B: RequestBody> ResponseBody<B> {
    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.keep(connection, &self.peer);
        }
    }
}

impl<B: RequestBody> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let Some(connection) = &mut this.connection else { return Poll::Ready(None) };
        let frame = ready!(connection.poll_frame(&mut this.body, context));
        match &frame {
            None => this.end(),
            Some(Err(_)) => this.connection = None,
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.connection.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: RequestBody> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Empty};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::http::{SystemAddresses, idle};

    /// Answers any number of requests over each connection, with the connection's number; tells the
    /// numbers of those that the client closed.
    async fn counting() -> (String, mpsc::UnboundedReceiver<u32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (tell, closed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut line = String::new();
                    while stream.read_line(&mut line).await.unwrap() > 0 {
                        if line.ends_with("\r\n\r\n") {
                            let answer =
                                format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                            stream.write_all(answer.as_bytes()).await.unwrap();
                            line.clear();
                        }
                    }
                    tell.send(number)
                });
            }
        });
        (url, closed)
    }

    async fn asked(client: &Client<Empty<Bytes>>, url: &str) -> String {
        let answer = client.send(Request::get(url).body(Empty::new()).unwrap()).await.unwrap();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_connection_waits_for_the_next_request_but_not_for_long() {
        let (url, mut closed) = counting().await;
        let hour = Duration::from_secs(3600);
        let client = Client::new(Arc::new(SystemAddresses), Trust::System, hour, 0);
        assert_eq!(asked(&client, &url).await, "0");
        assert_eq!(asked(&client, &url).await, "0");
        tokio::time::pause();
        // From here on time passes where everybody waits: until the connection is swept.
        let begun = tokio::time::Instant::now();
        let most = idle::LIFE + idle::SWEEP_EVERY;
        assert_eq!(tokio::time::timeout(most, closed.recv()).await, Ok(Some(0)));
        assert!(begun.elapsed() >= idle::LIFE, "{:?}", begun.elapsed());
        tokio::time::resume();
        assert_eq!(asked(&client, &url).await, "1");
    }

    #[test]
    fn the_header_host_is_host_and_port_alone() {
        for (url, expected) in [
            ("http://me:secret@h.example:81/x", "h.example:81"),
            ("http://me@[::1]/x", "[::1]"),
            ("https://h.example/x", "h.example"),
        ] {
            let mut request = Request::get(url).body(()).unwrap();
            prepare(&mut request);
            assert_eq!(request.headers()[HOST], expected);
        }
    }
}
