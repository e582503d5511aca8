//! Answers: a status, a type, and a body that is streamed if it is large.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use fishplate_contract::{Held, JobId};
use fishplate_jobs::engine::Engine;
use fishplate_wire::{Outgoing, Packed, Segment, Step};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::direct::Outlet;
use super::file::{FileBody, Section, total};
use crate::memory::Reserved;

/// What is read of a file at once.
const CHUNK: usize = 512 << 10;

/// What is encoded at once of a payload in memory: the runtime does it between two writes.
const ENCODED: usize = 128 << 10;

/// A body up to this length is joined into one piece.
const JOINED: u64 = 64 << 10;

/// Chunks read ahead of the connection.
const READ_AHEAD: usize = 2;

/// An answer to a request of HTTP.
pub type Reply = hyper::Response<ReplyBody>;

/// A body of an answer: its bytes, or a stream.
#[derive(Debug)]
pub struct ReplyBody {
    content: Content,
    /// Bytes that are still to come; `None` if only sending them tells.
    left: Option<u64>,
    sent: Option<Sent>,
    memory: Reserved,
}

#[derive(Debug)]
enum Content {
    Bytes(Option<Bytes>),
    /// All of it is in memory.
    Memory(Box<Outgoing>),
    /// Some of it is in files, which a thread reads. An empty chunk is the last.
    Stream(mpsc::Receiver<io::Result<Bytes>>),
    /// Parts of one file, as it is.
    File(Box<FileBody>),
}

/// What to do once all of a body was sent: forget the job whose results it held.
#[derive(Debug)]
struct Sent {
    engine: Engine,
    job: JobId,
}

impl ReplyBody {
    /// These bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let left = Some(bytes.len() as u64);
        Self { content: Content::Bytes(Some(bytes)), left, sent: None, memory: Reserved::default() }
    }

    /// A packed message. A small one is one piece; files are read beside the runtime while
    /// what was read before is sent.
    pub fn packed(packed: Packed) -> Self {
        let left = packed.len;
        let bytes = packed.segments.iter().all(|segment| matches!(segment, Segment::Bytes(_)));
        let small = left.is_some_and(|left| left <= JOINED) || packed.segments.len() == 1;
        if bytes && small {
            return Self {
                content: Content::Bytes(Some(joined(packed.segments))),
                left,
                sent: None,
                memory: Reserved::default(),
            };
        }
        let in_memory = packed.segments.iter().all(Segment::is_in_memory);
        let content = if in_memory {
            Content::Memory(Box::new(Outgoing::new(packed.segments, ENCODED)))
        } else {
            let (send, receive) = mpsc::channel(READ_AHEAD);
            let outgoing = Outgoing::new(packed.segments, CHUNK);
            tokio::task::spawn_blocking(move || {
                // If nobody reads on, there is nobody to tell.
                let _ = match stream(outgoing, &send) {
                    Ok(()) => send.blocking_send(Ok(Bytes::new())),
                    Err(error) => {
                        tracing::error!(%error, "an output could not be read");
                        // The connection is cut: what was announced does not come.
                        send.blocking_send(Err(error))
                    }
                };
            });
            Content::Stream(receive)
        };
        Self { content, left, sent: None, memory: Reserved::default() }
    }

    /// Sections of a body; those that are no bytes are in this file. (As long as it is open, its lease
    /// lasts: a lock is the open file's.)
    pub fn file(file: File, sections: Vec<Section>) -> Self {
        let left = Some(total(&sections));
        let content = Content::File(Box::new(FileBody::new(file, sections)));
        Self { content, left, sent: None, memory: Reserved::default() }
    }

    /// A body of this length for an answer to HEAD: nobody reads it.
    pub fn length_of(sections: &[Section]) -> Self {
        let left = Some(total(sections));
        Self { content: Content::Bytes(None), left, sent: None, memory: Reserved::default() }
    }

    /// This connection sends files by itself.
    pub(super) fn through(&mut self, outlet: &Outlet) {
        if let Content::File(body) = &mut self.content {
            body.through(outlet);
        }
    }

    /// Once all of it was handed to the connection, the job is released.
    pub fn then_release(&mut self, engine: Engine, job: JobId) {
        self.sent = Some(Sent { engine, job });
        // Nobody polls an empty body.
        if self.left == Some(0) {
            self.ended();
        }
    }

    /// Keeps the memory that the message has for as long as the body lives.
    pub fn keep(&mut self, memory: Reserved) {
        self.memory = memory;
    }

    fn took(&mut self, bytes: &Bytes) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
            if *left == 0 {
                self.ended();
            }
        }
    }

    fn ended(&mut self) {
        if let Some(Sent { engine, job }) = self.sent.take() {
            engine.release(job);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.content {
            Content::Bytes(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok),
            Content::Memory(outgoing) => outgoing.step().map(|step| match step {
                Step::Send(bytes) => Ok(bytes),
                Step::Read { .. } => Err(io::Error::other("a file where all is in memory")),
            }),
            Content::Stream(receive) => match std::task::ready!(receive.poll_recv(context)) {
                Some(Ok(last)) if last.is_empty() => None,
                // The thread has gone without a word.
                None => Some(Err(io::ErrorKind::Interrupted.into())),
                chunk => chunk,
            },
            Content::File(body) => std::task::ready!(body.poll_next(context)),
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

/// Sends the body; files are read where they are.
fn stream(mut outgoing: Outgoing, send: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let mut open: Option<(Arc<dyn Held>, File)> = None;
    while let Some(step) = outgoing.step() {
        let chunk = match step {
            Step::Send(bytes) => bytes,
            Step::Read { held, at, len } => {
                let file = match &open {
                    Some((of, file)) if Arc::ptr_eq(of, &held) => file,
                    _ => &open.insert((held.clone(), File::open(held.path())?)).1,
                };
                let mut chunk = vec![0; len];
                file.read_exact_at(&mut chunk, at)?;
                outgoing.took(chunk)
            }
        };
        if !chunk.is_empty() && send.blocking_send(Ok(chunk)).is_err() {
            // Nobody reads on.
            return Ok(());
        }
    }
    Ok(())
}
