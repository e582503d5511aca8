//! The pool: files named by their SHA-256, and a catalogue of whose they are and who may have them.
//! What is small has no file: it is in the catalogue (`small`).
//!
//! ```text
//! DIR/                    mode 0700
//!   pool.sqlite           the catalogue, with the data that is small
//!   objects/ab/HEX        whole files, mode 0444, each named by its SHA-256
//!   adopted/ID            whole files that are not hashed yet
//!   incoming/             files that are being written
//!   damaged/              files that were found not to be what their names say
//!   settling, opening     locks
//! ```
//!
//! A file is linked to its name before its row is written, and its row is removed before it is: a
//! process that is killed between leaves a file without a row, which [`Pool::sweep`] removes. Who
//! writes, reads or adopts a file has the shared lock on it before it has a name, and who removes
//! one has the exclusive lock; so nothing in use goes, whichever process uses it.

mod backup;
mod catalogue;
mod damage;
mod error;
mod eviction;
mod exclusive;
mod hash;
mod hash_queue;
mod incoming;
mod listing;
mod object;
mod owner_quota;
mod partial;
mod register;
mod small;
mod sweep;
mod writeback;

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Clock, Digest, lock};

pub(crate) use error::is_full;
pub use error::{PoolError, Shortage};
pub(crate) use eviction::kept_free;
pub use incoming::Incoming;
pub(crate) use incoming::WHOLE;
pub use listing::{Duplicates, HeldObject, Object, Verification};
pub(crate) use object::{Registered, Row, StoredRow};
pub use owner_quota::OwnerQuota;
pub use partial::Partial;
pub use register::RegistrationMode;
pub(crate) use register::link_unwritable;
pub(crate) use small::InMemory;
pub use sweep::SweepReport;
use sweep::millis;

use catalogue::Catalogue;
use small::LARGEST_IN_ROW;

/// Where a pool is and how much of anything is allowed. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The pool's directory.
    pub directory: PathBuf,
    /// All data together (`pool_quota`).
    pub quota: Option<u64>,
    /// What one owner holds, data that others hold too included (`owner_disk`).
    pub owner_quota: Arc<dyn OwnerQuota>,
    /// What jobs need free on the file system (`disk_reserve`); the pool leaves twice as much, so
    /// that data that comes never has jobs stopped.
    pub disk_reserve: u64,
    /// How long a grant is good, at the most and if nobody asks for less (`grant_life`).
    pub grant_life: Duration,
    /// How long a broken upload may be taken up again (`incoming_life`).
    pub incoming_life: Duration,
    /// How long data stays that nobody granted, pinned or used (`pool_idle`).
    pub idle: Duration,
    /// What has no more bytes rests in the catalogue, if it comes from memory; the rest has files.
    pub largest_in_row: u64,
}

impl PoolSettings {
    /// A pool in this directory, with the default limits.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            quota: DEFAULTS.pool_quota,
            owner_quota: Arc::new(DEFAULTS.owner_disk),
            disk_reserve: DEFAULTS.disk_reserve,
            grant_life: DEFAULTS.grant_life,
            incoming_life: DEFAULTS.incoming_life,
            idle: DEFAULTS.pool_idle,
            largest_in_row: LARGEST_IN_ROW,
        }
    }
}

/// A pool of data. Cheap to clone; several processes may open the same directory. Its functions
/// block.
#[derive(Clone)]
pub struct Pool(Arc<PoolInner>);

/// What all handles of a pool share.
pub(crate) struct PoolInner {
    settings: PoolSettings,
    catalogue: Catalogue,
    clock: Arc<dyn Clock>,
    /// When objects were used, not yet in the catalogue.
    used: Mutex<HashMap<i64, i64>>,
    arriving: Arc<eviction::IncomingBytes>,
    /// When this process last looked for files without rows, and the other way round.
    searched: Mutex<Option<Instant>>,
    hash_queue: hash_queue::HashQueue,
}

impl Pool {
    /// Opens the pool, making it if there is none, and goes on hashing what was registered before.
    ///
    /// # Errors
    /// If the directory can't be made or written to, or holds a pool of another version.
    pub fn open(settings: PoolSettings, clock: Arc<dyn Clock>) -> Result<Self, PoolError> {
        let directory = &settings.directory;
        make_private(directory)?;
        let opening = directory.join("opening");
        let lock = File::create(&opening).map_err(PoolError::io("making", &opening))?;
        lock.lock().map_err(PoolError::io("locking", &opening))?;
        for part in ["objects", "adopted", "incoming", "damaged"] {
            make_private(&directory.join(part))?;
        }
        // Now, and so by the server: not by the operator, who may be another user.
        let settling = directory.join("settling");
        let made = File::options().append(true).create(true).open(&settling);
        made.map_err(PoolError::io("making", &settling))?;
        for shard in 0..=255_u8 {
            let shard = directory.join("objects").join(format!("{shard:02x}"));
            if !shard.is_dir() {
                make_private(&shard)?;
            }
        }
        let catalogue = Catalogue::open(&directory.join("pool.sqlite"))?;
        drop(lock);
        let pool = Self(Arc::new(PoolInner {
            settings,
            catalogue,
            clock,
            used: Mutex::default(),
            arriving: Arc::default(),
            searched: Mutex::default(),
            hash_queue: hash_queue::HashQueue::default(),
        }));
        pool.hash_remaining()?;
        Ok(pool)
    }

    /// Where it is and what is allowed.
    pub fn settings(&self) -> &PoolSettings {
        &self.0.settings
    }
}

impl PoolInner {
    fn now(&self) -> i64 {
        self.clock.now().0
    }

    fn directory(&self) -> &Path {
        &self.settings.directory
    }

    /// Where data of this digest is, if it is here.
    fn object_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let mut path = self.settings.directory.join("objects");
        path.push(&hex[..2]);
        path.push(hex);
        path
    }

    fn registered_path(&self, name: &str) -> PathBuf {
        self.settings.directory.join("adopted").join(name)
    }

    fn incoming_path(&self, name: &str) -> PathBuf {
        self.settings.directory.join("incoming").join(name)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("directory", &self.0.settings.directory).finish()
    }
}

impl std::fmt::Debug for PoolInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("directory", &self.settings.directory).finish_non_exhaustive()
    }
}

fn make_private(directory: &Path) -> Result<(), PoolError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(PoolError::io("making", directory))
}

/// Removes a file that may be gone already.
fn remove_file(path: &Path) -> Result<(), PoolError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(PoolError::io("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// SQLite's integers have a sign; no size or time of ours needs more.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// 128 random bits in hexadecimal digits.
fn random_name() -> Result<String, PoolError> {
    let mut bits = [0; 16];
    random(&mut bits)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}

/// Random bits.
pub(crate) fn random(bits: &mut [u8]) -> Result<(), PoolError> {
    getrandom::fill(bits).map_err(|error| PoolError::Io {
        what: "reading",
        path: "/dev/urandom".into(),
        source: error.into(),
    })
}

#[cfg(test)]
mod tests;
