//! Damage: files that are not what their names say any more, because somebody wrote to them, the
//! disk lost something, or a failure of power took what was not written yet.
//!
//! To hash all that is read would cost more than it is worth. A file that was written to after its
//! row says that it came is hashed before it is used again; the rest is `Pool::verify`'s.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fishplate_contract::Digest;
use rusqlite::{Connection, OptionalExtension as _};

use super::hash::{self, Algorithm};
use super::sweep::files;
use super::{PoolError, PoolInner, remove_file};
use crate::lease::is_at;

impl PoolInner {
    /// Whether an open file is what its name says, as far as can be told without reading it; if it
    /// was written to after it came (`None`: nobody knows when), by reading it.
    pub(super) fn is_sound(
        &self,
        file: &File,
        path: &Path,
        digest: &Digest,
        created: Option<i64>,
    ) -> Result<bool, PoolError> {
        let metadata = file.metadata().map_err(PoolError::io("reading", path))?;
        let written = metadata.mtime().saturating_mul(1000) + metadata.mtime_nsec() / 1_000_000;
        if created.is_some_and(|created| written <= created) {
            return Ok(true);
        }
        let found = hash::of_file(file, Algorithm::Sha256, |_| {})
            .map_err(PoolError::io("hashing", path))?;
        if found != *digest {
            return Ok(false);
        }
        if let Some(created) = created {
            // So that it need not be read again.
            let created = Duration::from_millis(u64::try_from(created).unwrap_or(0));
            let _ = file.set_modified(SystemTime::UNIX_EPOCH + created);
        }
        Ok(true)
    }

    /// When data of a digest came, if the catalogue knows.
    pub(super) fn created(&self, digest: &Digest) -> Result<Option<i64>, PoolError> {
        let find = |sql: &Connection| {
            sql.prepare_cached("SELECT created FROM objects WHERE digest = ?1")?
                .query_row([digest.as_bytes()], |row| row.get(0))
                .optional()
        };
        // Most often it is committed; what is about to be costs a transaction.
        match self.catalogue.read_committed(find)? {
            Some(created) => Ok(Some(created)),
            None => self.catalogue.read(find),
        }
    }

    /// Takes a damaged file out of use, so that sound data can have its name. It is kept in
    /// `damaged/` for `pool_idle`.
    pub(super) fn set_aside(&self, file: &File, path: &Path) -> Result<(), PoolError> {
        let directory = self.directory().join("damaged");
        let turn = File::open(&directory).map_err(PoolError::io("opening", &directory))?;
        // One at a time: else a second one takes the sound file that came in its place.
        turn.lock().map_err(PoolError::io("locking", &directory))?;
        if !is_at(file, path).map_err(PoolError::io("reading", path))? {
            return Ok(());
        }
        tracing::error!(object = %path.display(), "damaged data is set aside");
        let now = Duration::from_millis(u64::try_from(self.now()).unwrap_or(0));
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + now);
        let name = path.file_name().unwrap_or_default();
        match fs::rename(path, directory.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(PoolError::io("setting aside", path)),
        }
    }

    pub(super) fn sweep_damaged(&self) -> Result<(), PoolError> {
        for (_, path) in files(&self.directory().join("damaged"))? {
            if self.is_older(&path, self.settings.idle)? {
                remove_file(&path)?;
            }
        }
        Ok(())
    }
}
