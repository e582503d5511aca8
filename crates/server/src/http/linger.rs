//! The end of a connection (RFC 9112, section 9.6). Closed with bytes unread, or before its sender has
//! sent the last of them, it would be reset, and the sender's system may then throw away the answer
//! before anybody has read it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What is read at once and forgotten.
const FORGOTTEN: usize = 16 << 10;

/// A stream that is read to its end once it is shut down, but no longer than a limit.
#[derive(Debug)]
pub(super) struct LingeringClose<S> {
    stream: S,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringClose<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.waiting.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let limit = this.limit;
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        let mut space = [0; FORGOTTEN];
        loop {
            if waiting.as_mut().poll(context).is_ready() {
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

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_sender_who_is_answered_early_can_send_all_and_read_the_answer() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = LingeringClose::new(ours, LIMIT);
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
        let begun = tokio::time::Instant::now();
        drop(theirs);
        LingeringClose::new(ours, LIMIT).shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let (ours, _theirs) = duplex(16);
        LingeringClose::new(ours, LIMIT).shutdown().await.unwrap();
        assert!(begun.elapsed() >= LIMIT);
    }
}
