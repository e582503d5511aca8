//! A packed message as a body that HTTP pulls: files are read while they are sent.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::{io, mem};

use bytes::Bytes;
use fishplate_contract::FileHandle;
use fishplate_data::stream::wait;
use fishplate_wire::{BodyStep, OutgoingBody, PackedMessage, Segment};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::meter::Meter;

/// Bytes of a file that are read at once. With those that wait and the one in HTTP's hands a body
/// holds at most `CHUNKS_AHEAD + 2` chunks in memory.
const CHUNK: usize = 256 << 10;
const CHUNKS_AHEAD: usize = 2;

/// The body of a request.
pub(crate) struct SegmentBody {
    content: BodyContent,
    /// Bytes that are still to come; `None` if only sending them tells.
    left: Option<u64>,
    meter: Option<Arc<Meter>>,
    failure: BodyFailure,
}

enum BodyContent {
    /// All that is left is in memory, or comes by itself.
    Here(OutgoingBody),
    /// Files are to be read; nobody asked for the first chunk yet.
    Waiting(OutgoingBody),
    /// The chunks that a thread reads. An empty one is the last.
    Reading(mpsc::Receiver<Result<Bytes, Error>>),
    Ended,
}

/// Why a body could not be sent: a file of ours failed. HTTP's own errors do not carry it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyFailure(Arc<Mutex<Option<Error>>>);

impl BodyFailure {
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: Error) -> io::Error {
        let said = io::Error::other(error.to_string());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        said
    }
}

impl SegmentBody {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self {
            content: BodyContent::Ended,
            left: Some(0),
            meter: None,
            failure: BodyFailure::default(),
        }
    }

    /// The body of this message, and where to look if it cannot be sent.
    pub(crate) fn of(packed: &PackedMessage, meter: Option<Arc<Meter>>) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let outgoing = OutgoingBody::new(packed.segments.iter().cloned(), CHUNK);
        let content = match outgoing.reads_files() {
            true => BodyContent::Waiting(outgoing),
            false => BodyContent::Here(outgoing),
        };
        let body = Self { content, left: packed.len, meter, failure: failure.clone() };
        (body, failure)
    }

    /// The rest of a file from a byte on; it is as long as was told, or sending it fails.
    pub(crate) fn of_file(
        path: &Path,
        from: u64,
        len: u64,
        meter: Option<Arc<Meter>>,
    ) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let content = BodyContent::Reading(read_file(path.to_owned(), from, len));
        let left = Some(len.saturating_sub(from));
        (Self { content, left, meter, failure: failure.clone() }, failure)
    }

    /// These bytes.
    pub(crate) fn of_bytes(bytes: &Bytes, meter: Option<Arc<Meter>>) -> Self {
        let outgoing = OutgoingBody::new([Segment::Bytes(bytes.clone())], CHUNK);
        Self {
            content: BodyContent::Here(outgoing),
            left: Some(bytes.len() as u64),
            meter,
            failure: BodyFailure::default(),
        }
    }

    /// The next chunk; `None` at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let BodyContent::Waiting(_) = self.content
            && let BodyContent::Waiting(outgoing) =
                mem::replace(&mut self.content, BodyContent::Ended)
        {
            self.content = BodyContent::Reading(read_ahead(outgoing));
        }
        let next = match &mut self.content {
            BodyContent::Here(outgoing) => loop {
                match outgoing.step() {
                    Some(BodyStep::Send(bytes)) => break Some(Ok(bytes)),
                    Some(BodyStep::Wait) => {
                        match std::task::ready!(outgoing.poll_stream(context)) {
                            Ok(bytes) if bytes.is_empty() => {}
                            sent => break Some(sent.map_err(Error::BrokenOff)),
                        }
                    }
                    Some(BodyStep::Read { .. }) | None => break None,
                }
            },
            BodyContent::Reading(chunks) => match std::task::ready!(chunks.poll_recv(context)) {
                Some(Ok(last)) if last.is_empty() => None,
                Some(chunk) => Some(chunk),
                None => Some(Err(interrupted())),
            },
            BodyContent::Waiting(_) | BodyContent::Ended => None,
        };
        if !matches!(next, Some(Ok(_))) {
            self.content = BodyContent::Ended;
        }
        Poll::Ready(next)
    }
}

/// The thread that reads has gone without a word: it panicked.
fn interrupted() -> Error {
    Error::file("read", Path::new("the inputs"))(io::ErrorKind::Interrupted.into())
}

impl http_body::Body for SegmentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = std::task::ready!(self.poll_chunk(context));
        Poll::Ready(match next {
            Some(Ok(chunk)) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(chunk.len() as u64);
                }
                if let Some(meter) = &self.meter {
                    meter.add_sent(chunk.len());
                }
                Some(Ok(Frame::data(chunk)))
            }
            Some(Err(error)) => Some(Err(self.failure.put(error))),
            None => {
                if let Some(meter) = &self.meter {
                    meter.end_sent();
                }
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Reads files on a thread of its own, a few chunks ahead. The thread ends when nobody takes its
/// chunks any more.
fn read_ahead(outgoing: OutgoingBody) -> mpsc::Receiver<Result<Bytes, Error>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let outcome = read_chunks(outgoing, &sender);
        // If nobody listens any more, the exchange has ended already.
        let _ = sender.blocking_send(outcome.map(|()| Bytes::new()));
    });
    receiver
}

/// Reads until the end, or until nobody listens any more.
fn read_chunks(
    mut outgoing: OutgoingBody,
    sender: &mpsc::Sender<Result<Bytes, Error>>,
) -> Result<(), Error> {
    let mut closed = pin!(sender.closed());
    let mut open: Option<(Arc<dyn FileHandle>, File)> = None;
    while let Some(step) = outgoing.step() {
        let chunk = match step {
            BodyStep::Send(bytes) => bytes,
            BodyStep::Wait => {
                let come = wait(|context| match closed.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => outgoing.poll_stream(context).map(Some),
                });
                let Some(come) = come else { break };
                come.map_err(Error::BrokenOff)?
            }
            BodyStep::Read { held, at, len } => {
                let failed = |source| Error::file("read", held.path())(source);
                let file = match &open {
                    Some((of, file)) if Arc::ptr_eq(of, &held) => file,
                    _ => &open.insert((held.clone(), File::open(held.path()).map_err(failed)?)).1,
                };
                let mut chunk = vec![0; len];
                file.read_exact_at(&mut chunk, at).map_err(became_shorter).map_err(failed)?;
                outgoing.took(chunk)
            }
        };
        if !chunk.is_empty() && sender.blocking_send(Ok(chunk)).is_err() {
            break;
        }
    }
    Ok(())
}

fn became_shorter(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::UnexpectedEof => {
            io::Error::new(kind, "it became shorter while it was sent")
        }
        _ => error,
    }
}

/// Reads a file on a thread of its own, likewise.
fn read_file(path: PathBuf, from: u64, len: u64) -> mpsc::Receiver<Result<Bytes, Error>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                let _ = sender.blocking_send(Err(Error::file("read", &path)(error)));
                return;
            }
        };
        let mut at = from;
        while at < len {
            let next = usize::try_from(len - at).map_or(CHUNK, |left| left.min(CHUNK));
            let mut chunk = vec![0; next];
            let read = file.read_exact_at(&mut chunk, at).map_err(became_shorter);
            let chunk = read.map(|()| Bytes::from(chunk)).map_err(Error::file("read", &path));
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
            at += next as u64;
        }
        // If nobody listens any more, the exchange has ended already.
        let _ = sender.blocking_send(Ok(Bytes::new()));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fishplate_contract::Payload;
    use fishplate_data::stream::pipe;
    use fishplate_wire::{Base64Encoder, Encoding};
    use http_body_util::BodyExt;

    use super::*;
    use crate::input::LocalFile;

    fn packed(bytes: &[u8], encoding: &Encoding) -> (tempfile::TempDir, PackedMessage) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("input");
        std::fs::write(&path, bytes).unwrap();
        let held: Arc<dyn FileHandle> = Arc::new(LocalFile::at(&path, bytes.len() as u64));
        let data = Segment::of(&Payload::Spooled(held), encoding.clone());
        let packed = PackedMessage {
            content_type: "".into(),
            soap_action: None,
            segments: vec![
                Segment::Bytes(Bytes::from_static(b"<a>")),
                data.clone(),
                Segment::Bytes(Bytes::from_static(b"</a>")),
            ],
            len: data.len().map(|len| len + 7),
        };
        (dir, packed)
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_it_says_whatever_the_files_length_and_encoding() {
        for length in [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            for encoding in [Encoding::Raw, Encoding::Base64] {
                let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
                let (_dir, packed) = packed(&bytes, &encoding);
                let (body, _) = SegmentBody::of(&packed, None);
                let sent = body.collect().await.unwrap().to_bytes();
                assert_eq!(Some(sent.len() as u64), packed.len, "{length} {encoding:?}");
                if encoding == Encoding::Raw {
                    assert_eq!(&sent[3..sent.len() - 4], bytes);
                } else {
                    let mut text = Vec::new();
                    let mut encoder = Base64Encoder::default();
                    encoder.encode(&bytes, &mut text);
                    encoder.finish(&mut text);
                    assert_eq!(&sent[3..sent.len() - 4], text);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_nobody_reads_any_more_waits_for_no_stream() {
        let (_dir, mut packed) = packed(&[7; 100], &Encoding::Raw);
        let (writer, stream) = pipe();
        packed.segments.push(Segment::of(&Payload::Stream(stream), Encoding::Raw));
        packed.len = None;
        let (mut body, _) = SegmentBody::of(&packed, None);
        drop(packed);
        let mut come = 0;
        while come < 107 {
            come += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
        }
        drop(body);
        let closed = tokio::time::timeout(Duration::from_secs(20), writer.closed()).await;
        drop(writer); // A thread that waits for it would keep the test from ending.
        assert!(closed.is_ok());
    }

    #[tokio::test]
    async fn a_file_that_becomes_shorter_is_an_error_that_names_it() {
        let (dir, packed) = packed(&[7; 100], &Encoding::Raw);
        std::fs::write(dir.path().join("input"), [7; 99]).unwrap();
        let (body, failure) = SegmentBody::of(&packed, None);
        assert!(body.collect().await.is_err());
        let error = failure.take().unwrap();
        assert!(
            matches!(&error, Error::File { doing: "read", path, .. } if path.ends_with("input"))
        );
    }
}
