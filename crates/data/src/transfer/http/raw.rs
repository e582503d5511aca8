//! The body of a large answer, read from the connection itself into large buffers that are used
//! again and again: hyper reads into new ones, which costs as much as all the rest.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, ReadBuf};

use super::ask::Received;
use crate::http::{Stream, TakenOver};

/// From how many bytes on it is worth it.
pub(super) const LARGE: u64 = 1 << 20;
/// Size of a buffer.
const BUFFER: usize = 1 << 20;
/// So much of a buffer is passed on if nothing more is there; less waits a moment for more.
const ENOUGH: usize = 256 << 10;
/// That moment.
const MOMENT: Duration = Duration::from_millis(10);
/// Buffers that wait to be used again.
const SPARE: usize = 8;

/// A body whose length is known.
pub(super) struct RawBody {
    /// What hyper had read already.
    first: VecDeque<Bytes>,
    stream: Box<dyn Stream>,
    /// Bytes that are still to come, `first` not counted.
    left: u64,
    /// More than the body came: the connection can't be used again.
    too_much: bool,
    spare: Arc<Spare>,
    peer: String,
}

impl RawBody {
    /// Takes a connection over at the beginning of a body of `len` bytes; `None` if all was there.
    pub(super) fn new(body: Received, len: u64) -> Option<Self> {
        let TakenOver { stream, read, peer } = body.take_over()?;
        let (mut first, mut left, mut too_much) = (VecDeque::new(), len, false);
        for mut piece in read {
            too_much |= piece.len() as u64 > left;
            piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= piece.len() as u64;
            if !piece.is_empty() {
                first.push_back(piece);
            }
        }
        Some(Self { first, stream, left, too_much, spare: Arc::default(), peer })
    }

    /// The next bytes; `None` when all have come.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(piece) = self.first.pop_front() {
            return Ok(Some(piece));
        }
        if self.left == 0 {
            return Ok(None);
        }
        let mut buffer = self.spare.take();
        let most = usize::try_from(self.left).unwrap_or(BUFFER).min(BUFFER);
        let len = fill(&mut self.stream, &mut buffer[..most]).await?;
        self.left -= len as u64;
        Ok(Some(Bytes::from_owner(Piece { buffer, len, spare: Arc::clone(&self.spare) })))
    }

    /// The connection and whose it is, once all has come.
    pub(super) fn into_stream(self) -> Option<(Box<dyn Stream>, String)> {
        let clean = self.left == 0 && !self.too_much;
        clean.then_some((self.stream, self.peer))
    }
}

/// Reads until the buffer is full, or has enough and nothing more is there.
async fn fill(stream: &mut Box<dyn Stream>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let room = &mut buffer[filled..];
        let got = match filled {
            0 => Some(stream.read(room).await?),
            ENOUGH.. => read_now(stream, room).await?,
            _ => match tokio::time::timeout(MOMENT, stream.read(room)).await {
                Ok(got) => Some(got?),
                Err(_) => None,
            },
        };
        match got {
            // What came before the end is passed on; the next call meets the end again.
            Some(0) if filled > 0 => break,
            Some(0) => {
                let early = "it ended before its length";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, early));
            }
            Some(got) => filled += got,
            None => break,
        }
    }
    Ok(filled)
}

async fn read_now(stream: &mut Box<dyn Stream>, room: &mut [u8]) -> io::Result<Option<usize>> {
    let mut room = ReadBuf::new(room);
    std::future::poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut *stream).poll_read(context, &mut room) {
            Poll::Ready(read) => read.map(|()| Some(room.filled().len())),
            Poll::Pending => Ok(None),
        })
    })
    .await
}

/// Buffers of one body.
#[derive(Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| vec![0; BUFFER])
    }
}

/// A buffer that others read. When the last one has, it is used again.
struct Piece {
    buffer: Vec<u8>,
    len: usize,
    spare: Arc<Spare>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(std::mem::take(&mut self.buffer));
        }
    }
}
