//! A connection that speaks HTTP/1.1, one request after the other.
//!
//! Nothing runs beside: whoever waits for an answer, or reads a body, drives the connection. So a
//! byte does not change threads on its way, and what nobody reads is not received.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, Parts, SendRequest};
use hyper_util::rt::TokioIo;
use url::Url;

use super::body::Sending;
use super::connect::Stream;
use super::{broken, peer};
use crate::transfer::TransferError;

/// Servers close idle connections after some time; ours go before.
const IDLE: Duration = Duration::from_secs(20);
/// Idle connections that are kept to one peer.
const KEPT: usize = 64;

pub(super) type Wire = TokioIo<Box<dyn Stream>>;

/// A connection.
pub(super) struct Line {
    send: SendRequest<Sending>,
    connection: Connection<Wire, Sending>,
    over: bool,
}

impl Line {
    pub(super) async fn new(wire: Wire, url: &Url) -> Result<Self, TransferError> {
        let made = Builder::new().handshake(wire).await;
        let (send, connection) = made.map_err(|error| broken(&peer(url), &error))?;
        Ok(Self { send, connection, over: false })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<Sending>,
    ) -> Result<Response<Incoming>, hyper::Error> {
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
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        drive(&mut self.connection, &mut self.over, context);
        Pin::new(body).poll_frame(context)
    }

    /// The connection alone: what was read of it and not yet given to the body comes with it.
    pub(super) fn into_parts(self) -> Parts<Wire> {
        self.connection.into_parts()
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
