//! Answers: a status, a type, and a body that is streamed if it is large.

use std::fmt;
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use fishplate_contract::JobState;
use fishplate_jobs::engine::EphemeralJob;
use fishplate_mcp::transport::AnswerBody;
use fishplate_wire::{PackedMessage, Segment};
use futures_util::{Stream, TryStreamExt as _};
use http_body_util::BodyDataStream;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::connections::RequestGuard;
use super::direct::FileQueue;
use super::file::{BodySection, FileBody, total};
use super::message::MessageBody;
use crate::data::Transfer;
use crate::memory::MemoryReservation;

/// A body up to this length is joined into one piece.
const JOINED: u64 = 64 << 10;

/// An answer to a request of HTTP.
pub type HttpResponse = Response<HttpBody>;

/// An answer of this status, whose content is what its type says and nothing else; a field whose value can't be one is left out.
pub(crate) fn reply_with(
    status: StatusCode,
    fields: &[(HeaderName, &str)],
    body: HttpBody,
) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    put(&mut reply, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    for (name, value) in fields {
        put(&mut reply, name.clone(), value);
    }
    reply
}

/// Sets a field; a value that can't be one is left out.
pub(crate) fn put(reply: &mut HttpResponse, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

/// A body of an answer: its bytes, or a stream.
#[derive(Debug)]
pub struct HttpBody {
    content: Content,
    /// Bytes that are still to come; `None` if only sending them tells.
    left: Option<u64>,
    /// The job whose results are in it, until all of it was sent.
    job: Option<EphemeralJob>,
    memory: MemoryReservation,
    /// The connection answers until this goes.
    busy: Option<RequestGuard>,
    /// The transfer that it is, if it is noted as one.
    transfer: Option<Transfer>,
}

#[derive(Debug)]
enum Content {
    Bytes(Option<Bytes>),
    /// Parts in memory and in files.
    Message(Box<MessageBody>),
    /// Parts of one file, as it is.
    File(Box<FileBody>),
    /// What somebody else answers.
    Passed(Box<Incoming>),
    /// What is told as it happens.
    Stream(ChunkStream),
}

type BoxedStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

struct ChunkStream(BoxedStream);

impl fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkStream")
    }
}

impl HttpBody {
    fn new(content: Content, left: Option<u64>) -> Self {
        let (job, memory, busy) = (None, MemoryReservation::default(), None);
        Self { content, left, job, memory, busy, transfer: None }
    }

    /// These bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let left = Some(bytes.len() as u64);
        Self::new(Content::Bytes(Some(bytes)), left)
    }

    /// A packed message. A small one is one piece.
    pub fn packed(packed: PackedMessage) -> Self {
        let left = packed.len;
        let bytes = packed.segments.iter().all(|segment| matches!(segment, Segment::Bytes(_)));
        let small = left.is_some_and(|left| left <= JOINED) || packed.segments.len() == 1;
        let content = if bytes && small {
            Content::Bytes(Some(joined(packed.segments)))
        } else {
            Content::Message(Box::new(MessageBody::new(packed.segments)))
        };
        Self::new(content, left)
    }

    /// Sections of a body; those that are no bytes are in this file. (As long as it is open, its lease
    /// lasts: a lock is the open file's.)
    pub fn file(file: File, sections: Vec<BodySection>) -> Self {
        let left = Some(total(&sections));
        Self::new(Content::File(Box::new(FileBody::new(file, sections))), left)
    }

    /// The body of somebody else's answer, as it comes.
    pub(crate) fn passed(body: Incoming) -> Self {
        let left = body.size_hint().exact();
        Self::new(Content::Passed(Box::new(body)), left)
    }

    /// What is told as it happens, until nothing more is.
    pub(crate) fn stream(stream: BoxedStream) -> Self {
        Self::new(Content::Stream(ChunkStream(stream)), None)
    }

    /// What the SDK of MCP answers.
    pub(crate) fn of_mcp(body: AnswerBody) -> Self {
        let left = body.size_hint().exact();
        let chunks = BodyDataStream::new(body).map_err(|never| match never {});
        Self::new(Content::Stream(ChunkStream(Box::pin(chunks))), left)
    }

    /// A body of this length for an answer to HEAD: nobody reads it.
    pub fn length_of(sections: &[BodySection]) -> Self {
        Self::new(Content::Bytes(None), Some(total(sections)))
    }

    /// Only sending it tells its length.
    pub(super) fn is_stream(&self) -> bool {
        self.left.is_none()
    }

    /// This connection sends files by itself.
    pub(super) fn through(&mut self, outlet: &FileQueue) {
        if let Content::File(body) = &mut self.content {
            body.through(outlet);
        }
    }

    /// The connection is busy as long as this body is being sent.
    pub(super) fn keep_busy(&mut self, busy: RequestGuard) {
        self.busy = Some(busy);
    }

    /// The job is delivered once all of it was handed to the connection.
    pub fn delivers(&mut self, job: EphemeralJob) {
        self.job = Some(job);
        // Nobody polls an empty body.
        if self.left == Some(0) {
            self.ended();
        }
    }

    /// Has what is sent of it counted as a transfer.
    pub(crate) fn count_as(&mut self, transfer: Transfer) {
        self.transfer = Some(transfer);
    }

    /// Keeps the memory that the message has for as long as the body lives.
    pub fn keep(&mut self, memory: MemoryReservation) {
        self.memory = memory;
    }

    fn took(&mut self, bytes: &Bytes) {
        self.transfer.iter_mut().for_each(|transfer| transfer.went += bytes.len() as u64);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
            if *left == 0 {
                self.ended();
            }
        }
    }

    fn ended(&mut self) {
        self.transfer.iter_mut().for_each(|transfer| transfer.state = JobState::Done);
        if let Some(job) = self.job.take() {
            job.delivered();
        }
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.content {
            Content::Bytes(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok),
            Content::Message(body) => std::task::ready!(body.poll_next(context)),
            Content::File(body) => std::task::ready!(body.poll_next(context)),
            Content::Stream(ChunkStream(stream)) => {
                std::task::ready!(stream.as_mut().poll_next(context))
            }
            Content::Passed(body) => std::task::ready!(next_data(&mut **body, context)),
        };
        match &next {
            Some(Ok(bytes)) => self.took(bytes),
            Some(Err(_)) => {}
            None if self.left.is_none() => self.ended(),
            None => {}
        }
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The next bytes of somebody else's body; trailers are left out.
fn next_data<B>(body: &mut B, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    loop {
        match std::task::ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
            None => return Poll::Ready(None),
        }
    }
}

fn joined(segments: Vec<Segment>) -> Bytes {
    let mut bytes = segments.into_iter().filter_map(|segment| match segment {
        Segment::Bytes(bytes) => Some(bytes),
        Segment::Data { .. } => None,
    });
    let first = bytes.next().unwrap_or_default();
    let Some(second) = bytes.next() else { return first };
    let mut all = BytesMut::from(first);
    all.extend_from_slice(&second);
    bytes.for_each(|bytes| all.extend_from_slice(&bytes));
    all.freeze()
}
