//! Hashing beside writing. Small data is hashed where it comes; from [`BESIDE`] on a thread does
//! it. It gets the bytes themselves if it keeps up, else it reads them from the file, which is
//! still in memory then: so nobody who writes waits for it, and little memory is held.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use fishplate_contract::Digest;
use ring::digest::{Context, SHA256, SHA512};

/// From how many bytes on a thread of its own is worth its start.
const BESIDE: u64 = 1 << 20;

/// Pieces that wait for the thread.
const PIECES: usize = 16;

/// Bytes that are read from a file at once.
const READ: usize = 1 << 20;

/// Computes the SHA-256 of what is written to a file.
pub(super) struct Hasher {
    way: HashMode,
    len: u64,
}

enum HashMode {
    Here(Box<Context>),
    Beside(HashThread),
    /// It was finished.
    Over,
}

struct HashThread {
    queue: Option<SyncSender<HashChunk>>,
    thread: Option<JoinHandle<io::Result<Context>>>,
    /// What the queue had no room for.
    lag: Option<Range<u64>>,
    /// Nobody wants the digest any more.
    stop: Arc<AtomicBool>,
}

enum HashChunk {
    Bytes(Bytes),
    /// To be read from the file.
    Written(Range<u64>),
}

impl Hasher {
    /// Nothing was written yet.
    pub(super) fn new() -> Self {
        Self { way: HashMode::Here(Box::new(Context::new(&SHA256))), len: 0 }
    }

    /// So many bytes are in the file already.
    pub(super) fn resumed(file: &File, len: u64) -> io::Result<Self> {
        let mut hasher = Self::new();
        if len > 0 {
            hasher.go_beside(file)?;
            hasher.push(HashChunk::Written(0..len), 0..len);
            hasher.len = len;
        }
        Ok(hasher)
    }

    /// These bytes were written behind the others.
    pub(super) fn update(&mut self, file: &File, bytes: &Bytes) -> io::Result<()> {
        let written = self.len..self.len + bytes.len() as u64;
        if written.end > BESIDE && matches!(self.way, HashMode::Here(_)) {
            self.go_beside(file)?;
        }
        self.push(HashChunk::Bytes(bytes.clone()), written.clone());
        self.len = written.end;
        Ok(())
    }

    fn push(&mut self, piece: HashChunk, written: Range<u64>) {
        match &mut self.way {
            HashMode::Here(context) => {
                if let HashChunk::Bytes(bytes) = &piece {
                    context.update(bytes);
                }
            }
            HashMode::Beside(beside) => beside.push(piece, written),
            HashMode::Over => {}
        }
    }

    fn go_beside(&mut self, file: &File) -> io::Result<()> {
        if let HashMode::Here(context) = &self.way {
            self.way =
                HashMode::Beside(HashThread::start(Context::clone(context), file.try_clone()?)?);
        }
        Ok(())
    }

    /// The digest of all that was written.
    pub(super) fn finish(mut self) -> io::Result<Digest> {
        let context = match std::mem::replace(&mut self.way, HashMode::Over) {
            HashMode::Here(context) => *context,
            HashMode::Beside(beside) => beside.finish()?,
            HashMode::Over => return Err(io::Error::other("the digest was taken before")),
        };
        Ok(sha256(&context.finish()))
    }
}

impl HashThread {
    fn start(context: Context, file: File) -> io::Result<Self> {
        let (queue, pieces) = sync_channel(PIECES);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("hash".to_owned())
            .spawn(move || hash_pieces(context, &file, &pieces, &stopped))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), lag: None, stop })
    }

    fn push(&mut self, piece: HashChunk, written: Range<u64>) {
        let piece = match self.lag.take() {
            Some(behind) => HashChunk::Written(behind.start..written.end),
            None => piece,
        };
        let Some(queue) = &self.queue else { return };
        // A thread that failed tells at the end.
        if let Err(TrySendError::Full(piece)) = queue.try_send(piece) {
            self.lag = Some(match piece {
                HashChunk::Written(behind) => behind,
                HashChunk::Bytes(_) => written,
            });
        }
    }

    fn finish(mut self) -> io::Result<Context> {
        if let (Some(queue), Some(behind)) = (self.queue.take(), self.lag.take()) {
            let _ = queue.send(HashChunk::Written(behind));
        }
        let thread = self.thread.take().ok_or_else(lost)?;
        thread.join().map_err(|_| lost())?
    }
}

fn lost() -> io::Error {
    io::Error::other("the hashing thread is gone")
}

/// The thread has the file open and so its lock: who drops this may let others have it.
impl Drop for HashThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn hash_pieces(
    mut context: Context,
    file: &File,
    pieces: &Receiver<HashChunk>,
    stop: &AtomicBool,
) -> io::Result<Context> {
    while let Ok(piece) = pieces.recv() {
        match piece {
            HashChunk::Bytes(bytes) => context.update(&bytes),
            HashChunk::Written(range) => read_range(file, range, |bytes| {
                context.update(bytes);
                !stop.load(Ordering::Relaxed)
            })?,
        }
    }
    Ok(context)
}

/// Reads a part of a file, as long as who takes it wants more.
fn read_range(
    file: &File,
    range: Range<u64>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ];
    let mut at = range.start;
    while at < range.end {
        let most = usize::try_from(range.end - at).map_or(READ, |left| left.min(READ));
        match file.read_at(&mut buffer[..most], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                at += read as u64;
                if !take(&buffer[..read]) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// SHA-256 of bytes in memory.
pub(super) fn of_bytes<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Digest {
    let mut context = Context::new(&SHA256);
    pieces.into_iter().for_each(|piece| context.update(piece));
    sha256(&context.finish())
}

/// Digest of a whole file, of the algorithm of `like`; tells after each piece how many bytes it had.
pub(super) fn of_file(
    file: &File,
    like: Algorithm,
    mut tell: impl FnMut(u64),
) -> io::Result<Digest> {
    let mut context = Context::new(match like {
        Algorithm::Sha256 => &SHA256,
        Algorithm::Sha512 => &SHA512,
    });
    read_range(file, 0..file.metadata()?.len(), |bytes| {
        context.update(bytes);
        tell(bytes.len() as u64);
        true
    })?;
    let value = context.finish();
    Ok(match like {
        Algorithm::Sha256 => sha256(&value),
        Algorithm::Sha512 => {
            let mut bytes = [0; 64];
            bytes.copy_from_slice(value.as_ref());
            Digest::Sha512(bytes)
        }
    })
}

/// What a digest is computed with.
#[derive(Clone, Copy)]
pub(super) enum Algorithm {
    Sha256,
    Sha512,
}

fn sha256(value: &ring::digest::Digest) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(value.as_ref());
    Digest::Sha256(bytes)
}
