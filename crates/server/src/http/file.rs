//! Parts of files as a body. What is in the disk's cache goes straight to the connection; the disk
//! itself is only read by threads that may wait for it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::task::{JoinHandle, spawn_blocking};

use super::direct::{FileQueue, WINDOW};

/// What is read at once to have it in the cache.
const WARMED: usize = 256 << 10;

/// What is read into memory rather than sent from the file, if the disk need not be waited for.
const JOINED: usize = 64 << 10;

/// Sections of a body, and the file that those that are no bytes are in.
#[derive(Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    sections: VecDeque<BodySection>,
    /// Where windows are noted; without, the bytes themselves are given.
    outlet: Option<FileQueue>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// The connection was given a window, and others have not had their turn since.
    yields: bool,
}

/// A section of a body.
#[derive(Debug)]
pub enum BodySection {
    /// These bytes.
    Bytes(Bytes),
    /// So many bytes of the file.
    File {
        /// The first.
        at: u64,
        /// Bytes from there on.
        len: u64,
    },
}

impl BodySection {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// Bytes of all sections.
pub(super) fn total(sections: &[BodySection]) -> u64 {
    sections.iter().map(BodySection::len).sum()
}

impl FileBody {
    pub(super) fn new(file: File, sections: Vec<BodySection>) -> Self {
        Self {
            file: Arc::new(file),
            sections: sections.into(),
            outlet: None,
            reading: None,
            yields: false,
        }
    }

    /// Gives windows to this connection instead of bytes.
    pub(super) fn through(&mut self, outlet: &FileQueue) {
        self.outlet = Some(outlet.clone());
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if std::mem::take(&mut self.yields) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        while self.sections.front().is_some_and(|section| section.len() == 0) {
            self.sections.pop_front();
        }
        let (at, len) = match self.sections.front_mut() {
            None => return Poll::Ready(None),
            Some(BodySection::Bytes(bytes)) => return Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Some(BodySection::File { at, len }) => (*at, shorter(*len)),
        };
        if self.reading.is_none()
            && len <= JOINED
            && let Some(bytes) = self.read_now(at, len)
        {
            self.took(len);
            return Poll::Ready(Some(Ok(bytes)));
        }
        if self.reading.is_none() && !self.is_at_hand(at, len) {
            let (file, keep) = (Arc::clone(&self.file), self.outlet.is_none());
            self.reading = Some(spawn_blocking(move || read(&file, at, len, keep)));
        }
        let bytes = match &mut self.reading {
            None => Bytes::new(),
            Some(reading) => {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Ok(bytes) => bytes,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
        };
        let bytes = match &self.outlet {
            Some(outlet) => outlet.window(&self.file, at, len),
            None => bytes,
        };
        self.yields = self.outlet.is_some();
        self.took(bytes.len());
        Poll::Ready(Some(Ok(bytes)))
    }

    fn took(&mut self, bytes: usize) {
        if let Some(BodySection::File { at, len }) = self.sections.front_mut() {
            *at += bytes as u64;
            *len -= bytes as u64;
        }
    }

    /// Few bytes, if they are in the cache: with the header they are one packet.
    fn read_now(&self, at: u64, len: usize) -> Option<Bytes> {
        let mut chunk = vec![0; len];
        let mut to = [IoSliceMut::new(&mut chunk)];
        let read = preadv2(&*self.file, &mut to, at, ReadWriteFlags::NOWAIT).ok()?;
        (read == len).then(|| chunk.into())
    }

    /// Whether a window can be given now, because sending it will not wait for the disk: pages are
    /// read ahead and dropped in runs, so the ends and the middle tell.
    fn is_at_hand(&self, at: u64, len: usize) -> bool {
        let cached = |at: u64| {
            let mut byte = [0; 1];
            let mut to = [IoSliceMut::new(&mut byte)];
            // Where it can't be asked, nothing is known to be there.
            preadv2(&*self.file, &mut to, at, ReadWriteFlags::NOWAIT).is_ok()
        };
        let last = (len as u64).saturating_sub(1);
        self.outlet.is_some() && [0, last / 2, last].into_iter().all(|by| cached(at + by))
    }
}

fn shorter(len: u64) -> usize {
    usize::try_from(len).unwrap_or(WINDOW).min(WINDOW)
}

/// Reads bytes into the cache, and gives them if they are wanted.
fn read(file: &File, at: u64, len: usize, keep: bool) -> io::Result<Bytes> {
    if keep {
        let mut chunk = vec![0; len];
        file.read_exact_at(&mut chunk, at)?;
        return Ok(chunk.into());
    }
    let mut chunk = vec![0; WARMED.min(len)];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(WARMED);
        file.read_exact_at(&mut chunk[..part], at + done as u64)?;
        done += part;
    }
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;

    use super::*;

    async fn all(mut body: FileBody) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while let Some(piece) = poll_fn(|context| body.poll_next(context)).await {
            pieces.push(piece.unwrap());
        }
        pieces
    }

    #[tokio::test]
    async fn sections_come_in_their_order_as_bytes_or_as_windows() {
        let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let body = || {
            let sections = vec![
                BodySection::Bytes(Bytes::from_static(b"head")),
                BodySection::File { at: 5, len: 3_000_000 },
                BodySection::File { at: 0, len: 0 },
                BodySection::File { at: 3_999_990, len: 10 },
                BodySection::Bytes(Bytes::from_static(b"tail")),
            ];
            assert_eq!(total(&sections), 3_000_018);
            FileBody::new(file.try_clone().unwrap(), sections)
        };
        let plain = all(body()).await;
        assert!(plain.iter().all(|piece| piece.len() <= WINDOW));
        let expected = [b"head", &bytes[5..3_000_005], &bytes[3_999_990..], b"tail"].concat();
        assert!(plain.concat() == expected);
        let mut body = body();
        body.through(&FileQueue::default());
        let sent = all(body).await;
        // What is large is given as windows; what is small, as it is.
        assert_eq!(sent.concat().len(), expected.len());
        assert!(sent[1].iter().all(|byte| *byte == 0));
        assert_eq!(&sent[sent.len() - 2][..], &bytes[3_999_990..]);
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        let mut body = FileBody::new(file, vec![BodySection::File { at: 0, len: 100_000 }]);
        let first = poll_fn(|context| body.poll_next(context)).await;
        assert!(first.unwrap().is_err());
    }
}
