//! One body over several connections: parts of one version, fetched beside each other, given in
//! their order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Digest;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

use super::{
    EmptyBody, OpenedSource, ReadRequest, TransferBody, TransferError, TransferFuture, Transport,
    Validator,
};

/// Bytes of one part: each connection holds at most so many that can't be given yet.
const PART: u64 = 8 << 20;
/// What is shorter does not gain by it.
pub(crate) const WORTHWHILE: u64 = 64 << 20;

/// Goes on with a body over several connections, if its transport can ask for parts of a version.
pub(crate) fn widen(
    opened: &mut OpenedSource,
    transport: &Arc<dyn Transport>,
    url: &Url,
    connections: u32,
) {
    let (Some(total), Some(version)) = (opened.total, opened.version.clone()) else { return };
    if connections < 2 || total.saturating_sub(opened.offset) < WORTHWHILE {
        return;
    }
    // The body that is open gives the first part; its connection is closed then.
    let first = std::mem::replace(&mut opened.body, Box::new(EmptyBody));
    let mut parts = Parallel {
        transport: Arc::clone(transport),
        url: url.clone(),
        version,
        next: opened.offset,
        total,
        running: VecDeque::new(),
    };
    parts.begin_with(first);
    for _ in 1..connections {
        parts.begin();
    }
    opened.body = Box::new(parts);
}

#[derive(Debug)]
struct Parallel {
    transport: Arc<dyn Transport>,
    url: Url,
    version: Validator,
    /// First byte that nobody fetches yet.
    next: u64,
    total: u64,
    running: VecDeque<RangePart>,
}

#[derive(Debug)]
struct RangePart {
    pieces: mpsc::UnboundedReceiver<Result<Bytes, TransferError>>,
    task: JoinHandle<()>,
}

impl Drop for RangePart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Parallel {
    fn take(&mut self) -> Option<(u64, u64)> {
        let (offset, len) = (self.next, PART.min(self.total - self.next));
        self.next += len;
        (len > 0).then_some((offset, len))
    }

    fn begin_with(&mut self, body: Box<dyn TransferBody>) {
        let Some((_, len)) = self.take() else { return };
        let (send, pieces) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move { forward(body, len, &send).await });
        self.running.push_back(RangePart { pieces, task });
    }

    fn begin(&mut self) {
        let Some((offset, len)) = self.take() else { return };
        let (send, pieces) = mpsc::unbounded_channel(); // bounded by PART
        let (transport, url) = (Arc::clone(&self.transport), self.url.clone());
        let want = ReadRequest { offset, len: Some(len), version: Some(self.version.clone()) };
        let task = tokio::spawn(async move {
            match transport.open(&url, want).await {
                Ok(opened) if opened.offset == offset => forward(opened.body, len, &send).await,
                Ok(_) => {
                    let _ = send.send(Err(changed(&url)));
                }
                Err(error) => {
                    let _ = send.send(Err(error));
                }
            }
        });
        self.running.push_back(RangePart { pieces, task });
    }
}

/// Gives the first `len` bytes of a body.
async fn forward(
    mut body: Box<dyn TransferBody>,
    len: u64,
    to: &mpsc::UnboundedSender<Result<Bytes, TransferError>>,
) {
    let mut left = len;
    while left > 0 {
        let piece = match body.next().await {
            Ok(Some(mut piece)) => {
                piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                left -= piece.len() as u64;
                Ok(piece)
            }
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if to.send(piece).is_err() || failed {
            return;
        }
    }
    // The end of the answer is read too, so that the connection can be used again.
    let _ = body.next().await;
}

fn changed(url: &Url) -> TransferError {
    let reason = "its data has changed meanwhile".to_owned();
    TransferError::Broken { peer: super::http::peer(url), reason }
}

impl TransferBody for Parallel {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(async {
            while let Some(part) = self.running.front_mut() {
                match part.pieces.recv().await {
                    Some(piece) => return piece.map(Some),
                    None => {
                        self.running.pop_front();
                        self.begin();
                    }
                }
            }
            Ok(None)
        })
    }

    fn digest(&mut self) -> TransferFuture<'_, Option<Digest>> {
        Box::pin(async {
            let want = ReadRequest { offset: 0, len: Some(1), version: Some(self.version.clone()) };
            let mut opened = self.transport.open(&self.url, want).await?;
            if opened.version.as_ref() != Some(&self.version) {
                return Err(changed(&self.url));
            }
            match opened.digest {
                Some(digest) => Ok(Some(digest)),
                None => opened.body.digest().await,
            }
        })
    }
}
