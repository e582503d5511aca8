//! A store's file in another place, as it was at one moment: of a backup, or restored from one.

use std::path::Path;
use std::time::Duration;

use fishplate_contract::JobId;
use fishplate_data::backup::{close_whole, copy_database};
use rusqlite::{Connection, params};

use super::SqliteStore;
use crate::completion::Completion;
use crate::store::StoreError;

/// The records of a backup, before any server has them.
pub struct StoreCopy(Connection);

impl StoreCopy {
    /// Those of the store in the directory `data`, as they are now, into the directory `to`.
    ///
    /// # Errors
    /// If they can't be read or written.
    pub fn of(data: &Path, to: &Path) -> Result<Self, StoreError> {
        let path = to.join(SqliteStore::FILE);
        copy_database(&data.join(SqliteStore::FILE), &path)?;
        Ok(Self(Connection::open(&path)?))
    }

    /// Gives every job that has not ended this end, and tells how many there were.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn conclude_unfinished(&self, end: &Completion) -> Result<u64, StoreError> {
        let text = serde_json::to_string(end).map_err(|error| StoreError::Storage(error.into()))?;
        let unfinished = self.0.execute(
            "UPDATE jobs SET state = ?1, ended = ?2, completion = ?3 WHERE ended IS NULL",
            params![end.state, end.ended, text],
        )?;
        Ok(unfinished as u64)
    }

    /// The jobs that have ended, oldest first.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn ended(&self) -> Result<Vec<JobId>, StoreError> {
        let jobs = "SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY number";
        let mut jobs = self.0.prepare(jobs)?;
        let jobs = jobs.query_map([], |row| row.get(0).map(JobId::from_bytes))?;
        Ok(jobs.collect::<rusqlite::Result<_>>()?)
    }

    /// Removes a job's record.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn forget(&self, job: JobId) -> Result<(), StoreError> {
        self.0.execute("DELETE FROM jobs WHERE id = ?1", [job.as_bytes()])?;
        Ok(())
    }

    /// Makes one file of it.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn close(self) -> Result<(), StoreError> {
        Ok(close_whole(self.0)?)
    }

    /// The store in the directory `at`, made one of jobs whose directories are below `directories`.
    /// What is kept for so long from its end on, is kept that much longer.
    ///
    /// # Errors
    /// If it is damaged or can't be written.
    pub fn relocate(at: &Path, directories: &str, by: Duration) -> Result<(), StoreError> {
        SqliteStore::open_in(at)?.check()?;
        let store = Connection::open(at.join(SqliteStore::FILE))?;
        store.execute(
            "UPDATE jobs SET directory = ?1 || '/' || lower(hex(id)), ended = ended + ?2",
            params![directories, i64::try_from(by.as_millis()).unwrap_or(i64::MAX)],
        )?;
        Self(store).close()
    }
}
