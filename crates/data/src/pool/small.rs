//! Small data: what is not worth a file of its own rests in its row of the catalogue. To make a file
//! and to remove it costs many times what such a row does (`docs/decisions/0007-data-by-reference.md`).
//!
//! A row either has content or there is a file of its digest's name; these rules keep it so, however
//! many processes store and remove the same:
//!
//! - Content gives way to a file, and the other way round, only within a transaction that has looked
//!   whether the file is there. A file beside a row with content is removed by the sweep, again
//!   within a transaction.
//! - A lease of such data has its bytes. It keeps nobody from evicting the row, and enters it anew
//!   if somebody wants a grant of it.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fishplate_contract::{Digest, Principal};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::incoming::WHOLE;
use super::object::{NewObject, ObjectKey, Registered, Row};
use super::{PoolError, PoolInner, hash};
use crate::lease::{Lease, LeaseTarget};

/// Data of more bytes has a file of its own: what a row costs grows with its length, what a file
/// costs does not.
pub(super) const LARGEST_IN_ROW: u64 = 16 << 10;

/// Bytes that are evicted if the disk refuses a row.
const MORE: u64 = 1 << 20;

impl PoolInner {
    /// Takes in data that rests in its row.
    pub(super) fn store_small(
        self: &Arc<Self>,
        owner: &Principal,
        pieces: &[Bytes],
        digest: Digest,
        durable: bool,
    ) -> Result<Lease, PoolError> {
        // A copy: what came may be a part of something larger.
        let content = Bytes::from(pieces.concat());
        let len = content.len() as u64;
        self.make_room_on_disk(len)?;
        let entry = NewObject::Small(digest, content.clone());
        if durable || !self.enter_later(owner, len, &entry)? {
            match self.enter(owner, len, durable, &entry) {
                Err(PoolError::Full { .. }) if self.evict(MORE)? > 0 => {
                    self.enter(owner, len, durable, &entry)?
                }
                entered => entered?,
            };
        }
        Ok(self.lease_in_memory(content, digest, None))
    }

    /// Leases the content of a row; `None` if it is damaged: it is set aside then.
    pub(super) fn lease_content(
        self: &Arc<Self>,
        row: &Row,
        content: Bytes,
    ) -> Result<Option<Lease>, PoolError> {
        let Some(digest) = row.digest else { return Ok(None) };
        if hash::of_bytes([&content[..]]) != digest {
            self.set_content_aside(row.number, digest)?;
            return Ok(None);
        }
        Ok(Some(self.lease_in_memory(content, digest, Some(row.created))))
    }

    fn lease_in_memory(
        self: &Arc<Self>,
        content: Bytes,
        digest: Digest,
        created: Option<i64>,
    ) -> Lease {
        let len = content.len() as u64;
        let object = Registered { inner: Arc::clone(self), by: ObjectKey::Digest(digest) };
        let created = created.unwrap_or_else(|| self.now());
        let data = InMemory { content, created, file: OnceLock::new() };
        Lease::new(LeaseTarget::Memory(data), len, Some(digest), object)
    }

    /// Takes the content of a row out of use if it is damaged, as is done with files: the row is one
    /// whose file is missing then.
    fn set_content_aside(&self, number: i64, digest: Digest) -> Result<(), PoolError> {
        let now = self.now();
        self.catalogue.write(false, move |sql| {
            if keep_if_damaged(sql, number, &digest, now)? {
                set_content(sql, number, None)?;
            }
            Ok(())
        })
    }
}

/// Data that is in memory. It has no file before somebody asks for it: a file takes a descriptor.
#[derive(Debug)]
pub(crate) struct InMemory {
    content: Bytes,
    /// When it came, which its file says, too.
    created: i64,
    file: OnceLock<(File, PathBuf)>,
}

impl InMemory {
    pub(crate) fn content(&self) -> &Bytes {
        &self.content
    }

    /// A file without a name that nobody can change, and a path that leads to it.
    pub(crate) fn file(&self) -> io::Result<&(File, PathBuf)> {
        if let Some(made) = self.file.get() {
            return Ok(made);
        }
        let file = in_memory(&self.content, self.created)?;
        // By the process's own ID: if the path gets to another one, that one does not open a file of
        // its own.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(self.file.get_or_init(|| (file, path.into())))
    }
}

/// What is entered is known: has its row say where it rests.
pub(super) fn reconcile(
    sql: &Connection,
    number: i64,
    has_content: bool,
    entry: &NewObject,
    now: i64,
) -> rusqlite::Result<()> {
    match entry {
        NewObject::Whole(digest) if has_content && file_of(sql, digest).exists() => {
            give_way_to_file(sql, number, digest, now)
        }
        NewObject::Small(digest, content) if has_content => {
            let is_same = sql
                .prepare_cached("SELECT 1 FROM objects WHERE number = ?1 AND content = ?2")?
                .exists(params![number, content.as_ref()])?;
            if is_same {
                return Ok(());
            }
            keep_if_damaged(sql, number, digest, now)?;
            set_content(sql, number, Some(content))
        }
        NewObject::Small(digest, content) if !is_whole(sql, digest, content, now) => {
            set_content(sql, number, Some(content))
        }
        NewObject::Whole(_) | NewObject::Small(..) | NewObject::Unhashed(_) => Ok(()),
    }
}

/// Whether there is a file with this content. One with another is damaged, and is set aside.
fn is_whole(sql: &Connection, digest: &Digest, content: &[u8], now: i64) -> bool {
    let path = file_of(sql, digest);
    let is_as_long = |file: &fs::Metadata| file.len() == content.len() as u64;
    match fs::metadata(&path) {
        Ok(file) if is_as_long(&file) && fs::read(&path).is_ok_and(|found| found == content) => {
            true
        }
        Ok(_) => {
            tracing::error!(object = %path.display(), "damaged data is set aside");
            let kept = File::open(&path).and_then(|file| {
                file.set_modified(time(now))?;
                fs::rename(&path, directory_of(sql).join("damaged").join(digest.hex()))
            });
            if let Err(error) = kept {
                tracing::warn!(%error, path = %path.display(), "damaged data could not be kept");
            }
            false
        }
        Err(_) => false,
    }
}

/// There is a file now, which is leased.
pub(super) fn give_way_to_file(
    sql: &Connection,
    number: i64,
    digest: &Digest,
    now: i64,
) -> rusqlite::Result<()> {
    keep_if_damaged(sql, number, digest, now)?;
    set_content(sql, number, None)
}

fn set_content(sql: &Connection, number: i64, content: Option<&[u8]>) -> rusqlite::Result<()> {
    sql.prepare_cached("UPDATE objects SET content = ?2 WHERE number = ?1")?
        .execute(params![number, content])
        .map(drop)
}

/// Leaves content that is not what its digest says in `damaged/`; tells whether it was so.
fn keep_if_damaged(
    sql: &Connection,
    number: i64,
    digest: &Digest,
    now: i64,
) -> rusqlite::Result<bool> {
    let content: Option<Vec<u8>> = sql
        .prepare_cached("SELECT content FROM objects WHERE number = ?1 AND digest = ?2")?
        .query_row(params![number, digest.as_bytes()], |row| row.get(0))
        .optional()?
        .flatten();
    let Some(content) = content else { return Ok(false) };
    if hash::of_bytes([&content[..]]) == *digest {
        return Ok(false);
    }
    tracing::error!(object = %digest.hex(), "damaged data is set aside");
    let path = directory_of(sql).join("damaged").join(digest.hex());
    let kept = fs::remove_file(&path)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .and_then(|()| fs::write(&path, &content))
        .and_then(|()| File::open(&path))
        .and_then(|file| {
            file.set_permissions(Permissions::from_mode(WHOLE))?;
            file.set_modified(time(now))
        });
    if let Err(error) = kept {
        // It is for the operator to look at only.
        tracing::warn!(%error, path = %path.display(), "damaged data could not be kept");
    }
    Ok(true)
}

/// Where the file of a digest would be, for who is within a transaction.
fn file_of(sql: &Connection, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    let mut path = directory_of(sql).join("objects");
    path.push(&hex[..2]);
    path.push(hex);
    path
}

/// The directory of the pool that a catalogue is of.
fn directory_of(sql: &Connection) -> &Path {
    sql.path().and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""))
}

/// A file that nobody can change, not even who has it open.
fn in_memory(content: &[u8], modified: i64) -> io::Result<File> {
    let open = |flags| memfd_create(c"pooled", flags | MFdFlags::MFD_CLOEXEC);
    let file = match open(MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL)) {
        // A kernel before 6.3.
        Err(Errno::EINVAL) => open(MFdFlags::MFD_ALLOW_SEALING),
        opened => opened,
    };
    let mut file = File::from(file?);
    file.write_all(content)?;
    // As files of the pool have it: who copies a file with its mode is to get the same.
    file.set_permissions(Permissions::from_mode(WHOLE))?;
    file.set_modified(time(modified))?;
    let seals = SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

fn time(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_file_in_memory_can_not_be_changed() {
        let file = in_memory(b"content", 5_000).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o7777), (7, WHOLE));
        assert_eq!(metadata.modified().unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        (&file).write_all(b"x").unwrap_err();
        file.set_len(3).unwrap_err();
        file.set_len(9).unwrap_err();
        // Root may open anything for writing.
        if let Ok(again) = File::options().write(true).open(&path) {
            (&again).write_all(b"x").unwrap_err();
        }
        let mut text = String::new();
        File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
    }
}
