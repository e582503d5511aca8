//! Opening files below a directory and never outside it: no symbolic link is followed on the way,
//! whoever put it there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

/// Opens a regular file for reading.
pub(super) fn open_regular(root: &Path, path: &str) -> io::Result<File> {
    // Not blocking: a program may have left a FIFO under the name.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    let file = File::from(open_beneath(root, path, flags, Mode::empty(), false)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("is not a regular file")) }
}

/// Creates a file, or empties it, and the directories above it.
pub(super) fn create(root: &Path, path: &str, mode: u32) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NONBLOCK;
    let file = open_beneath(root, path, flags, Mode::from_bits_truncate(mode), true)?;
    // O_NONBLOCK was against a FIFO; a program must not inherit it.
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(File::from(file))
}

/// Creates a file that is not there, for writing and reading, and the directories above it.
pub(super) fn create_new(root: &Path, path: &str) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    Ok(File::from(open_beneath(root, path, flags, Mode::S_IRUSR | Mode::S_IWUSR, true)?))
}

/// Opens what is neither a directory's nor a link's as a place.
pub(super) fn open_place(root: &Path, path: &str) -> io::Result<File> {
    Ok(File::from(open_beneath(root, path, OFlag::O_PATH, Mode::empty(), false)?))
}

/// Finds a file or a directory.
pub(super) fn find(root: &Path, path: &str) -> io::Result<()> {
    let kind = open_place(root, path)?.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        Ok(())
    } else {
        Err(refused("is neither a file nor a directory"))
    }
}

/// Puts a file in another's place, in the same directory.
pub(super) fn replace(root: &Path, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (components(from)?, components(to)?);
    let (Some((from, above)), Some(to)) = (from.split_last(), to.last()) else {
        return Err(refused("names nothing"));
    };
    let mut at = open_directory_itself(root)?;
    for part in above {
        at = enter(&at, part, false)?;
    }
    Ok(renameat(&at, *from, &at, *to)?)
}

/// Gives a regular file below one directory the same name below another, where the directories above it are created; or a copy of it, if it
/// can't have two names.
pub(super) fn link(from: &Path, to: &Path, path: &str) -> io::Result<()> {
    let mut source = open_regular(from, path)?;
    let parts = components(path)?;
    let (name, above) = parts.split_last().ok_or_else(|| refused("names nothing"))?;
    let mut at = open_directory_itself(to)?;
    for part in above {
        at = enter(&at, part, true)?;
    }
    let opened = format!("/proc/self/fd/{}", source.as_raw_fd());
    match linkat(AT_FDCWD, opened.as_str(), &at, *name, AtFlags::AT_SYMLINK_FOLLOW) {
        Err(nix::Error::EXDEV | nix::Error::EMLINK | nix::Error::EPERM | nix::Error::ENOENT) => {
            io::copy(&mut source, &mut create_new(to, path)?).map(drop)
        }
        done => Ok(done?),
    }
}

/// Removes a file.
pub(super) fn remove(root: &Path, path: &str) -> io::Result<()> {
    let parts = components(path)?;
    let (name, above) = parts.split_last().ok_or_else(|| refused("names nothing"))?;
    let mut at = open_directory_itself(root)?;
    for part in above {
        at = enter(&at, part, false)?;
    }
    Ok(unlinkat(&at, *name, UnlinkatFlags::NoRemoveDir)?)
}

/// Creates a directory and those above it.
pub(super) fn create_directory(root: &Path, path: &str) -> io::Result<()> {
    let mut at = open_directory_itself(root)?;
    for name in components(path)? {
        at = enter(&at, name, true)?;
    }
    Ok(())
}

/// Moves what is at `from`, on the same file system, to a path, and creates the directories above
/// it. What was moved there before stays.
pub(super) fn adopt(root: &Path, path: &str, from: &Path) -> io::Result<()> {
    let parts = components(path)?;
    let mut at = open_directory_itself(root)?;
    let (name, above) = parts.split_last().ok_or_else(|| refused("names nothing"))?;
    for part in above {
        at = enter(&at, part, true)?;
    }
    match renameat(AT_FDCWD, from, &at, *name) {
        Err(nix::Error::ENOTEMPTY | nix::Error::EEXIST) => merge(from, &root.join(path)),
        Err(nix::Error::ENOENT) if fstatat(&at, *name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() => {
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Moves what is in a directory into one that has other inputs already; those stay.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match std::fs::symlink_metadata(&to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::rename(from, to)?,
            Err(error) => return Err(error),
            Ok(there) if there.is_dir() && entry.file_type()?.is_dir() => merge(&from, &to)?,
            Ok(_) => {}
        }
    }
    Ok(())
}

/// The parts of a path that can't lead out of a directory.
pub(super) fn components(path: &str) -> io::Result<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if path.starts_with('/') || parts.is_empty() || parts.contains(&"..") {
        return Err(refused("does not name a file of the workspace"));
    }
    Ok(parts)
}

fn open_beneath(
    root: &Path,
    path: &str,
    flags: OFlag,
    mode: Mode,
    create_parents: bool,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let parts = components(path)?;
    let opened = match parts.split_last() {
        Some((name, [])) => open(&root.join(name), flags, mode),
        Some((name, above)) => {
            let mut at = open_directory_itself(root)?;
            for part in above {
                at = enter(&at, part, create_parents)?;
            }
            openat(&at, *name, flags, mode)
        }
        None => unreachable!("components are never empty"),
    };
    opened.map_err(|error| match error {
        nix::Error::ELOOP => refused("is a symbolic link, which is not followed"),
        other => other.into(),
    })
}

fn open_directory_itself(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
}

fn enter(at: &OwnedFd, name: &str, create: bool) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let entered = openat(at.as_fd(), name, flags, Mode::empty());
    if create && matches!(entered, Err(nix::Error::ENOENT)) {
        match mkdirat(at.as_fd(), name, Mode::S_IRWXU) {
            Ok(()) | Err(nix::Error::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        return Ok(openat(at.as_fd(), name, flags, Mode::empty())?);
    }
    Ok(entered?)
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
