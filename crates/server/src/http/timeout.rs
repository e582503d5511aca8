//! A connection whose peer can't hold it for ever, neither while it is sent something nor at the end.
//!
//! It must take what it is sent: one that reads nothing would hold its job's results for ever. One that
//! still sends its own file may read the answer when it has sent all of it.
//!
//! At the end it is waited for, so long (RFC 9112, section 9.6). Closed with bytes unread, or before its
//! sender has sent the last of them, the connection would be reset, and the sender's system may then throw
//! away the answer before anybody has read it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::ConnectionSlot;

/// What is read at once and forgotten.
const FORGOTTEN: usize = 16 << 10;

/// A stream on which writing may not stall longer than a limit, which costs a timer only while the peer
/// takes nothing; and which is read to its end once it is shut down, but no longer than another limit.
#[derive(Debug)]
pub(crate) struct TimeoutStream<S> {
    stream: S,
    answer_stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    drain_time: Duration,
    draining: Option<Pin<Box<Sleep>>>,
    /// Told when all was taken.
    place: Option<Arc<ConnectionSlot>>,
}

impl<S> TimeoutStream<S> {
    pub(crate) fn new(
        stream: S,
        answer_stall: Duration,
        drain_time: Duration,
        place: Option<Arc<ConnectionSlot>>,
    ) -> Self {
        Self { stream, answer_stall, stalled: None, drain_time, draining: None, place }
    }

    /// What a write came to: an error once the peer has taken nothing for too long.
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let limit = self.answer_stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        let what = format!("the peer took nothing for {} s (limit answer_stall)", limit.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let limit = self.answer_stall;
        if buffer.filled().len() > before
            && let Some(stalled) = &mut self.stalled
        {
            stalled.as_mut().reset(Instant::now() + limit);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
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
        let this = &mut *self;
        if this.draining.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let limit = this.drain_time;
        let draining = this.draining.get_or_insert_with(|| Box::pin(sleep(limit)));
        let mut space = [0; FORGOTTEN];
        loop {
            if draining.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // All has come, or the sender has gone: there is nobody to wait for.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const DRAIN: Duration = Duration::from_secs(10);

    fn limited<S>(stream: S) -> TimeoutStream<S> {
        TimeoutStream::new(stream, Duration::from_secs(60), DRAIN, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up_by_name() {
        let (ours, _theirs) = duplex(16);
        let mut ours = limited(ours);
        ours.write_all(&[0; 16]).await.unwrap();
        let error = ours.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("answer_stall"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_takes_something_is_served() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = limited(ours);
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
        let (mut reader, mut writer) = tokio::io::split(limited(ours));
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

    #[tokio::test(start_paused = true)]
    async fn a_sender_who_is_answered_early_can_send_all_and_read_the_answer() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = limited(ours);
        let sending = tokio::spawn(async move {
            theirs.write_all(&[0; 100_000]).await.unwrap();
            theirs.shutdown().await.unwrap();
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).await.unwrap();
            answer
        });
        ours.write_all(b"refused").await.unwrap();
        ours.shutdown().await.unwrap();
        drop(ours);
        assert_eq!(sending.await.unwrap(), b"refused");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_who_has_gone_or_for_ever() {
        let (ours, theirs) = duplex(16);
        let begun = Instant::now();
        drop(theirs);
        limited(ours).shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let (ours, _theirs) = duplex(16);
        limited(ours).shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), DRAIN.as_secs());
    }
}
