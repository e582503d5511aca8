//! A packed message as a body that HTTP pulls: files are read while they are sent.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Held;
use fishplate_wire::{Base64Encoder, Encoding, Packed, Segment};
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
    segments: VecDeque<Segment>,
    /// The chunks of the file that is being read.
    file: Option<mpsc::Receiver<Result<Bytes, Error>>>,
    left: u64,
    meter: Option<Arc<Meter>>,
    failure: BodyFailure,
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
            segments: VecDeque::new(),
            file: None,
            left: 0,
            meter: None,
            failure: BodyFailure::default(),
        }
    }

    /// The body of this message, and where to look if it cannot be sent.
    pub(crate) fn of(packed: &Packed, meter: Option<Arc<Meter>>) -> (Self, BodyFailure) {
        let failure = BodyFailure::default();
        let body = Self {
            segments: packed.segments.iter().cloned().collect(),
            file: None,
            left: packed.len,
            meter,
            failure: failure.clone(),
        };
        (body, failure)
    }

    fn sent(&mut self, chunk: Bytes) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.left = self.left.saturating_sub(chunk.len() as u64);
        if let Some(meter) = &self.meter {
            meter.add_sent(chunk.len());
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}

impl http_body::Body for SegmentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(file) = &mut self.file {
                match file.poll_recv(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(chunk))) => return self.sent(chunk),
                    Poll::Ready(Some(Err(error))) => {
                        return Poll::Ready(Some(Err(self.failure.put(error))));
                    }
                    Poll::Ready(None) => self.file = None,
                }
            }
            match self.segments.pop_front() {
                None => return Poll::Ready(None),
                Some(Segment::Bytes(bytes)) if bytes.is_empty() => {}
                Some(Segment::Bytes(bytes)) => return self.sent(bytes),
                Some(Segment::File { held, range, encoding }) => {
                    self.file = Some(read_ahead(held, range, encoding));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Reads a file on a thread of its own, a few chunks ahead. The thread ends when nobody takes its
/// chunks any more.
fn read_ahead(
    held: Arc<dyn Held>,
    range: Range<u64>,
    encoding: Encoding,
) -> mpsc::Receiver<Result<Bytes, Error>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut send = |chunk: Vec<u8>| sender.blocking_send(Ok(Bytes::from(chunk))).is_ok();
        if let Err(source) = read_chunks(&*held, range, encoding, &mut send) {
            let error = Error::file("read", held.path())(source);
            // If nobody listens any more, the exchange has ended already.
            let _ = sender.blocking_send(Err(error));
        }
    });
    receiver
}

/// Gives exactly as many bytes as the file said it had: the length of the message is told before.
fn read_chunks(
    held: &dyn Held,
    range: Range<u64>,
    encoding: Encoding,
    send: &mut dyn FnMut(Vec<u8>) -> bool,
) -> io::Result<()> {
    let mut file = File::open(held.path())?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut left = range.end - range.start;
    let mut encoder = Base64Encoder::default();
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = Vec::with_capacity(wanted);
        file.by_ref().take(wanted as u64).read_to_end(&mut chunk)?;
        if chunk.len() < wanted {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was sent",
            ));
        }
        left -= wanted as u64;
        if encoding == Encoding::Base64 {
            let mut text = Vec::with_capacity(wanted / 3 * 4 + 8);
            encoder.encode(&chunk, &mut text);
            chunk = text;
        }
        if !chunk.is_empty() && !send(chunk) {
            return Ok(());
        }
    }
    if encoding == Encoding::Base64 {
        let mut text = Vec::new();
        encoder.finish(&mut text);
        if !text.is_empty() {
            send(text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::input::LocalFile;

    fn packed(bytes: &[u8], encoding: Encoding) -> (tempfile::TempDir, Packed) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("input");
        std::fs::write(&path, bytes).unwrap();
        let held: Arc<dyn Held> = Arc::new(LocalFile::at(&path, bytes.len() as u64));
        let length = match encoding {
            Encoding::Raw => bytes.len() as u64,
            Encoding::Base64 => Base64Encoder::encoded_len(bytes.len() as u64),
        };
        let packed = Packed {
            content_type: String::new(),
            soap_action: None,
            segments: vec![
                Segment::Bytes(Bytes::from_static(b"<a>")),
                Segment::File { held, range: 0..bytes.len() as u64, encoding },
                Segment::Bytes(Bytes::from_static(b"</a>")),
            ],
            len: length + 7,
        };
        (dir, packed)
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_it_says_whatever_the_files_length_and_encoding() {
        for length in [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            for encoding in [Encoding::Raw, Encoding::Base64] {
                let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
                let (_dir, packed) = packed(&bytes, encoding);
                let (body, _) = SegmentBody::of(&packed, None);
                let sent = body.collect().await.unwrap().to_bytes();
                assert_eq!(sent.len() as u64, packed.len, "{length} {encoding:?}");
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
    async fn a_file_that_becomes_shorter_is_an_error_that_names_it() {
        let (dir, packed) = packed(&[7; 100], Encoding::Raw);
        std::fs::write(dir.path().join("input"), [7; 99]).unwrap();
        let (body, failure) = SegmentBody::of(&packed, None);
        assert!(body.collect().await.is_err());
        let error = failure.take().unwrap();
        assert!(
            matches!(&error, Error::File { doing: "read", path, .. } if path.ends_with("input"))
        );
    }
}
