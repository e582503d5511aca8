//! A connection to the server, plain or in TLS, and one exchange over it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::response::{AnswerReader, BadAnswer};
use crate::request::outgoing::Outgoing;

/// The most that is read at once.
const READ: usize = 64 << 10;
/// The most pieces of a request that are written at once.
const SLICES: usize = 16;
/// The receive buffer of a slow reader: what it does not read the server can't write.
const SLOW_BUFFER: u32 = 4 << 10;

/// Where requests go.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) addresses: Vec<SocketAddr>,
    /// With it, TLS.
    pub(crate) tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

/// A connection.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Why an exchange gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Io(io::Error),
    #[error(transparent)]
    Answer(#[from] BadAnswer),
}

impl Connection {
    /// Connects to the first address that answers.
    pub(crate) async fn open(target: &Target, slow: bool) -> io::Result<Self> {
        let stream = connect(&target.addresses, slow).await?;
        stream.set_nodelay(true)?;
        let Some((config, name)) = &target.tls else { return Ok(Self::Plain(stream)) };
        let connector = TlsConnector::from(Arc::clone(config));
        Ok(Self::Tls(Box::new(connector.connect(name.clone(), stream).await?)))
    }

    /// Whether the server has closed it, or said something that nobody asked for, since it was used.
    pub(crate) fn is_stale(&mut self) -> bool {
        let mut space = [MaybeUninit::uninit(); 1];
        let mut buffer = ReadBuf::uninit(&mut space);
        let mut context = Context::from_waker(Waker::noop());
        self.poll_read(&mut context, &mut buffer).is_ready()
    }

    /// Sends the bytes of a request up to `end` and reads the answer; with a rate, in bytes a second, no faster than
    /// that. How long it waited for its rate.
    ///
    /// An answer may come before the request was sent: then the rest of it is not.
    pub(crate) async fn exchange(
        &mut self,
        outgoing: &Outgoing,
        end: usize,
        answer: &mut AnswerReader,
        rate: Option<u64>,
    ) -> Result<Duration, Broken> {
        let mut sending = Sending { sent: 0, end, flushed: false, failed: None };
        let most =
            rate.map_or(READ, |rate| usize::try_from(rate / 10).unwrap_or(READ).clamp(1, READ));
        let mut pace = rate.map(Pace::new);
        loop {
            if poll_fn(|context| self.poll_step(context, outgoing, &mut sending, answer, most))
                .await?
            {
                return Ok(pace.map_or(Duration::ZERO, |pace| pace.waited));
            }
            if let Some(pace) = &mut pace {
                pace.wait(answer.received()).await;
            }
        }
    }

    /// Writes what can be written and reads once; whether the answer is whole.
    fn poll_step(
        &mut self,
        context: &mut Context<'_>,
        outgoing: &Outgoing,
        sending: &mut Sending,
        answer: &mut AnswerReader,
        most: usize,
    ) -> Poll<Result<bool, Broken>> {
        sending.poll(self, context, outgoing);
        let mut space = [MaybeUninit::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut space[..most]);
        match self.poll_read(context, &mut buffer) {
            Poll::Pending => match sending.failed.take() {
                // Nobody will answer what could not be sent.
                Some(error) => Poll::Ready(Err(Broken::Io(error))),
                None => Poll::Pending,
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Io(error))),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                answer.end()?;
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Ok(())) => {
                let done = answer.feed(buffer.filled())?;
                if done && sending.sent < sending.end {
                    answer.leave();
                }
                Poll::Ready(Ok(done))
            }
        }
    }

    /// Sends the bytes of a request up to `end`, and waits until the server closes the connection.
    pub(crate) async fn send_part(&mut self, outgoing: &Outgoing, end: usize) -> io::Result<()> {
        let mut sending = Sending { sent: 0, end, flushed: false, failed: None };
        poll_fn(|context| {
            sending.poll(self, context, outgoing);
            if let Some(error) = sending.failed.take() {
                return Poll::Ready(Err(error));
            }
            loop {
                let mut space = [MaybeUninit::uninit(); READ];
                let mut buffer = ReadBuf::uninit(&mut space);
                match self.poll_read(context, &mut buffer) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                    Poll::Ready(ended) => return Poll::Ready(ended),
                }
            }
        })
        .await
    }

    /// Closes it so that its port does not wait (no TIME_WAIT): the answer is whole, nothing is on its way.
    pub(crate) fn close(self) {
        let stream = match &self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        // Without it the port waits a minute, no more.
        let _ = stream.set_zero_linger();
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
}

async fn connect(addresses: &[SocketAddr], slow: bool) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if slow {
            socket.set_recv_buffer_size(SLOW_BUFFER)?;
        }
        match socket.connect(*address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// How much of a request was sent.
struct Sending {
    sent: usize,
    end: usize,
    /// TLS has given all of it to the network.
    flushed: bool,
    failed: Option<io::Error>,
}

impl Sending {
    /// Writes what can be written. A failure is kept: an answer may be there nevertheless.
    fn poll(&mut self, to: &mut Connection, context: &mut Context<'_>, outgoing: &Outgoing) {
        while self.sent < self.end && self.failed.is_none() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = outgoing.slices(self.sent, self.end, &mut slices);
            match to.poll_write(context, &slices[..count]) {
                Poll::Ready(Ok(0)) => self.failed = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => self.sent += written,
                Poll::Ready(Err(error)) => self.failed = Some(error),
                Poll::Pending => return,
            }
        }
        if !self.flushed && self.failed.is_none() {
            match to.poll_flush(context) {
                Poll::Ready(Ok(())) => self.flushed = true,
                Poll::Ready(Err(error)) => self.failed = Some(error),
                Poll::Pending => {}
            }
        }
    }
}

/// Keeps a reader slow.
struct Pace {
    rate: u64,
    begun: Option<Instant>,
    waited: Duration,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self { rate, begun: None, waited: Duration::ZERO }
    }

    /// Waits until so many bytes may have been read.
    async fn wait(&mut self, received: u64) {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        #[expect(clippy::cast_precision_loss, reason = "a wait")]
        let may = begun + Duration::from_secs_f64(received as f64 / self.rate as f64);
        if may > now {
            tokio::time::sleep_until(may).await;
            self.waited += now.elapsed();
        }
    }
}
