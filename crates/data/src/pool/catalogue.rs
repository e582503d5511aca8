//! The catalogue: what is in the pool, whose it is, who may have it. One SQLite file that several
//! processes share.
//!
//! Group commit: whoever wants to write queues what it wants and asks for the writer; who gets the
//! writer writes what all have queued as one transaction. So a lone writer pays no switch of
//! threads, and many writers pay one commit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::PoolError;

/// How long a transaction waits for another process's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Statements kept prepared a connection.
const PREPARED: usize = 64;

/// Version of the schema, in `PRAGMA user_version`.
const SCHEMA_VERSION: i32 = 1;

/// `objects`: files. One without a digest was adopted and is not hashed yet; one that is the `same`
/// as the one of that digest was found to be so then, and its file goes once nobody reads it.
/// `holdings`: who is charged for what. `owners` and `totals` are kept by the triggers.
const SCHEMA: &str = "
CREATE TABLE objects (
  number INTEGER PRIMARY KEY,
  digest BLOB UNIQUE,
  adopted TEXT,
  same BLOB,
  size INTEGER NOT NULL,
  created INTEGER NOT NULL,
  used INTEGER NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX objects_used ON objects (used);
CREATE INDEX objects_adopted ON objects (adopted) WHERE adopted IS NOT NULL;
CREATE TABLE holdings (
  owner TEXT NOT NULL,
  object INTEGER NOT NULL,
  size INTEGER NOT NULL,
  PRIMARY KEY (owner, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdings_object ON holdings (object);
CREATE TABLE grants (
  token BLOB PRIMARY KEY,
  object INTEGER NOT NULL,
  owner TEXT NOT NULL,
  origin TEXT NOT NULL,
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_object ON grants (object, expires);
CREATE INDEX grants_owner ON grants (owner, created);
CREATE INDEX grants_expires ON grants (expires);
CREATE TABLE incoming (
  name TEXT PRIMARY KEY,
  version TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE owners (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE totals (one INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
INSERT INTO totals VALUES (1, 0);
CREATE TRIGGER objects_added AFTER INSERT ON objects BEGIN
  UPDATE totals SET bytes = bytes + new.size WHERE one = 1;
END;
CREATE TRIGGER objects_removed AFTER DELETE ON objects BEGIN
  UPDATE totals SET bytes = bytes - old.size WHERE one = 1;
  DELETE FROM holdings WHERE object = old.number;
  DELETE FROM grants WHERE object = old.number;
END;
CREATE TRIGGER holdings_added AFTER INSERT ON holdings BEGIN
  INSERT INTO owners VALUES (new.owner, new.size)
    ON CONFLICT DO UPDATE SET bytes = bytes + new.size;
END;
CREATE TRIGGER holdings_removed AFTER DELETE ON holdings BEGIN
  UPDATE owners SET bytes = bytes - old.size WHERE owner = old.owner;
END;
";

/// The catalogue's connections.
pub(super) struct Catalogue {
    path: PathBuf,
    queue: Mutex<Vec<Item>>,
    writer: Mutex<Writer>,
    readers: Mutex<Vec<Connection>>,
}

struct Writer {
    connection: Connection,
    durable: bool,
}

/// A write that waits for its transaction. It keeps its result and where to put it.
struct Item {
    durable: bool,
    step: Box<dyn FnMut(Step<'_>) -> rusqlite::Result<()> + Send>,
}

enum Step<'s> {
    /// Do it.
    Run(&'s Connection),
    /// The transaction has ended: tell who waits.
    Ended(Result<(), Arc<rusqlite::Error>>),
}

impl Catalogue {
    /// Opens the catalogue at `path`, making it if there is none. The caller sees to it that only
    /// one process does so at a time.
    pub(super) fn open(path: &Path) -> Result<Self, PoolError> {
        let connection = connect(path).map_err(failed)?;
        migrate(&connection)?;
        Ok(Self {
            path: path.to_owned(),
            queue: Mutex::default(),
            writer: Mutex::new(Writer { connection, durable: false }),
            readers: Mutex::default(),
        })
    }

    /// Runs `work` within the next transaction and gives its result once that is committed; if
    /// `durable`, on the disk. An error of one work fails all that were in the transaction, so
    /// `work` refuses by its result, before it writes.
    pub(super) fn write<T: Send + 'static>(
        &self,
        durable: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PoolError> {
        let told = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&told);
        let (mut work, mut value) = (Some(work), None);
        let step = Box::new(move |step: Step<'_>| {
            match step {
                Step::Run(connection) => {
                    value = work.take().map(|work| work(connection)).transpose()?;
                }
                Step::Ended(Ok(())) => *lock(&tell) = value.take().map(Ok),
                Step::Ended(Err(error)) => *lock(&tell) = Some(Err(PoolError::Catalogue(error))),
            }
            Ok(())
        });
        lock(&self.queue).push(Item { durable, step });
        let mut writer = lock(&self.writer);
        if lock(&told).is_none() {
            let group = std::mem::take(&mut *lock(&self.queue));
            writer.transact(group);
        }
        drop(writer);
        let told = lock(&told).take();
        match told.expect("a write is over once its group is") {
            Err(PoolError::Catalogue(error)) if is_full(&error) => {
                Err(PoolError::Full { directory: self.path.clone() })
            }
            other => other,
        }
    }

    /// Reads what is committed.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, PoolError> {
        let reader = lock(&self.readers).pop();
        let reader = match reader {
            Some(reader) => reader,
            None => self.reader().map_err(failed)?,
        };
        let value = work(&reader).map_err(failed)?;
        lock(&self.readers).push(reader);
        Ok(value)
    }

    fn reader(&self) -> rusqlite::Result<Connection> {
        let reader = connect(&self.path)?;
        reader.pragma_update(None, "query_only", true)?;
        Ok(reader)
    }
}

impl Writer {
    fn transact(&mut self, mut group: Vec<Item>) {
        let durable = group.iter().any(|item| item.durable);
        let ended = self.commit(durable, &mut group).map_err(Arc::new);
        for mut item in group {
            // Telling runs nothing that can fail.
            let _ = (item.step)(Step::Ended(ended.clone()));
        }
    }

    fn commit(&mut self, durable: bool, group: &mut [Item]) -> rusqlite::Result<()> {
        if self.durable != durable {
            let level = if durable { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.durable = durable;
        }
        let step = |sql: &str| self.connection.prepare_cached(sql)?.execute([]);
        if !self.connection.is_autocommit() {
            // A work panicked within the transaction before.
            step("ROLLBACK")?;
        }
        step("BEGIN IMMEDIATE")?;
        let done = group
            .iter_mut()
            .try_for_each(|item| (item.step)(Step::Run(&self.connection)))
            .and_then(|()| step("COMMIT").map(|_| ()));
        if done.is_err() && !self.connection.is_autocommit() {
            step("ROLLBACK")?;
        }
        done
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    // A statement's plan does not depend on its values: else it is made anew at each binding.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    Ok(connection)
}

fn migrate(connection: &Connection) -> Result<(), PoolError> {
    let begin = || rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = begin().map_err(failed)?;
    let version = transaction.query_row("PRAGMA user_version", [], |row| row.get(0));
    match version.map_err(failed)? {
        0 => {
            transaction.execute_batch(SCHEMA).map_err(failed)?;
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(failed)?;
        }
        SCHEMA_VERSION => {}
        found => return Err(PoolError::Schema { found, known: SCHEMA_VERSION }),
    }
    transaction.commit().map_err(failed)
}

fn failed(error: rusqlite::Error) -> PoolError {
    PoolError::Catalogue(Arc::new(error))
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
