//! A file on its way to whoever reads it while it arrives. While the reader keeps up, its sender waits for
//! it; what a slower one leaves waits in the spool, because the sender may read nothing of the answer
//! before all of it was sent, and the reader may wait for the answer to be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::Fault;
use fishplate_data::stream::{Closed, Writer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::data::blocking;
use crate::spool::{NewFile, SpoolDirectory, spool_fault};

/// How long a reader may take nothing before what comes is spooled.
const PATIENCE: Duration = Duration::from_secs(1);

enum BacklogItem {
    /// In memory; the next one waits for its turn.
    Here(Vec<Bytes>, OwnedSemaphorePermit),
    Spooled {
        file: Arc<File>,
        at: u64,
        len: usize,
    },
    End(Result<(), Fault>),
}

/// The end of a backlog that is written.
pub(super) struct BacklogWriter {
    spool: Arc<SpoolDirectory>,
    file: Option<(NewFile, Arc<File>)>,
    /// Where the file ends.
    end: u64,
    /// Bytes of the file that nobody has read.
    unread: Arc<AtomicU64>,
    turn: Arc<Semaphore>,
    pieces: UnboundedSender<BacklogItem>,
}

/// The end that is passed on.
pub(super) struct Passing {
    unread: Arc<AtomicU64>,
    pieces: UnboundedReceiver<BacklogItem>,
}

/// An empty backlog.
pub(super) fn backlog(spool: &Arc<SpoolDirectory>) -> (BacklogWriter, Passing) {
    let (to, from) = unbounded_channel();
    let unread = Arc::new(AtomicU64::new(0));
    let backlog = BacklogWriter {
        spool: Arc::clone(spool),
        file: None,
        end: 0,
        unread: Arc::clone(&unread),
        turn: Arc::new(Semaphore::new(1)),
        pieces: to,
    };
    (backlog, Passing { unread, pieces: from })
}

impl BacklogWriter {
    /// Appends bytes, when the reader has taken those before or they were spooled.
    ///
    /// # Errors
    /// If they can't be spooled.
    pub(super) async fn push(&mut self, bytes: Vec<Bytes>) -> Result<(), Fault> {
        let read = self.unread.load(Ordering::Acquire) == 0;
        let turn = Arc::clone(&self.turn).acquire_owned();
        let piece = match if read { timeout(PATIENCE, turn).await.ok() } else { None } {
            Some(Ok(turn)) => BacklogItem::Here(bytes, turn),
            _ => self.spool(bytes.concat()).await?,
        };
        self.send(piece);
        Ok(())
    }

    /// That was all, or it ends with this fault.
    pub(super) fn finish(self, outcome: Result<(), Fault>) {
        self.send(BacklogItem::End(outcome));
    }

    /// Nobody passes it on any more: then it goes nowhere.
    fn send(&self, piece: BacklogItem) {
        let _ = self.pieces.send(piece);
    }

    async fn spool(&mut self, bytes: Vec<u8>) -> Result<BacklogItem, Fault> {
        // What was read may be written over: a reader who keeps up again costs no more disk.
        if self.unread.load(Ordering::Acquire) == 0 {
            self.end = 0;
        }
        let (at, len) = (self.end, bytes.len());
        self.end += len as u64;
        self.unread.fetch_add(len as u64, Ordering::AcqRel);
        let (spool, file) = (Arc::clone(&self.spool), self.file.take());
        let write = move || -> io::Result<_> {
            let (held, file) = match file {
                Some(file) => file,
                None => spool.file().map(|(held, file)| (held, Arc::new(file)))?,
            };
            spool.check_room()?;
            file.write_all_at(&bytes, at)?;
            Ok((held, file))
        };
        let (held, file) = blocking(move || write().map_err(|error| spool_fault(&error))).await?;
        self.file = Some((held, Arc::clone(&file)));
        Ok(BacklogItem::Spooled { file, at, len })
    }
}

impl Passing {
    /// Passes all on, until it has ended or nobody reads any more.
    pub(super) async fn run(mut self, mut writer: Writer) -> Result<(), Closed> {
        loop {
            let piece = tokio::select! {
                biased;
                () = writer.closed() => return Err(Closed),
                piece = self.pieces.recv() => piece,
            };
            match piece {
                Some(BacklogItem::Here(pieces, _turn)) => {
                    for bytes in pieces {
                        writer.send(bytes).await?;
                    }
                }
                Some(BacklogItem::Spooled { file, at, len }) => match read(file, at, len).await {
                    Ok(bytes) => {
                        self.unread.fetch_sub(len as u64, Ordering::AcqRel);
                        writer.send(bytes).await?;
                    }
                    Err(fault) => {
                        writer.finished(Err(fault)).await;
                        return Ok(());
                    }
                },
                Some(BacklogItem::End(outcome)) => {
                    writer.finished(outcome).await;
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }
}

async fn read(file: Arc<File>, at: u64, len: usize) -> Result<Bytes, Fault> {
    blocking(move || {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).map_err(|error| spool_fault(&error))?;
        Ok::<_, Fault>(bytes.into())
    })
    .await
}
