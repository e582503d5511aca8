//! Bodies: as they come, and as they go.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Digest;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use url::Url;

use super::answer::digest_after;
use super::ask::{IncomingBody, Requester};
use super::peer;
use crate::Progress;
use crate::transfer::{TransferBody, TransferError, TransferFuture, Validator};

/// A body that is read. It fails if it ends before its length.
pub(super) struct SourceBody {
    asking: Arc<Requester>,
    url: Url,
    version: Option<Validator>,
    body: IncomingBody,
}

impl SourceBody {
    pub(super) fn new(
        asking: Arc<Requester>,
        url: Url,
        body: IncomingBody,
        version: Option<Validator>,
    ) -> Self {
        Self { asking, url, version, body }
    }

    async fn step(&mut self) -> Result<Option<Bytes>, TransferError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| TransferError::broken(&peer(&self.url), &error))?;
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for SourceBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceBody").field("version", &self.version).finish_non_exhaustive()
    }
}

impl TransferBody for SourceBody {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(self.step())
    }

    fn digest(&mut self) -> TransferFuture<'_, Option<Digest>> {
        Box::pin(digest_after(&self.asking, &self.url, self.version.as_ref()))
    }
}

/// A body that is sent, its length known.
#[derive(Debug)]
pub(super) struct SizedBody {
    pieces: Option<mpsc::Receiver<io::Result<Bytes>>>,
    left: u64,
    progress: Progress,
}

impl SizedBody {
    pub(super) fn nothing() -> Self {
        Self { pieces: None, left: 0, progress: Progress::default() }
    }

    /// `len` bytes, as they come.
    pub(super) fn new(
        pieces: mpsc::Receiver<io::Result<Bytes>>,
        len: u64,
        progress: Progress,
    ) -> Self {
        Self { pieces: Some(pieces), left: len, progress }
    }
}

impl http_body::Body for SizedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let Some(pieces) = this.pieces.as_mut().filter(|_| this.left > 0) else {
            return Poll::Ready(None);
        };
        Poll::Ready(match std::task::ready!(pieces.poll_recv(context)) {
            Some(Ok(piece)) => {
                this.left = this.left.saturating_sub(piece.len() as u64);
                this.progress.add(piece.len() as u64);
                Some(Ok(Frame::data(piece)))
            }
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was sent",
            ))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Fails with what broke the sending here, rather than with what the other end made of it.
pub(super) fn local(error: io::Error) -> TransferError {
    TransferError::Local { what: "reading what is to be delivered", source: error }
}
