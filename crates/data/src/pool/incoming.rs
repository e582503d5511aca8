//! Data on its way into the pool.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Digest, Principal};

use super::error::is_full;
use super::exclusive::lock_bytes;
use super::hash::{self, Algorithm, Hasher};
use super::writeback::Writeback;
use super::{Pool, PoolError, PoolInner, random_name, remove_file};
use crate::lease::{Lease, create_leased, is_at, open_exclusive};

/// How many bytes are written between two looks at quotas and disk.
const STEP: u64 = 16 << 20;

/// Mode of whole files: nobody writes to them any more.
pub(crate) const WHOLE: u32 = 0o444;

/// Data on its way into the pool: a file that nobody sees before it is whole.
///
/// Dropped without [`commit`](Self::commit), what has a key stays for `incoming_life`, to be taken
/// up again by whoever comes with the same key, also after this process was killed; what has none
/// goes. What stays is charged to its owner, and goes before others are refused for want of room.
pub struct Incoming {
    inner: Arc<PoolInner>,
    owner: Principal,
    /// Its name in `incoming/`.
    name: String,
    keyed: bool,
    path: PathBuf,
    file: File,
    len: u64,
    expected: Option<u64>,
    hasher: Hasher,
    writeback: Writeback,
    version: Option<String>,
    /// The catalogue may have a row of it.
    rested: bool,
    /// Without a version, it is not kept.
    only_resumable: bool,
    /// Bytes that room was made for.
    reserved: u64,
    /// The file has got its final name, or was removed.
    over: bool,
}

impl Pool {
    /// Begins to take data in, or goes on with what came under this key before.
    ///
    /// # Errors
    /// [`PoolError::Busy`] if somebody is writing under the same key; [`PoolError::Quota`] or
    /// [`PoolError::Full`] if there is no room for what is expected.
    pub fn receive(
        &self,
        owner: &Principal,
        key: Option<&str>,
        expected: Option<u64>,
    ) -> Result<Incoming, PoolError> {
        let name = match key {
            Some(key) => key_name(owner, key),
            None => format!("u-{}", random_name()?),
        };
        let path = self.0.incoming_path(&name);
        let file = open_alone(&path)?;
        let len = file.metadata().map_err(PoolError::io("reading", &path))?.len();
        let hasher = Hasher::resumed(&file, len).map_err(PoolError::io("reading", &path))?;
        let resting = if key.is_some() { self.0.resting(&name)? } else { None };
        if resting.as_ref().is_some_and(|row| row.size > 0) {
            self.0.take_up(&name)?;
        }
        let rested = resting.is_some();
        let version = resting.and_then(|row| row.version).filter(|_| len > 0);
        let mut incoming = Incoming {
            inner: Arc::clone(&self.0),
            owner: owner.clone(),
            name,
            keyed: key.is_some(),
            path,
            file,
            len,
            expected,
            hasher,
            writeback: Writeback::default(),
            version,
            rested,
            only_resumable: false,
            reserved: 0,
            over: false,
        };
        if expected.is_some_and(|expected| expected < len) {
            incoming.truncate(0)?;
        }
        incoming.reserve(expected.unwrap_or(len))?;
        Ok(incoming)
    }

    /// Takes in data that is in memory. Unless it is to be `durable`, the catalogue is told soon
    /// after: a process that is killed before has stored nothing.
    ///
    /// # Errors
    /// As [`Pool::receive`] and [`Incoming::commit`].
    pub fn store(
        &self,
        owner: &Principal,
        pieces: &[Bytes],
        must_be: Option<&Digest>,
        durable: bool,
    ) -> Result<Lease, PoolError> {
        let digest = hash::of_bytes(pieces.iter().map(AsRef::as_ref));
        match must_be {
            Some(told @ Digest::Sha256(_)) if *told != digest => {
                return Err(PoolError::other_digest(told, &digest));
            }
            Some(Digest::Sha512(_)) => {
                let mut incoming = self.receive(owner, None, None)?;
                pieces.iter().try_for_each(|piece| incoming.append(piece.clone()))?;
                return incoming.commit(must_be, durable);
            }
            _ => {}
        }
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        let inner = &self.0;
        if len <= inner.settings.largest_in_row {
            return inner.store_small(owner, pieces, digest, durable);
        }
        let path = inner.object_path(&digest);
        // Most often it is not there, and to look costs less than to make a file and remove it.
        let named = match inner.leased_object(&path, &digest, len)? {
            Some(file) => super::object::OpenObject { file, path, new: false },
            None => {
                inner.make_room_on_disk(len)?;
                let at = inner.incoming_path(&format!("u-{}", random_name()?));
                let file = write_whole(inner, &at, pieces, len, durable)?;
                inner.name(file, &at, &digest, len)?
            }
        };
        if !durable {
            return inner.register_later(named, owner, digest, len);
        }
        sync_directory(&named.path)?;
        inner.register(named, owner, digest, len, durable)
    }
}

impl Incoming {
    /// Bytes that are there.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The version of the data that the bytes are of, as was noted; `None` if there are no bytes.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Dropped, it is kept only if it has a version by then: without one, its bytes are worth nothing
    /// to who comes again.
    #[must_use]
    pub fn only_if_resumable(mut self) -> Self {
        self.only_resumable = true;
        self
    }

    /// Remembers the version of the data that comes, over a restart too.
    ///
    /// # Errors
    /// If the catalogue can't be written.
    pub fn note_version(&mut self, version: &str) -> Result<(), PoolError> {
        if self.version.as_deref() == Some(version) {
            return Ok(());
        }
        if self.keyed {
            self.inner.note_incoming(&self.name, &self.owner, version)?;
            self.rested = true;
        }
        self.version = Some(version.to_owned());
        Ok(())
    }

    /// So many bytes will be there in the end; room is made for them.
    ///
    /// # Errors
    /// [`PoolError::Quota`], [`PoolError::Full`].
    pub fn expect(&mut self, total: u64) -> Result<(), PoolError> {
        self.expected = Some(total);
        self.reserve(total)
    }

    /// Writes bytes behind those that are there; they are hashed beside.
    ///
    /// # Errors
    /// [`PoolError::Mismatch`] if these are more than were expected; [`PoolError::Quota`],
    /// [`PoolError::Full`]. What was written before stays.
    pub fn append(&mut self, bytes: impl Into<Bytes>) -> Result<(), PoolError> {
        let bytes = bytes.into();
        let end = self.len + bytes.len() as u64;
        if let Some(expected) = self.expected
            && end > expected
        {
            return Err(PoolError::other_length(expected, end));
        }
        if end > self.reserved && self.reserve(end + STEP).is_err() {
            self.reserve(end)?;
        }
        if let Err(error) = self.file.write_all_at(&bytes, self.len) {
            if !is_full(&error) {
                return Err(PoolError::io("writing", &self.path)(error));
            }
            self.inner.evict(bytes.len() as u64 + STEP)?;
            self.file
                .write_all_at(&bytes, self.len)
                .map_err(PoolError::io("writing", self.inner.directory()))?;
        }
        self.hasher.update(&self.file, &bytes).map_err(PoolError::io("hashing", &self.path))?;
        self.writeback.reached(&self.file, end);
        self.len = end;
        Ok(())
    }

    /// Keeps only the first `len` bytes.
    ///
    /// # Errors
    /// If the file can't be cut or read.
    pub fn truncate(&mut self, len: u64) -> Result<(), PoolError> {
        let len = len.min(self.len);
        self.file.set_len(len).map_err(PoolError::io("cutting", &self.path))?;
        self.hasher =
            Hasher::resumed(&self.file, len).map_err(PoolError::io("hashing", &self.path))?;
        self.writeback = Writeback::default();
        self.len = len;
        if len == 0 {
            self.version = None;
        }
        Ok(())
    }

    /// The data is whole: it gets its name, unless the pool has it already, and its owner is
    /// charged. It is verified against the length that was expected and the digest that it must
    /// have. Only if it is to be `durable` does it wait for the disk.
    ///
    /// # Errors
    /// [`PoolError::Mismatch`], after which the bytes are gone; [`PoolError::Quota`],
    /// [`PoolError::Full`].
    pub fn commit(mut self, must_be: Option<&Digest>, durable: bool) -> Result<Lease, PoolError> {
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new());
        let digest = hasher.finish().map_err(PoolError::io("hashing", &self.path))?;
        self.verify(must_be, &digest)?;
        if durable {
            self.file.sync_all().map_err(PoolError::io("writing", &self.path))?;
        }
        // Before it has a name, so that nobody takes it for one that its writer left.
        self.file.lock_shared().map_err(PoolError::io("locking", &self.path))?;
        let mode = fs::Permissions::from_mode(WHOLE);
        self.file.set_permissions(mode).map_err(PoolError::io("closing", &self.path))?;
        let file = self.file.try_clone().map_err(PoolError::io("opening", &self.path))?;
        let named = self.inner.name(file, &self.path, &digest, self.len)?;
        self.over = true;
        if durable {
            sync_directory(&named.path)?;
        }
        self.release();
        let lease = self.inner.register(named, &self.owner, digest, self.len, durable)?;
        self.forget_version()?;
        Ok(lease)
    }

    fn verify(&mut self, must_be: Option<&Digest>, digest: &Digest) -> Result<(), PoolError> {
        let other = match self.expected {
            Some(expected) if expected != self.len => {
                // More may come: what is there is not wrong.
                return Err(PoolError::other_length(expected, self.len));
            }
            _ => match must_be {
                Some(Digest::Sha512(_)) => hash::of_file(&self.file, Algorithm::Sha512, |_| {})
                    .map_err(PoolError::io("hashing", &self.path))?,
                _ => *digest,
            },
        };
        match must_be {
            Some(told) if *told != other => {
                self.discard()?;
                Err(PoolError::other_digest(told, &other))
            }
            _ => Ok(()),
        }
    }

    /// Removes what is there, which nobody will come again for.
    ///
    /// # Errors
    /// If it can't be removed.
    pub fn give_up(mut self) -> Result<(), PoolError> {
        self.discard()
    }

    fn discard(&mut self) -> Result<(), PoolError> {
        self.over = true;
        remove_file(&self.path)?;
        self.forget_version()
    }

    fn forget_version(&self) -> Result<(), PoolError> {
        if self.rested { self.inner.forget_resting(&self.name) } else { Ok(()) }
    }

    /// Sees to it that there is room for so many bytes in all.
    fn reserve(&mut self, total: u64) -> Result<(), PoolError> {
        if total <= self.reserved {
            return Ok(());
        }
        let more = total - self.reserved;
        let on_disk = total.saturating_sub(self.len.max(self.reserved));
        self.inner.make_room_on_disk(on_disk)?;
        self.inner.make_room_for(&self.owner, more)?;
        self.inner.arriving.add(self.owner.as_str(), more);
        self.reserved = total;
        Ok(())
    }

    fn release(&mut self) {
        self.inner.arriving.remove(self.owner.as_str(), self.reserved);
        self.reserved = 0;
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let is_wanted = self.version.is_some() || !self.only_resumable;
        if self.over {
        } else if self.keyed && self.len > 0 && is_wanted {
            let reserved = std::mem::take(&mut self.reserved);
            self.inner.rest(&self.name, &self.owner, self.len, reserved);
        } else {
            // If it can't be removed, the sweep will.
            let _ = remove_file(&self.path);
        }
        self.release();
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("path", &self.path).field("len", &self.len).finish()
    }
}

/// The name of what comes under a key; another owner's key is another.
pub(super) fn key_name(owner: &Principal, key: &str) -> String {
    let owner = owner.as_str().as_bytes();
    let len = (owner.len() as u64).to_be_bytes();
    format!("k-{}", hash::of_bytes([&len[..], owner, key.as_bytes()]).hex())
}

/// Opens a file in `incoming/` and locks it against other writers. The lock is of another kind
/// (`F_OFD_SETLK`) than that of leases, which it gets before it has its name.
pub(super) fn open_alone(path: &Path) -> Result<File, PoolError> {
    let open = || {
        File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    };
    loop {
        let file = match open() {
            // Its writer was killed when it had closed it and not yet named it, or is about to name it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let dead = open_exclusive(path).map_err(PoolError::io("locking", path))?;
                let Some(dead) = dead else { return Err(PoolError::Busy) };
                dead.set_permissions(fs::Permissions::from_mode(0o600))
                    .map_err(PoolError::io("opening", path))?;
                open()
            }
            opened => opened,
        }
        .map_err(PoolError::io("opening", path))?;
        if !lock_bytes(&file, 0, 0, false).map_err(PoolError::io("locking", path))? {
            return Err(PoolError::Busy);
        }
        // Between opening and locking, its writer may have named it or the sweep removed it.
        if is_at(&file, path).map_err(PoolError::io("opening", path))? {
            return Ok(file);
        }
    }
}

/// Writes a file in one go, leased before it has anything in it.
fn write_whole(
    inner: &PoolInner,
    at: &Path,
    pieces: &[Bytes],
    len: u64,
    durable: bool,
) -> Result<File, PoolError> {
    let file = create_leased(at, WHOLE).map_err(PoolError::io("making", inner.directory()))?;
    let write = || {
        let mut offset = 0;
        for piece in pieces {
            file.write_all_at(piece, offset)?;
            offset += piece.len() as u64;
        }
        if durable { file.sync_all() } else { Ok(()) }
    };
    let written = match write() {
        Err(error) if is_full(&error) && inner.evict(len + STEP).is_ok() => write(),
        written => written,
    };
    written.map_err(|error| {
        let _ = fs::remove_file(at);
        PoolError::io("writing", inner.directory())(error)
    })?;
    Ok(file)
}

/// Waits until the disk has the name of a file.
pub(super) fn sync_directory(path: &Path) -> Result<(), PoolError> {
    let directory = path.parent().unwrap_or(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(PoolError::io("writing", directory))
}
