//! Locks on bytes of a file (`F_OFD_SETLK`): of another kind than those of leases, and gone with
//! their process as well.

use std::fs::File;
use std::io;

use nix::fcntl::{FcntlArg, fcntl};

/// Locks `len` bytes of an open file (0: all) against everybody else. `false`: somebody has them
/// locked, and we were not to wait.
pub(super) fn lock_bytes(file: &File, start: i64, len: i64, wait: bool) -> io::Result<bool> {
    #[expect(clippy::cast_possible_truncation, reason = "the C library's constants are wider")]
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    loop {
        let argument =
            if wait { FcntlArg::F_OFD_SETLKW(&lock) } else { FcntlArg::F_OFD_SETLK(&lock) };
        match fcntl(file, argument) {
            Ok(_) => return Ok(true),
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Ok(false),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
