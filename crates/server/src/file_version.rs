//! Whether a file is still the one that was read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Tells a file from what it was before and from what replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// That of a file; `None` if there is none. Best asked for before the file is read: what changes in between is
    /// read twice then, rather than never.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(file) => Ok(Some(Self {
                device: file.dev(),
                inode: file.ino(),
                len: file.len(),
                modified: (file.mtime(), file.mtime_nsec()),
                changed: (file.ctime(), file.ctime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
