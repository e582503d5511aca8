//! Files from the disk's cache to the connection without a copy of ours (`sendfile`).
//!
//! hyper takes a body's bytes and writes them behind the header. A body of a file gives it *windows*
//! instead: slices of one region of memory that is never read. What is written to the connection
//! passes through [`SendfileStream`], which knows a window by its address and sends as much of the file that
//! the window stands for. Which that is, the body has noted in the connection's [`FileQueue`], in the
//! order in which it gave the windows; and hyper keeps that order, because HTTP/1.1 does.
//!
//! A connection that encrypts has no outlet, so its bodies give bytes (docs/decisions/0009).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The largest window: what is sent between two looks at other connections.
pub(super) const WINDOW: usize = 1 << 20;

/// What is copied at once where the file system has no `sendfile`.
const COPIED: usize = 64 << 10;

/// Stands for bytes of files. It occupies addresses, and no memory as long as nobody reads it.
static WINDOWS: [u8; WINDOW] = [0; WINDOW];

/// What windows stand for that were given to one connection and are not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileQueue(Arc<Mutex<VecDeque<QueuedFile>>>);

#[derive(Debug)]
struct QueuedFile {
    file: Arc<File>,
    at: u64,
    left: usize,
}

impl FileQueue {
    /// A window for so many bytes of a file, at most [`WINDOW`].
    pub(super) fn window(&self, file: &Arc<File>, at: u64, len: usize) -> Bytes {
        let len = len.min(WINDOW);
        self.pieces().push_back(QueuedFile { file: Arc::clone(file), at, left: len });
        Bytes::from_static(&WINDOWS[..len])
    }

    fn pieces(&self) -> MutexGuard<'_, VecDeque<QueuedFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes next, at most so many bytes of it.
    fn next(&self, most: usize) -> Option<(Arc<File>, u64, usize)> {
        let pieces = self.pieces();
        let piece = pieces.front()?;
        Some((Arc::clone(&piece.file), piece.at, piece.left.min(most)))
    }

    fn took(&self, bytes: usize) {
        let mut pieces = self.pieces();
        let Some(piece) = pieces.front_mut() else { return };
        piece.at += bytes as u64;
        piece.left = piece.left.saturating_sub(bytes);
        if piece.left == 0 {
            pieces.pop_front();
        }
    }
}

/// A connection that sends files where windows are written to it.
#[derive(Debug)]
pub(super) struct SendfileStream {
    stream: TcpStream,
    outlet: FileQueue,
}

impl SendfileStream {
    pub(super) fn new(stream: TcpStream, outlet: FileQueue) -> Self {
        Self { stream, outlet }
    }

    fn poll_send(&self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        let Some((file, at, len)) = self.outlet.next(len) else {
            return Poll::Ready(Err(io::Error::other("a window that stands for nothing")));
        };
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            let send = || send(&self.stream, &file, at, len);
            match self.stream.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // What was announced is not there any more.
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                sent => {
                    let sent = sent?;
                    self.outlet.took(sent);
                    return Poll::Ready(Ok(sent));
                }
            }
        }
    }
}

fn send(stream: &TcpStream, file: &File, at: u64, len: usize) -> io::Result<usize> {
    let mut offset = at;
    loop {
        return match rustix::fs::sendfile(stream, file, Some(&mut offset), len) {
            Ok(sent) => Ok(sent),
            Err(Errno::INTR) => continue,
            Err(Errno::INVAL | Errno::NOSYS) => {
                let mut chunk = vec![0; len.min(COPIED)];
                let read = file.read_at(&mut chunk, at)?;
                Ok(rustix::io::write(stream, &chunk[..read])?)
            }
            Err(error) => Err(error.into()),
        };
    }
}

fn is_window(slice: &[u8]) -> bool {
    WINDOWS.as_ptr_range().contains(&slice.as_ptr())
}

impl AsyncRead for SendfileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SendfileStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if is_window(bytes) && !bytes.is_empty() {
            return self.poll_send(context, bytes.len());
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().position(|slice| is_window(slice)).unwrap_or(slices.len());
        let (plain, windows) = slices.split_at(first);
        match windows.first() {
            Some(window) if plain.iter().all(|slice| slice.is_empty()) => {
                self.poll_send(context, window.len())
            }
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, plain),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn windows_are_their_files_bytes_among_plain_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let file = Arc::new(file);
        let outlet = FileQueue::default();
        let mut direct = SendfileStream::new(stream, outlet.clone());
        let expected = [b"head", &bytes[100..100 + WINDOW], b"middle", &bytes[7..17]].concat();
        let writing = tokio::spawn(async move {
            direct.write_all(b"head").await.unwrap();
            let window = outlet.window(&file, 100, usize::MAX);
            assert_eq!(window.len(), WINDOW);
            let second = outlet.window(&file, 7, 10);
            direct.write_all(&window).await.unwrap();
            let mut slices = [IoSlice::new(b"middle"), IoSlice::new(&second)];
            let mut slices = &mut slices[..];
            while !slices.is_empty() {
                let written = direct.write_vectored(slices).await.unwrap();
                IoSlice::advance_slices(&mut slices, written);
            }
            // A window beyond the file's end cuts the connection.
            let beyond = outlet.window(&file, 12_000_000, 5);
            let error = direct.write_all(&beyond).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        });
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        writing.await.unwrap();
        assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
    }
}
