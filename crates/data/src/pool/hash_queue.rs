//! Hashing later: an unhashed file is hashed and gets its digest's name.
//!
//! One process at a time hashes a file: it has a lock on the byte of the object's number in the file
//! `settling`, which goes with the process. Who waits for a digest waits for that lock, and hashes
//! itself if the other was killed.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fishplate_contract::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::exclusive::lock_bytes;
use super::hash::{self, Algorithm};
use super::incoming::sync_directory;
use super::object::{ObjectKey, Row, digest_of};
use super::{Pool, PoolError, PoolInner, lock, remove_file, small};
use crate::lease::{Lease, open_exclusive, open_leased};

/// What waits to be hashed by this process, and whether a thread is at it.
#[derive(Default)]
pub(super) struct HashQueue(Mutex<PendingHashes>);

#[derive(Default)]
struct PendingHashes {
    numbers: VecDeque<i64>,
    running: bool,
}

impl Pool {
    /// Has a thread compute the digest of this data, unless it is known.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn hash_soon(&self, lease: &Lease) -> Result<(), PoolError> {
        match (lease.digest(), lease.object().by) {
            (None, ObjectKey::Number(number)) => self.hash_later(number),
            _ => Ok(()),
        }
    }

    /// Has a thread hash what was registered.
    pub(super) fn hash_later(&self, number: i64) -> Result<(), PoolError> {
        let mut waiting = lock(&self.0.hash_queue.0);
        if !waiting.numbers.contains(&number) {
            waiting.numbers.push_back(number);
        }
        if waiting.running {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        std::thread::Builder::new()
            .name("hash".to_owned())
            .spawn(move || inner.hash_pending())
            .map_err(PoolError::io("starting a thread for", self.0.directory()))?;
        waiting.running = true;
        Ok(())
    }

    /// Goes on with what other processes left.
    pub(super) fn hash_remaining(&self) -> Result<(), PoolError> {
        let left: Vec<i64> = self.0.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT number FROM objects WHERE adopted IS NOT NULL
                   AND digest IS NULL AND same IS NULL",
            )?
            .query_map([], |row| row.get(0))?
            .collect()
        })?;
        left.into_iter().try_for_each(|number| self.hash_later(number))
    }
}

impl PoolInner {
    fn hash_pending(self: &Arc<Self>) {
        loop {
            let number = {
                let mut waiting = lock(&self.hash_queue.0);
                let Some(number) = waiting.numbers.pop_front() else {
                    waiting.running = false;
                    return;
                };
                number
            };
            // What fails now is tried again by the next sweep.
            if let Err(error) = self.hash_registered(number, false) {
                tracing::warn!(%error, number, "registered data could not be hashed");
            }
        }
    }

    /// Hashes an unhashed file, unless that was done, and names it by its digest. `None`: there is no
    /// such object any more, or, unless told to `wait`, somebody else is at it.
    pub(super) fn hash_registered(
        &self,
        number: i64,
        wait: bool,
    ) -> Result<Option<Digest>, PoolError> {
        let known = || self.catalogue.read(|sql| digest_of(sql, number));
        if let Some(digest) = known()? {
            return Ok(Some(digest));
        }
        let path = self.directory().join("settling");
        let Some(_turn) =
            take_turn(&path, number, wait).map_err(PoolError::io("locking", &path))?
        else {
            return Ok(None);
        };
        if let Some(digest) = known()? {
            return Ok(Some(digest));
        }
        let row = self.catalogue.read(|sql| row_of(sql, number))?;
        let Some(Row { registered: Some(name), size, .. }) = row else { return Ok(None) };
        let at = self.registered_path(&name);
        let open = open_leased(&at).map_err(PoolError::io("opening", &at))?;
        let Some(file) = open else { return Ok(None) };
        let len = file.metadata().map_err(PoolError::io("reading", &at))?.len();
        if len != size {
            self.set_aside(&file, &at)?;
            self.forget_if_missing(number, &name)?;
            return Ok(None);
        }
        let digest = hash::of_file(&file, Algorithm::Sha256, |_| {})
            .map_err(PoolError::io("hashing", &at))?;
        // A name that says what is in a file must not outlive that in a failure of power; nor may the
        // row go back to a name that is gone.
        file.sync_all().map_err(PoolError::io("writing", &at))?;
        let there = self.link_to_digest(&at, &digest, size)?;
        sync_directory(&self.object_path(&digest))?;
        let now = self.now();
        self.catalogue.write(true, move |sql| record_digest(sql, number, &digest, now))?;
        drop((file, there));
        self.unlink_registered(number, &name)?;
        Ok(Some(digest))
    }

    /// Gives an unhashed file its digest's name, unless there is one of that name, which is given,
    /// leased.
    fn link_to_digest(
        &self,
        at: &Path,
        digest: &Digest,
        len: u64,
    ) -> Result<Option<File>, PoolError> {
        let path = self.object_path(digest);
        loop {
            match fs::hard_link(at, &path) {
                Ok(()) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(PoolError::io("naming", &path)(error)),
            }
            if let Some(there) = self.leased_object(&path, digest, len)? {
                return Ok(Some(there));
            }
        }
    }

    /// Takes a hashed object's name among the unhashed away, once nobody reads it by that name.
    pub(super) fn unlink_registered(&self, number: i64, name: &str) -> Result<(), PoolError> {
        let at = self.registered_path(name);
        let lock = open_exclusive(&at).map_err(PoolError::io("opening", &at))?;
        if lock.is_none() && at.exists() {
            return Ok(());
        }
        self.catalogue.write(false, move |sql| {
            sql.prepare_cached(
                "UPDATE objects SET adopted = NULL WHERE number = ?1 AND digest IS NOT NULL",
            )?
            .execute([number])?;
            sql.prepare_cached("DELETE FROM objects WHERE number = ?1 AND same IS NOT NULL")?
                .execute([number])
        })?;
        remove_file(&at)
    }
}

fn row_of(sql: &Connection, number: i64) -> rusqlite::Result<Option<Row>> {
    let columns = Row::COLUMNS;
    sql.prepare_cached(&format!("SELECT {columns} FROM objects AS o WHERE number = ?1"))?
        .query_row([number], Row::read)
        .optional()
}

/// The object has this digest; if another has it already, all that it has goes there.
fn record_digest(sql: &Connection, number: i64, digest: &Digest, now: i64) -> rusqlite::Result<()> {
    let other: Option<i64> = sql
        .prepare_cached("SELECT number FROM objects WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    let Some(other) = other else {
        sql.prepare_cached("UPDATE objects SET digest = ?2 WHERE number = ?1")?
            .execute(params![number, digest.as_bytes()])?;
        return Ok(());
    };
    // There is a file of that name now.
    small::give_way_to_file(sql, other, digest, now)?;
    let step = |statement: &str| sql.prepare_cached(statement)?.execute([number, other]);
    step(
        "INSERT OR IGNORE INTO holdings (owner, object, size)
         SELECT owner, ?2, size FROM holdings WHERE object = ?1",
    )?;
    step("DELETE FROM holdings WHERE object = ?1 AND ?2 = ?2")?;
    step("UPDATE grants SET object = ?2 WHERE object = ?1")?;
    step(
        "UPDATE objects SET used = max(used, (SELECT used FROM objects WHERE number = ?1)),
           pinned = max(pinned, (SELECT pinned FROM objects WHERE number = ?1))
         WHERE number = ?2",
    )?;
    sql.prepare_cached("UPDATE objects SET same = ?2 WHERE number = ?1")?
        .execute(params![number, digest.as_bytes()])?;
    Ok(())
}

/// Locks an object's byte. `None`: somebody else has it, and we were not to wait.
fn take_turn(path: &Path, number: i64, wait: bool) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    Ok(lock_bytes(&file, number, 1, wait)?.then_some(file))
}
