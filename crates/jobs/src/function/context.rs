//! What a running function can ask and tell: whether its result is still wanted, how far it is,
//! and where large outputs go.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fishplate_contract::{ByteStream, Fault, FaultCode, FileHandle, Payload};
use fishplate_data::stream::{Writer, pipe};
use fishplate_formats::disk::{self, FreeSpace};

/// How often progress is written down.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// How often a scratch file looks whether the disk still has room, in bytes written.
const LOOK_EVERY: u64 = 4 << 20;

/// What is given back by dropping it.
pub type SlotGuard = Arc<dyn Any + Send + Sync>;

/// What a running function can ask and tell.
#[derive(Debug)]
pub struct Context {
    cancelled: Option<Arc<AtomicBool>>,
    place: Option<SlotGuard>,
    scratch: Arc<Scratch>,
    progress: Option<ProgressReporter>,
    most_in_memory: Option<u64>,
}

/// A directory for outputs that are too large for memory.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    /// Bytes that must stay free on its file system.
    reserve: u64,
    next: AtomicU64,
}

/// Where progress is told, and when it was told last.
#[derive(Debug)]
struct ProgressReporter {
    file: File,
    told: std::sync::Mutex<Option<Instant>>,
}

impl Scratch {
    /// Files in this directory, which must exist. Names begin with `scratch-`.
    pub fn new(directory: impl Into<PathBuf>, reserve: u64) -> Arc<Self> {
        Arc::new(Self { directory: directory.into(), reserve, next: AtomicU64::new(0) })
    }
}

impl Context {
    /// A context without anybody who listens for progress.
    pub fn new(scratch: &Arc<Scratch>) -> Self {
        Self {
            cancelled: None,
            place: None,
            scratch: Arc::clone(scratch),
            progress: None,
            most_in_memory: None,
        }
    }

    /// The same with a bound on the bytes of spooled arrays that a call reads into memory (limit
    /// `function_memory`).
    #[must_use]
    pub fn with_most_in_memory(mut self, bytes: u64) -> Self {
        self.most_in_memory = Some(bytes);
        self
    }

    /// The same; it keeps this for as long as the function runs or makes a [stream](Context::stream).
    #[must_use]
    pub fn with_place(mut self, place: SlotGuard) -> Self {
        self.place = Some(place);
        self
    }

    pub(super) fn most_in_memory(&self) -> Option<u64> {
        self.most_in_memory
    }

    /// The same; progress is written to this file, a line such as `12.5%` each time.
    #[must_use]
    pub(super) fn tell_progress(mut self, file: File) -> Self {
        self.progress = Some(ProgressReporter { file, told: std::sync::Mutex::default() });
        self
    }

    /// The flag behind [`Context::is_cancelled`], for whoever will set it.
    pub fn cancellation(&mut self) -> Arc<AtomicBool> {
        Arc::clone(self.cancelled.get_or_insert_default())
    }

    /// Whether nobody wants the result any more: the caller hung up, or the time is over. A
    /// function that runs for long looks now and then, and returns. (A job need not look: it is a
    /// process, which is ended.)
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }

    /// Tells the share done, 0 to 1, for `status`. Cheap; may be called often.
    pub fn progress(&self, share: f64) {
        let Some(ProgressReporter { file, told }) = &self.progress else { return };
        let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) && share < 1.0 {
            return;
        }
        *told = Some(Instant::now());
        // Progress that cannot be told is no reason to fail.
        let _ = writeln!(&mut &*file, "{:.1}%", share.clamp(0.0, 1.0) * 100.0);
    }

    /// An output that is sent while `produce` writes it, on a thread of its own: it waits while the caller
    /// is slow, and gets [`Closed`](fishplate_data::stream::Closed) once nobody reads any more. The caller
    /// never takes a fault, or a panic, for the end.
    ///
    /// # Errors
    /// `Internal` if the system gives no thread.
    pub fn stream(
        &self,
        produce: impl FnOnce(&mut Writer) -> Result<(), Fault> + Send + 'static,
    ) -> Result<ByteStream, Fault> {
        let (mut writer, stream) = pipe();
        let place = self.place.clone();
        let thread = thread::Builder::new().name("stream".to_owned()).spawn(move || {
            let outcome = produce(&mut writer);
            writer.finish(outcome);
            drop(place);
        });
        thread.map(|_| stream).map_err(|error| storage_fault(&error))
    }

    /// A new empty file for an output that is too large for memory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(&self) -> io::Result<ScratchFile> {
        let number = self.scratch.next.fetch_add(1, Ordering::Relaxed);
        let path = self.scratch.directory.join(format!("scratch-{number}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let held = ScratchHandle { path, len: 0, kept: AtomicBool::new(false) };
        Ok(ScratchFile { file, held, until_look: 0, scratch: Arc::clone(&self.scratch) })
    }
}

/// An output that is being written. It is gone again if it is dropped before it is finished.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    held: ScratchHandle,
    until_look: u64,
    scratch: Arc<Scratch>,
}

impl ScratchFile {
    /// What was written, as an output.
    pub fn finish(self) -> Payload {
        Payload::Spooled(Arc::new(self.held))
    }

    fn look(&mut self) -> io::Result<()> {
        // If the file system cannot be asked, the write that fails will say so.
        let scratch = &self.scratch;
        if FreeSpace::at(&scratch.directory).is_ok_and(|free| free.room() < scratch.reserve) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.until_look = LOOK_EVERY;
        Ok(())
    }
}

impl Write for ScratchFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.until_look == 0 {
            self.look()?;
        }
        let written = self.file.write(bytes)?;
        self.held.len += written as u64;
        self.until_look = self.until_look.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[derive(Debug)]
struct ScratchHandle {
    path: PathBuf,
    len: u64,
    kept: AtomicBool,
}

impl FileHandle for ScratchHandle {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
}

impl Drop for ScratchHandle {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The fault that a failure to read or write a payload is.
pub fn storage_fault(error: &io::Error) -> Fault {
    // A stream's own.
    if let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
        return fault.clone();
    }
    if disk::is_full(error) {
        return Fault::new(FaultCode::StorageFull, "the server's disk is full");
    }
    tracing::error!(%error, "a function could not read or write its data");
    Fault::new(FaultCode::Internal, "the function's data could not be read or written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_goes_with_its_last_handle_and_never_fills_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::new(&Scratch::new(directory.path(), 0));
        let mut file = context.create().unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut file = context.create().unwrap();
        file.write_all(b"whole").unwrap();
        let payload = file.finish();
        assert_eq!(payload.len(), Some(5));
        let Payload::Spooled(held) = &payload else { panic!("{payload:?}") };
        assert_eq!(fs::read(held.path()).unwrap(), b"whole");
        drop(payload);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let full = Context::new(&Scratch::new(directory.path(), u64::MAX));
        let error = full.create().unwrap().write_all(b"x").unwrap_err();
        assert_eq!(storage_fault(&error).code, FaultCode::StorageFull);
    }
}
