//! A pool as it is at one moment, in another place; and there as a pool again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fishplate_contract::Digest;
use rusqlite::{Connection, params};

use super::{Pool, PoolError, PoolInner, make_private, millis};
use crate::backup::{Copier, CopyMode, close_whole, copy_database};
use crate::lease::open_leased;

impl Pool {
    /// Brings what is in the pool into a directory that is not there yet: the catalogue as it is at
    /// one moment, and the files that it names. What came only in part is left out. Servers go on
    /// meanwhile. Gives the number of objects.
    ///
    /// # Errors
    /// If something can't be read or written.
    pub fn backup(&self, to: &Path, bringing: &mut Copier<'_>) -> Result<u64, PoolError> {
        let inner = &self.0;
        inner.catalogue.read(|_| Ok(()))?;
        make_private(to)?;
        for part in ["objects", "adopted"] {
            make_private(&to.join(part))?;
        }
        let path = to.join("pool.sqlite");
        let failed = |error| PoolError::Catalogue(std::sync::Arc::new(error));
        copy_database(&inner.directory().join("pool.sqlite"), &path).map_err(failed)?;
        let catalogue = Connection::open(&path).map_err(failed)?;
        for row in rows(&catalogue).map_err(failed)? {
            if !inner.bring(&row, to, bringing)? {
                // It went while we were at it.
                let forget = "DELETE FROM objects WHERE number = ?1";
                catalogue.execute(forget, [row.number]).map_err(failed)?;
            }
        }
        catalogue.execute("DELETE FROM incoming", []).map_err(failed)?;
        let count = catalogue.query_row("SELECT count(*) FROM objects", [], |row| row.get(0));
        let count = count.map_err(failed)?;
        close_whole(catalogue).map_err(failed)?;
        Ok(super::unsigned(count))
    }

    /// Makes the time between a backup and its restoring as if it had not been: what lives for so
    /// long from some moment on, lives that much longer.
    ///
    /// # Errors
    /// If the catalogue can't be written.
    pub fn shift_times(directory: &Path, by: Duration) -> Result<(), PoolError> {
        let failed = |error| PoolError::Catalogue(std::sync::Arc::new(error));
        let catalogue = Connection::open(directory.join("pool.sqlite")).map_err(failed)?;
        let by = params![millis(by)];
        for sql in
            ["UPDATE objects SET used = used + ?1", "UPDATE grants SET expires = expires + ?1"]
        {
            catalogue.execute(sql, by).map_err(failed)?;
        }
        close_whole(catalogue).map_err(failed)
    }
}

/// A file that the catalogue names.
struct NamedFile {
    number: i64,
    digest: Option<[u8; 32]>,
    registered: Option<String>,
}

fn rows(catalogue: &Connection) -> rusqlite::Result<Vec<NamedFile>> {
    let mut rows =
        catalogue.prepare("SELECT number, digest, adopted FROM objects WHERE content IS NULL")?;
    let rows = rows.query_map([], |row| {
        Ok(NamedFile { number: row.get(0)?, digest: row.get(1)?, registered: row.get(2)? })
    })?;
    rows.collect()
}

impl PoolInner {
    /// Brings a row's files; `false`: they are not there any more.
    fn bring(
        &self,
        row: &NamedFile,
        to: &Path,
        bringing: &mut Copier<'_>,
    ) -> Result<bool, PoolError> {
        let digest = row.digest.map(Digest::Sha256);
        let mut there = false;
        if let Some(digest) = digest {
            let from = self.object_path(&digest);
            there |= bring(&from, &in_copy(&from, self.directory(), to), bringing)?;
        }
        let Some(name) = &row.registered else { return Ok(there) };
        let target = to.join("adopted").join(name);
        if bring(&self.registered_path(name), &target, bringing)? {
            return Ok(true);
        }
        if digest.is_some() {
            return Ok(there);
        }
        // It was hashed meanwhile, and has another name here.
        let number = row.number;
        let found = self.catalogue.read(|sql| {
            let sql = &mut sql.prepare_cached(
                "SELECT coalesce(digest, same) FROM objects
                 WHERE number = ?1 AND content IS NULL",
            )?;
            let mut rows = sql.query([number])?;
            rows.next()?.map(|row| row.get::<_, Option<[u8; 32]>>(0)).transpose()
        })?;
        match found.flatten() {
            Some(digest) => bring(&self.object_path(&Digest::Sha256(digest)), &target, bringing),
            None => Ok(false),
        }
    }
}

fn in_copy(path: &Path, directory: &Path, to: &Path) -> PathBuf {
    path.strip_prefix(directory).map_or_else(|_| to.to_owned(), |relative| to.join(relative))
}

/// Brings a file that does not go meanwhile, unless it is gone.
fn bring(from: &Path, to: &Path, bringing: &mut Copier<'_>) -> Result<bool, PoolError> {
    let leased = open_leased(from).map_err(PoolError::io("opening", from))?;
    if leased.is_none() {
        return Ok(false);
    }
    let brought = || {
        if let Some(directory) = to.parent()
            && !directory.is_dir()
        {
            fs::create_dir_all(directory)?;
        }
        bringing.file(from, to, CopyMode::Link)
    };
    match { brought }() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        done => done.map(|()| true).map_err(PoolError::io("writing", to)),
    }
}
