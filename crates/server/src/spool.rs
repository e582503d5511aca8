//! Payloads on their way in. Wire queues what is to be written; the driver of a body has it
//! written beside the runtime, one batch while the next is being read.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use fishplate_contract::{Argument, ByteStream, Fault, FaultCode, FileHandle, Payload, lock};
use fishplate_formats::disk::{self, FreeSpace};
use fishplate_jobs::function::context::Scratch;
use fishplate_jobs::process;
use fishplate_wire::SpoolSink;
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::Xxh3;

/// What is queued before it is written.
const BATCH: usize = 1 << 20;

/// The directory for spooled payloads of one server process.
///
/// Its name tells the process, so that what a killed one left is found and removed.
#[derive(Debug)]
pub struct SpoolDirectory {
    path: PathBuf,
    /// Bytes that must stay free on the file system.
    reserve: u64,
    next: AtomicU64,
}

impl SpoolDirectory {
    /// Makes the directory `DATA/spool/HOLDER` and removes those whose process is gone.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(data: &Path, reserve: u64) -> io::Result<Arc<Self>> {
        let spool = data.join("spool");
        fs::create_dir_all(&spool)?;
        Self::sweep(data)?;
        let holder = process::this_process().replace('/', "_");
        let path = spool.join(holder);
        fs::create_dir(&path)?;
        Ok(Arc::new(Self { path, reserve, next: AtomicU64::new(0) }))
    }

    /// Removes the directories whose process is gone.
    ///
    /// # Errors
    /// If they can't be listed.
    pub fn sweep(data: &Path) -> io::Result<()> {
        let spool = match fs::read_dir(data.join("spool")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listing => listing?,
        };
        for entry in spool.flatten() {
            let holder = entry.file_name().to_string_lossy().replace('_', "/");
            if process::is_dead(&holder) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// The same directory for functions' outputs.
    pub fn scratch(self: &Arc<Self>) -> Arc<Scratch> {
        Scratch::new(&self.path, self.reserve)
    }

    /// A stream as a file, written as it comes.
    ///
    /// # Errors
    /// The fault with which the stream ended; `StorageFull`.
    pub(crate) async fn collect(self: &Arc<Self>, stream: &ByteStream) -> Result<Payload, Fault> {
        let (mut chunks, mut sink) = (stream.take()?, self.sink());
        let failed = |error| spool_fault(&error);
        let held = sink.create();
        while let Some(chunk) = poll_fn(|context| chunks.as_mut().poll_next(context)).await {
            sink.write(&held, chunk?);
            sink.pace().await.map_err(failed)?;
        }
        sink.finish().await.map_err(failed)?;
        Ok(Payload::Spooled(held))
    }

    /// Arguments of which none is a stream any more.
    ///
    /// # Errors
    /// Likewise; it names the parameter.
    pub(crate) async fn collected(
        self: &Arc<Self>,
        mut values: Vec<Argument>,
    ) -> Result<Vec<Argument>, Fault> {
        for argument in &mut values {
            if let Some(payload) = argument.value.payload_mut()
                && let Payload::Stream(stream) = payload
            {
                let collected = self.collect(stream).await;
                *payload = collected.map_err(|fault| match fault.parameter {
                    Some(_) => fault,
                    None => fault.parameter(&*argument.name),
                })?;
            }
        }
        Ok(values)
    }

    /// A new file, and what holds it.
    ///
    /// # Errors
    /// If there is no room, or it cannot be made.
    pub(crate) fn file(self: &Arc<Self>) -> io::Result<(NewFile, File)> {
        self.check_room()?;
        let held = self.spooled();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&held.path)?;
        Ok((NewFile(held), file))
    }

    /// If the file system cannot be asked, the write that fails will say so.
    pub(crate) fn check_room(&self) -> io::Result<()> {
        if FreeSpace::at(&self.path).is_ok_and(|free| free.room() < self.reserve) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, ReserveMet(self.reserve)));
        }
        Ok(())
    }

    fn spooled(self: &Arc<Self>) -> Arc<SpooledPayload> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(SpooledPayload {
            path: self.path.join(number.to_string()),
            len: AtomicU64::new(0),
            kept: AtomicBool::new(false),
            open: Mutex::new(None),
            fingerprint: OnceLock::new(),
            _directory: Arc::clone(self),
        })
    }

    /// A sink for one message.
    pub fn sink(self: &Arc<Self>) -> Spooler {
        Spooler {
            directory: Arc::clone(self),
            opened: Vec::new(),
            queue: Vec::new(),
            queued: 0,
            in_writing: 0,
            writing: None,
        }
    }
}

impl Drop for SpoolDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// No more than so many bytes are free, which must stay free.
#[derive(Debug, thiserror::Error)]
#[error("{0} bytes must stay free")]
struct ReserveMet(u64);

/// The fault of a payload that could not be spooled.
pub(crate) fn spool_fault(error: &io::Error) -> Fault {
    if !disk::is_full(error) {
        tracing::error!(%error, "a payload could not be spooled");
        return Fault::new(FaultCode::Internal, "the message's data could not be stored");
    }
    let what = "the server's disk is full; the message was not accepted";
    let fault = Fault::new(FaultCode::StorageFull, what);
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(ReserveMet(reserve)) => fault.limit("disk_reserve", format!("{reserve} bytes")),
        None => fault,
    }
}

/// A payload in the spool.
#[derive(Debug)]
struct SpooledPayload {
    path: PathBuf,
    len: AtomicU64,
    kept: AtomicBool,
    // Held open between batches; closed when the message has been read.
    open: Mutex<Option<OpenFile>>,
    /// What is known of its bytes when it has been closed.
    fingerprint: OnceLock<u64>,
    _directory: Arc<SpoolDirectory>,
}

/// A file that is being written, and the digest of what it has.
struct OpenFile {
    file: File,
    digest: Xxh3,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenFile").field(&self.file).finish()
    }
}

impl FileHandle for SpooledPayload {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn fingerprint(&self) -> Option<u64> {
        self.fingerprint.get().copied()
    }

    fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
}

impl Drop for SpooledPayload {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file of the spool that somebody else writes. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct NewFile(Arc<SpooledPayload>);

impl NewFile {
    /// As a payload's holder, now that it has so many bytes.
    pub(crate) fn of_length(self, len: u64) -> Arc<dyn FileHandle> {
        self.0.len.store(len, Ordering::Release);
        self.0
    }
}

/// Takes the payloads of one message.
#[derive(Debug)]
pub struct Spooler {
    directory: Arc<SpoolDirectory>,
    opened: Vec<Arc<SpooledPayload>>,
    queue: Vec<(Arc<SpooledPayload>, Bytes)>,
    queued: usize,
    /// Bytes that are being written.
    in_writing: usize,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl SpoolSink for Spooler {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        let spooled = self.directory.spooled();
        self.opened.push(Arc::clone(&spooled));
        // An empty payload is an empty file.
        self.queue.push((Arc::clone(&spooled), Bytes::new()));
        spooled
    }

    fn write(&mut self, to: &Arc<dyn FileHandle>, data: Bytes) {
        let ours = |spooled: &&Arc<SpooledPayload>| {
            std::ptr::addr_eq(Arc::as_ptr(spooled), Arc::as_ptr(to))
        };
        let Some(spooled) = self.opened.iter().rev().find(ours) else { return };
        spooled.len.fetch_add(data.len() as u64, Ordering::AcqRel);
        self.queued += data.len();
        self.queue.push((Arc::clone(spooled), data));
    }
}

impl Spooler {
    /// Bytes that are in memory because they were not written yet.
    pub fn pending(&self) -> u64 {
        (self.queued + self.in_writing) as u64
    }

    /// Has all written that it was given so far.
    ///
    /// # Errors
    /// If something could not be written.
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.queue.is_empty() {
            self.write_queue().await?;
        }
        self.finish_batch().await
    }

    /// Has a full batch written while the caller goes on reading; waits for the batch before.
    ///
    /// # Errors
    /// If an earlier batch could not be written.
    pub async fn pace(&mut self) -> io::Result<()> {
        if self.queued >= BATCH { self.write_queue().await } else { Ok(()) }
    }

    /// Waits until all is written, and closes the files.
    ///
    /// # Errors
    /// If something could not be written.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.flush().await?;
        for spooled in self.opened.drain(..) {
            if let Some(written) = lock(&spooled.open).take() {
                let _ = spooled.fingerprint.set(written.digest.digest());
            }
        }
        Ok(())
    }

    async fn write_queue(&mut self) -> io::Result<()> {
        self.finish_batch().await?;
        self.directory.check_room()?;
        let batch = std::mem::take(&mut self.queue);
        self.in_writing = std::mem::take(&mut self.queued);
        self.writing = Some(tokio::task::spawn_blocking(move || write_batch(&batch)));
        Ok(())
    }

    async fn finish_batch(&mut self) -> io::Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let written = writing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.in_writing = 0;
        written
    }
}

fn write_batch(batch: &[(Arc<SpooledPayload>, Bytes)]) -> io::Result<()> {
    let mut rest = batch;
    while let Some((spooled, _)) = rest.first() {
        let run = rest.iter().take_while(|(other, _)| Arc::ptr_eq(other, spooled)).count();
        let mut slices: Vec<IoSlice<'_>> =
            rest[..run].iter().map(|(_, data)| IoSlice::new(data)).collect();
        let mut open = lock(&spooled.open);
        let written = match &mut *open {
            Some(written) => written,
            none => {
                let mut options = OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&spooled.path)?;
                none.insert(OpenFile { file, digest: Xxh3::new() })
            }
        };
        rest[..run].iter().for_each(|(_, data)| written.digest.update(data));
        write_all_vectored(&mut written.file, &mut slices)?;
        rest = &rest[run..];
    }
    Ok(())
}

fn write_all_vectored(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fishplate_data::stream::pipe;
    use tokio::time::timeout;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    #[tokio::test]
    async fn what_is_queued_in_pieces_is_a_file_and_goes_with_its_last_handle() {
        let data = tempfile::tempdir().unwrap();
        let directory = SpoolDirectory::open(data.path(), 0).unwrap();
        let mut sink = directory.sink();
        let (one, two) = (sink.create(), sink.create());
        for piece in 0..50u8 {
            sink.write(&one, Bytes::from(vec![piece; 70_000]));
            sink.write(&two, Bytes::from_static(b"x"));
            sink.pace().await.unwrap();
        }
        assert!(sink.pending() > 0);
        sink.flush().await.unwrap();
        assert_eq!(sink.pending(), 0);
        sink.finish().await.unwrap();
        drop(sink);
        assert_eq!((one.len(), two.len()), (3_500_000, 50));
        let bytes = fs::read(one.path()).unwrap();
        assert!(bytes.chunks(70_000).enumerate().all(|(n, chunk)| {
            chunk.len() == 70_000 && chunk.iter().all(|byte| usize::from(*byte) == n)
        }));
        assert_eq!(fs::read(two.path()).unwrap(), [b'x'; 50]);
        // The writer knows what a reader would find.
        assert_eq!(one.fingerprint(), Some(xxh3_64(&bytes)));
        let (gone, kept) = (one.path().to_owned(), two.path().to_owned());
        two.keep();
        drop((one, two));
        assert!(!gone.exists() && kept.exists());
    }

    #[test]
    fn a_stream_whose_sender_is_slow_holds_no_thread() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).enable_time().build().unwrap();
        runtime.block_on(async {
            let data = tempfile::tempdir().unwrap();
            let directory = SpoolDirectory::open(data.path(), 0).unwrap();
            let (mut writer, stream) = pipe();
            writer.send(Bytes::from_static(b"half")).await.unwrap();
            let collecting = directory.collect(&stream);
            let others = async {
                tokio::task::yield_now().await;
                let other = tokio::task::spawn_blocking(|| ());
                timeout(Duration::from_secs(60), other).await.expect("a free thread").unwrap();
                writer.send(Bytes::from_static(b" and half")).await.unwrap();
                writer.finished(Ok(())).await;
            };
            let (collected, ()) = tokio::join!(collecting, others);
            let Ok(Payload::Spooled(held)) = collected else { panic!("{collected:?}") };
            assert_eq!(fs::read(held.path()).unwrap(), b"half and half");

            let (writer, broken) = pipe();
            drop(writer);
            assert_eq!(directory.collect(&broken).await.unwrap_err().code, FaultCode::Internal);
            drop(held);
            assert_eq!(fs::read_dir(&directory.path).unwrap().count(), 0);
        });
    }

    #[tokio::test]
    async fn what_must_stay_free_stays_free_while_a_message_is_spooled() {
        let data = tempfile::tempdir().unwrap();
        // More than any disk has: the disk itself is not full.
        let directory = SpoolDirectory::open(data.path(), u64::MAX).unwrap();
        let mut sink = directory.sink();
        let payload = sink.create();
        sink.write(&payload, Bytes::from(vec![1; BATCH - 1]));
        sink.pace().await.unwrap();
        sink.write(&payload, Bytes::from_static(b"x"));
        for refused in [sink.pace().await, sink.finish().await, directory.file().map(drop)] {
            let fault = spool_fault(&refused.unwrap_err());
            assert_eq!(fault.code, FaultCode::StorageFull);
            let limit = fault.limit.unwrap();
            assert_eq!(
                (limit.name.as_str(), limit.value),
                ("disk_reserve", format!("{} bytes", u64::MAX))
            );
        }
        assert!(!payload.path().exists(), "nothing was written");
        // The end of the disk itself is no limit of ours.
        let full = spool_fault(&io::ErrorKind::StorageFull.into());
        assert_eq!((full.code, full.limit), (FaultCode::StorageFull, None));
        let broken = spool_fault(&io::ErrorKind::PermissionDenied.into());
        assert_eq!(broken.code, FaultCode::Internal);
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_removed_and_a_living_ones_is_not() {
        let data = tempfile::tempdir().unwrap();
        let dead = data.path().join("spool/00000000-0000-0000-0000-000000000000_1_1_0");
        fs::create_dir_all(&dead).unwrap();
        fs::write(dead.join("0"), "half a payload").unwrap();
        let living = SpoolDirectory::open(data.path(), 0).unwrap();
        let another = SpoolDirectory::open(data.path(), 0).unwrap();
        assert!(!dead.exists() && living.path.exists() && another.path.exists());
        // While it lives, too: others come and go.
        fs::create_dir_all(&dead).unwrap();
        SpoolDirectory::sweep(data.path()).unwrap();
        assert!(!dead.exists() && living.path.exists() && another.path.exists());
    }
}
