//! The catalogue: what is in the pool, whose it is, who may have it. One SQLite file that several
//! processes share.
//!
//! Group commit: whoever wants to write queues what it wants and asks for the writer; who gets the
//! writer writes what all have queued as one transaction. So a lone writer pays no switch of
//! threads, and many writers pay one commit. Who need not wait ([`Catalogue::write_later`]) leaves it
//! to whoever comes next, or to a thread; whoever reads sees it all the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fishplate_contract::lock;
use rusqlite::{Connection, TransactionBehavior};

use super::{PoolError, signed};
use crate::sqlite::{self, is_full};

/// How long a transaction waits for another process's while room is given back.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_millis(100);

/// Pages that are given back at once.
const GIVEN_BACK_AT_ONCE: u64 = 64;

/// Bytes of the write-ahead log, about, before they are moved into the catalogue in any case.
pub(super) const LARGEST_LOG: u64 = 64 << 20;

/// Bytes of a page, unless SQLite was told otherwise.
const PAGE: u64 = 4 << 10;

/// Version of the schema, in `PRAGMA user_version`.
const SCHEMA_VERSION: i32 = 3;

/// `objects`: files. One without a digest was registered and is not hashed yet: its name in the directory
/// `adopted` is in the column of that name. One that is the `same`
/// as the one of that digest was found to be so then, and its file goes once nobody reads it.
/// `holdings`: who is charged for what; `charges`: the sums, kept by the triggers, that of all files
/// under an owner whose name is one zero byte.
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
CREATE INDEX objects_same ON objects (same) WHERE same IS NOT NULL;
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
CREATE TABLE charges (owner BLOB PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO charges VALUES (x'00', 0);
CREATE TRIGGER objects_added AFTER INSERT ON objects BEGIN
  UPDATE charges SET bytes = bytes + new.size WHERE owner = x'00';
END;
CREATE TRIGGER objects_removed AFTER DELETE ON objects BEGIN
  UPDATE charges SET bytes = bytes - old.size WHERE owner = x'00';
  DELETE FROM holdings WHERE object = old.number;
  DELETE FROM grants WHERE object = old.number;
END;
CREATE TRIGGER holdings_added AFTER INSERT ON holdings BEGIN
  INSERT INTO charges VALUES (CAST(new.owner AS BLOB), new.size)
    ON CONFLICT DO UPDATE SET bytes = bytes + new.size;
END;
CREATE TRIGGER holdings_removed AFTER DELETE ON holdings BEGIN
  UPDATE charges SET bytes = bytes - old.size WHERE owner = CAST(old.owner AS BLOB);
END;
";

/// What schema 2 has more than 1: what came in part is charged too. `size` is 0 while it is being
/// written.
const RESTING: &str = "
ALTER TABLE incoming ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE incoming ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER incoming_added AFTER INSERT ON incoming BEGIN
  UPDATE charges SET bytes = bytes + new.size WHERE owner = x'00';
  INSERT INTO charges VALUES (CAST(new.owner AS BLOB), new.size)
    ON CONFLICT DO UPDATE SET bytes = bytes + new.size;
END;
CREATE TRIGGER incoming_removed AFTER DELETE ON incoming BEGIN
  UPDATE charges SET bytes = bytes - old.size WHERE owner IN (x'00', CAST(old.owner AS BLOB));
END;
CREATE TRIGGER incoming_changed AFTER UPDATE OF owner, size ON incoming BEGIN
  UPDATE charges SET bytes = bytes - old.size WHERE owner IN (x'00', CAST(old.owner AS BLOB));
  UPDATE charges SET bytes = bytes + new.size WHERE owner = x'00';
  INSERT INTO charges VALUES (CAST(new.owner AS BLOB), new.size)
    ON CONFLICT DO UPDATE SET bytes = bytes + new.size;
END;
";

/// What schema 3 has more than 2: data that is small rests in its row, and has no file.
const SMALL: &str = "ALTER TABLE objects ADD COLUMN content BLOB;";

/// How long writes that nobody waits for gather.
const GATHER: Duration = Duration::from_millis(2);

/// The catalogue's connections.
pub(super) struct Catalogue {
    shared: Arc<CatalogueInner>,
    readers: Mutex<Vec<Connection>>,
    thread: Option<JoinHandle<()>>,
}

struct CatalogueInner {
    path: PathBuf,
    queue: Mutex<WriteQueue>,
    /// There is something that nobody waits for, or the end has come.
    wake: Condvar,
    writer: Mutex<CatalogueWriter>,
}

#[derive(Default)]
struct WriteQueue {
    items: Vec<QueuedWrite>,
    /// How many of them nobody waits for.
    later: usize,
    /// Such ones were taken from here and are not committed yet.
    writing: bool,
    closed: bool,
}

struct CatalogueWriter {
    connection: Connection,
    durable: bool,
}

/// A write that waits for its transaction. It keeps its result and where to put it.
struct QueuedWrite {
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
        if let Err(error) = sqlite::make_shrinkable(&connection, path) {
            // It is tried again when the pool is opened next.
            tracing::info!(%error, "the pool's catalogue can't give room back to the disk yet");
        }
        let shared = Arc::new(CatalogueInner {
            path: path.to_owned(),
            queue: Mutex::default(),
            wake: Condvar::new(),
            writer: Mutex::new(CatalogueWriter { connection, durable: false }),
        });
        let same = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("catalogue".to_owned())
            .spawn(move || same.write_what_is_late())
            .map_err(PoolError::io("starting a thread for", path))?;
        Ok(Self { shared, readers: Mutex::default(), thread: Some(thread) })
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
        lock(&self.shared.queue).items.push(QueuedWrite { durable, step });
        let mut writer = lock(&self.shared.writer);
        if lock(&told).is_none() {
            self.shared.write_queued(&mut writer);
        }
        drop(writer);
        let told = lock(&told).take();
        match told.expect("a write is over once its group is") {
            Err(PoolError::Catalogue(error)) if is_full(&error) => {
                Err(PoolError::Full { directory: self.shared.path.clone(), shortage: None })
            }
            other => other,
        }
    }

    /// Runs `work` soon, in the order of all writes. If it fails, the log tells.
    pub(super) fn write_later(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let mut work = Some(work);
        let step = Box::new(move |step: Step<'_>| match step {
            Step::Run(connection) => work.take().map_or(Ok(()), |work| work(connection)),
            Step::Ended(Ok(())) => Ok(()),
            Step::Ended(Err(error)) => {
                tracing::error!(%error, "the pool's catalogue could not be written");
                Ok(())
            }
        });
        let mut queue = lock(&self.shared.queue);
        queue.items.push(QueuedWrite { durable: false, step });
        queue.later += 1;
        if queue.later == 1 {
            self.shared.wake.notify_one();
        }
    }

    /// Moves what was committed from the write-ahead log into the catalogue itself. The writers do
    /// it only when the log has grown large, because it waits for the disk.
    pub(super) fn checkpoint(&self) -> Result<(), PoolError> {
        self.read(sqlite::empty_log)
    }

    /// Gives the disk back what rows that were removed have left, if that is so many bytes, the
    /// write-ahead log included. Tells whether it was.
    pub(super) fn give_back(&self, least: u64) -> Result<bool, PoolError> {
        let writer = lock(&self.shared.writer);
        writer.give_back(least.saturating_sub(self.log_len())).map_err(failed)
    }

    /// Bytes of the write-ahead log.
    pub(super) fn log_len(&self) -> u64 {
        let log = self.shared.path.with_extension("sqlite-wal");
        std::fs::metadata(log).map_or(0, |file| file.len())
    }

    /// Reads what was written, also what nobody waited for.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, PoolError> {
        let has_late = {
            let queue = lock(&self.shared.queue);
            queue.later > 0 || queue.writing
        };
        if has_late {
            self.shared.write_queued(&mut lock(&self.shared.writer));
        }
        self.read_committed(work)
    }

    /// Reads what is committed.
    pub(super) fn read_committed<T>(
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
        let reader = connect(&self.shared.path)?;
        reader.pragma_update(None, "query_only", true)?;
        Ok(reader)
    }
}

impl CatalogueInner {
    /// Writes what has gathered, as one transaction.
    fn write_queued(&self, writer: &mut CatalogueWriter) {
        let group = {
            let mut queue = lock(&self.queue);
            queue.writing = std::mem::take(&mut queue.later) > 0;
            std::mem::take(&mut queue.items)
        };
        if !group.is_empty() {
            writer.transact(group);
            lock(&self.queue).writing = false;
        }
    }

    fn write_what_is_late(&self) {
        let mut queue = lock(&self.queue);
        while !queue.closed {
            if queue.later == 0 {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(queue);
            std::thread::sleep(GATHER);
            self.write_queued(&mut lock(&self.writer));
            queue = lock(&self.queue);
        }
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.write_queued(&mut lock(&self.shared.writer));
    }
}

impl CatalogueWriter {
    fn transact(&mut self, mut group: Vec<QueuedWrite>) {
        let durable = group.iter().any(|item| item.durable);
        let ended = self.commit(durable, &mut group).map_err(Arc::new);
        for mut item in group {
            // Telling runs nothing that can fail.
            let _ = (item.step)(Step::Ended(ended.clone()));
        }
    }

    fn commit(&mut self, durable: bool, group: &mut [QueuedWrite]) -> rusqlite::Result<()> {
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

impl CatalogueWriter {
    fn give_back(&self, least: u64) -> rusqlite::Result<bool> {
        let sql = &self.connection;
        let (free, bytes) = sqlite::free_pages(sql)?;
        if bytes < least {
            return Ok(false);
        }
        // Who reads for long keeps the log from being emptied, not us from going on.
        sql.busy_timeout(GIVE_BACK_TIMEOUT)?;
        let empty_log = || sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        // First, and after each few pages: on a full disk the log has little room.
        let mut given = empty_log();
        let mut left = free;
        while given.is_ok() && left > 0 {
            given = sqlite::give_back(sql, GIVEN_BACK_AT_ONCE).and_then(|()| empty_log());
            left = left.saturating_sub(GIVEN_BACK_AT_ONCE);
        }
        sql.busy_timeout(sqlite::BUSY_TIMEOUT)?;
        match given {
            Err(error) if sqlite::is_busy(&error) || is_full(&error) => {}
            given => given?,
        }
        Ok(true)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = sqlite::open(path, LARGEST_LOG)?;
    // The sweep sees to it before it has so many pages.
    connection.pragma_update(None, "wal_autocheckpoint", signed(LARGEST_LOG / PAGE))?;
    Ok(connection)
}

fn migrate(connection: &Connection) -> Result<(), PoolError> {
    let begin = || rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = begin().map_err(failed)?;
    let version = transaction.query_row("PRAGMA user_version", [], |row| row.get(0));
    let steps = match version.map_err(failed)? {
        0 => &[SCHEMA, RESTING, SMALL][..],
        1 => &[RESTING, SMALL],
        2 => &[SMALL],
        SCHEMA_VERSION => &[],
        found => return Err(PoolError::Schema { found, known: SCHEMA_VERSION }),
    };
    for step in steps {
        transaction.execute_batch(step).map_err(failed)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

fn failed(error: rusqlite::Error) -> PoolError {
    PoolError::Catalogue(Arc::new(error))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a catalogue as that version of the schema had it.
    pub(in crate::pool) fn make(connection: &Connection, version: i32) {
        for step in [SCHEMA, RESTING, SMALL].iter().take(usize::try_from(version).unwrap()) {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", version).unwrap();
    }

    #[test]
    fn what_is_being_written_is_waited_for_by_who_reads() {
        let directory = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(&directory.path().join("pool.sqlite")).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        catalogue.write_later(move |sql| {
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            sql.execute("INSERT INTO incoming (name, version) VALUES ('a', '')", []).map(drop)
        });
        begins.recv().unwrap();
        let count = |sql: &Connection| {
            sql.query_row("SELECT count(*) FROM incoming", [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(catalogue.read(count).unwrap(), 1);
    }
}
