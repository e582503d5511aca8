//! The bytes of a payload to be delivered, a chunk at a time.

use std::io::SeekFrom;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use fishplate_contract::Payload;
use http_body::{Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::mpsc;

use super::TransferError;

/// Bytes that are read or sent at once.
pub(super) const CHUNK: usize = 256 << 10;

/// A payload's bytes from an offset on.
#[derive(Debug)]
pub(super) enum Source {
    Memory(std::vec::IntoIter<Bytes>),
    File { file: File, left: u64 },
}

impl Source {
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
            let mut file = File::open(held.path()).await.map_err(unreadable)?;
            file.set_max_buf_size(CHUNK);
            file.seek(SeekFrom::Start(offset)).await.map_err(unreadable)?;
            return Ok(Self::File { file, left });
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
            Self::File { left: 0, .. } => Ok(None),
            Self::File { file, left } => {
                let most = usize::try_from(*left).unwrap_or(CHUNK).min(CHUNK);
                let mut buffer = BytesMut::with_capacity(most);
                let got = file.take(*left).read_buf(&mut buffer).await.map_err(unreadable)?;
                if got == 0 {
                    return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
                }
                *left -= got as u64;
                Ok(Some(buffer.freeze()))
            }
        }
    }

    /// Its bytes as the body of an HTTP request, which reads ahead by a few chunks. `taken` is told
    /// how many more go.
    pub(super) fn into_body(
        mut self,
        len: u64,
        taken: impl FnMut(u64) + Send + Sync + 'static,
    ) -> Upload {
        let (sender, chunks) = mpsc::channel(2);
        tokio::spawn(async move {
            while let Some(chunk) = self.next().await.transpose() {
                let failed = chunk.is_err();
                if sender.send(chunk).await.is_err() || failed {
                    break;
                }
            }
        });
        Upload { chunks, left: len, taken: Box::new(taken) }
    }
}

/// The body of an HTTP request.
pub(super) struct Upload {
    chunks: mpsc::Receiver<Result<Bytes, TransferError>>,
    left: u64,
    taken: Box<dyn FnMut(u64) + Send + Sync>,
}

impl http_body::Body for Upload {
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

fn unreadable(source: std::io::Error) -> TransferError {
    TransferError::Local { what: "reading the output", source }
}
