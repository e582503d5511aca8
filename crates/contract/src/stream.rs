//! Bytes whose number nobody knows until the last has come.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_core::Stream;

use crate::fault::{Fault, FaultCode};

/// Chunks as they come. A fault is the last item and never passes for the end: a stream that ends
/// without one is whole.
pub type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// A handle to chunks that can be taken once. Clones are handles to the same chunks.
#[derive(Clone)]
pub struct ByteStream(Arc<Mutex<Option<Chunks>>>);

impl ByteStream {
    /// These chunks. They are polled by whoever takes them, who may be on a runtime: they may not block.
    pub fn new(chunks: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(chunks)))))
    }

    /// The chunks, which then are the taker's alone.
    ///
    /// # Errors
    /// `Internal` if somebody took them before.
    pub fn take(&self) -> Result<Chunks, Fault> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| {
            let what = "a stream can be read once only, and somebody has read this one";
            Fault::new(FaultCode::Internal, what)
        })
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    struct SingleChunk(Option<Bytes>);

    impl Stream for SingleChunk {
        type Item = Result<Bytes, Fault>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.take().map(Ok))
        }
    }

    #[test]
    fn a_stream_is_taken_once_by_whichever_handle_comes_first() {
        let stream = ByteStream::new(SingleChunk(Some(Bytes::from_static(b"x"))));
        let other = stream.clone();
        let mut chunks = other.take().unwrap();
        assert_eq!(stream.take().err().unwrap().code, FaultCode::Internal);
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || chunks.as_mut().poll_next(&mut context);
        assert!(matches!(next(), Poll::Ready(Some(Ok(bytes))) if bytes == b"x"[..]));
        assert!(matches!(next(), Poll::Ready(None)));
    }
}
