//! What the pool could not do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use fishplate_contract::{Digest, Fault, FaultCode};

/// Why the pool could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No room on the file system, even after all that nobody needs was evicted.
    #[error("the disk of {} is full: remove data, or lower disk_reserve", .directory.display())]
    Full {
        /// The pool's directory.
        directory: PathBuf,
    },
    /// A quota is used up by data that is in use, granted or pinned.
    #[error("no room for {wanted} bytes more within {limit}: revoke grants or remove data")]
    Quota {
        /// The quota, by the name of its setting.
        limit: &'static str,
        /// Its value in bytes.
        value: u64,
        /// How many bytes more were wanted.
        wanted: u64,
    },
    /// The data is not what it was said to be.
    #[error("the data is {found}, not {expected}")]
    Mismatch {
        /// The digest or the length that was told.
        expected: String,
        /// That of the data.
        found: String,
    },
    /// Somebody else is writing under this key.
    #[error("somebody else is writing this data: wait until they are ready")]
    Busy,
    /// Somebody has it in use, so that it can't be removed.
    #[error("the data is in use: try again later")]
    InUse,
    /// There is no such data.
    #[error("there is no such data in the pool")]
    NoSuchData,
    /// The file system refused.
    #[error("{what} {}: {source}", .path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The catalogue refused.
    #[error("the pool's catalogue: {0}")]
    Catalogue(#[source] Arc<rusqlite::Error>),
    /// The catalogue was written by another version.
    #[error("the pool has schema {found}; this fishplate knows {known}")]
    Schema {
        /// Version of the pool's schema.
        found: i32,
        /// Version that is known.
        known: i32,
    },
}

impl PoolError {
    /// For `map_err`: what was being done to which file.
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            if is_full(&source) {
                Self::Full { directory: path }
            } else {
                Self::Io { what, path, source }
            }
        }
    }

    /// A digest that is not what was told.
    pub(crate) fn other_digest(expected: &Digest, found: &Digest) -> Self {
        Self::Mismatch { expected: expected.to_string(), found: found.to_string() }
    }

    /// A length that is not what was told.
    pub(crate) fn other_length(expected: u64, found: u64) -> Self {
        Self::Mismatch { expected: format!("{expected} bytes"), found: format!("{found} bytes") }
    }
}

/// Whether an error means that there is no room: the disk's, a quota's or the process's own
/// (`RLIMIT_FSIZE`).
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        let code = match &error {
            PoolError::Full { .. } => FaultCode::StorageFull,
            PoolError::Quota { .. } => FaultCode::QuotaExceeded,
            PoolError::Mismatch { .. } => FaultCode::DataMismatch,
            PoolError::NoSuchData => FaultCode::NoSuchData,
            PoolError::Busy | PoolError::InUse => FaultCode::TransferFailed,
            PoolError::Io { .. } | PoolError::Catalogue(_) | PoolError::Schema { .. } => {
                FaultCode::Internal
            }
        };
        // A path of this machine is nothing for a caller.
        let message = match &error {
            PoolError::Full { .. } => "the disk of the server is full".to_owned(),
            PoolError::Io { what, source, .. } => format!("{what} data of the pool: {source}"),
            error => error.to_string(),
        };
        let fault = Self::new(code, message);
        match error {
            PoolError::Quota { limit, value, .. } => fault.limit(limit, format!("{value} bytes")),
            _ => fault,
        }
    }
}
