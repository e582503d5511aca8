//! The disk begins with data while more of it comes, so that who waits for the disk at the end (a job's fetched inputs, data that
//! was put) waits for little.

use std::fs::File;
use std::os::fd::AsRawFd as _;

/// So many bytes are worth a system call.
const STEP: u64 = 4 << 20;

/// How much of a file that grows the disk was told to write.
#[derive(Default)]
pub(super) struct Writeback {
    begun: u64,
}

impl Writeback {
    /// The file has so many bytes now.
    #[expect(unsafe_code, reason = "no library wraps sync_file_range")]
    pub(super) fn reached(&mut self, file: &File, len: u64) {
        if len < self.begun + STEP {
            return;
        }
        let (from, bytes) = (self.begun.cast_signed(), (len - self.begun).cast_signed());
        self.begun = len;
        // A file system that can't writes later, as it would have.
        // SAFETY: the descriptor is open, and no memory is told.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
}
