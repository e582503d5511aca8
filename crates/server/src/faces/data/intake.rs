//! A body on its way into the pool: read as it comes, written and hashed beside the runtime, one
//! batch while the next is being read.

use std::fmt::Display;

use bytes::Bytes;
use fishplate_contract::{Digest, Fault, FaultCode};
use fishplate_data::{Incoming as Arriving, PoolError};
use hyper::body::Body;
use ring::digest::{Context, SHA256, SHA512};
use tokio::task::{JoinHandle, spawn_blocking};

use super::uploads::AppendTurn;
use crate::http::body::{Incoming, ReadError};

/// What is gathered before it is written.
const BATCH: usize = 1 << 20;

/// What came of a body; the bytes before it ended are kept, however it did.
pub(super) struct IntakeResult {
    pub(super) arriving: Arriving,
    pub(super) ended: Result<(), IntakeError>,
}

/// Why not all of a body came in.
#[derive(Debug)]
pub(super) enum IntakeError {
    /// It came too slowly, or broke off.
    Sender(Fault),
    /// Somebody else came for the same upload: the sender has given this request up.
    Superseded,
    /// It is not what its `Content-Digest` says.
    Mismatch(Fault),
    /// It could not be kept.
    Pool(PoolError),
}

impl IntakeError {
    pub(super) fn into_fault(self) -> Fault {
        match self {
            Self::Sender(fault) | Self::Mismatch(fault) => fault,
            Self::Superseded => {
                let what = "a newer request for the same upload took over";
                Fault::new(FaultCode::KeyConflict, what)
            }
            Self::Pool(error) => error.into(),
        }
    }
}

/// Computes the digest of one request's content.
struct DigestCheck {
    must: Digest,
    context: Context,
}

impl DigestCheck {
    fn new(must: Digest) -> Self {
        let algorithm = match must {
            Digest::Sha256(_) => &SHA256,
            Digest::Sha512(_) => &SHA512,
        };
        Self { must, context: Context::new(algorithm) }
    }

    fn verdict(self) -> Result<(), IntakeError> {
        let found = self.context.finish();
        if found.as_ref() == self.must.as_bytes() {
            return Ok(());
        }
        let what = format!("the content is not {}; nothing of it was kept", self.must);
        Err(IntakeError::Mismatch(Fault::new(FaultCode::DataMismatch, what)))
    }
}

/// What is written to while the next batch is read.
struct IntakeSink {
    arriving: Arriving,
    check: Option<DigestCheck>,
}

impl IntakeSink {
    fn write(&mut self, batch: Vec<Bytes>) -> Result<(), PoolError> {
        for bytes in batch {
            if let Some(check) = &mut self.check {
                check.context.update(&bytes);
            }
            self.arriving.append(bytes)?;
        }
        Ok(())
    }
}

type Writing = JoinHandle<(IntakeSink, Result<(), PoolError>)>;

/// Appends a body. `must_be` is its `Content-Digest`: if it is another, none of it is kept.
pub(super) async fn take_in<B>(
    body: &mut Incoming<B>,
    arriving: Arriving,
    must_be: Option<Digest>,
    turn: Option<&AppendTurn>,
) -> Result<IntakeResult, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let begun = arriving.len();
    let mut idle = Some(IntakeSink { arriving, check: must_be.map(DigestCheck::new) });
    let mut writing: Option<Writing> = None;
    let (mut batch, mut gathered) = (Vec::new(), 0);
    let mut ended = loop {
        let next = match turn {
            Some(turn) => tokio::select! {
                next = body.next() => next,
                () = turn.superseded() => break Err(IntakeError::Superseded),
            },
            None => body.next().await,
        };
        match next.map_err(ReadError::into_fault) {
            Ok(Some(bytes)) => {
                gathered += bytes.len();
                batch.push(bytes);
            }
            Ok(None) => break Ok(()),
            Err(fault) => break Err(IntakeError::Sender(fault)),
        }
        if gathered < BATCH {
            continue;
        }
        gathered = 0;
        match finish_batch(&mut idle, &mut writing).await? {
            Ok(()) => write(&mut idle, &mut writing, std::mem::take(&mut batch)),
            Err(error) => break Err(IntakeError::Pool(error)),
        }
    };
    // What came before the end is written, however it ended; but not behind a gap.
    if !matches!(ended, Err(IntakeError::Pool(_))) {
        for last in [batch, Vec::new()] {
            if let Err(error) = finish_batch(&mut idle, &mut writing).await? {
                ended = Err(IntakeError::Pool(error));
                break;
            }
            if !last.is_empty() {
                write(&mut idle, &mut writing, last);
            }
        }
    }
    let Some(IntakeSink { arriving, check }) = idle else { return Err(gone()) };
    finished(arriving, check, begun, ended).await
}

async fn finished(
    arriving: Arriving,
    check: Option<DigestCheck>,
    begun: u64,
    mut ended: Result<(), IntakeError>,
) -> Result<IntakeResult, Fault> {
    if let (Ok(()), Some(check)) = (&ended, check) {
        ended = check.verdict();
    }
    if !matches!(ended, Err(IntakeError::Mismatch(_))) {
        return Ok(IntakeResult { arriving, ended });
    }
    let mut arriving = arriving;
    let cut = spawn_blocking(move || arriving.truncate(begun).map(|()| arriving)).await;
    let arriving = cut.map_err(|_| gone())??;
    Ok(IntakeResult { arriving, ended })
}

/// Waits for the batch that is being written.
async fn finish_batch(
    idle: &mut Option<IntakeSink>,
    writing: &mut Option<Writing>,
) -> Result<Result<(), PoolError>, Fault> {
    let Some(batch) = writing.take() else { return Ok(Ok(())) };
    let (sink, written) = batch.await.map_err(|_| gone())?;
    *idle = Some(sink);
    Ok(written)
}

fn write(idle: &mut Option<IntakeSink>, writing: &mut Option<Writing>, batch: Vec<Bytes>) {
    let Some(mut sink) = idle.take() else { return };
    *writing = Some(spawn_blocking(move || {
        let written = sink.write(batch);
        (sink, written)
    }));
}

fn gone() -> Fault {
    Fault::new(FaultCode::Internal, "the server is ending; try again")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use fishplate_contract::{Principal, SystemClock};
    use fishplate_data::{Pool, PoolSettings};
    use hyper::body::Frame;

    use super::*;
    use crate::settings::Settings;

    const CHUNK: usize = 16 << 10;
    const CHUNKS: usize = 2048;

    /// A chunk that is counted as long as anybody holds it.
    struct Chunk {
        bytes: Vec<u8>,
        held: Arc<AtomicUsize>,
    }

    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Chunk {
        fn drop(&mut self) {
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A body that always has a chunk more.
    struct Upload {
        left: usize,
        held: Arc<AtomicUsize>,
        most_held: Arc<AtomicUsize>,
    }

    impl Body for Upload {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_held.fetch_max(held, Ordering::Relaxed);
            let chunk = Chunk { bytes: vec![7; CHUNK], held: Arc::clone(&self.held) };
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(chunk)))))
        }
    }

    #[tokio::test]
    async fn an_upload_is_written_in_batches_and_holds_no_more_than_a_few() {
        let directory = tempfile::tempdir().unwrap();
        let settings = PoolSettings::new(directory.path().to_owned());
        let settings = PoolSettings { disk_reserve: 0, ..settings };
        let pool = Pool::open(settings, Arc::new(SystemClock)).unwrap();
        let whole = (CHUNK * CHUNKS) as u64;
        let arriving = pool.receive(&Principal::anonymous(), None, Some(whole)).unwrap();
        let most_held = Arc::new(AtomicUsize::new(0));
        let upload =
            Upload { left: CHUNKS, held: Arc::default(), most_held: Arc::clone(&most_held) };
        let mut body = Incoming::new(upload, &Settings::new("http://localhost"));
        let taken = take_in(&mut body, arriving, None, None).await.unwrap();
        assert!(taken.ended.is_ok(), "{:?}", taken.ended);
        assert_eq!(taken.arriving.len(), whole);
        // A batch is gathered while another is written, and some of that is still to be hashed. Less
        // than a batch, and each chunk would cost a turn of another thread.
        let (most, batch) = (most_held.load(Ordering::Relaxed), BATCH / CHUNK);
        assert!((batch..=3 * batch).contains(&most), "{most} chunks were held, a batch is {batch}");
    }
}
