//! Housekeeping: what processes that were killed left, what has expired, what nobody needs.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fishplate_contract::Digest;
use rusqlite::params;

use super::eviction::LEFT_FREE;
use super::exclusive::lock_bytes;
use super::{Pool, PoolError, PoolInner, lock, remove_file};
use crate::lease::open_exclusive;

/// How often files and rows are compared.
const SEARCH: Duration = Duration::from_hours(1);

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Bytes evicted that nobody had used for `pool_idle`, or that the disk's reserve needed.
    pub evicted: u64,
    /// Files without a row that were removed.
    pub orphans: u64,
    /// Rows without a file that were removed.
    pub missing: u64,
    /// Broken uploads that were given up.
    pub incoming: u64,
    /// Grants that had expired.
    pub grants: u64,
}

impl Pool {
    /// Does the housekeeping; to be called every minute or so, by every process that has the pool
    /// open.
    ///
    /// # Errors
    /// If the directory or the catalogue can't be read or written.
    pub fn sweep(&self) -> Result<SweepReport, PoolError> {
        let due = {
            // By the monotonic clock: the other may be set back by a month.
            let mut searched = lock(&self.0.searched);
            let due = searched.is_none_or(|at| at.elapsed() >= SEARCH);
            if due {
                *searched = Some(Instant::now());
            }
            due
        };
        self.sweep_and_search(due)
    }

    /// The same, telling whether files and rows are compared too, which takes longer.
    ///
    /// # Errors
    /// As [`Pool::sweep`].
    pub fn sweep_and_search(&self, search: bool) -> Result<SweepReport, PoolError> {
        let inner = &self.0;
        // First what needs no room: on a full disk the rest finds some then.
        let mut swept = SweepReport { incoming: inner.sweep_incoming()?, ..SweepReport::default() };
        swept.evicted = inner.restore_reserve()?;
        inner.sweep_damaged()?;
        inner.flush_uses()?;
        inner.account_partials()?;
        inner.catalogue.checkpoint()?;
        swept.grants = inner.forget_grants()?;
        inner.sweep_registered(&mut swept)?;
        self.hash_remaining()?;
        let idle = millis(inner.settings.idle);
        swept.evicted += inner.evict_unused_since(inner.now().saturating_sub(idle), u64::MAX)?;
        inner.catalogue.give_back(LEFT_FREE)?;
        if search {
            for shard in 0..=255 {
                inner.compare(shard, &mut swept)?;
            }
        }
        Ok(swept)
    }
}

impl PoolInner {
    fn forget_grants(&self) -> Result<u64, PoolError> {
        let now = self.now();
        let expired = self.catalogue.write(false, move |sql| {
            sql.prepare_cached("DELETE FROM grants WHERE expires <= ?1")?.execute([now])
        })?;
        Ok(expired as u64)
    }

    /// Removes what nobody writes any more and nobody came back for.
    fn sweep_incoming(&self) -> Result<u64, PoolError> {
        let mut given_up = 0;
        let directory = self.directory().join("incoming");
        for (name, path) in files(&directory)? {
            // What has no key is locked by whoever writes it, from its making on.
            let waits =
                name.starts_with("k-") && !self.is_older(&path, self.settings.incoming_life)?;
            if !waits && remove_dead(&path)? {
                given_up += 1;
                self.forget_resting(&name)?;
            }
        }
        Ok(given_up)
    }

    /// Whether a file was last written longer ago than that.
    pub(super) fn is_older(&self, path: &Path, age: Duration) -> Result<bool, PoolError> {
        let written = match fs::metadata(path).and_then(|metadata| metadata.modified()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            written => written.map_err(PoolError::io("reading", path))?,
        };
        let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(self.now().saturating_sub(millis(written)) >= millis(age))
    }

    /// Registered files: names that are needed no more, files without a row, rows without a file.
    fn sweep_registered(&self, swept: &mut SweepReport) -> Result<(), PoolError> {
        let directory = self.directory().join("adopted");
        let known: Vec<(i64, String, bool)> = self.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT number, adopted, digest IS NOT NULL OR same IS NOT NULL
                 FROM objects WHERE adopted IS NOT NULL",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect()
        })?;
        for (number, name, hashed) in &known {
            if *hashed {
                self.unlink_registered(*number, name)?;
            } else if !self.registered_path(name).exists() {
                swept.missing += self.forget_if_missing(*number, name)?;
            }
        }
        let names: HashSet<&str> = known.iter().map(|(_, name, _)| name.as_str()).collect();
        for (name, path) in files(&directory)? {
            if names.contains(name.as_str()) {
                continue;
            }
            // Who registers it has it leased until its row is written.
            let lock = open_exclusive(&path).map_err(PoolError::io("opening", &path))?;
            if lock.is_some() && !self.knows_registered(&name)? {
                remove_file(&path)?;
                swept.orphans += 1;
            }
        }
        Ok(())
    }

    fn knows_registered(&self, name: &str) -> Result<bool, PoolError> {
        self.catalogue.read(|sql| {
            sql.prepare_cached("SELECT 1 FROM objects WHERE adopted = ?1")?.exists([name])
        })
    }

    pub(super) fn forget_if_missing(&self, number: i64, name: &str) -> Result<u64, PoolError> {
        let path = self.registered_path(name);
        let forgotten = self.catalogue.write(false, move |sql| {
            // It may have been hashed meanwhile.
            if path.exists() {
                return Ok(0);
            }
            sql.prepare_cached(
                "DELETE FROM objects WHERE number = ?1 AND digest IS NULL AND same IS NULL",
            )?
            .execute([number])
        })?;
        Ok(forgotten as u64)
    }

    /// Compares files and rows whose digest begins with this byte.
    fn compare(&self, shard: u8, swept: &mut SweepReport) -> Result<(), PoolError> {
        let directory = self.directory().join("objects").join(format!("{shard:02x}"));
        let mut there = HashSet::new();
        for (name, path) in files(&directory)? {
            let Some(digest) = Digest::from_sha256_hex(&name) else { continue };
            there.insert(digest);
            if self.knows(&digest)? {
                continue;
            }
            let lock = open_exclusive(&path).map_err(PoolError::io("opening", &path))?;
            if let Some(lock) = lock
                && self.remove_if_unknown(&lock, &path, &digest)?
            {
                swept.orphans += 1;
            }
        }
        let (mut from, mut to) = ([0; 32], [0xff; 32]);
        (from[0], to[0]) = (shard, shard);
        let rows: Vec<[u8; 32]> = self.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT digest FROM objects WHERE digest BETWEEN ?1 AND ?2 AND content IS NULL",
            )?
            .query_map(params![from, to], |row| row.get(0))?
            .collect()
        })?;
        for digest in rows.into_iter().filter(|row| !there.contains(&Digest::Sha256(*row))) {
            let path = self.object_path(&Digest::Sha256(digest));
            // Within the transaction, so that who stores the data anew writes its row after it.
            let forgotten = self.catalogue.write(false, move |sql| {
                if path.exists() {
                    return Ok(0);
                }
                sql.prepare_cached("DELETE FROM objects WHERE digest = ?1 AND content IS NULL")?
                    .execute([digest])
            })?;
            swept.missing += forgotten as u64;
        }
        Ok(())
    }

    /// Whether there is a row of such a file.
    fn knows(&self, digest: &Digest) -> Result<bool, PoolError> {
        self.catalogue.read(|sql| {
            sql.prepare_cached("SELECT 1 FROM objects WHERE digest = ?1 AND content IS NULL")?
                .exists([digest.as_bytes()])
        })
    }
}

/// Removes a file of `incoming/` unless somebody has it locked in one way or the other.
pub(super) fn remove_dead(path: &Path) -> Result<bool, PoolError> {
    let lock = open_exclusive(path).map_err(PoolError::io("opening", path))?;
    if lock.is_none() {
        return Ok(false);
    }
    // Whole files can't be opened for writing unless by root; nobody writes them either.
    let alone = match File::options().write(true).open(path) {
        Ok(file) => lock_bytes(&file, 0, 0, false).map_err(PoolError::io("locking", path))?,
        Err(_) => true,
    };
    if alone {
        remove_file(path)?;
    }
    Ok(alone)
}

pub(super) fn files(directory: &Path) -> Result<Vec<(String, std::path::PathBuf)>, PoolError> {
    let listing = fs::read_dir(directory).map_err(PoolError::io("listing", directory))?;
    let mut found = Vec::new();
    for entry in listing {
        let entry = entry.map_err(PoolError::io("listing", directory))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
