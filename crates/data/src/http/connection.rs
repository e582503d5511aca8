//! A connection that speaks HTTP/1.1, one request after the other.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection as Http1, SendRequest};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, Join, ReadBuf, ReadHalf, WriteHalf, join, split};

use super::dial::DialedStream;

/// A body that can be sent.
pub trait RequestBody:
    Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
    B::Data: Send,
{
}

/// A connection.
pub(super) struct Connection<B: RequestBody> {
    send: SendRequest<B>,
    driver: Http1<TokioIo<LimitedStream>, B>,
    over: bool,
    interim: Arc<InterimCount>,
}

/// Interim answers (1xx) since the last request. hyper skips them, as many as there are, and does not
/// let others have their turn as long as there are more.
struct InterimCount {
    count: AtomicU32,
    most: u32,
}

/// A stream whose reading fails when there were too many interim answers.
type LimitedStream = Join<LimitedReader, WriteHalf<Box<dyn DialedStream>>>;

struct LimitedReader {
    stream: ReadHalf<Box<dyn DialedStream>>,
    interim: Arc<InterimCount>,
}

impl<B: RequestBody> Connection<B> {
    /// A connection on which so many interim answers may come before an answer.
    pub(super) async fn new(
        stream: Box<dyn DialedStream>,
        most_interim: u32,
    ) -> Result<Self, hyper::Error> {
        let interim = Arc::new(InterimCount { count: AtomicU32::new(0), most: most_interim });
        let (stream, writer) = split(stream);
        let bounded = join(LimitedReader { stream, interim: Arc::clone(&interim) }, writer);
        let (send, driver) = Builder::new().handshake(TokioIo::new(bounded)).await?;
        Ok(Self { send, driver, over: false, interim })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn ask(
        &mut self,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, TrySendError<Request<B>>> {
        self.interim.count.store(0, Ordering::Relaxed);
        let interim = Arc::clone(&self.interim);
        on_informational(&mut request, move |_| {
            interim.count.fetch_add(1, Ordering::Relaxed);
        });
        let mut answering = pin!(self.send.try_send_request(request));
        let (driver, over) = (&mut self.driver, &mut self.over);
        std::future::poll_fn(|context| {
            drive(driver, over, context);
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
        drive(&mut self.driver, &mut self.over, context);
        Pin::new(body).poll_frame(context)
    }

    /// Whether it takes another request.
    pub(super) fn is_free(&mut self) -> bool {
        // Whoever uses it next waits with a waker of his own.
        drive(&mut self.driver, &mut self.over, &mut Context::from_waker(Waker::noop()));
        !self.over && self.send.is_ready()
    }
}

fn drive<B: RequestBody>(
    driver: &mut Http1<TokioIo<LimitedStream>, B>,
    over: &mut bool,
    context: &mut Context<'_>,
) {
    // Its error is told to whoever waits for the answer or the body.
    if !*over && Pin::new(driver).poll(context).is_ready() {
        *over = true;
    }
}

impl AsyncRead for LimitedReader {
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
