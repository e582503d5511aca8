//! The pool as its operator sees it.

use fishplate_contract::{Digest, Principal, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::hash::{self, Algorithm};
use super::object::{Row, StoredRow};
use super::{Pool, PoolError, PoolInner, unsigned};
use crate::grant::{GrantListing, principal};

/// An object and all that is known of it.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its digest; `None` while it is being computed.
    pub digest: Option<Digest>,
    /// Length in bytes.
    pub len: u64,
    /// Who holds it and is charged for it.
    pub owners: Vec<Principal>,
    /// Its grants that are good.
    pub grants: Vec<GrantListing>,
    /// It stays until it is unpinned.
    pub pinned: bool,
    /// It is small and rests in the catalogue: it has no file.
    pub in_row: bool,
    /// When it came.
    pub created: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}

/// An object as one who holds it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldObject {
    /// The name under which its owner gave it away last; empty if there is none.
    pub name: String,
    /// Its digest; `None` while it is being computed.
    pub digest: Option<Digest>,
    /// Length in bytes.
    pub len: u64,
    /// When it was last used.
    pub used: Timestamp,
}

/// Files that will go because their content is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicates {
    /// How many they are.
    pub count: u64,
    /// Bytes of all together.
    pub bytes: u64,
}

/// What verifying found of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// It is what its name says.
    Sound,
    /// It is not there.
    Missing,
    /// It was of another digest or length, and is not used any more: it was set aside.
    Damaged,
}

impl Pool {
    /// All objects, the last used first.
    ///
    /// # Errors
    /// If the catalogue can't be read.
    pub fn objects(&self) -> Result<Vec<Object>, PoolError> {
        self.0.flush_uses()?;
        let now = self.0.now();
        self.0.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT number, digest, size, pinned, created, used, content IS NOT NULL
                 FROM objects
                 WHERE same IS NULL ORDER BY used DESC, number DESC",
            )?
            .query_map([], |row| {
                let number = row.get(0)?;
                Ok(Object {
                    digest: row.get::<_, Option<[u8; 32]>>(1)?.map(Digest::Sha256),
                    len: unsigned(row.get(2)?),
                    owners: owners_of(sql, number)?,
                    grants: Self::grants_of(sql, number, now)?,
                    pinned: row.get(3)?,
                    created: Timestamp(row.get(4)?),
                    used: Timestamp(row.get(5)?),
                    in_row: row.get(6)?,
                })
            })?
            .collect()
        })
    }

    /// Adopted files that were found to be the same as an object, and stand beside it until the next
    /// sweep, or until nobody reads them.
    ///
    /// # Errors
    /// If the catalogue can't be read.
    pub fn duplicates(&self) -> Result<Duplicates, PoolError> {
        self.0.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT count(*), coalesce(sum(size), 0) FROM objects WHERE same IS NOT NULL",
            )?
            .query_row([], |row| {
                Ok(Duplicates { count: unsigned(row.get(0)?), bytes: unsigned(row.get(1)?) })
            })
        })
    }

    /// Bytes of all objects together, of duplicates too, and of what rests in part.
    ///
    /// # Errors
    /// If the catalogue can't be read.
    pub fn total(&self) -> Result<u64, PoolError> {
        self.0.catalogue.read(super::object::total_bytes)
    }

    /// Bytes that an owner is charged for.
    ///
    /// # Errors
    /// If the catalogue can't be read.
    pub fn charged(&self, owner: &Principal) -> Result<u64, PoolError> {
        self.0.catalogue.read(|sql| super::object::owner_bytes(sql, owner.as_str()))
    }

    /// What an owner is charged for, the last used first, so many at most.
    ///
    /// # Errors
    /// If the catalogue can't be read or written.
    pub fn held(&self, owner: &Principal, most: usize) -> Result<Vec<HeldObject>, PoolError> {
        self.0.flush_uses()?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.0.catalogue.read(|sql| {
            sql.prepare_cached(
                "SELECT o.digest, h.size, o.used, coalesce((SELECT g.name FROM grants AS g
                   WHERE g.object = o.number AND g.owner = h.owner AND g.name <> ''
                   ORDER BY g.created DESC LIMIT 1), '')
                 FROM holdings AS h JOIN objects AS o ON o.number = h.object
                 WHERE h.owner = ?1 ORDER BY o.used DESC, o.number DESC LIMIT ?2",
            )?
            .query_map(params![owner.as_str(), most], |row| {
                Ok(HeldObject {
                    digest: row.get::<_, Option<[u8; 32]>>(0)?.map(Digest::Sha256),
                    len: unsigned(row.get(1)?),
                    used: Timestamp(row.get(2)?),
                    name: row.get(3)?,
                })
            })?
            .collect()
        })
    }

    /// Bytes that an owner is charged for, those included that are on their way, once what they do not need has gone of
    /// those beyond `most`.
    ///
    /// # Errors
    /// If the catalogue can't be read or written.
    pub fn charge_at_most(&self, owner: &Principal, most: u64) -> Result<u64, PoolError> {
        self.0.charge_at_most(owner, most)
    }

    /// Keeps an object until it is unpinned, or no longer.
    ///
    /// # Errors
    /// [`PoolError::NoSuchData`].
    pub fn pin(&self, digest: &Digest, pinned: bool) -> Result<(), PoolError> {
        let digest = *digest;
        let found = self.0.catalogue.write(false, move |sql| {
            sql.prepare_cached("UPDATE objects SET pinned = ?2 WHERE digest = ?1")?
                .execute(params![digest.as_bytes(), pinned])
        })?;
        if found == 0 { Err(PoolError::NoSuchData) } else { Ok(()) }
    }

    /// Removes an object, its grants and pins with it. Gives its length.
    ///
    /// # Errors
    /// [`PoolError::NoSuchData`]; [`PoolError::InUse`] if somebody has it leased.
    pub fn remove(&self, digest: &Digest) -> Result<u64, PoolError> {
        let StoredRow { row, .. } = self.0.row(digest)?.ok_or(PoolError::NoSuchData)?;
        self.0.remove_object(&row, true)?.ok_or(PoolError::InUse)
    }

    /// Removes an object that is neither pinned nor granted. Gives its length.
    ///
    /// # Errors
    /// As [`Pool::remove`]; [`PoolError::InUse`] also if it is pinned or granted.
    pub fn remove_unheld(&self, digest: &Digest) -> Result<u64, PoolError> {
        let StoredRow { row, .. } = self.0.row(digest)?.ok_or(PoolError::NoSuchData)?;
        self.0.remove_object(&row, false)?.ok_or(PoolError::InUse)
    }

    /// Hashes an object again, and sets it aside if it is damaged; tells after each piece how many bytes it had.
    ///
    /// # Errors
    /// [`PoolError::NoSuchData`], or if it can't be read.
    pub fn verify(
        &self,
        digest: &Digest,
        mut tell: impl FnMut(u64),
    ) -> Result<Verification, PoolError> {
        let StoredRow { row, content } = self.0.row(digest)?.ok_or(PoolError::NoSuchData)?;
        if let Some(content) = content {
            tell(content.len() as u64);
            let sound = self.0.lease_content(&row, content)?;
            return Ok(if sound.is_some() { Verification::Sound } else { Verification::Damaged });
        }
        let path = self.0.object_path(digest);
        let open = crate::lease::open_leased(&path).map_err(PoolError::io("opening", &path))?;
        let Some(file) = open else { return Ok(Verification::Missing) };
        let len = file.metadata().map_err(PoolError::io("reading", &path))?.len();
        let found = hash::of_file(&file, Algorithm::Sha256, tell)
            .map_err(PoolError::io("reading", &path))?;
        if found == *digest && len == row.size {
            return Ok(Verification::Sound);
        }
        self.0.set_aside(&file, &path)?;
        Ok(Verification::Damaged)
    }
}

impl PoolInner {
    fn row(&self, digest: &Digest) -> Result<Option<StoredRow>, PoolError> {
        let columns = Row::COLUMNS;
        self.catalogue.read(|sql| {
            sql.prepare_cached(&format!(
                "SELECT {columns}, o.content FROM objects AS o WHERE digest = ?1"
            ))?
            .query_row([digest.as_bytes()], StoredRow::read)
            .optional()
        })
    }
}

fn owners_of(sql: &Connection, number: i64) -> rusqlite::Result<Vec<Principal>> {
    sql.prepare_cached("SELECT owner FROM holdings WHERE object = ?1 ORDER BY owner")?
        .query_map([number], |row| row.get::<_, String>(0).map(|name| principal(&name)))?
        .collect()
}
