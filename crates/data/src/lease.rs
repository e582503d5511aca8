//! Data of the pool that is in use: as long as a lease lives, it can be read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fishplate_contract::{Digest, FileHandle};

use crate::pool::{InMemory, PoolError, Registered};

/// A file of the pool that stays where it is as long as this lives. Cheap to clone.
///
/// It holds a shared lock on the open file (`flock`); whoever evicts needs the exclusive one. The
/// kernel frees it with the process, however that ends. Small data that has no file in the pool is
/// held in memory, and gets a file there when somebody asks for it: only this process can open
/// that, and only as long as the lease lives.
#[derive(Clone, Debug)]
pub struct Lease(Arc<LeaseInner>);

#[derive(Debug)]
struct LeaseInner {
    data: LeaseTarget,
    len: u64,
    digest: OnceLock<Digest>,
    object: Registered,
}

/// What can be leased.
#[derive(Debug)]
pub(crate) enum LeaseTarget {
    /// A file that is locked, and where it is.
    File(File, PathBuf),
    /// Bytes in memory.
    Memory(InMemory),
}

impl Drop for LeaseInner {
    /// Gives the lock back at once. Closing the file would not: a process that is just being forked
    /// has all files of its parent open until it is executed, and so would keep the lock.
    fn drop(&mut self) {
        if let LeaseTarget::File(file, _) = &self.data {
            // What can't be unlocked is unlocked when it is closed.
            let _ = file.unlock();
        }
    }
}

/// Where the path of what could not be opened leads: nowhere.
const NOWHERE: &str = "/proc/self/fd/none";

impl Lease {
    pub(crate) fn new(
        data: LeaseTarget,
        len: u64,
        digest: Option<Digest>,
        object: Registered,
    ) -> Self {
        let digest = digest.map_or_else(OnceLock::new, OnceLock::from);
        Self(Arc::new(LeaseInner { data, len, digest, object }))
    }

    /// Digest of the data (SHA-256), if it is known: that of an unhashed file is computed beside.
    pub fn digest(&self) -> Option<Digest> {
        if let Some(digest) = self.0.digest.get() {
            return Some(*digest);
        }
        let digest = self.0.object.digest().ok().flatten()?;
        Some(*self.0.digest.get_or_init(|| digest))
    }

    /// Digest of the data, waiting for it if it is being computed.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn known_digest(&self) -> Result<Digest, PoolError> {
        if let Some(digest) = self.0.digest.get() {
            return Ok(*digest);
        }
        let digest = self.0.object.known_digest()?;
        Ok(*self.0.digest.get_or_init(|| digest))
    }

    /// The open file, for reading at offsets: clones of a lease share its cursor.
    ///
    /// # Errors
    /// If data that is in memory can't have a file there.
    pub fn file(&self) -> io::Result<&File> {
        match &self.0.data {
            LeaseTarget::File(file, _) => Ok(file),
            LeaseTarget::Memory(data) => data.file().map(|(file, _)| file),
        }
    }

    /// The file opened once more, for somebody who reads it after this lease has ended: it is in use
    /// until that is closed.
    ///
    /// # Errors
    /// As [`Self::file`], and if there is no descriptor left.
    pub fn reopened(&self) -> io::Result<File> {
        let file = File::open(format!("/proc/self/fd/{}", self.file()?.as_raw_fd()))?;
        file.lock_shared()?;
        Ok(file)
    }

    /// The bytes, if they are in memory.
    pub(crate) fn content(&self) -> Option<&Bytes> {
        match &self.0.data {
            LeaseTarget::File(..) => None,
            LeaseTarget::Memory(data) => Some(data.content()),
        }
    }

    pub(crate) fn object(&self) -> &Registered {
        &self.0.object
    }
}

impl FileHandle for Lease {
    fn path(&self) -> &Path {
        match &self.0.data {
            LeaseTarget::File(_, path) => path,
            LeaseTarget::Memory(data) => data.file().map_or_else(
                |error| {
                    tracing::error!(%error, "data in memory can't have a file");
                    Path::new(NOWHERE)
                },
                |(_, path)| path.as_path(),
            ),
        }
    }

    fn len(&self) -> u64 {
        self.0.len
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self) {}
}

/// Makes a file that nobody can take for one that a killed process left: it is locked as long as it
/// is open, and what is swept between making and locking is made again.
pub(crate) fn create_leased(path: &Path, mode: u32) -> io::Result<File> {
    loop {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(mode).open(path)?;
        file.lock_shared()?;
        if is_at(&file, path)? {
            return Ok(file);
        }
    }
}

/// Opens a file for reading and locks it against eviction. `None` if it is not there, or goes
/// right now.
pub(crate) fn open_leased(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // Whoever has the exclusive lock is about to remove the file, or looks whether to: both are
    // short.
    file.lock_shared()?;
    Ok(is_at(&file, path)?.then_some(file))
}

/// Locks a file against all leases, if it has none. `None` if it has, or is not there.
pub(crate) fn open_exclusive(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path)?.then_some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the open file is still the one of that name.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let open = file.metadata()?;
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}
