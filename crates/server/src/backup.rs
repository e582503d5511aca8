//! A data directory as it is at one moment, in another place, and back: its jobs, its pool, its
//! sessions, who may log in. What is on its way (messages, uploads, fetches) is none of it.
//!
//! ```text
//! DIR/jobs.sqlite, jobs/    jobs that had ended
//! DIR/pool/                 the pool
//! DIR/sessions/             sessions and their key
//! DIR/users, tokens         who may log in
//! DIR/backup.json           when, and how many: written last, so that half a backup is none
//! ```

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Clock as _, SystemClock, Timestamp};
use fishplate_data::backup::{Copier, CopyMode, CopySummary};
use fishplate_data::session::{self, SessionError};
use fishplate_data::{Pool, PoolError, PoolSettings};
use fishplate_formats::disk;
use fishplate_jobs::backup as jobs;
use fishplate_jobs::store::sqlite::SqliteStore;
use fishplate_jobs::store::{Store as _, StoreError, Totals};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::authentication::records::Record as _;
use crate::authentication::tokens::Token;
use crate::authentication::users::User;

/// The file that makes a directory a backup.
const NOTE: &str = "backup.json";

/// The version of what a backup looks like.
const VERSION: u32 = 1;

/// Where either is put together, in its directory.
const UNFINISHED: &str = ".unfinished";

/// What it is put together of. The store after the rest: without one there is no job that misses its
/// files.
const PARTS: [&str; 7] =
    ["sessions", "pool", User::FILE, Token::FILE, "jobs", SqliteStore::FILE, NOTE];

/// What of a directory does not count: the top of a file system has it.
const OF_THE_SYSTEM: &str = "lost+found";

/// What a backup is of, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    version: u32,
    made: i64,
    /// Jobs that had ended.
    pub jobs: u64,
    /// Jobs that had not: in the backup they are unknown.
    pub unfinished: u64,
    /// Objects of the pool.
    pub objects: u64,
    /// Sessions with their files.
    pub sessions: u64,
    /// Bytes of all files.
    pub size: u64,
}

impl Backup {
    /// When it was made.
    pub fn made(&self) -> Timestamp {
        Timestamp(self.made)
    }
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to be backed up.
    #[error(
        "there is no job store in {}: no server has kept state there; --data tells another place",
        .0.display()
    )]
    NoData(PathBuf),
    /// Something is there that would be mixed with it.
    #[error("{} is not empty: name a directory that is not there yet, or an empty one", .0.display())]
    Occupied(PathBuf),
    /// There is no backup, or half of one.
    #[error(
        "{} is no backup, or one that was broken off: `fishplate backup` writes {NOTE} at its end",
        .0.display()
    )]
    NoBackup(PathBuf),
    /// A newer version made it.
    #[error("the backup is of version {0}, and this fishplate knows {VERSION}: use a newer one")]
    Newer(u32),
    /// The job store, or a job's files.
    #[error(transparent)]
    Jobs(#[from] jobs::BackupError),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The sessions' files.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// The disk.
    #[error("can't {what} {}", path.display())]
    Io {
        /// What could not be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl BackupError {
    /// Whether there was no room on the disk.
    pub fn is_storage_full(&self) -> bool {
        if let Self::Jobs(jobs::BackupError::Store(StoreError::Full))
        | Self::Pool(PoolError::Full { .. })
        | Self::Sessions(SessionError::Full { .. }) = self
        {
            return true;
        }
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(disk::is_full) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// What a backup will bring, about, in bytes: for whoever shows progress.
pub fn size(data: &Path, pool: &Path) -> u64 {
    let mut totals = Totals::default();
    if SqliteStore::is_in(data)
        && let Ok(store) = SqliteStore::open_in(data)
    {
        let _ = store.read(&mut |t| t.totals().map(|found| totals = found));
    }
    let pool = open_pool(pool).ok().flatten().and_then(|pool| pool.total().ok());
    totals.disk + pool.unwrap_or(0)
}

/// Backs a data directory up while servers work on it.
///
/// # Errors
/// [`BackupError`]; then nothing of it is in `to`.
pub fn backup(
    data: &Path,
    pool: &Path,
    to: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(Backup, CopySummary), BackupError> {
    if !SqliteStore::is_in(data) {
        return Err(BackupError::NoData(data.to_owned()));
    }
    within(to, |to, _| {
        let now = SystemClock.now();
        let mut bringing = Copier::new(progress);
        let jobs = jobs::backup(data, to, now, &mut bringing)?;
        let objects = match open_pool(pool)? {
            Some(pool) => pool.backup(&to.join("pool"), &mut bringing)?,
            None => 0,
        };
        let sessions = match data.join("sessions") {
            there if there.is_dir() => {
                session::backup(&there, &to.join("sessions"), &mut bringing)?
            }
            _ => 0,
        };
        copy_logins(data, to)?;
        let made = Backup {
            version: VERSION,
            made: now.0,
            jobs: jobs.ended,
            unfinished: jobs.unfinished,
            objects,
            sessions,
            size: bringing.brought.bytes,
        };
        let note = to.join(NOTE);
        serde_json::to_vec(&made)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&note, text))
            .map_err(failed("write", &note))?;
        Ok((made, bringing.brought))
    })
}

/// What a backup says of itself.
///
/// # Errors
/// If it is none.
pub fn read(from: &Path) -> Result<Backup, BackupError> {
    let text = fs::read(from.join(NOTE)).map_err(|_| BackupError::NoBackup(from.to_owned()))?;
    let made: Backup =
        serde_json::from_slice(&text).map_err(|_| BackupError::NoBackup(from.to_owned()))?;
    if made.version > VERSION { Err(BackupError::Newer(made.version)) } else { Ok(made) }
}

/// Makes a data directory of a backup. What was to live for so long when the backup was made lives
/// for that long from now on.
///
/// # Errors
/// [`BackupError`]; then there is no data directory.
pub fn restore(
    from: &Path,
    data: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(Backup, CopySummary), BackupError> {
    let made = read(from)?;
    within(data, |new, data| {
        let mut bringing = Copier::new(progress);
        let by = SystemClock.now().since(made.made());
        jobs::restore(from, new, &mut bringing)?;
        jobs::relocate(new, data, by)?;
        restore_data(from, new, by, &mut bringing)?;
        copy_logins(from, new)?;
        Ok((made, bringing.brought))
    })
}

fn restore_data(
    from: &Path,
    new: &Path,
    by: Duration,
    bringing: &mut Copier<'_>,
) -> Result<(), BackupError> {
    // A catalogue and what says when a session was used are written to again; nothing else is.
    let sharing = |it: &fs::Metadata| {
        if it.permissions().mode() & 0o222 == 0 { CopyMode::Link } else { CopyMode::Copy }
    };
    for part in ["pool", "sessions"] {
        let (from, to) = (from.join(part), new.join(part));
        if from.is_dir() {
            bringing.tree(&from, &to, sharing).map_err(failed("bring to", &to))?;
        }
    }
    if new.join("pool").is_dir() {
        Pool::shift_times(&new.join("pool"), by)?;
    }
    if new.join("sessions").is_dir() {
        session::shift_times(&new.join("sessions"), by)?;
    }
    Ok(())
}

/// Copies the files of users and tokens that are there; nobody else may read the copies either.
fn copy_logins(from: &Path, to: &Path) -> Result<(), BackupError> {
    for file in [User::FILE, Token::FILE] {
        let (from, to) = (from.join(file), to.join(file));
        if from.exists() {
            fs::copy(&from, &to).map_err(failed("write", &to))?;
        }
    }
    Ok(())
}

/// The pool in a directory, if there is one.
fn open_pool(directory: &Path) -> Result<Option<Pool>, PoolError> {
    let there = directory.join("pool.sqlite").is_file();
    there.then(|| Pool::open(PoolSettings::new(directory), Arc::new(SystemClock))).transpose()
}

/// Puts [`PARTS`] together for a directory that is not there yet, or empty: `work` has a place of its
/// own until all is whole, so that nobody serves half of it, and the directory where it will be. If
/// that fails, what was made is removed, and nothing else: a server may have begun there meanwhile.
fn within<T>(
    directory: &Path,
    work: impl FnOnce(&Path, &Path) -> Result<T, BackupError>,
) -> Result<T, BackupError> {
    let is_new = !directory.exists();
    make_private(directory)?;
    if !contents(directory)?.is_empty() {
        return Err(BackupError::Occupied(directory.to_owned()));
    }
    // Whoever made it: it will hold all that callers sent.
    fs::set_permissions(directory, Permissions::from_mode(0o700))
        .map_err(failed("keep others out of", directory))?;
    let directory = fs::canonicalize(directory).map_err(failed("find", directory))?;
    let new = directory.join(UNFINISHED);
    DirBuilder::new().mode(0o700).create(&new).map_err(failed("make", &new))?;
    let mut placed = Vec::new();
    let done = work(&new, &directory).and_then(|done| {
        sync(&new)?;
        if contents(&directory)?.iter().any(|path| *path != new) {
            return Err(BackupError::Occupied(directory.clone()));
        }
        place(&new, &directory, &mut placed)?;
        fs::remove_dir_all(&new).map_err(failed("remove", &new))?;
        sync(&directory)?;
        Ok(done)
    });
    if done.is_err() {
        for path in placed.iter().chain([&new]) {
            let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
        }
        if is_new {
            let _ = fs::remove_dir(&directory);
        }
    }
    done
}

/// Brings what was put together to its place, and tells what is there; replaces nothing.
fn place(new: &Path, directory: &Path, placed: &mut Vec<PathBuf>) -> Result<(), BackupError> {
    for part in PARTS {
        let (new, path) = (new.join(part), directory.join(part));
        if !new.exists() {
            continue;
        }
        match renameat_with(CWD, &new, CWD, &path, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Err(BackupError::Occupied(directory.to_owned())),
            // A file system that does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS) if !path.exists() => fs::rename(&new, &path),
            renamed => renamed.map_err(io::Error::from),
        }
        .map_err(failed("make", &path))?;
        placed.push(path);
    }
    Ok(())
}

fn contents(directory: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let listing = fs::read_dir(directory).map_err(failed("list", directory))?;
    let mut paths = Vec::new();
    for entry in listing {
        let entry = entry.map_err(failed("list", directory))?;
        if entry.file_name() != OF_THE_SYSTEM {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

fn make_private(directory: &Path) -> Result<(), BackupError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(failed("make", directory))
}

/// Waits until the disk has all of it.
fn sync(directory: &Path) -> Result<(), BackupError> {
    File::open(directory)
        .and_then(|directory| nix::unistd::syncfs(&directory).map_err(io::Error::from))
        .map_err(failed("write", directory))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// An empty directory that everybody may read.
    fn open_to_all() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        directory
    }

    /// A backup of a data directory without jobs.
    fn backed_up() -> tempfile::TempDir {
        let (data, to) = (tempfile::tempdir().unwrap(), open_to_all());
        drop(SqliteStore::open_in(data.path()).unwrap());
        backup(data.path(), &data.path().join("pool"), to.path(), &mut |_| {}).unwrap();
        to
    }

    #[test]
    fn an_empty_directory_that_others_may_read_becomes_private() {
        let (from, data) = (backed_up(), open_to_all());
        assert_eq!(mode(from.path()), 0o700);
        restore(from.path(), data.path(), &mut |_| {}).unwrap();
        assert_eq!(mode(data.path()), 0o700);
        assert!(data.path().join("jobs.sqlite").is_file());
        assert_eq!(contents(data.path()).unwrap().len(), 2);
    }

    #[test]
    fn what_a_server_makes_meanwhile_stays() {
        for file in ["jobs.sqlite", "jobs/1/work/y", "spool/1"] {
            let (from, data) = (backed_up(), open_to_all());
            let live = data.path().join(file);
            let mut serve = |_| {
                fs::create_dir_all(live.parent().unwrap()).unwrap();
                fs::write(&live, "live").unwrap();
            };
            let refused = restore(from.path(), data.path(), &mut serve).unwrap_err();
            assert!(matches!(refused, BackupError::Occupied(_)), "{file}: {refused}");
            assert_eq!(fs::read(&live).unwrap(), b"live");
            assert_eq!(contents(data.path()).unwrap().len(), 1, "{file}");
        }
    }

    #[test]
    fn what_is_put_in_place_replaces_nothing() {
        for taken in PARTS {
            let directory = tempfile::tempdir().unwrap();
            let (new, live) = (directory.path().join(UNFINISHED), directory.path().join(taken));
            for part in PARTS {
                fs::create_dir_all(new.join(part)).unwrap();
            }
            // An empty directory is as good as a file to `rename`.
            fs::create_dir(&live).unwrap();
            let mut placed = Vec::new();
            let refused = place(&new, directory.path(), &mut placed).unwrap_err();
            assert!(matches!(refused, BackupError::Occupied(_)), "{refused}");
            assert!(new.join(taken).exists() && !placed.contains(&live), "{taken}");
        }
    }
}
