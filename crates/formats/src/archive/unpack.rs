//! An archive into a directory.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::FreeSpace;
use fishplate_contract::Fault;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::entry::{ArchiveEntry, ArchiveReader, MemberKind};
use super::{ArchiveError, ArchiveLimits};

/// What begins a zstd frame.
pub(super) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Memory that a zstd frame may ask for, as a power of two: what `zstd --long` needs at the most.
pub(super) const WINDOW: u32 = 27;

/// Bytes that are written between two looks at the free space.
const LOOK_EVERY: u64 = 16 << 20;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files, directories and links.
    pub entries: u64,
    /// Bytes of the files.
    pub size: u64,
}

/// Unpacks an archive into a directory that is not there yet. If it fails, there is none.
///
/// # Errors
/// A fault that names the parameter, the entry and the rule.
pub fn unpack_file(
    archive: &Path,
    to: &Path,
    parameter: &str,
    limits: &ArchiveLimits,
) -> Result<(), Fault> {
    unpack_file_unless(archive, to, parameter, limits, &AtomicBool::new(false))
}

/// The same until it shall stop.
///
/// # Errors
/// As [`unpack_file`]; any, if it was stopped.
pub fn unpack_file_unless(
    archive: &Path,
    to: &Path,
    parameter: &str,
    limits: &ArchiveLimits,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    match File::open(archive) {
        Ok(file) => unpack_any_unless(file, to, parameter, limits, stop),
        Err(error) => Err(ArchiveError::Io(error).fault(parameter)),
    }
}

/// The same with the archive's bytes as they come.
///
/// # Errors
/// As [`unpack_file`].
pub fn unpack_any(
    archive: impl Read,
    to: &Path,
    parameter: &str,
    limits: &ArchiveLimits,
) -> Result<(), Fault> {
    unpack_any_unless(archive, to, parameter, limits, &AtomicBool::new(false))
}

fn unpack_any_unless(
    archive: impl Read,
    to: &Path,
    parameter: &str,
    limits: &ArchiveLimits,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    let mut archive = BufReader::with_capacity(CHUNK, archive);
    let compressed = archive.fill_buf().is_ok_and(|start| start.starts_with(&ZSTD));
    let unpacked = unpack_unless(archive, compressed, to, limits, stop);
    unpacked.map(drop).map_err(|error| error.fault(parameter))
}

/// Unpacks an archive; `compressed`: by zstd. If it fails, there is no directory.
///
/// # Errors
/// What is wrong with the archive, or what the disk said.
pub fn unpack(
    archive: impl Read,
    compressed: bool,
    to: &Path,
    limits: &ArchiveLimits,
) -> Result<Unpacked, ArchiveError> {
    unpack_unless(archive, compressed, to, limits, &AtomicBool::new(false))
}

fn unpack_unless(
    archive: impl Read,
    compressed: bool,
    to: &Path,
    limits: &ArchiveLimits,
    stop: &AtomicBool,
) -> Result<Unpacked, ArchiveError> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    let unpacked = if compressed {
        let mut plain = zstd::Decoder::new(archive)?;
        plain.window_log_max(WINDOW)?;
        unpack_into(StoppableReader { archive: plain, stop }, to, limits)
    } else {
        unpack_into(StoppableReader { archive, stop }, to, limits)
    };
    if unpacked.is_err() {
        let _ = fs::remove_dir_all(to);
    }
    unpacked
}

/// An archive that can't be read any further once it shall stop. It stands behind the compression,
/// because a few bytes of that can be very many.
struct StoppableReader<'s, R> {
    archive: R,
    stop: &'s AtomicBool,
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it is not wanted any more"));
        }
        self.archive.read(to)
    }
}

fn unpack_into(
    archive: impl Read,
    to: &Path,
    limits: &ArchiveLimits,
) -> Result<Unpacked, ArchiveError> {
    let root = open(to, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(io::Error::from)?;
    let mut reader = ArchiveReader::new(archive);
    let mut made =
        UnpackTarget { root, limits, done: Unpacked::default(), before: 0, unlooked: LOOK_EVERY };
    while let Some(entry) = reader.next()? {
        made.count(&entry)?;
        made.make(&entry, &mut reader)?;
    }
    Ok(made.done)
}

/// A directory being unpacked.
struct UnpackTarget<'l> {
    root: OwnedFd,
    limits: &'l ArchiveLimits,
    done: Unpacked,
    /// Bytes that stood in front of entries: they take time and memory as files do.
    before: u64,
    /// Bytes written since the last look at the disk.
    unlooked: u64,
}

impl UnpackTarget<'_> {
    fn count(&mut self, entry: &ArchiveEntry) -> Result<(), ArchiveError> {
        self.done.entries += 1;
        let ArchiveLimits { entries, size, .. } = *self.limits;
        if self.done.entries > entries {
            let value = format!("{entries} entries");
            return Err(ArchiveError::Limit { limit: "directory_entries", value });
        }
        self.done.size = self.done.size.saturating_add(entry.size);
        self.before = self.before.saturating_add(entry.before);
        if self.done.size.saturating_add(self.before) > size {
            return Err(ArchiveError::Limit {
                limit: "directory_size",
                value: format!("{size} bytes"),
            });
        }
        Ok(())
    }

    fn make<R: Read>(
        &mut self,
        entry: &ArchiveEntry,
        reader: &mut ArchiveReader<R>,
    ) -> Result<(), ArchiveError> {
        let path = checked(&entry.path)?;
        let Some((name, above)) = path.split_last() else {
            // The directory itself.
            return Ok(());
        };
        let refused = |errno: Errno| match errno {
            Errno::ELOOP | Errno::ENOTDIR => {
                ArchiveError::entry(&entry.path, "is below something that is no directory")
            }
            Errno::ENAMETOOLONG => ArchiveError::entry(&entry.path, "has a name that is too long"),
            other => ArchiveError::Io(other.into()),
        };
        let parent = self.parent(above).map_err(refused)?;
        let parent = parent.as_ref().unwrap_or(&self.root);
        match &entry.kind {
            MemberKind::Directory => match mkdirat(parent, *name, directory_mode(entry.mode)) {
                Err(Errno::EEXIST) => {
                    // There already, or made for what stood in it.
                    enter(parent, name).map(drop).map_err(refused)
                }
                done => done.map_err(refused),
            },
            MemberKind::File => {
                make_room(parent, name).map_err(refused)?;
                let flags = OFlag::O_WRONLY
                    | OFlag::O_CREAT
                    | OFlag::O_EXCL
                    | OFlag::O_NOFOLLOW
                    | OFlag::O_CLOEXEC;
                let file = openat(parent, *name, flags, file_mode(entry.mode)).map_err(refused)?;
                self.fill(&File::from(file), entry, reader)
            }
            MemberKind::Symlink(target) => {
                let target = inside(target, above.len(), entry)?;
                make_room(parent, name).map_err(refused)?;
                symlinkat(target, parent, *name).map_err(refused)
            }
            MemberKind::Hardlink(target) => self.link(target, parent, name, entry),
        }
    }

    fn fill<R: Read>(
        &mut self,
        file: &File,
        entry: &ArchiveEntry,
        reader: &mut ArchiveReader<R>,
    ) -> Result<(), ArchiveError> {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(entry.size).unwrap_or(CHUNK)).max(1)];
        let mut left = entry.size;
        while left > 0 {
            let read = reader.take_all().read(&mut chunk);
            let read = match read {
                Ok(0) => return Err(reader.cut()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error().is_some() => return Err(error.into()),
                Err(error) => {
                    let what = format!("it can't be read: {error}");
                    return Err(ArchiveError::Malformed(what));
                }
            };
            let mut to = file;
            to.write_all(&chunk[..read])?;
            left -= read as u64;
            self.look(read as u64, file)?;
        }
        let modified = TimeSpec::new(entry.modified, 0);
        // A time that the file system can't hold is not worth a fault.
        let _ = futimens(file, &modified, &modified);
        Ok(())
    }

    /// Looks at the disk from time to time.
    fn look(&mut self, written: u64, file: &File) -> Result<(), ArchiveError> {
        self.unlooked += written;
        if self.unlooked < LOOK_EVERY {
            return Ok(());
        }
        self.unlooked = 0;
        // A file system that can't be asked says so when it is full.
        let Ok(free) = FreeSpace::of(file) else { return Ok(()) };
        if free.room() < self.limits.reserve { Err(ArchiveError::Full) } else { Ok(()) }
    }

    fn link(
        &self,
        target: &[u8],
        parent: &OwnedFd,
        name: &str,
        entry: &ArchiveEntry,
    ) -> Result<(), ArchiveError> {
        let wrong = |rule: &str| ArchiveError::entry(&entry.path, rule);
        let path = checked(target)
            .map_err(|_| wrong("is a hard link to what can be no entry of the archive"))?;
        let Some((original, above)) = path.split_last() else {
            return Err(wrong("is a hard link to a directory"));
        };
        let nowhere = || Err(wrong("is a hard link to what does not stand before it"));
        let Ok(directory) = self.existing(above) else { return nowhere() };
        let directory = directory.as_ref().unwrap_or(&self.root);
        match fstatat(directory, *original, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat)
                if SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT) == SFlag::S_IFREG => {}
            Ok(_) => return Err(wrong("is a hard link to what is no file")),
            Err(_) => return nowhere(),
        }
        if path == checked(&entry.path)? {
            return Ok(());
        }
        make_room(parent, name).map_err(io::Error::from)?;
        linkat(directory, *original, parent, name, AtFlags::empty()).map_err(io::Error::from)?;
        Ok(())
    }

    /// The directory of an entry, made if the archive does not tell it before; `None`: the root.
    fn parent(&self, above: &[&str]) -> nix::Result<Option<OwnedFd>> {
        let mut at = None;
        for name in above {
            let from = at.as_ref().unwrap_or(&self.root);
            let entered = match enter(from, name) {
                Err(Errno::ENOENT) => {
                    mkdirat(from, *name, Mode::S_IRWXU)?;
                    enter(from, name)?
                }
                entered => entered?,
            };
            at = Some(entered);
        }
        Ok(at)
    }

    fn existing(&self, above: &[&str]) -> nix::Result<Option<OwnedFd>> {
        let mut at = None;
        for name in above {
            at = Some(enter(at.as_ref().unwrap_or(&self.root), name)?);
        }
        Ok(at)
    }
}

/// Never through a link.
fn enter(at: &OwnedFd, name: &str) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// An entry replaces what stood under its name before, as `tar` does it; a directory stays.
fn make_room(parent: &OwnedFd, name: &str) -> nix::Result<()> {
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EISDIR) => Err(Errno::ENOTDIR),
        Err(error) => Err(error),
    }
}

/// The names on the way to an entry; none for the directory itself.
fn checked(path: &[u8]) -> Result<Vec<&str>, ArchiveError> {
    let wrong = |rule: &str| Err(ArchiveError::entry(path, rule));
    let Ok(text) = std::str::from_utf8(path) else {
        return wrong("has a name that is not UTF-8");
    };
    if text.contains('\0') {
        return wrong("has a name with a NUL in it");
    }
    if text.starts_with('/') {
        return wrong("has an absolute path: pack from within the directory (tar -C DIR -c .)");
    }
    let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return wrong("leads upwards (..): pack from within the directory (tar -C DIR -c .)");
    }
    if text.is_empty() {
        return wrong("has no name");
    }
    Ok(names)
}

/// A symbolic link's target that can't lead out of the directory: upwards at its beginning only,
/// and no further than the link is deep. What it then goes through are directories, or links that
/// were looked at in the same way.
fn inside<'t>(
    target: &'t [u8],
    depth: usize,
    entry: &ArchiveEntry,
) -> Result<&'t str, ArchiveError> {
    let wrong = |rule: &str| Err(ArchiveError::entry(&entry.path, rule));
    let text = match std::str::from_utf8(target) {
        Ok(text) if !text.is_empty() && !text.contains('\0') => text,
        _ => return wrong("is a link to what is no name"),
    };
    if text.len() > super::LONGEST_PATH {
        return Err(ArchiveError::path(&entry.path, "is a link to a path"));
    }
    if text.starts_with('/') {
        return wrong("is a link to an absolute path; links stay within the directory");
    }
    let names = text.split('/').filter(|name| !matches!(*name, "" | "."));
    let upwards = names.clone().take_while(|name| *name == "..").count();
    if upwards > depth || names.skip(upwards).any(|name| name == "..") {
        return wrong("is a link that leads out of the directory, or might");
    }
    Ok(text)
}

fn file_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode & 0o755 | 0o600)
}

fn directory_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode & 0o755 | 0o700)
}

/// Whether packing this link gives an archive that can be unpacked.
pub(super) fn stays_inside(target: &[u8], depth: usize) -> bool {
    let entry = ArchiveEntry {
        path: Vec::new(),
        kind: MemberKind::File,
        mode: 0,
        modified: 0,
        size: 0,
        before: 0,
    };
    inside(target, depth, &entry).is_ok()
}
