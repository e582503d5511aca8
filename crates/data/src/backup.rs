//! Bringing whole directories of files that nobody writes to any more from one place to another: for
//! backups and their restoring. A file shares its blocks where the file system can do that; else it is
//! the same file under another name; else a copy.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::placement::{cannot_link, copy_new};

/// How a file may come to its other place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// As the same file: nobody writes to it any more.
    Link,
    /// As a file of its own.
    Copy,
}

/// What was brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// Files, directories not counted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are the same file now in both places.
    pub linked: u64,
    /// Files and directories that could not be read, or are none that can be kept.
    pub left_out: u64,
}

/// Brings files, and tells somebody how many bytes it has done.
pub struct Copier<'p> {
    progress: &'p mut dyn FnMut(u64),
    /// What was brought so far.
    pub brought: CopySummary,
}

impl<'p> Copier<'p> {
    /// Nothing yet; `progress` is told bytes.
    pub fn new(progress: &'p mut dyn FnMut(u64)) -> Self {
        Self { progress, brought: CopySummary::default() }
    }

    /// Brings a directory and all below it: files, directories and symbolic links, with modes and
    /// times. What this process may not read, and what is no such thing, is left out and counted.
    ///
    /// # Errors
    /// If `from` is not there, something vanishes from it meanwhile, or `to` can't be written.
    pub fn tree(
        &mut self,
        from: &Path,
        to: &Path,
        sharing: fn(&Metadata) -> CopyMode,
    ) -> io::Result<()> {
        let found = fs::symlink_metadata(from)?;
        fs::DirBuilder::new().mode(0o700).create(to)?;
        for entry in fs::read_dir(from)? {
            let (path, target) = {
                let entry = entry?;
                (entry.path(), to.join(entry.file_name()))
            };
            let metadata = fs::symlink_metadata(&path)?;
            let done = if metadata.is_dir() {
                self.tree(&path, &target, sharing)
            } else if metadata.is_symlink() {
                bring_link(&path, &target, &metadata)
            } else if metadata.is_file() {
                self.file(&path, &target, sharing(&metadata))
            } else {
                Err(io::ErrorKind::PermissionDenied.into())
            };
            match done {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.brought.left_out += 1;
                }
                done => done?,
            }
        }
        fs::set_permissions(to, Permissions::from_mode(found.mode() & 0o7777))
    }

    /// Brings a plain file, which must not be there yet.
    ///
    /// # Errors
    /// If it can't be read or made.
    pub fn file(&mut self, from: &Path, to: &Path, sharing: CopyMode) -> io::Result<()> {
        let metadata = fs::symlink_metadata(from)?;
        self.brought.files += 1;
        self.brought.bytes += metadata.len();
        let linked = match sharing {
            CopyMode::Copy => false,
            CopyMode::Link => match fs::hard_link(from, to) {
                Ok(()) => true,
                Err(error) if cannot_link(&error) => false,
                Err(error) => return Err(error),
            },
        };
        if linked {
            self.brought.linked += metadata.len();
        } else {
            let (copy, _) = copy_new(&File::open(from)?, to, 0o600)?;
            copy.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
            copy.set_modified(modified(&metadata))?;
        }
        (self.progress)(metadata.len());
        Ok(())
    }
}

fn bring_link(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    use nix::sys::stat::{UtimensatFlags, utimensat};
    symlink(fs::read_link(from)?, to)?;
    let at = nix::sys::time::TimeSpec::new(metadata.mtime(), metadata.mtime_nsec());
    utimensat(nix::fcntl::AT_FDCWD, to, &at, &at, UtimensatFlags::NoFollowSymlink)?;
    Ok(())
}

fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Moves the time of a file's last change by so much.
pub(crate) fn shift(path: &Path, by: Duration) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let at = modified(&file.metadata()?);
    file.set_modified(at + by)
}

/// Copies an SQLite database as it is at one moment, whoever writes to it meanwhile.
///
/// # Errors
/// What SQLite says.
pub fn copy_database(from: &Path, to: &Path) -> rusqlite::Result<()> {
    use rusqlite::backup::{Backup, StepResult};
    use rusqlite::{Connection, OpenFlags};
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    source.busy_timeout(crate::sqlite::BUSY_TIMEOUT)?;
    let mut target = Connection::open(to)?;
    // All pages at one go: writers do not wait for it, and none of theirs makes it begin anew.
    let backup = Backup::new(&source, &mut target)?;
    while backup.step(-1)? != StepResult::Done {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(backup);
    close_whole(target)
}

/// Closes a database so that it is one file.
///
/// # Errors
/// What SQLite says.
pub fn close_whole(database: rusqlite::Connection) -> rusqlite::Result<()> {
    database.pragma_update(None, "journal_mode", "DELETE")?;
    database.close().map_err(|(_, error)| error)
}

impl std::fmt::Debug for Copier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bringing").field("brought", &self.brought).finish_non_exhaustive()
    }
}
