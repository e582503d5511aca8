//! A connection that speaks HTTP/1.1, one request after the other.
//!
//! Nothing runs beside: whoever waits for an answer, or reads a body, drives the connection. So a
//! byte does not change threads on its way, and what nobody reads is not received.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, Parts, SendRequest};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use url::Url;

use super::body::Sending;
use super::connect::Stream;
use super::{broken, peer};
use crate::transfer::TransferError;

/// Servers close idle connections after some time; ours go before.
const IDLE: Duration = Duration::from_secs(20);
/// Idle connections that are kept to one peer.
const KEPT: usize = 64;

type Wire = TokioIo<Bounded>;

/// A connection.
pub(super) struct Line {
    send: SendRequest<Sending>,
    connection: Connection<Wire, Sending>,
    over: bool,
    interim: Arc<Interim>,
}

/// Interim answers (1xx) since the last request. hyper skips them, as many as there are, and does not
/// let others have their turn as long as there are more.
struct Interim {
    count: AtomicU32,
    most: u32,
}

/// A stream that fails when there were too many interim answers.
pub(super) struct Bounded {
    stream: Box<dyn Stream>,
    interim: Arc<Interim>,
}

impl Line {
    /// A connection on which so many interim answers may come before an answer.
    pub(super) async fn new(
        stream: Box<dyn Stream>,
        most_interim: u32,
        url: &Url,
    ) -> Result<Self, TransferError> {
        let interim = Arc::new(Interim { count: AtomicU32::new(0), most: most_interim });
        let bounded = Bounded { stream, interim: Arc::clone(&interim) };
        let made = Builder::new().handshake(TokioIo::new(bounded)).await;
        let (send, connection) = made.map_err(|error| broken(&peer(url), &error))?;
        Ok(Self { send, connection, over: false, interim })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn ask(
        &mut self,
        mut request: Request<Sending>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.interim.count.store(0, Ordering::Relaxed);
        let interim = Arc::clone(&self.interim);
        on_informational(&mut request, move |_| {
            interim.count.fetch_add(1, Ordering::Relaxed);
        });
        let mut answering = pin!(self.send.send_request(request));
        let (connection, over) = (&mut self.connection, &mut self.over);
        std::future::poll_fn(|context| {
            drive(connection, over, context);
            answering.as_mut().poll(context)
        })
        .await
    }

    /// The next frame of an answer's body.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        drive(&mut self.connection, &mut self.over, context);
        Pin::new(body).poll_frame(context)
    }

    /// The connection alone: what was read of it and not yet given to the body comes with it.
    pub(super) fn into_parts(self) -> (Box<dyn Stream>, Bytes) {
        let Parts { io, read_buf, .. } = self.connection.into_parts();
        (io.into_inner().stream, read_buf)
    }

    /// Whether it takes another request.
    async fn is_free(&mut self) -> bool {
        std::future::poll_fn(|context| {
            drive(&mut self.connection, &mut self.over, context);
            Poll::Ready(())
        })
        .await;
        !self.over && self.send.is_ready()
    }
}

fn drive(connection: &mut Connection<Wire, Sending>, over: &mut bool, context: &mut Context<'_>) {
    // Its error is told to whoever waits for the answer or the body.
    if !*over && Pin::new(connection).poll(context).is_ready() {
        *over = true;
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = self.interim.most;
        if self.interim.count.load(Ordering::Relaxed) > most {
            let what = format!("it sends more than {most} interim answers (transfer_interim)");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Connections that wait for another request.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Idle>>);

#[derive(Default)]
struct Idle {
    lines: HashMap<String, Vec<(Line, Instant)>>,
    /// Somebody will come and close those that have waited too long.
    swept: bool,
}

impl Lines {
    /// A connection to this peer that takes a request.
    pub(super) async fn take(&self, url: &Url) -> Option<Line> {
        loop {
            let (mut line, since) = self.with(|idle| idle.lines.get_mut(&peer(url))?.pop())?;
            if since.elapsed() < IDLE && line.is_free().await {
                return Some(line);
            }
        }
    }

    /// Keeps a connection of which the last answer was read, if it takes another request.
    pub(super) async fn keep(&self, mut line: Line, url: &Url) {
        if !line.is_free().await {
            return;
        }
        let sweep = self.with(|idle| {
            let lines = idle.lines.entry(peer(url)).or_default();
            if lines.len() < KEPT {
                lines.push((line, Instant::now()));
            }
            !std::mem::replace(&mut idle.swept, true)
        });
        if sweep {
            tokio::spawn(sweeping(Arc::downgrade(&self.0)));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Idle) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Closes connections that wait for too long, until none waits.
async fn sweeping(idle: std::sync::Weak<Mutex<Idle>>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.lines.retain(|_, lines| {
            lines.retain(|(_, since)| since.elapsed() < IDLE);
            !lines.is_empty()
        });
        if idle.lines.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
