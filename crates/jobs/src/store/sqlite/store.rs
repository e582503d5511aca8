//! A store in one SQLite file: its connections and transactions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fishplate_contract::{Clock, SystemClock, lock};
use fishplate_data::sqlite;
use rusqlite::Connection;

use super::room;
use super::schema::{migrate, version};
use super::sql::Sql;
use crate::store::{Store, StoreError, Transaction};

/// Bytes of the write-ahead log that are kept when it grew under load.
const LOG_SIZE: u64 = 16 << 20;

/// A store in one SQLite file.
pub struct SqliteStore {
    /// The write-ahead log.
    pub(super) log: PathBuf,
    /// By which leases lapse: all users are on one machine.
    clock: Arc<dyn Clock>,
    pub(super) writer: Mutex<Writer>,
    pub(super) reader: Mutex<Connection>,
}

pub(super) struct Writer {
    pub(super) connection: Connection,
    durable: bool,
}

impl SqliteStore {
    /// Its name in a data directory.
    pub const FILE: &str = "jobs.sqlite";

    /// Whether a data directory has one.
    pub fn is_in(data: &Path) -> bool {
        data.join(Self::FILE).exists()
    }

    /// Opens that of a data directory, making it if there is none.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_in(data: &Path) -> Result<Self, StoreError> {
        Self::open(&data.join(Self::FILE))
    }

    /// Opens the store at `path`, making it if there is none.
    ///
    /// # Errors
    /// If the file cannot be opened, is no such store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let writer = sqlite::open(path, LOG_SIZE)?;
        // Before anything is changed.
        version(&writer)?;
        sqlite::make_shrinkable(&writer, path)?;
        migrate(&writer)?;
        let reader = sqlite::open(path, LOG_SIZE)?;
        reader.pragma_update(None, "query_only", true)?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            log: log.into(),
            clock: Arc::new(SystemClock),
            writer: Mutex::new(Writer { connection: writer, durable: false }),
            reader: Mutex::new(reader),
        })
    }

    /// One whose leases lapse by this clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Reads all of the store, to see whether it can be trusted. Takes about a second a gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Damaged`].
    pub fn check(&self) -> Result<(), StoreError> {
        let said: String =
            lock(&self.reader).query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if said == "ok" { Ok(()) } else { Err(StoreError::Damaged(said.into())) }
    }
}

impl Store for SqliteStore {
    fn transact(
        &self,
        durable: bool,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut writer = lock(&self.writer);
        if writer.durable != durable {
            let level = if durable { "FULL" } else { "NORMAL" };
            writer.connection.pragma_update(None, "synchronous", level)?;
            writer.durable = durable;
        }
        // Prepared once each, which `rusqlite::Transaction` does anew every time.
        let step = |sql: &str| writer.connection.prepare_cached(sql)?.execute([]);
        step("BEGIN IMMEDIATE")?;
        let done = work(&mut Sql { connection: &writer.connection, now: self.clock.now() })
            .and_then(|()| step("COMMIT").map(|_| ()).map_err(StoreError::from));
        if done.is_err() && !writer.connection.is_autocommit() {
            step("ROLLBACK")?;
        }
        done
    }

    fn read(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let reader = lock(&self.reader);
        work(&mut Sql { connection: &reader, now: self.clock.now() })
    }

    fn keep_room(&self, bytes: u64) -> io::Result<()> {
        room::keep(&self.log, bytes)
    }

    fn give_back(&self) -> Result<(), StoreError> {
        // Others write between two steps.
        let mut before = u64::MAX;
        while room::give_back_some(&lock(&self.writer).connection, &mut before)? {}
        Ok(())
    }
}
