//! What a file system has left: bytes, and files where their number is bounded (inodes). One of either
//! is worth nothing without the other.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};

/// What is left for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that may be written.
    pub bytes: u64,
    /// Files, and how many bytes there are for each; `None` where files are not bounded.
    files: Option<(u64, u64)>,
}

impl FreeSpace {
    /// On the file system of this directory.
    ///
    /// # Errors
    /// If it can't be asked.
    pub fn at(directory: &Path) -> io::Result<Self> {
        Ok(Self::told(&statvfs(directory)?))
    }

    /// On the file system of this open file.
    ///
    /// # Errors
    /// If it can't be asked.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::told(&fstatvfs(file)?))
    }

    fn told(disk: &Statvfs) -> Self {
        let bytes = disk.blocks_available().saturating_mul(disk.fragment_size());
        let all = disk.blocks().saturating_mul(disk.fragment_size());
        // Some make files as long as there are bytes, and tell of none (Btrfs).
        let each = all.checked_div(disk.files());
        Self { bytes, files: each.map(|each| (disk.files_available(), each.max(1))) }
    }

    /// What is left in bytes, to be compared with a reserve: as large a part of all bytes as there is of
    /// files, if those are scarcer.
    pub fn room(&self) -> u64 {
        let files = self.files.map_or(u64::MAX, |(files, each)| files.saturating_mul(each));
        self.bytes.min(files)
    }
}

/// `4096 bytes are free`, or of which files there are too few.
impl fmt::Display for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files {
            Some((files, each)) if files.saturating_mul(each) < self.bytes => {
                let room = self.room();
                write!(f, "{files} files (inodes) are free, which count as {room} bytes")
            }
            _ => write!(f, "{} bytes are free", self.bytes),
        }
    }
}

/// Whether an error means that the disk, or the quota on it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcer_of_bytes_and_files_counts() {
        let free = |bytes, files| FreeSpace { bytes, files };
        for (free, room, told) in [
            (free(4096, None), 4096, "4096 bytes are free"),
            (free(4096, Some((100, 1000))), 4096, "4096 bytes are free"),
            (
                free(4096, Some((2, 1000))),
                2000,
                "2 files (inodes) are free, which count as 2000 bytes",
            ),
            (free(4096, Some((0, 1))), 0, "0 files (inodes) are free, which count as 0 bytes"),
        ] {
            assert_eq!((free.room(), &*free.to_string()), (room, told));
        }
        assert!(FreeSpace::at(Path::new("/")).unwrap().bytes > 0);
    }
}
