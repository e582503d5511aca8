//! Bringing data of this machine into a directory: the cheapest way that is safe.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fishplate_contract::PlacementMethod;
use nix::errno::Errno;
use nix::fcntl::copy_file_range;

use crate::lease::create_leased;

/// What the file is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlacementPurpose {
    /// To be read: it may be the same file.
    Shared,
    /// To be written to as well: it must be a file of its own.
    Private,
}

/// Mode of a file of its own.
const PRIVATE: u32 = 0o600;

/// Bytes that are copied at once, and by the kernel at once.
const COPIED: usize = 1 << 20;
const KERNEL_COPIED: usize = 1 << 30;

/// Makes `target`, which must not be there, a file with the bytes of `source`: one that shares its
/// blocks, where the file system can do that; else the same file, if that may be and nobody can
/// write to it (mode 0444); else a copy. Gives which.
///
/// # Errors
/// If `source` can't be read or `target` not be made; then there is no `target`.
pub fn place(source: &Path, target: &Path, wish: PlacementPurpose) -> io::Result<PlacementMethod> {
    let from = File::open(source)?;
    let metadata = from.metadata()?;
    let mut made = None;
    if may_reflink(&metadata) {
        let to = create(target, PRIVATE)?;
        if undone_if_failed(reflink(&from, &to), target)? {
            return Ok(PlacementMethod::Reflink);
        }
        made = Some(to);
    }
    // What has no name, as small data of the pool, can have no other.
    let can_link = metadata.nlink() > 0;
    if can_link && wish == PlacementPurpose::Shared && metadata.permissions().mode() & 0o222 == 0 {
        if made.take().is_some() {
            fs::remove_file(target)?;
        }
        match fs::hard_link(source, target) {
            Ok(()) => return Ok(PlacementMethod::Link),
            Err(error) if cannot_link(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let to = match made {
        Some(to) => to,
        None => create(target, PRIVATE)?,
    };
    undone_if_failed(copy(&from, &to), target)?;
    Ok(PlacementMethod::Copy)
}

/// Makes a new file with the bytes of an open one, leased from its first byte on.
pub(crate) fn copy_new(
    from: &File,
    target: &Path,
    mode: u32,
) -> io::Result<(File, PlacementMethod)> {
    let to = create_leased(target, mode)?;
    if may_reflink(&from.metadata()?) && undone_if_failed(reflink(from, &to), target)? {
        return Ok((to, PlacementMethod::Reflink));
    }
    undone_if_failed(copy(from, &to), target)?;
    Ok((to, PlacementMethod::Copy))
}

/// Whether linking failed because these two places can't have links between them, or this file can
/// have no more.
pub(crate) fn cannot_link(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EXDEV | libc::EPERM | libc::EMLINK | libc::EOPNOTSUPP | libc::ENOSYS)
    )
}

fn create(target: &Path, mode: u32) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(mode).open(target)
}

fn undone_if_failed<T>(result: io::Result<T>, target: &Path) -> io::Result<T> {
    if result.is_err() {
        let _ = fs::remove_file(target);
    }
    result
}

/// File systems that were found to know no reflinks.
static WITHOUT: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn may_reflink(file: &fs::Metadata) -> bool {
    !WITHOUT.lock().unwrap_or_else(PoisonError::into_inner).contains(&file.dev())
}

/// Has `to` share the blocks of `from`; `false` if that can't be done here.
fn reflink(from: &File, to: &File) -> io::Result<bool> {
    let (source, target) = (from.metadata()?.dev(), to.metadata()?.dev());
    #[expect(unsafe_code, reason = "the system has no other way to be told")]
    // SAFETY: FICLONE takes a descriptor; both are open.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EIO) => Err(error),
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS | libc::EINVAL) if source == target => {
            WITHOUT.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// Copies all bytes; within the kernel, where it can.
fn copy(from: &File, to: &File) -> io::Result<()> {
    let mut at = 0;
    while let Some(copied) = copy_within_kernel(from, to, at)? {
        if copied == 0 {
            break;
        }
        at += copied;
    }
    // What the kernel would not copy, or all if it is between file systems.
    let mut buffer = vec![0; COPIED];
    loop {
        let read = match from.read_at(&mut buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(());
        }
        to.write_all_at(&buffer[..read], at)?;
        at += read as u64;
    }
}

/// How many bytes the kernel copied from here on; `None` if it does not do that.
fn copy_within_kernel(from: &File, to: &File, at: u64) -> io::Result<Option<u64>> {
    let offset = || i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let (mut source, mut target) = (offset()?, offset()?);
    match copy_file_range(from, Some(&mut source), to, Some(&mut target), KERNEL_COPIED) {
        Ok(copied) => Ok(Some(copied as u64)),
        Err(Errno::EXDEV | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EBADF) => {
            Ok(None)
        }
        Err(Errno::EINTR) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}
