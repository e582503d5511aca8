//! Making room: quotas, the disk's reserve, and eviction of what nobody needs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fishplate_contract::{Digest, Principal};
use fishplate_formats::disk::FreeSpace;
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use super::catalogue::LARGEST_LOG;
use super::object::{OWNER_QUOTA, QUOTA, Row, owner_bytes, total_bytes};
use super::partial::Partial;
use super::{PoolError, PoolInner, Shortage, lock, remove_file};
use crate::lease::{is_at, open_exclusive};

/// Bytes that owners are writing and that the catalogue does not know yet.
#[derive(Debug, Default)]
pub(super) struct IncomingBytes(Mutex<HashMap<String, u64>>);

impl IncomingBytes {
    pub(super) fn add(&self, owner: &str, bytes: u64) {
        *lock(&self.0).entry(owner.to_owned()).or_default() += bytes;
    }

    pub(super) fn remove(&self, owner: &str, bytes: u64) {
        let mut arriving = lock(&self.0);
        if let Some(left) = arriving.get_mut(owner) {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                arriving.remove(owner);
            }
        }
    }

    /// Those of all, and those of one owner.
    fn of(&self, owner: &str) -> (u64, u64) {
        let arriving = lock(&self.0);
        (arriving.values().sum(), arriving.get(owner).copied().unwrap_or(0))
    }
}

/// Objects that are looked at together.
const BATCH: i64 = 64;

/// What may go: whole, hashed, and neither pinned nor granted (`?1`: now).
const EVICTABLE: &str = "o.digest IS NOT NULL AND o.pinned = 0
  AND NOT EXISTS (SELECT 1 FROM grants AS g WHERE g.object = o.number AND g.expires > ?1)";

/// How often, and how long after, what can't be had is tried again: a process that is just being
/// forked has all files of its parent open, and so their locks, until it is executed.
const TRIES: u32 = 4;
const MOMENT: Duration = Duration::from_millis(5);

/// Bytes that rows which were removed have to leave, so that it is worth it to give them back to a
/// disk that needs them, and to one that does not.
const GIVEN_BACK: u64 = 1 << 20;
pub(super) const LEFT_FREE: u64 = 32 << 20;

/// Where a walk along the least recently used is.
type LruCursor = (i64, i64);

/// An object that nobody has in use, with the lock that keeps it so. What is small needs none: its
/// leases have its bytes.
struct EvictionCandidate {
    row: Row,
    _lock: Option<File>,
}

impl PoolInner {
    /// Sees to it that the disk has room for so many bytes more.
    pub(super) fn make_room_on_disk(&self, bytes: u64) -> Result<(), PoolError> {
        let disk_reserve = self.settings.disk_reserve;
        let wanted = bytes.saturating_add(kept_free(disk_reserve));
        let mut left = self.free_on_disk()?;
        let mut tries = TRIES;
        while tries > 0 {
            let mut free = left.room();
            // What is in the log is written a second time before the log can be emptied.
            let ample = wanted.saturating_add(LARGEST_LOG);
            if free >= ample || free >= wanted.saturating_add(self.catalogue.log_len()) {
                return Ok(());
            }
            if self.catalogue.give_back(GIVEN_BACK)? {
                free = self.free_on_disk()?.room();
            }
            if free >= wanted {
                return Ok(());
            }
            // Nothing goes for what can't have room anyway.
            let partials = self.partials()?.iter().fold(0, |sum, partial| sum + partial.len);
            if wanted - free > self.catalogue.read(total_bytes)?.saturating_add(partials) {
                break;
            }
            if self.evict(wanted - free)? == 0 {
                std::thread::sleep(MOMENT);
                tries -= 1;
            }
            left = self.free_on_disk()?;
        }
        let shortage = Some(Shortage { needed: bytes, free: left, disk_reserve });
        Err(PoolError::Full { directory: self.directory().to_owned(), shortage })
    }

    fn free_on_disk(&self) -> Result<FreeSpace, PoolError> {
        let directory = self.directory();
        FreeSpace::at(directory).map_err(PoolError::io("asking the disk of", directory))
    }

    /// Sees to it that the quotas have room for so many bytes more, those included that are on
    /// their way.
    pub(super) fn make_room_for(&self, owner: &Principal, bytes: u64) -> Result<(), PoolError> {
        let over = |held: u64, quota: Option<u64>| {
            quota.map_or(0, |quota| held.saturating_add(bytes).saturating_sub(quota))
        };
        let refuse = |limit| Err(self.refused(limit, owner, bytes));
        if self.is_room_for(owner, bytes)? {
            return Ok(());
        }
        let (quota, owner_quota) = self.quotas(owner);
        // Nothing goes for what can't have room anyway.
        if over(0, owner_quota) > 0 {
            return refuse(OWNER_QUOTA);
        }
        if over(0, quota) > 0 {
            return refuse(QUOTA);
        }
        for _ in 0..TRIES {
            self.give_way(owner, |held| over(held, owner_quota))?;
            self.evict(over(self.charged(owner)?.0, quota))?;
            if self.is_room_for(owner, bytes)? {
                return Ok(());
            }
            std::thread::sleep(MOMENT);
        }
        if over(self.charged(owner)?.1, owner_quota) > 0 {
            return refuse(OWNER_QUOTA);
        }
        refuse(QUOTA)
    }

    /// Has an owner let go of what they do not need, and then of what came in part only: of so many bytes as they
    /// hold too many.
    fn give_way(&self, owner: &Principal, over: impl Fn(u64) -> u64) -> Result<(), PoolError> {
        self.let_go(owner, over(self.charged(owner)?.1))?;
        let own = |partial: &Partial| partial.owner.as_ref() == Some(owner);
        self.give_up_partials(over(self.charged(owner)?.1), own)?;
        Ok(())
    }

    /// Bytes that an owner is charged for, once what they do not need has gone of those beyond `most`.
    pub(super) fn charge_at_most(&self, owner: &Principal, most: u64) -> Result<u64, PoolError> {
        if self.charged(owner)?.1 > most {
            self.give_way(owner, |held| held.saturating_sub(most))?;
        }
        Ok(self.charged(owner)?.1)
    }

    /// Whether the quotas have room as things are.
    pub(super) fn is_room_for(&self, owner: &Principal, bytes: u64) -> Result<bool, PoolError> {
        let (quota, owner_quota) = self.quotas(owner);
        if quota.is_none() && owner_quota.is_none() {
            return Ok(true);
        }
        let (of_all, of_owner) = self.charged(owner)?;
        let fits = |held: u64, quota: Option<u64>| {
            quota.is_none_or(|quota| held.saturating_add(bytes) <= quota)
        };
        Ok(fits(of_all, quota) && fits(of_owner, owner_quota))
    }

    /// Bytes in the pool and bytes that an owner is charged for, those included that are on their
    /// way.
    pub(super) fn charged(&self, owner: &Principal) -> Result<(u64, u64), PoolError> {
        // First: what is written to the catalogue meanwhile is counted twice, not never.
        let (all_arriving, arriving) = self.arriving.of(owner.as_str());
        let (all, held) = self
            .catalogue
            .read_committed(|sql| Ok((total_bytes(sql)?, owner_bytes(sql, owner.as_str())?)))?;
        Ok((all + all_arriving, held + arriving))
    }

    /// Evicts so many bytes of what nobody needs, the least recently used first, then of what came
    /// only in part, the oldest first. Gives how many it were.
    pub(super) fn evict(&self, bytes: u64) -> Result<u64, PoolError> {
        let freed = self.evict_unused_since(i64::MAX, bytes)?;
        Ok(freed + self.give_up_partials(bytes.saturating_sub(freed), |_| true)?)
    }

    /// The same, of what was not used since.
    pub(super) fn evict_unused_since(&self, since: i64, bytes: u64) -> Result<u64, PoolError> {
        match self.flush_uses() {
            // What was used last matters less than that there is room.
            Ok(()) | Err(PoolError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut freed = 0;
        let mut rows_stay = false;
        let mut at: LruCursor = (i64::MIN, 0);
        while freed < bytes {
            let mut batch = self.evictable(since, &mut at)?;
            if batch.is_empty() {
                break;
            }
            batch.retain(|row| !(rows_stay && row.is_small));
            let mut going = Vec::new();
            let mut of_these = 0;
            for row in batch {
                if freed + of_these >= bytes {
                    break;
                }
                if let Some(locked) = self.lock_against_leases(row)? {
                    of_these += locked.row.size;
                    going.push(locked);
                }
            }
            freed += self.remove_locked(going, &mut rows_stay)?;
        }
        Ok(freed)
    }

    fn evictable(&self, since: i64, at: &mut LruCursor) -> Result<Vec<Row>, PoolError> {
        self.next_to_go(&format!("objects AS o WHERE o.used < ?4 AND {EVICTABLE}"), &since, at)
    }

    /// The next of what a rule lets go, the least recently used first. The rule may use `?1`, the time now,
    /// and `?4`, what is `given`.
    fn next_to_go(
        &self,
        rule: &str,
        given: &dyn ToSql,
        at: &mut LruCursor,
    ) -> Result<Vec<Row>, PoolError> {
        let (now, columns) = (self.now(), Row::COLUMNS);
        let found = self.catalogue.read(|sql| {
            sql.prepare_cached(&format!(
                "SELECT {columns}, o.used FROM {rule} AND (o.used, o.number) > (?2, ?3)
                 ORDER BY o.used, o.number LIMIT {BATCH}"
            ))?
            .query_map(params![now, at.0, at.1, given], |row| {
                Ok((Row::read(row)?, row.get::<_, i64>(6)?))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        if let Some((row, used)) = found.last() {
            *at = (*used, row.number);
        }
        Ok(found.into_iter().map(|(row, _)| row).collect())
    }

    /// Locks an object if nobody has it in use. One whose file is gone needs no lock.
    fn lock_against_leases(&self, row: Row) -> Result<Option<EvictionCandidate>, PoolError> {
        if row.is_small {
            return Ok(Some(EvictionCandidate { row, _lock: None }));
        }
        let Some(digest) = &row.digest else { return Ok(None) };
        let path = self.object_path(digest);
        let lock = open_exclusive(&path).map_err(PoolError::io("opening", &path))?;
        // An unhashed file that turned out to be another's duplicate has leases of its own, which
        // the sweep waits for.
        Ok(lock.map(|lock| EvictionCandidate { row, _lock: Some(lock) }))
    }

    /// Removes objects that are locked, those that still nobody needs. Tells in `rows_stay` whether
    /// the disk is so full that rows can't go.
    fn remove_locked(
        &self,
        going: Vec<EvictionCandidate>,
        rows_stay: &mut bool,
    ) -> Result<u64, PoolError> {
        if going.is_empty() {
            return Ok(0);
        }
        let now = self.now();
        let rows: Vec<Row> = going.iter().map(|locked| locked.row.clone()).collect();
        let gone = self.catalogue.write(false, move |sql| {
            rows.iter().map(|row| remove_row(sql, row, now, false)).collect()
        });
        let gone: Vec<bool> = match gone {
            Err(PoolError::Full { .. }) => return self.remove_before_rows(going, rows_stay),
            gone => gone?,
        };
        let mut freed = 0;
        for (locked, _) in going.iter().zip(gone).filter(|(_, gone)| *gone) {
            self.remove_object_file(&locked.row)?;
            freed += locked.row.size;
        }
        Ok(freed)
    }

    /// The same on a disk that is so full that no row can be removed: files go first, after which
    /// rows can. The lock keeps new grants away, but for those of an unhashed duplicate: such objects
    /// stay.
    fn remove_before_rows(
        &self,
        going: Vec<EvictionCandidate>,
        rows_stay: &mut bool,
    ) -> Result<u64, PoolError> {
        let (mut freed, mut gone, mut small) = (0, Vec::new(), Vec::new());
        for EvictionCandidate { row, _lock: lock } in going {
            let Some(digest) = row.digest else { continue };
            if row.is_small {
                small.push(row);
                continue;
            }
            let has_duplicates = self.catalogue.read_committed(|sql| {
                sql.prepare_cached("SELECT 1 FROM objects WHERE same = ?1")?
                    .exists([digest.as_bytes()])
            })?;
            if !has_duplicates {
                self.remove_object_file(&row)?;
                gone.push((row.number, self.object_path(&digest)));
                freed += row.size;
            }
            // An open file would keep its room.
            drop(lock);
        }
        let now = self.now();
        // What the log has left is room for what is written now.
        self.catalogue.give_back(0)?;
        let removed = self.catalogue.write(false, move |sql| {
            // Unless somebody has stored the same anew.
            for (number, _) in gone.iter().filter(|(_, path)| !path.exists()) {
                sql.prepare_cached("DELETE FROM objects WHERE number = ?1 AND content IS NULL")?
                    .execute([number])?;
            }
            small.iter().try_fold(0, |sum, row| {
                Ok(if remove_row(sql, row, now, false)? { sum + row.size } else { sum })
            })
        });
        match removed {
            Ok(small) => Ok(freed + small),
            // Rows without files are found by the sweep.
            Err(PoolError::Full { .. }) => {
                *rows_stay = true;
                Ok(freed)
            }
            Err(error) => Err(error),
        }
    }

    fn remove_object_file(&self, row: &Row) -> Result<(), PoolError> {
        // Its name among the unhashed is the sweep's affair: it may be another file.
        match &row.digest {
            Some(digest) if !row.is_small => remove_file(&self.object_path(digest)),
            _ => Ok(()),
        }
    }

    /// Removes an object; by force whatever holds it but a lease of its file. `None`: it is in use.
    pub(super) fn remove_object(
        &self,
        row: &Row,
        by_force: bool,
    ) -> Result<Option<u64>, PoolError> {
        let (its, now) = (row.clone(), self.now());
        let remove = move |sql: &Connection| remove_row(sql, &its, now, by_force);
        if row.is_small {
            // Unless it has become a file meanwhile.
            return Ok(self.catalogue.write(false, remove)?.then_some(row.size));
        }
        let path = match (&row.digest, &row.registered) {
            (Some(digest), _) => self.object_path(digest),
            (None, Some(name)) => self.registered_path(name),
            (None, None) => return Ok(None),
        };
        let is_there = path.exists();
        let mut lock = None;
        for _ in 0..TRIES {
            lock = open_exclusive(&path).map_err(PoolError::io("opening", &path))?;
            if lock.is_some() || !is_there {
                break;
            }
            std::thread::sleep(MOMENT);
        }
        if is_there && lock.is_none() {
            return Ok(None);
        }
        let removed = self.catalogue.write(false, remove)?;
        if removed {
            remove_file(&path)?;
        }
        drop(lock);
        Ok(removed.then_some(row.size))
    }

    /// Has an owner let go of so many bytes that they hold and do not need.
    fn let_go(&self, owner: &Principal, bytes: u64) -> Result<(), PoolError> {
        self.flush_uses()?;
        let now = self.now();
        let mut freed = 0;
        let mut at: LruCursor = (i64::MIN, 0);
        while freed < bytes {
            let batch = self.unneeded_by(owner, &mut at)?;
            if batch.is_empty() {
                break;
            }
            for row in batch {
                if freed >= bytes {
                    break;
                }
                freed += self.let_go_of(owner, row, now)?;
            }
        }
        Ok(())
    }

    fn unneeded_by(&self, owner: &Principal, at: &mut LruCursor) -> Result<Vec<Row>, PoolError> {
        let rule = "holdings AS h JOIN objects AS o ON o.number = h.object
             WHERE h.owner = ?4 AND o.digest IS NOT NULL AND o.pinned = 0
               AND NOT EXISTS (SELECT 1 FROM grants AS g
                               WHERE g.object = o.number AND g.owner = ?4 AND g.expires > ?1)";
        self.next_to_go(rule, &owner.as_str(), at)
    }

    /// Ends one holding, and the object with the last. Gives how many bytes the owner is no longer
    /// charged for.
    fn let_go_of(&self, owner: &Principal, row: Row, now: i64) -> Result<u64, PoolError> {
        let Some(locked) = self.lock_against_leases(row)? else { return Ok(0) };
        let (row, owner) = (locked.row.clone(), owner.as_str().to_owned());
        let (ended, last) = self.catalogue.write(false, move |sql| {
            let number = row.number;
            let ended = sql
                .prepare_cached(
                    "DELETE FROM holdings WHERE owner = ?2 AND object = ?1
                       AND NOT EXISTS (SELECT 1 FROM grants AS g WHERE g.object = ?1
                                       AND g.owner = ?2 AND g.expires > ?3)",
                )?
                .execute(params![number, owner, now])?;
            let held =
                sql.prepare_cached("SELECT 1 FROM holdings WHERE object = ?1")?.exists([number])?;
            Ok((ended > 0, !held && remove_row(sql, &row, now, false)?))
        })?;
        if last {
            self.remove_object_file(&locked.row)?;
        }
        Ok(if ended { locked.row.size } else { 0 })
    }

    /// Removes a file that has its digest's name but no row, or one that has the data itself, unless
    /// somebody else has leased it meanwhile, who then writes the row.
    pub(super) fn remove_if_unknown(
        &self,
        file: &File,
        path: &Path,
        digest: &Digest,
    ) -> Result<bool, PoolError> {
        if file.try_lock().is_err() || !is_at(file, path).map_err(PoolError::io("reading", path))? {
            return Ok(false);
        }
        let digest = *digest;
        match self.catalogue.read(|sql| has_content(sql, &digest))? {
            None => {
                remove_file(path)?;
                Ok(true)
            }
            Some(false) => Ok(false),
            Some(true) => {
                let path = path.to_owned();
                // Within the transaction: who gives the content up looks for the file in theirs.
                self.catalogue.write(false, move |sql| {
                    Ok(has_content(sql, &digest)? == Some(true) && fs::remove_file(path).is_ok())
                })
            }
        }
    }

    /// Tells the catalogue what was used when.
    pub(super) fn flush_uses(&self) -> Result<(), PoolError> {
        let used = std::mem::take(&mut *lock(&self.used));
        if used.is_empty() {
            return Ok(());
        }
        self.catalogue.write(false, move |sql| {
            let mut note =
                sql.prepare_cached("UPDATE objects SET used = max(used, ?2) WHERE number = ?1")?;
            used.iter().try_for_each(|(number, at)| note.execute([number, at]).map(drop))
        })
    }

    /// Makes what the settings promise true again: the reserve of the disk.
    pub(super) fn restore_reserve(&self) -> Result<u64, PoolError> {
        let free = self.free_on_disk()?.room();
        self.evict(kept_free(self.settings.disk_reserve).saturating_sub(free))
    }
}

/// What data leaves free on a disk: twice what jobs need there, so that data that comes is refused
/// before a job is stopped for want of room.
pub(crate) fn kept_free(disk_reserve: u64) -> u64 {
    disk_reserve.saturating_mul(2)
}

/// Removes a row with its holdings and grants, unless its data rests elsewhere by now; unless
/// `forced`, only if nobody needs it.
fn remove_row(sql: &Connection, row: &Row, now: i64, forced: bool) -> rusqlite::Result<bool> {
    let removed = sql
        .prepare_cached(&format!(
            "DELETE FROM objects AS o
             WHERE o.number = ?2 AND (o.content IS NOT NULL) = ?4 AND (?3 OR ({EVICTABLE}))"
        ))?
        .execute(params![now, row.number, forced, row.is_small])?;
    Ok(removed > 0)
}

/// Whether the row of a digest has the data itself; `None` if there is no row.
fn has_content(sql: &Connection, digest: &Digest) -> rusqlite::Result<Option<bool>> {
    sql.prepare_cached("SELECT content IS NOT NULL FROM objects WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()
}
