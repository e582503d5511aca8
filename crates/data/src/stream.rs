//! A pipe of chunks: its writer waits while the reader is slow, whichever of them has a thread and which a
//! runtime. (How streams of unknown length are made and read: [`fishplate_contract::stream`].)

use std::fmt;
use std::io::{self, Read, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::{Buf as _, Bytes};
use fishplate_contract::{ByteStream, Chunks, Fault, FaultCode};
use futures_util::Stream;
use tokio::sync::mpsc;

/// Longest chunk; a longer one is cut without copying it.
const CHUNK: usize = 64 << 10;

/// Chunks that wait for the reader. With the one in each side's hands a pipe holds at most 256 KiB.
const WAITING: usize = 2;

/// A pipe: what is written comes out of the stream.
pub fn pipe() -> (Writer, ByteStream) {
    let (to, from) = mpsc::channel(WAITING);
    (Writer { to }, ByteStream::new(Received { from, ended: false }))
}

/// The end into which a stream is written. Dropped before it was [finished](Writer::finish), it breaks
/// the stream off: the reader gets a fault, not the end.
#[derive(Debug)]
pub struct Writer {
    /// An empty chunk is the end.
    to: mpsc::Sender<Result<Bytes, Fault>>,
}

/// Nobody reads the stream any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads the stream any more")]
pub struct Closed;

impl From<Closed> for io::Error {
    fn from(closed: Closed) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, closed)
    }
}

impl From<Closed> for Fault {
    fn from(closed: Closed) -> Self {
        Self::new(FaultCode::Internal, closed.to_string())
    }
}

impl Writer {
    /// Appends bytes, without copying them; the thread waits while the reader is behind.
    ///
    /// # Errors
    /// If nobody reads any more.
    ///
    /// # Panics
    /// On a thread of a runtime, which may not wait: there it is [`Writer::send`].
    pub fn push(&mut self, mut bytes: Bytes) -> Result<(), Closed> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK));
            self.to.blocking_send(Ok(chunk)).map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// The same for a task.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), Closed> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK));
            self.to.send(Ok(chunk)).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Waits until nobody reads any more.
    pub async fn closed(&self) {
        self.to.closed().await;
    }

    /// That was all, or it ends with this fault. The thread waits until there is room for the word.
    ///
    /// # Panics
    /// On a thread of a runtime, as [`Writer::push`].
    pub fn finish(self, outcome: Result<(), Fault>) {
        // Who is gone need not be told.
        let _ = self.to.blocking_send(outcome.map(|()| Bytes::new()));
    }

    /// The same for a task.
    pub async fn finished(self, outcome: Result<(), Fault>) {
        let _ = self.to.send(outcome.map(|()| Bytes::new())).await;
    }
}

/// Each write is a chunk: who writes little at a time puts an [`io::BufWriter`] before it.
impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let some = &bytes[..bytes.len().min(CHUNK)];
        self.push(Bytes::copy_from_slice(some))?;
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Received {
    from: mpsc::Receiver<Result<Bytes, Fault>>,
    ended: bool,
}

impl Stream for Received {
    type Item = Result<Bytes, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.from.poll_recv(context));
        self.ended = !matches!(&next, Some(Ok(bytes)) if !bytes.is_empty());
        Poll::Ready(match next {
            Some(Ok(end)) if end.is_empty() => None,
            Some(item) => Some(item),
            None => {
                let what = "the stream broke off: whoever wrote it has gone";
                Some(Err(Fault::new(FaultCode::Internal, what)))
            }
        })
    }
}

/// A stream that is begun when it is first read. What can't be begun is a fault.
pub fn deferred(
    begin: impl FnOnce() -> io::Result<ByteStream> + Send + Unpin + 'static,
) -> ByteStream {
    enum Deferred<F> {
        Waiting(Option<F>),
        Begun(Chunks),
    }

    impl<F: FnOnce() -> io::Result<ByteStream> + Unpin> Stream for Deferred<F> {
        type Item = Result<Bytes, Fault>;

        fn poll_next(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Self::Item>> {
            if let Self::Waiting(begin) = &mut *self {
                let Some(begin) = begin.take() else { return Poll::Ready(None) };
                let failed = |error: io::Error| Fault::new(FaultCode::Internal, error.to_string());
                match begin().map_err(failed).and_then(|stream| stream.take()) {
                    Ok(chunks) => *self = Self::Begun(chunks),
                    Err(fault) => return Poll::Ready(Some(Err(fault))),
                }
            }
            match &mut *self {
                Self::Begun(chunks) => chunks.as_mut().poll_next(context),
                Self::Waiting(_) => Poll::Ready(None),
            }
        }
    }

    ByteStream::new(Deferred::Waiting(Some(begin)))
}

/// A stream that is broken off with a fault as soon as there is one, unless it has ended before.
///
/// # Errors
/// If somebody reads it already.
pub fn limited(
    stream: &ByteStream,
    over: impl Future<Output = Fault> + Send + 'static,
) -> Result<ByteStream, Fault> {
    let (mut chunks, mut over) =
        (stream.take()?, Box::pin(over) as Pin<Box<dyn Future<Output = Fault> + Send>>);
    Ok(ByteStream::new(futures_util::stream::poll_fn(move |context| {
        if let Poll::Ready(fault) = over.as_mut().poll(context) {
            // Whoever writes it is told, too.
            chunks = Box::pin(futures_util::stream::empty());
            over = Box::pin(std::future::pending());
            return Poll::Ready(Some(Err(fault)));
        }
        chunks.as_mut().poll_next(context)
    })))
}

/// A stream on a thread that may wait.
pub struct Reader {
    chunks: Chunks,
    at_hand: Bytes,
}

impl Reader {
    /// Reads this stream.
    ///
    /// # Errors
    /// If somebody else does.
    pub fn of(stream: &ByteStream) -> Result<Self, Fault> {
        Ok(Self { chunks: stream.take()?, at_hand: Bytes::new() })
    }

    /// The next chunk, as it came; `None` at the end.
    ///
    /// # Errors
    /// The fault with which the stream ended; it is not to be read on.
    pub fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        if !self.at_hand.is_empty() {
            return Ok(Some(std::mem::take(&mut self.at_hand)));
        }
        wait(|context| self.chunks.as_mut().poll_next(context)).transpose()
    }
}

/// A fault is an error that holds it.
impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.at_hand.is_empty() {
            match self.chunk().map_err(io::Error::other)? {
                Some(chunk) => self.at_hand = chunk,
                None => return Ok(0),
            }
        }
        let size = self.at_hand.len().min(to.len());
        self.at_hand.copy_to_slice(&mut to[..size]);
        Ok(size)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("at_hand", &self.at_hand.len()).finish_non_exhaustive()
    }
}

/// Has the thread wait until something polled is ready.
pub fn wait<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    struct ThreadWaker(Thread);

    impl Wake for ThreadWaker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut polled = pin!(std::future::poll_fn(poll));
    loop {
        match polled.as_mut().poll(&mut context) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_written_is_read_in_its_order_and_the_writer_is_held_back() {
        let (mut writer, stream) = pipe();
        let (told, progress) = channel();
        let writing = thread::spawn(move || {
            for number in 0..100u8 {
                writer.push(Bytes::from(vec![number; CHUNK + 1])).unwrap();
                told.send(number).unwrap();
            }
            writer.finish(Ok(()));
        });
        let mut reader = Reader::of(&stream).unwrap();
        let mut read = vec![0; CHUNK + 1];
        for number in 0..100u8 {
            reader.read_exact(&mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == number));
            // Nobody is further ahead than what may wait.
            let ahead = progress.try_iter().last().unwrap_or_default();
            assert!(usize::from(ahead) <= usize::from(number) + WAITING, "{ahead} {number}");
        }
        assert_eq!(reader.read(&mut read).unwrap(), 0);
        writing.join().unwrap();
    }

    #[test]
    fn a_fault_and_a_writer_that_has_gone_are_errors_and_never_the_end() {
        let (mut writer, stream) = pipe();
        writer.push(Bytes::from_static(b"half")).unwrap();
        writer.finish(Err(Fault::new(FaultCode::ProgramFailed, "no")));
        let mut reader = Reader::of(&stream).unwrap();
        assert_eq!(reader.chunk().unwrap().unwrap(), b"half"[..]);
        assert_eq!(reader.chunk().unwrap_err().code, FaultCode::ProgramFailed);

        let (writer, stream) = pipe();
        drop(writer);
        let error = Reader::of(&stream).unwrap().read(&mut [0]).unwrap_err();
        assert!(error.to_string().contains("broke off"), "{error}");
    }

    #[test]
    fn a_deferred_stream_begins_when_it_is_read_and_a_beginning_that_fails_is_an_error() {
        let (told, begun) = channel();
        let stream = deferred(move || {
            told.send(()).unwrap();
            let (mut writer, stream) = pipe();
            writer.push(Bytes::from_static(b"all")).unwrap();
            writer.finish(Ok(()));
            Ok(stream)
        });
        let mut reader = Reader::of(&stream).unwrap();
        assert!(begun.try_recv().is_err());
        assert_eq!(reader.chunk().unwrap().unwrap(), b"all"[..]);
        assert_eq!(reader.chunk().unwrap(), None);
        begun.recv().unwrap();

        let refused = deferred(|| Err(io::Error::other("no threads")));
        let error = Reader::of(&refused).unwrap().chunk().unwrap_err();
        assert_eq!(error.message, "no threads");
    }

    #[test]
    fn a_writer_whose_reader_has_gone_is_told() {
        let (mut writer, stream) = pipe();
        drop(stream);
        assert_eq!(writer.push(Bytes::from_static(b"x")), Err(Closed));
        assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
