//! The bytes of a payload to be delivered, a chunk at a time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Payload;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::TransferError;

/// Bytes that are read or sent at once.
pub(super) const CHUNK: usize = 256 << 10;

/// A payload's bytes from an offset on.
#[derive(Debug)]
pub(super) enum PayloadSource {
    Memory(std::vec::IntoIter<Bytes>),
    File(ReadAhead),
}

/// A file that is read one chunk ahead, so that the disk and the wire work at once.
#[derive(Debug)]
pub(super) struct ReadAhead {
    file: Arc<File>,
    ahead: Option<JoinHandle<io::Result<Bytes>>>,
    left: u64,
}

impl ReadAhead {
    /// Begins to read the next chunk, if there is one.
    fn begin(&mut self) {
        let most = self.left.min(CHUNK as u64);
        let file = Arc::clone(&self.file);
        let read = move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            file.as_ref().take(most).read_to_end(&mut chunk)?;
            Ok(Bytes::from(chunk))
        };
        self.ahead = (most > 0).then(|| tokio::task::spawn_blocking(read));
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(ahead) = self.ahead.take() else { return Ok(None) };
        let chunk = ahead.await.map_err(io::Error::other)??;
        if chunk.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(chunk.len() as u64);
        self.begin();
        Ok(Some(chunk))
    }
}

impl PayloadSource {
    /// How many bytes a payload has.
    pub(super) fn len(payload: &Payload) -> Result<u64, TransferError> {
        match payload {
            Payload::Reference(_) => Err(reference()),
            held => held.len().ok_or_else(reference),
        }
    }

    /// Opens a part of a payload, which ends no later than the payload.
    pub(super) async fn open(
        payload: &Payload,
        offset: u64,
        len: Option<u64>,
    ) -> Result<Self, TransferError> {
        let rest = Self::len(payload)?.saturating_sub(offset);
        let left = len.map_or(rest, |len| len.min(rest));
        if let Payload::Spooled(held) = payload {
            let held = Arc::clone(held);
            let open = move || {
                let mut file = File::open(held.path())?;
                file.seek(SeekFrom::Start(offset))?;
                Ok(file)
            };
            let opened = tokio::task::spawn_blocking(open).await.map_err(io::Error::other);
            let file = Arc::new(opened.flatten().map_err(unreadable)?);
            let mut reading = ReadAhead { file, ahead: None, left };
            reading.begin();
            return Ok(Self::File(reading));
        }
        let (mut skip, mut left, mut pieces) = (offset, left, Vec::new());
        for piece in payload.pieces().unwrap_or_default() {
            let here = piece.len() as u64;
            let from = skip.min(here);
            let to = here.min(from + left);
            skip -= from;
            left -= to - from;
            if let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) {
                pieces.push(piece.slice(from..to));
            }
        }
        Ok(Self::Memory(pieces.into_iter()))
    }

    /// The next bytes, or `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, TransferError> {
        match self {
            Self::Memory(pieces) => Ok(pieces.find(|piece| !piece.is_empty())),
            Self::File(reading) => reading.next().await.map_err(unreadable),
        }
    }

    /// Its bytes as the body of an HTTP request, which reads ahead by a few chunks. `taken` is told
    /// how many more go.
    pub(super) fn into_body(
        mut self,
        len: u64,
        taken: impl FnMut(u64) + Send + Sync + 'static,
    ) -> UploadBody {
        let (sender, chunks) = mpsc::channel(2);
        tokio::spawn(async move {
            while let Some(chunk) = self.next().await.transpose() {
                let failed = chunk.is_err();
                if sender.send(chunk).await.is_err() || failed {
                    break;
                }
            }
        });
        UploadBody { chunks, left: len, taken: Box::new(taken) }
    }
}

/// The body of an HTTP request.
pub(super) struct UploadBody {
    chunks: mpsc::Receiver<Result<Bytes, TransferError>>,
    left: u64,
    taken: Box<dyn FnMut(u64) + Send + Sync>,
}

impl http_body::Body for UploadBody {
    type Data = Bytes;
    type Error = TransferError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransferError>>> {
        self.chunks.poll_recv(context).map(|chunk| {
            chunk.map(|chunk| {
                let chunk = chunk?;
                self.left = self.left.saturating_sub(chunk.len() as u64);
                (self.taken)(chunk.len() as u64);
                Ok(Frame::data(chunk))
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A name that is one segment of a path, whatever was asked for.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_control() || "/\\:".contains(c) { '_' } else { c };
    let name: String = name.chars().map(plain).collect();
    match name.trim_matches('.') {
        "" => "output".to_owned(),
        _ => name,
    }
}

fn reference() -> TransferError {
    TransferError::Unsupported("a reference is not delivered; fetch it first".to_owned())
}

fn unreadable(source: io::Error) -> TransferError {
    TransferError::Local { what: "reading the output", source }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{HeldFile, bytes};
    use super::*;

    #[tokio::test]
    async fn any_part_of_any_payload_is_read() {
        let data = bytes(50, 2 * CHUNK + 1000);
        let pieces: Vec<_> = data.chunks(70_001).map(Bytes::copy_from_slice).collect();
        let payloads = [
            Payload::Inline(data.clone().into()),
            Payload::Pieces(pieces.into()),
            Payload::Spooled(Arc::new(HeldFile::new(&data))),
        ];
        let whole = data.len();
        for payload in payloads {
            for (from, to) in [(0, whole), (0, 0), (1, 70_001), (70_001, 140_002), (69_000, whole)]
            {
                let len = Some((to - from) as u64);
                let mut source = PayloadSource::open(&payload, from as u64, len).await.unwrap();
                let mut read = Vec::new();
                while let Some(chunk) = source.next().await.unwrap() {
                    assert!(!chunk.is_empty());
                    read.extend_from_slice(&chunk);
                }
                assert!(read == data[from..to], "{from}..{to}: {} bytes", read.len());
            }
            let mut beyond = PayloadSource::open(&payload, whole as u64 + 1, None).await.unwrap();
            assert!(beyond.next().await.unwrap().is_none());
        }
        let reference = Payload::Reference(fishplate_contract::DataRef::new("http://x/"));
        assert!(PayloadSource::open(&reference, 0, None).await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_was_cut_short_is_told() {
        let held = HeldFile::new(b"all of it");
        std::fs::write(fishplate_contract::FileHandle::path(&held), b"all").unwrap();
        let mut source =
            PayloadSource::open(&Payload::Spooled(Arc::new(held)), 0, None).await.unwrap();
        assert_eq!(source.next().await.unwrap().unwrap(), "all");
        assert!(matches!(source.next().await, Err(TransferError::Local { .. })));
    }

    #[test]
    fn a_file_name_is_one_segment() {
        for (name, file) in [
            ("mesh.bin", "mesh.bin"),
            ("../a/b", ".._a_b"),
            ("..", "output"),
            ("a\r\nb", "a__b"),
            ("", "output"),
        ] {
            assert_eq!(file_name(name), file);
        }
    }
}
