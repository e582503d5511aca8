//! A connection whose peer must take what it is sent: one that reads nothing would hold its job's
//! results for ever. One that still sends its own file may read the answer when it has sent all of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::ConnectionSlot;

/// A stream on which writing may not stall longer than a limit. Costs a timer only while the peer
/// takes nothing.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Told when all was taken.
    place: Option<Arc<ConnectionSlot>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration, place: Option<Arc<ConnectionSlot>>) -> Self {
        Self { stream, limit, waiting: None, place }
    }

    /// What a write came to: an error once the peer has taken nothing for too long.
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        std::task::ready!(waiting.as_mut().poll(context));
        let what = format!("the peer took nothing for {} s (limit answer_stall)", limit.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let limit = self.limit;
        if buffer.filled().len() > before
            && let Some(waiting) = &mut self.waiting
        {
            waiting.as_mut().reset(Instant::now() + limit);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watched(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let (Poll::Ready(Ok(())), Some(place)) = (&flushed, &self.place) {
            place.flushed();
        }
        self.watched(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up_by_name() {
        let (ours, _theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, Duration::from_secs(60), None);
        ours.write_all(&[0; 16]).await.unwrap();
        let error = ours.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("answer_stall"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_takes_something_is_served() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, Duration::from_secs(60), None);
        let taking = tokio::spawn(async move {
            let mut taken = 0;
            while taken < 160 {
                sleep(Duration::from_secs(50)).await;
                taken += theirs.read(&mut [0; 16]).await.unwrap();
            }
        });
        ours.write_all(&[0; 160]).await.unwrap();
        taking.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_may_take_nothing_until_it_has_sent() {
        let (ours, mut theirs) = duplex(16);
        let (mut reader, mut writer) =
            tokio::io::split(WriteTimeout::new(ours, Duration::from_secs(60), None));
        let reading = tokio::spawn(async move { while reader.read_u8().await.is_ok() {} });
        let sending = tokio::spawn(async move {
            for _ in 0..5 {
                sleep(Duration::from_secs(50)).await;
                theirs.write_all(&[0; 1]).await.unwrap();
            }
            let mut taken = [0; 32];
            theirs.read_exact(&mut taken).await.unwrap();
            theirs
        });
        writer.write_all(&[0; 32]).await.unwrap();
        let theirs = sending.await.unwrap();
        let started = Instant::now();
        writer.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(started.elapsed().as_secs(), 60);
        drop(theirs);
        reading.abort();
    }
}
