//! Room on the disk: kept for when it is full, and given back.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fishplate_data::sqlite;
use nix::fcntl::{FallocateFlags, fallocate};
use rusqlite::Connection;

use crate::store::StoreError;

/// Room that is kept for records to come when others have gone.
pub(super) const SPARE_ROOM: u64 = 1 << 20;

/// Pages that are given back at once: others who write wait no longer than that takes.
const GIVEN_BACK_AT_ONCE: u64 = 256;

/// The log gets its blocks beforehand, beyond its end: nobody else can take them, and to the
/// database they make no difference. What is moved from the log to the database overwrites
/// what is there, mostly; what can't be moved rests in the log.
pub(super) fn keep(log: &Path, bytes: u64) -> io::Result<()> {
    // The last to close the database removes it. It holds no locks, which another open file
    // would free when it is closed.
    let log = match File::options().write(true).open(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let metadata = log.metadata()?;
    let needed = metadata.len().saturating_add(bytes);
    if metadata.blocks() * 512 >= needed {
        return Ok(());
    }
    let length = i64::try_from(needed).unwrap_or(i64::MAX);
    match fallocate(&log, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length) {
        // Some file systems can't keep room; then it is as it is.
        Err(nix::Error::EOPNOTSUPP | nix::Error::ENOSYS) => Ok(()),
        done => done.map_err(io::Error::from),
    }
}

/// Gives a few pages back, the log emptied into the database afterwards: it keeps its length, and with it
/// the room that is kept for it. Tells whether there may be more, if there were so many `before`.
pub(super) fn give_back_some(sql: &Connection, before: &mut u64) -> Result<bool, StoreError> {
    let (free, bytes) = sqlite::free_pages(sql)?;
    // No fewer than before: somebody else takes as many as are given back.
    if bytes <= SPARE_ROOM || free >= *before {
        return Ok(false);
    }
    *before = free;
    sqlite::give_back(sql, GIVEN_BACK_AT_ONCE)?;
    sqlite::empty_log(sql)?;
    Ok(true)
}
