//! What came only in part: an upload that broke, a fetch that was ended. It rests in `incoming/`
//! under its key for who comes again, is charged to its owner, and goes when room is needed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fishplate_contract::{Principal, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::incoming::{key_name, open_alone};
use super::sweep::{files, millis, remove_dead};
use super::{Pool, PoolError, PoolInner, signed, unsigned};
use crate::grant::principal;

/// Data that came only in part, or that is just coming under a key.
#[derive(Clone, Debug)]
pub struct Partial {
    /// Its name in the pool's `incoming/`.
    pub name: String,
    /// Bytes that are there.
    pub len: u64,
    /// Who is charged for it; `None` if that is not known yet.
    pub owner: Option<Principal>,
    /// When the last byte came.
    pub written: Timestamp,
}

/// The row of one that rests, or will.
#[derive(Debug, Default)]
pub(super) struct PartialRow {
    pub(super) version: Option<String>,
    /// Bytes that its owner is charged for.
    pub(super) size: u64,
    owner: String,
}

impl Pool {
    /// What came only in part, the oldest first; what is just coming under a key is among it.
    ///
    /// # Errors
    /// If the directory or the catalogue can't be read.
    pub fn partials(&self) -> Result<Vec<Partial>, PoolError> {
        self.0.partials()
    }

    /// Removes what came only in part. Gives its length.
    ///
    /// # Errors
    /// [`PoolError::NoSuchData`]; [`PoolError::InUse`] if somebody is writing it.
    pub fn remove_partial(&self, name: &str) -> Result<u64, PoolError> {
        let partials = self.0.partials()?;
        let found = partials.iter().find(|partial| partial.name == name);
        let found = found.ok_or(PoolError::NoSuchData)?;
        if self.0.give_up(found)? { Ok(found.len) } else { Err(PoolError::InUse) }
    }
}

impl Pool {
    /// Removes what came in part under a key. `false`: somebody is writing it.
    ///
    /// # Errors
    /// If it can't be removed.
    pub(crate) fn discard_partial(&self, owner: &Principal, key: &str) -> Result<bool, PoolError> {
        let name = key_name(owner, key);
        match self.remove_partial(&name) {
            Ok(_) | Err(PoolError::NoSuchData) => Ok(true),
            Err(PoolError::InUse) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl PoolInner {
    pub(super) fn partials(&self) -> Result<Vec<Partial>, PoolError> {
        let mut found = Vec::new();
        for (name, path) in files(&self.directory().join("incoming"))? {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if !name.starts_with("k-") {
                continue;
            }
            let owner = self.resting(&name)?.map(|row| row.owner).filter(|name| !name.is_empty());
            let since = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let written = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            found.push(Partial {
                name,
                len: metadata.len(),
                owner: owner.map(|name| principal(&name)),
                written: Timestamp(millis(written)),
            });
        }
        found.sort_by_key(|partial| partial.written);
        Ok(found)
    }

    /// Gives so many bytes of what came only in part up, the oldest first: what nobody is writing
    /// and is `meant`. Gives how many it were.
    pub(super) fn give_up_partials(
        &self,
        bytes: u64,
        meant: impl Fn(&Partial) -> bool,
    ) -> Result<u64, PoolError> {
        let mut freed = 0;
        if bytes == 0 {
            return Ok(freed);
        }
        for partial in self.partials()?.iter().filter(|partial| meant(partial)) {
            if freed >= bytes {
                break;
            }
            if self.give_up(partial)? {
                freed += partial.len;
            }
        }
        Ok(freed)
    }

    fn give_up(&self, partial: &Partial) -> Result<bool, PoolError> {
        let gone = remove_dead(&self.incoming_path(&partial.name))?;
        if gone {
            match self.forget_resting(&partial.name) {
                // Rows without files are found by the sweep.
                Ok(()) | Err(PoolError::Full { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(gone)
    }

    pub(super) fn resting(&self, name: &str) -> Result<Option<PartialRow>, PoolError> {
        self.catalogue.read(|sql| {
            sql.prepare_cached("SELECT version, size, owner FROM incoming WHERE name = ?1")?
                .query_row([name], |row| {
                    let version: String = row.get(0)?;
                    Ok(PartialRow {
                        version: Some(version).filter(|version| !version.is_empty()),
                        size: unsigned(row.get(1)?),
                        owner: row.get(2)?,
                    })
                })
                .optional()
        })
    }

    /// Notes what version the bytes are of that come under a name, and whose they are.
    pub(super) fn note_incoming(
        &self,
        name: &str,
        owner: &Principal,
        version: &str,
    ) -> Result<(), PoolError> {
        let (name, owner) = (name.to_owned(), owner.as_str().to_owned());
        let version = version.to_owned();
        self.catalogue.write(false, move |sql| {
            sql.prepare_cached(
                "INSERT INTO incoming (name, owner, version, size) VALUES (?1, ?2, ?3, 0)
                 ON CONFLICT DO UPDATE SET version = ?3",
            )?
            .execute(params![name, owner, version])
            .map(drop)
        })
    }

    /// Charges the owner soon for what rests now; `reserved` for it no longer arrive then.
    pub(super) fn rest(&self, name: &str, owner: &Principal, len: u64, reserved: u64) {
        let (name, owner) = (name.to_owned(), owner.as_str().to_owned());
        let arriving = Arc::clone(&self.arriving);
        self.catalogue.write_later(move |sql| {
            arriving.remove(&owner, reserved);
            charge(sql, &name, &owner, len)
        });
    }

    /// What rested is being written again: until it rests, it counts as arriving.
    pub(super) fn take_up(&self, name: &str) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.catalogue.write(false, move |sql| {
            sql.prepare_cached("UPDATE incoming SET size = 0 WHERE name = ?1")?
                .execute([name])
                .map(drop)
        })
    }

    pub(super) fn forget_resting(&self, name: &str) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.catalogue.write(false, move |sql| {
            sql.prepare_cached("DELETE FROM incoming WHERE name = ?1")?.execute([name]).map(drop)
        })
    }

    /// Charges for what a process that was killed left, and no longer for what is gone.
    pub(super) fn account_partials(&self) -> Result<(), PoolError> {
        let rows: Vec<(String, i64)> = self.catalogue.read(|sql| {
            sql.prepare_cached("SELECT name, size FROM incoming")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        for (name, size) in rows {
            let path = self.incoming_path(&name);
            match fs::metadata(&path) {
                Ok(metadata) if signed(metadata.len()) == size => {}
                Ok(_) => self.account(name, &path)?,
                Err(_) => self.catalogue.write(false, move |sql| {
                    if path.exists() {
                        return Ok(());
                    }
                    sql.prepare_cached("DELETE FROM incoming WHERE name = ?1")?
                        .execute([name])
                        .map(drop)
                })?,
            }
        }
        Ok(())
    }

    fn account(&self, name: String, path: &Path) -> Result<(), PoolError> {
        // Whoever writes it counts it as arriving.
        let file = match open_alone(path) {
            Err(PoolError::Busy) => return Ok(()),
            file => file?,
        };
        let len = file.metadata().map_err(PoolError::io("reading", path))?.len();
        self.catalogue.write(false, move |sql| {
            sql.prepare_cached("UPDATE incoming SET size = ?2 WHERE name = ?1")?
                .execute(params![name, signed(len)])
                .map(drop)
        })
    }
}

fn charge(sql: &Connection, name: &str, owner: &str, len: u64) -> rusqlite::Result<()> {
    sql.prepare_cached(
        "INSERT INTO incoming (name, owner, version, size) VALUES (?1, ?2, '', ?3)
         ON CONFLICT DO UPDATE SET owner = ?2, size = ?3",
    )?
    .execute(params![name, owner, signed(len)])
    .map(drop)
}
