//! A packed message as a body. It is read and encoded piece by piece as the connection takes it: one
//! whose reader takes nothing waits with a piece in memory, and holds no thread.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fishplate_contract::FileHandle;
use fishplate_wire::{BodyStep, OutgoingBody, Segment};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::task::{JoinHandle, spawn_blocking};

/// What is read or encoded at once: the runtime does it between two writes, and so much waits in
/// memory for a reader who takes nothing. As base64 it is 128 KiB.
const PIECE: usize = 96 << 10;

/// What the system is asked to have at hand when the disk had to be waited for.
const AHEAD: u64 = 4 << 20;

/// What is left of a message.
#[derive(Debug)]
pub(super) struct MessageBody {
    outgoing: OutgoingBody,
    /// The file at hand, and whose it is.
    open: Option<MessageSource>,
    reading: Option<JoinHandle<io::Result<FileChunk>>>,
    /// A file was read, and others have not had their turn since.
    yields: bool,
}

#[derive(Clone, Debug)]
struct MessageSource {
    held: Arc<dyn FileHandle>,
    file: Arc<File>,
}

/// What was read of a file.
#[derive(Debug)]
struct FileChunk {
    source: MessageSource,
    bytes: Vec<u8>,
}

impl MessageBody {
    pub(super) fn new(segments: Vec<Segment>) -> Self {
        let outgoing = OutgoingBody::new(segments, PIECE);
        Self { outgoing, open: None, reading: None, yields: false }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if std::mem::take(&mut self.yields) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let bytes = if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Ok(FileChunk { source, bytes }) => {
                        self.open = Some(source);
                        self.outgoing.took(bytes)
                    }
                    Err(error) => {
                        // The connection is cut: what was announced does not come.
                        tracing::error!(%error, "an output could not be read");
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            } else {
                match self.outgoing.step() {
                    None => return Poll::Ready(None),
                    Some(BodyStep::Send(bytes)) => bytes,
                    Some(BodyStep::Wait) => match ready!(self.outgoing.poll_stream(context)) {
                        Ok(bytes) => bytes,
                        Err(fault) => {
                            // The connection is cut: HTTP itself tells that the answer is not whole.
                            tracing::warn!(%fault, "an output broke off");
                            return Poll::Ready(Some(Err(io::Error::other(fault))));
                        }
                    },
                    Some(BodyStep::Read { held, at, len }) => {
                        let source = self.open.clone().filter(|s| Arc::ptr_eq(&s.held, &held));
                        let Some(bytes) = source.as_ref().and_then(|s| read_now(&s.file, at, len))
                        else {
                            let reading = spawn_blocking(move || read(held, source, at, len));
                            self.reading = Some(reading);
                            continue;
                        };
                        self.yields = true;
                        self.outgoing.took(bytes)
                    }
                }
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

/// What is in the disk's cache.
fn read_now(file: &File, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut to = [IoSliceMut::new(&mut bytes)];
    let read = preadv2(file, &mut to, at, ReadWriteFlags::NOWAIT).ok()?;
    (read == len).then_some(bytes)
}

/// What is on the disk.
fn read(
    held: Arc<dyn FileHandle>,
    source: Option<MessageSource>,
    at: u64,
    len: usize,
) -> io::Result<FileChunk> {
    let source = match source {
        Some(source) => source,
        None => MessageSource { file: Arc::new(File::open(held.path())?), held },
    };
    // It may not know, and then it reads as it always does.
    let _ = fadvise(&*source.file, at, AHEAD.try_into().ok(), Advice::WillNeed);
    let mut bytes = vec![0; len];
    source.file.read_exact_at(&mut bytes, at)?;
    Ok(FileChunk { source, bytes })
}
