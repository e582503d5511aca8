//! Files of SQLite that several processes share: how they are opened, and made smaller again.
//!
//! Write-ahead logging, so that readers never wait for the writer.

use std::path::Path;
use std::time::Duration;

use fishplate_formats::disk::FreeSpace;
use rusqlite::config::DbConfig;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
use rusqlite::{Connection, Error, ErrorCode, Result};

/// How long a transaction waits for another process's.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Statements kept prepared a connection.
const PREPARED: usize = 64;

/// Opens a database, making it if there is none. A write-ahead log that grew under load gives its
/// space back, but for `log_size` bytes.
///
/// # Errors
/// What SQLite says.
pub fn open(path: &Path, log_size: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // A statement's plan does not depend on its values: else it is made anew at each binding.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", i64::try_from(log_size).unwrap_or(-1))?;
    Ok(connection)
}

/// Sees to it that pages without content can be given back: so it is once the whole database was
/// written anew. A disk without room for that is no reason not to open it; another time there may be.
///
/// # Errors
/// What SQLite says, but for a full disk and another process at work on it.
pub fn make_shrinkable(connection: &Connection, path: &Path) -> Result<()> {
    const INCREMENTAL: i32 = 2;
    let mode: i32 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if mode == INCREMENTAL {
        return Ok(());
    }
    let needed = std::fs::metadata(path).map_or(0, |metadata| metadata.len().saturating_mul(2));
    let free = FreeSpace::at(path).map_or(u64::MAX, |free| free.bytes);
    if free < needed {
        tracing::warn!(?path, needed, free, "a database can't be made to shrink for want of room");
        return Ok(());
    }
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    let done = connection.execute_batch("VACUUM");
    match done.and_then(|()| empty_log(connection)) {
        Err(error) if is_busy(&error) || is_full(&error) => Ok(()),
        done => done,
    }
}

/// Moves what was committed from the write-ahead log into the database itself, as far as nobody reads
/// it.
///
/// # Errors
/// What SQLite says.
pub fn empty_log(connection: &Connection) -> Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Pages without content, and their bytes.
///
/// # Errors
/// What SQLite says.
pub fn free_pages(connection: &Connection) -> Result<(u64, u64)> {
    let number = |pragma| -> Result<u64> {
        let number: i64 = connection.query_row(pragma, [], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let pages = number("PRAGMA freelist_count")?;
    Ok((pages, pages.saturating_mul(number("PRAGMA page_size")?)))
}

/// Gives the file system some pages back that hold nothing.
///
/// # Errors
/// What SQLite says.
pub fn give_back(connection: &Connection, pages: u64) -> Result<()> {
    let mut vacuum = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut given = vacuum.query([])?;
    while given.next()?.is_some() {}
    Ok(())
}

/// Whether another process was at work for too long.
pub fn is_busy(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// Whether the disk is full. A log that cannot grow shows as an IO error on some file systems.
pub fn is_full(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(inner, _) => {
            inner.code == ErrorCode::DiskFull
                || [SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE].contains(&inner.extended_code)
        }
        _ => false,
    }
}
