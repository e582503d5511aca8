//! What the pool could not do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use fishplate_contract::{Digest, Fault, FaultCode};
use fishplate_formats::disk::FreeSpace;

use super::eviction::kept_free;

/// Why the pool could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No room on the file system, even after all that nobody needs was evicted.
    #[error("the disk of {} is full{}: remove data, or lower disk_reserve", .directory.display(),
        Shortage::told(.shortage))]
    Full {
        /// The pool's directory.
        directory: PathBuf,
        /// How much is missing; `None` if the file system refused and did not tell.
        shortage: Option<Shortage>,
    },
    /// A quota is used up by data that is in use, granted or pinned.
    #[error(
        "no room for {wanted} bytes more: {used} are used of {value} ({limit}); revoke grants, or remove data and jobs"
    )]
    Quota {
        /// The quota, by the name of its setting.
        limit: &'static str,
        /// Its value in bytes.
        value: u64,
        /// What is used of it.
        used: u64,
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
        /// The file or directory with which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The catalogue refused.
    #[error("the pool's catalogue: {0}")]
    Catalogue(#[source] Arc<rusqlite::Error>),
    /// The catalogue was written by another version.
    #[error(
        "a newer fishplate has written it (schema {found}, and this one knows {known}): start that one, or restore a \
         backup from before the upgrade"
    )]
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
                Self::Full { directory: path, shortage: None }
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

/// How much room was needed and how much there was. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What was to be written.
    pub needed: u64,
    /// What was free.
    pub free: FreeSpace,
    /// The setting `disk_reserve`; data leaves twice as much free.
    pub disk_reserve: u64,
}

impl Shortage {
    pub(crate) fn told(shortage: &Option<Self>) -> String {
        shortage.as_ref().map_or_else(String::new, |shortage| format!(" ({shortage})"))
    }

    /// What a caller is told.
    pub(crate) fn message(shortage: &Option<Self>) -> String {
        match shortage {
            Some(shortage) => format!("the server's disk is full: {shortage}"),
            None => "the server's disk is full".to_owned(),
        }
    }

    /// Names the limit in a fault.
    pub(crate) fn limit(self, fault: Fault) -> Fault {
        fault.limit("disk_reserve", format!("{} bytes", self.disk_reserve))
    }
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { needed, free, disk_reserve } = self;
        let reserve = kept_free(*disk_reserve);
        write!(f, "{needed} bytes are needed, {free}, {reserve} are reserved")
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
            PoolError::Full { shortage, .. } => Shortage::message(shortage),
            PoolError::Io { what, source, .. } => format!("{what} data of the pool: {source}"),
            error => error.to_string(),
        };
        let fault = Self::new(code, message);
        match error {
            PoolError::Quota { limit, value, .. } => fault.limit(limit, format!("{value} bytes")),
            PoolError::Full { shortage: Some(shortage), .. } => shortage.limit(fault),
            _ => fault,
        }
    }
}
