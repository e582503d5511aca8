//! Answers: a status, a type, and a body that is streamed if it is large.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use fishplate_contract::JobId;
use fishplate_jobs::engine::Engine;
use fishplate_wire::{Base64Encoder, Encoding, Packed, Segment};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// What is read of a file at once.
const CHUNK: usize = 512 << 10;

/// Chunks read ahead of the connection.
const READ_AHEAD: usize = 2;

/// An answer to a request of HTTP.
pub type Reply = hyper::Response<ReplyBody>;

/// A body of an answer: its bytes, or a stream of a known length.
#[derive(Debug)]
pub struct ReplyBody {
    content: Content,
    left: u64,
    sent: Option<Sent>,
}

#[derive(Debug)]
enum Content {
    Bytes(Option<Bytes>),
    Stream(mpsc::Receiver<io::Result<Bytes>>),
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
        let left = bytes.len() as u64;
        Self { content: Content::Bytes(Some(bytes)), left, sent: None }
    }

    /// A packed message. Without files it is one piece; files are read beside the runtime while
    /// what was read before is sent.
    pub fn packed(packed: Packed) -> Self {
        let left = packed.len;
        let small = packed.segments.iter().all(|segment| matches!(segment, Segment::Bytes(_)));
        let content = if small {
            Content::Bytes(Some(joined(packed.segments)))
        } else {
            let (send, receive) = mpsc::channel(READ_AHEAD);
            tokio::task::spawn_blocking(move || {
                if let Err(error) = stream(packed.segments, &send) {
                    tracing::error!(%error, "an output could not be read");
                    // The connection is cut: the length that was announced does not come.
                    let _ = send.blocking_send(Err(error));
                }
            });
            Content::Stream(receive)
        };
        Self { content, left, sent: None }
    }

    /// The same; once all of it was handed to the connection, the job is released.
    #[must_use]
    pub fn then_release(mut self, engine: Engine, job: JobId) -> Self {
        self.sent = Some(Sent { engine, job });
        self
    }

    fn took(&mut self, bytes: &Bytes) {
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left == 0
            && let Some(Sent { engine, job }) = self.sent.take()
        {
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
            Content::Stream(receive) => std::task::ready!(receive.poll_recv(context)),
        };
        Poll::Ready(next.map(|next| {
            next.map(|bytes| {
                self.took(&bytes);
                Frame::data(bytes)
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn joined(segments: Vec<Segment>) -> Bytes {
    let mut bytes = segments.into_iter().filter_map(|segment| match segment {
        Segment::Bytes(bytes) => Some(bytes),
        Segment::File { .. } => None,
    });
    let first = bytes.next().unwrap_or_default();
    let Some(second) = bytes.next() else { return first };
    let mut all = BytesMut::from(first);
    all.extend_from_slice(&second);
    bytes.for_each(|bytes| all.extend_from_slice(&bytes));
    all.freeze()
}

fn stream(segments: Vec<Segment>, send: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    for segment in segments {
        let kept = match segment {
            Segment::Bytes(bytes) => bytes.is_empty() || send.blocking_send(Ok(bytes)).is_ok(),
            Segment::File { held, range, encoding } => {
                let mut file = File::open(held.path())?;
                file.seek(SeekFrom::Start(range.start))?;
                send_file(file, range.end - range.start, encoding, send)?
            }
        };
        if !kept {
            // Nobody reads on.
            return Ok(());
        }
    }
    Ok(())
}

/// Sends exactly `len` bytes of a file; tells whether somebody still reads.
fn send_file(
    mut file: File,
    len: u64,
    encoding: Encoding,
    send: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<bool> {
    let mut left = len;
    let mut encoder = Base64Encoder::default();
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = vec![0; size];
        file.read_exact(&mut chunk)?;
        left -= size as u64;
        let chunk = match encoding {
            Encoding::Raw => chunk,
            Encoding::Base64 => {
                let mut text = Vec::with_capacity(size / 3 * 4 + 8);
                encoder.encode(&chunk, &mut text);
                text
            }
        };
        if !chunk.is_empty() && send.blocking_send(Ok(chunk.into())).is_err() {
            return Ok(false);
        }
    }
    let mut rest = Vec::new();
    if encoding == Encoding::Base64 {
        encoder.finish(&mut rest);
    }
    Ok(rest.is_empty() || send.blocking_send(Ok(rest.into())).is_ok())
}
