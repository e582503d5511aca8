//! Where large outputs go while they come: hidden files, written on a thread of their own.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use fishplate_contract::FileHandle;
use fishplate_wire::SpoolSink;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::Error;

/// Batches that may wait for the disk; a batch is what one chunk from the network holds.
const BATCHES_AHEAD: usize = 4;

/// Takes the large outputs of one answer.
pub(crate) struct Spool {
    /// The system's for temporary files, if it is none.
    dir: Option<PathBuf>,
    /// Access rights of new files, before the umask.
    mode: u32,
    files: Vec<Arc<SpooledFile>>,
    queue: Vec<SpoolWrite>,
    writer: Option<SpoolWriter>,
}

type SpoolWrite = (Arc<SpooledFile>, Bytes);

struct SpoolWriter {
    batches: mpsc::Sender<Vec<SpoolWrite>>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Spool {
    /// Into this directory, or the system's for temporary files.
    pub(crate) fn new(dir: Option<&Path>) -> Self {
        let (dir, mode) = match dir {
            Some(dir) if dir.as_os_str().is_empty() => (Some(PathBuf::from(".")), 0o666),
            Some(dir) => (Some(dir.to_owned()), 0o666),
            None => (None, 0o600),
        };
        Self { dir, mode, files: Vec::new(), queue: Vec::new(), writer: None }
    }

    /// Hands on what was queued; waits while the disk is behind.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.queue);
        let mode = self.mode;
        let writer = self.writer.get_or_insert_with(|| SpoolWriter::start(mode));
        if writer.batches.send(batch).await.is_err() {
            // It only stops taking batches because it failed.
            return self.finish().await;
        }
        Ok(())
    }

    /// Everything is written.
    pub(crate) async fn finish(&mut self) -> Result<(), Error> {
        let Some(SpoolWriter { batches, thread }) = self.writer.take() else { return Ok(()) };
        drop(batches);
        match thread.await {
            Ok(written) => written,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl SpoolSink for Spool {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        let file = Arc::new(SpooledFile {
            path: self
                .dir
                .get_or_insert_with(std::env::temp_dir)
                .join(format!(".fishplate-{}.part", crate::service::new_key())),
            len: AtomicU64::new(0),
            exists: AtomicBool::new(false),
        });
        self.files.push(Arc::clone(&file));
        // An empty one must exist as well.
        self.queue.push((Arc::clone(&file), Bytes::new()));
        file
    }

    fn write(&mut self, to: &Arc<dyn FileHandle>, data: Bytes) {
        let mut newest_first = self.files.iter().rev();
        if let Some(file) = newest_first.find(|file| file.path == to.path()) {
            file.len.fetch_add(data.len() as u64, Relaxed);
            self.queue.push((Arc::clone(file), data));
        }
    }
}

impl SpoolWriter {
    fn start(mode: u32) -> Self {
        let (batches, receiver) = mpsc::channel(BATCHES_AHEAD);
        let thread = tokio::task::spawn_blocking(move || write_all(receiver, mode));
        Self { batches, thread }
    }
}

fn write_all(mut batches: mpsc::Receiver<Vec<SpoolWrite>>, mode: u32) -> Result<(), Error> {
    // Payloads come one after the other, mostly: two open files are plenty.
    let mut open: VecDeque<(PathBuf, File)> = VecDeque::new();
    while let Some(batch) = batches.blocking_recv() {
        for (file, data) in batch {
            let failed = |source| Error::file("write", &file.path)(source);
            let at = match open.iter().position(|(path, _)| *path == file.path) {
                Some(at) => at,
                None => {
                    let mut options = OpenOptions::new();
                    options.append(true).mode(mode);
                    options.create_new(!file.exists.load(Relaxed));
                    let handle = options.open(&file.path).map_err(failed)?;
                    file.exists.store(true, Relaxed);
                    open.truncate(1);
                    open.push_front((file.path.clone(), handle));
                    0
                }
            };
            open[at].1.write_all(&data).map_err(failed)?;
        }
    }
    Ok(())
}

/// A hidden file; removed when the last handle is dropped, unless it was saved.
#[derive(Debug)]
pub(crate) struct SpooledFile {
    path: PathBuf,
    /// Bytes queued for it.
    len: AtomicU64,
    exists: AtomicBool,
}

impl FileHandle for SpooledFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    fn keep(&self) {
        self.exists.store(false, Relaxed);
    }
}

impl Drop for SpooledFile {
    fn drop(&mut self) {
        if *self.exists.get_mut() {
            // Nothing better can be done with one that resists.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn what_is_queued_is_in_the_files_after_the_end_and_dropping_removes_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Some(dir.path()));
        let files = [spool.create(), spool.create(), spool.create(), spool.create()];
        for round in 0..10_u8 {
            for file in &files[..3] {
                spool.write(file, Bytes::from(vec![round; 1000]));
            }
            spool.flush().await.unwrap();
        }
        spool.finish().await.unwrap();
        for (file, len) in files.iter().zip([10_000, 10_000, 10_000, 0]) {
            assert_eq!(file.len(), len);
            assert_eq!(fs::metadata(file.path()).unwrap().len(), len);
        }
        assert!(names(dir.path()).iter().all(|name| name.starts_with(".fishplate-")));
        drop((files, spool));
        assert!(names(dir.path()).is_empty());
    }

    #[tokio::test]
    async fn an_exchange_that_is_dropped_in_the_middle_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Some(dir.path()));
        let file = spool.create();
        spool.write(&file, Bytes::from(vec![1; 100_000]));
        spool.flush().await.unwrap();
        let thread = spool.writer.take().unwrap();
        drop((file, spool));
        drop(thread.batches);
        thread.thread.await.unwrap().unwrap();
        assert!(names(dir.path()).is_empty());
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_is_an_error_that_names_the_file() {
        let mut spool = Spool::new(Some(Path::new("/nonexistent/dir")));
        let file = spool.create();
        spool.write(&file, Bytes::from_static(b"x"));
        let flushed = spool.flush().await;
        let finished = spool.finish().await;
        let error = flushed.and(finished).unwrap_err();
        assert!(matches!(error, Error::File { doing: "write", .. }), "{error:?}");
    }
}
