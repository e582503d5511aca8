//! One object of the pool: finding its row, leasing its file, giving it a name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Digest, FileHandle as _, Principal, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::owner_quota::OwnerShare;
use super::{Pool, PoolError, PoolInner, lock, remove_file, signed, small, unsigned};
use crate::lease::{Lease, LeaseTarget, open_leased};

/// How often a name that comes and goes is tried before it is an error.
const TRIES: usize = 100;

/// A row of the catalogue, as its columns are in [`Row::COLUMNS`].
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(super) number: i64,
    pub(super) digest: Option<Digest>,
    /// Its name among the unhashed files, as long as it has one.
    pub(super) registered: Option<String>,
    pub(super) size: u64,
    /// When it came.
    pub(super) created: i64,
    /// It rests in its row, not in a file.
    pub(super) is_small: bool,
}

impl Row {
    /// Of `objects AS o`.
    pub(crate) const COLUMNS: &'static str =
        "o.number, o.digest, o.adopted, o.size, o.created, o.content IS NOT NULL";

    pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            number: row.get(0)?,
            digest: row.get::<_, Option<[u8; 32]>>(1)?.map(Digest::Sha256),
            registered: row.get(2)?,
            size: unsigned(row.get(3)?),
            created: row.get(4)?,
            is_small: row.get(5)?,
        })
    }
}

/// A row, with its content if that is where the data rests.
#[derive(Clone, Debug)]
pub(crate) struct StoredRow {
    pub(super) row: Row,
    pub(super) content: Option<Bytes>,
}

impl StoredRow {
    /// Of a row of [`Row::COLUMNS`], then `o.content`.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let content = row.get::<_, Option<Vec<u8>>>(6)?;
        Ok(Self { row: Row::read(row)?, content: content.map(Bytes::from) })
    }
}

/// An object that is in the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(super) inner: Arc<PoolInner>,
    pub(super) by: ObjectKey,
}

/// What an object is known by.
#[derive(Clone, Copy, Debug)]
pub(super) enum ObjectKey {
    Number(i64),
    /// Its row may not be written yet.
    Digest(Digest),
}

impl Registered {
    /// Its digest, if it is known.
    pub(crate) fn digest(&self) -> Result<Option<Digest>, PoolError> {
        match self.by {
            ObjectKey::Digest(digest) => Ok(Some(digest)),
            ObjectKey::Number(number) => self.inner.catalogue.read(|sql| digest_of(sql, number)),
        }
    }

    /// Its digest, computed now if it is not known.
    pub(crate) fn known_digest(&self) -> Result<Digest, PoolError> {
        match self.by {
            ObjectKey::Digest(digest) => Ok(digest),
            ObjectKey::Number(number) => {
                self.inner.hash_registered(number, true)?.ok_or(PoolError::NoSuchData)
            }
        }
    }
}

/// Digest of an object, or of the one that it was found to be the same as.
pub(super) fn digest_of(sql: &Connection, number: i64) -> rusqlite::Result<Option<Digest>> {
    sql.prepare_cached("SELECT coalesce(digest, same) FROM objects WHERE number = ?1")?
        .query_row([number], |row| row.get::<_, Option<[u8; 32]>>(0))
        .optional()
        .map(|digest| digest.flatten().map(Digest::Sha256))
}

impl Pool {
    /// The data of this digest, if this owner holds it: that somebody knows a digest gives them
    /// nothing.
    ///
    /// # Errors
    /// If the catalogue or the file can't be read.
    pub fn find(&self, owner: &Principal, digest: &Digest) -> Result<Option<Lease>, PoolError> {
        let Digest::Sha256(digest) = digest else { return Ok(None) };
        self.lease_found(|sql| {
            let columns = Row::COLUMNS;
            sql.prepare_cached(&format!(
                "SELECT {columns}, o.content FROM objects AS o JOIN holdings ON object = o.number
                 WHERE o.digest = ?1 AND owner = ?2"
            ))?
            .query_row(params![digest, owner.as_str()], StoredRow::read)
            .optional()
        })
    }

    /// Charges an owner for what they have leased, unless they are, and does something `and` that
    /// with it in the same transaction.
    pub(crate) fn charge<F>(
        &self,
        lease: &Lease,
        owner: &Principal,
        and: F,
    ) -> Result<(), PoolError>
    where
        F: FnOnce(&Connection, i64, &str) -> rusqlite::Result<()> + Send + 'static,
    {
        let (object, len) = (lease.object().by, lease.len());
        // What has its bytes itself may have lost its row.
        let entry = lease.digest().zip(lease.content().cloned());
        let entry = entry.map(|(digest, content)| NewObject::Small(digest, content));
        let mut and = and;
        for attempt in 0.. {
            let (name, entry, now) = (owner.as_str().to_owned(), entry.clone(), self.0.now());
            let quotas = self.0.quotas(owner);
            let charged = self.0.catalogue.write(false, move |sql| {
                let (entered, revived) = match entry {
                    Some(entry) => (enter(sql, &name, len, now, &entry, quotas)?, None),
                    None => {
                        let Some((number, revived)) = current_number(sql, object)? else {
                            return Ok(ChargeResult::Gone);
                        };
                        (hold_more(sql, &name, number, len, quotas.1)?, revived)
                    }
                };
                match entered {
                    Insertion::Refused(limit) => Ok(ChargeResult::Refused(and, limit)),
                    Insertion::In(number) => {
                        and(sql, number, &name)?;
                        Ok(ChargeResult::Done { revived })
                    }
                }
            })?;
            match charged {
                ChargeResult::Done { revived: None } => return Ok(()),
                ChargeResult::Done { revived: Some(number) } => return self.hash_later(number),
                ChargeResult::Gone => return Err(PoolError::NoSuchData),
                ChargeResult::Refused(again, _) if attempt == 0 => {
                    self.0.make_room_for(owner, len)?;
                    and = again;
                }
                ChargeResult::Refused(_, limit) => return Err(self.0.refused(limit, owner, len)),
            }
        }
        Err(PoolError::Busy)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, PoolError> {
        self.0.catalogue.read(work)
    }

    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PoolError> {
        self.0.catalogue.write(false, work)
    }

    /// Leases what a look-up finds. An unhashed file that gets its digest meanwhile is found again.
    pub(crate) fn lease_found(
        &self,
        mut find: impl FnMut(&Connection) -> rusqlite::Result<Option<StoredRow>>,
    ) -> Result<Option<Lease>, PoolError> {
        for _ in 0..TRIES {
            let Some(found) = self.0.catalogue.read(&mut find)? else { return Ok(None) };
            if let Some(lease) = self.0.lease(&found)? {
                self.0.note_use(found.row.number);
                return Ok(Some(lease));
            }
            if found.row.digest.is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

impl PoolInner {
    /// Leases the data of a row; `None` if it is not there, or is damaged: it is set aside then.
    pub(super) fn lease(self: &Arc<Self>, found: &StoredRow) -> Result<Option<Lease>, PoolError> {
        let row = &found.row;
        if let Some(content) = &found.content {
            return self.lease_content(row, content.clone());
        }
        let path = match (&row.digest, &row.registered) {
            (Some(digest), _) => self.object_path(digest),
            (None, Some(name)) => self.registered_path(name),
            (None, None) => return Ok(None),
        };
        let open = open_leased(&path).map_err(PoolError::io("opening", &path))?;
        let Some(file) = open else { return Ok(None) };
        let len = file.metadata().map_err(PoolError::io("reading", &path))?.len();
        let sound = len == row.size
            && match &row.digest {
                Some(digest) => self.is_sound(&file, &path, digest, Some(row.created))?,
                None => true,
            };
        if !sound {
            self.set_aside(&file, &path)?;
            return Ok(None);
        }
        // By the digest if there is one: the number may have become another's meanwhile.
        let by = row.digest.map_or(ObjectKey::Number(row.number), ObjectKey::Digest);
        Ok(Some(self.lease_of(file, path, len, row.digest, by)))
    }

    pub(super) fn lease_of(
        self: &Arc<Self>,
        file: File,
        path: PathBuf,
        len: u64,
        digest: Option<Digest>,
        by: ObjectKey,
    ) -> Lease {
        let object = Registered { inner: Arc::clone(self), by };
        Lease::new(LeaseTarget::File(file, path), len, digest, object)
    }

    /// It was used now; the catalogue is told with the next sweep.
    pub(super) fn note_use(&self, number: i64) {
        lock(&self.used).insert(number, self.now());
    }

    /// Gives a whole file, which is open and leased, the name of its digest. If there is one of
    /// that name already, it is that one, and ours goes.
    pub(super) fn name(
        &self,
        file: File,
        at: &Path,
        digest: &Digest,
        len: u64,
    ) -> Result<OpenObject, PoolError> {
        let path = self.object_path(digest);
        for _ in 0..TRIES {
            match rename_to_new(at, &path) {
                Ok(()) => return Ok(OpenObject { file, path, new: true }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(PoolError::io("naming", &path)(error)),
            }
            if let Some(there) = self.leased_object(&path, digest, len)? {
                remove_file(at)?;
                return Ok(OpenObject { file: there, path, new: false });
            }
        }
        Err(PoolError::Busy)
    }

    /// The file at an object's name, leased. One that is damaged is set aside: it would take the
    /// place of what comes.
    pub(super) fn leased_object(
        &self,
        path: &Path,
        digest: &Digest,
        len: u64,
    ) -> Result<Option<File>, PoolError> {
        let open = open_leased(path).map_err(PoolError::io("opening", path))?;
        let Some(file) = open else { return Ok(None) };
        let found = file.metadata().map_err(PoolError::io("reading", path))?.len();
        if found == len && self.is_sound(&file, path, digest, self.created(digest)?)? {
            return Ok(Some(file));
        }
        self.set_aside(&file, path)?;
        Ok(None)
    }

    /// Enters a file that has its name, and charges its owner.
    pub(super) fn register(
        self: &Arc<Self>,
        named: OpenObject,
        owner: &Principal,
        digest: Digest,
        len: u64,
        durable: bool,
    ) -> Result<Lease, PoolError> {
        let OpenObject { file, path, new } = named;
        let entered = self.enter(owner, len, durable, &NewObject::Whole(digest));
        match entered {
            Ok(_) => Ok(self.lease_of(file, path, len, Some(digest), ObjectKey::Digest(digest))),
            Err(error) => {
                if new {
                    self.remove_if_unknown(&file, &path, &digest)?;
                }
                Err(error)
            }
        }
    }

    /// The same, without waiting for the row, if no quota is near. A process that is killed before it
    /// is written has not stored anything: the sweep removes the file.
    pub(super) fn register_later(
        self: &Arc<Self>,
        named: OpenObject,
        owner: &Principal,
        digest: Digest,
        len: u64,
    ) -> Result<Lease, PoolError> {
        if !self.enter_later(owner, len, &NewObject::Whole(digest))? {
            return self.register(named, owner, digest, len, false);
        }
        Ok(self.lease_of(named.file, named.path, len, Some(digest), ObjectKey::Digest(digest)))
    }

    /// Has a row written soon. `false`: a quota is so near that it has to be waited for.
    pub(super) fn enter_later(
        &self,
        owner: &Principal,
        len: u64,
        entry: &NewObject,
    ) -> Result<bool, PoolError> {
        if !self.is_room_for(owner, len)? {
            return Ok(false);
        }
        let (name, now, arriving) = (owner.clone(), self.now(), Arc::clone(&self.arriving));
        let entry = entry.clone();
        arriving.add(name.as_str(), len);
        self.catalogue.write_later(move |sql| {
            arriving.remove(name.as_str(), len);
            enter(sql, name.as_str(), len, now, &entry, (None, None)).map(drop)
        });
        Ok(true)
    }

    /// Writes the row of a file, making room for it if a quota needs it.
    pub(super) fn enter(
        &self,
        owner: &Principal,
        len: u64,
        durable: bool,
        entry: &NewObject,
    ) -> Result<i64, PoolError> {
        let mut refused = None;
        for _ in 0..2 {
            let (name, entry, now) = (owner.clone(), entry.clone(), self.now());
            let quotas = self.quotas(owner);
            let entered = self
                .catalogue
                .write(durable, move |sql| enter(sql, name.as_str(), len, now, &entry, quotas))?;
            match entered {
                Insertion::In(number) => return Ok(number),
                Insertion::Refused(limit) => refused = Some(limit),
            }
            self.make_room_for(owner, len)?;
        }
        Err(self.refused(refused.unwrap_or(QUOTA), owner, len))
    }

    /// What the pool, and this owner in it, may hold.
    pub(super) fn quotas(&self, owner: &Principal) -> (Option<u64>, Option<u64>) {
        let of_owner = OwnerShare::of(&*self.settings.owner_quota, owner);
        (self.settings.quota, of_owner.map(OwnerShare::bytes))
    }

    /// Why there is no room, with what is used now.
    pub(super) fn refused(&self, limit: &'static str, owner: &Principal, wanted: u64) -> PoolError {
        let (of_all, of_owner) = self.charged(owner).unwrap_or_default();
        let (value, used) = match limit {
            OWNER_QUOTA => {
                let share = OwnerShare::of(&*self.settings.owner_quota, owner);
                (share.map(|it| it.quota), of_owner + share.map_or(0, |it| it.elsewhere))
            }
            _ => (self.settings.quota, of_all),
        };
        PoolError::Quota { limit, value: value.unwrap_or(u64::MAX), used, wanted }
    }
}

/// A file that has the name of its digest, open and leased.
pub(super) struct OpenObject {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// The name was not there before.
    pub(super) new: bool,
}

/// What is entered.
#[derive(Clone, Debug)]
pub(super) enum NewObject {
    /// A file of this digest.
    Whole(Digest),
    /// Data of this digest that rests in its row.
    Small(Digest, Bytes),
    /// An unhashed file of this name.
    Unhashed(String),
}

/// What came of charging an owner.
enum ChargeResult<F> {
    Done {
        /// This object has to be hashed again.
        revived: Option<i64>,
    },
    Refused(F, &'static str),
    Gone,
}

/// The object that a leased one is now: itself, or the one that it was found to be the same as. If
/// that was evicted since, it is itself again, to be hashed anew.
fn current_number(
    sql: &Connection,
    object: ObjectKey,
) -> rusqlite::Result<Option<(i64, Option<i64>)>> {
    let by_digest = |digest: &[u8]| {
        sql.prepare_cached("SELECT number FROM objects WHERE digest = ?1")?
            .query_row([digest], |row| row.get::<_, i64>(0))
            .optional()
    };
    let number = match object {
        ObjectKey::Digest(digest) => return Ok(by_digest(digest.as_bytes())?.map(|it| (it, None))),
        ObjectKey::Number(number) => number,
    };
    let same = sql
        .prepare_cached("SELECT same FROM objects WHERE number = ?1")?
        .query_row([number], |row| row.get::<_, Option<[u8; 32]>>(0))
        .optional()?;
    let digest = match same {
        None => return Ok(None),
        Some(None) => return Ok(Some((number, None))),
        Some(Some(digest)) => digest,
    };
    if let Some(other) = by_digest(&digest)? {
        return Ok(Some((other, None)));
    }
    sql.prepare_cached("UPDATE objects SET same = NULL WHERE number = ?1")?.execute([number])?;
    Ok(Some((number, Some(number))))
}

enum Insertion {
    In(i64),
    Refused(&'static str),
}

/// Names of the quotas' settings.
pub(super) const QUOTA: &str = "pool_quota";
pub(super) const OWNER_QUOTA: &str = "owner_disk";

fn enter(
    sql: &Connection,
    owner: &str,
    len: u64,
    now: i64,
    entry: &NewObject,
    (quota, owner_quota): (Option<u64>, Option<u64>),
) -> rusqlite::Result<Insertion> {
    let (digest, registered, content) = match entry {
        NewObject::Whole(digest) => (Some(digest.as_bytes()), None, None),
        NewObject::Small(digest, content) => {
            (Some(digest.as_bytes()), None, Some(content.as_ref()))
        }
        NewObject::Unhashed(name) => (None, Some(name), None),
    };
    let known: Option<(i64, bool)> = match digest {
        Some(digest) => sql
            .prepare_cached("SELECT number, content IS NOT NULL FROM objects WHERE digest = ?1")?
            .query_row([digest], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?,
        None => None,
    };
    if let Some((number, has_content)) = known {
        // If room has to be made, it is not what goes for it.
        sql.prepare_cached("UPDATE objects SET used = ?2 WHERE number = ?1")?
            .execute([number, now])?;
        let entered = hold_more(sql, owner, number, len, owner_quota)?;
        if let Insertion::In(number) = entered {
            small::reconcile(sql, number, has_content, entry, now)?;
        }
        return Ok(entered);
    }
    if let Some(quota) = quota
        && total_bytes(sql)?.saturating_add(len) > quota
    {
        return Ok(Insertion::Refused(QUOTA));
    }
    if let Some(quota) = owner_quota
        && owner_bytes(sql, owner)?.saturating_add(len) > quota
    {
        return Ok(Insertion::Refused(OWNER_QUOTA));
    }
    let number = sql
        .prepare_cached(
            "INSERT INTO objects (digest, adopted, size, created, used, content)
             VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
        )?
        .insert(params![digest, registered, signed(len), now, content])?;
    hold(sql, owner, number, len)?;
    Ok(Insertion::In(number))
}

/// Charges an owner for an object, unless they are.
fn hold_more(
    sql: &Connection,
    owner: &str,
    number: i64,
    len: u64,
    quota: Option<u64>,
) -> rusqlite::Result<Insertion> {
    let held = sql
        .prepare_cached("SELECT 1 FROM holdings WHERE owner = ?1 AND object = ?2")?
        .exists(params![owner, number])?;
    if held {
        return Ok(Insertion::In(number));
    }
    if let Some(quota) = quota
        && owner_bytes(sql, owner)?.saturating_add(len) > quota
    {
        return Ok(Insertion::Refused(OWNER_QUOTA));
    }
    hold(sql, owner, number, len)?;
    Ok(Insertion::In(number))
}

/// Charges an owner for an object.
pub(super) fn hold(sql: &Connection, owner: &str, number: i64, len: u64) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT INTO holdings (owner, object, size) VALUES (?1, ?2, ?3)")?
        .execute(params![owner, number, signed(len)])?;
    Ok(())
}

pub(super) fn total_bytes(sql: &Connection) -> rusqlite::Result<u64> {
    sql.prepare_cached("SELECT bytes FROM charges WHERE owner = x'00'")?
        .query_row([], |row| row.get(0).map(unsigned))
}

pub(super) fn owner_bytes(sql: &Connection, owner: &str) -> rusqlite::Result<u64> {
    let bytes = sql
        .prepare_cached("SELECT bytes FROM charges WHERE owner = ?1")?
        .query_row([owner.as_bytes()], |row| row.get(0).map(unsigned))
        .optional()?;
    Ok(bytes.unwrap_or(0))
}

/// Renames a file to a name that must not be there yet.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that does not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}
