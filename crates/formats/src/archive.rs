//! Directories as one payload: tar archives (POSIX.1-2001 pax; what ustar and GNU tar write is read
//! too), compressed by zstd if they begin with its magic number.
//!
//! Reading order:
//!
//! - [`ArchiveLimits`], [`ArchiveError`]: what a directory may hold, and what is wrong with one
//! - [`unpack`](fn@unpack): an archive into a directory; `entry`: one member of it
//! - [`pack`](fn@pack): a directory to an archive
//! - [`list`](fn@list): what is in an archive, from its first bytes
//!
//! An archive comes from anywhere. Nothing of it leaves the directory it is unpacked into: no name,
//! no link, no device; and nothing on the way is followed.

mod entry;
mod list;
mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use std::io;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Fault, FaultCode, lexical};

pub use entry::ArchiveReader;
pub use list::{ListedMember, Listing, is_archive, list};
pub use pack::pack;
pub use unpack::{Unpacked, unpack, unpack_any, unpack_file, unpack_file_unless};

/// What a directory that a caller sends may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Files, directories and links in it (`directory_entries`).
    pub entries: u64,
    /// Bytes of all its files together (`directory_size`).
    pub size: u64,
    /// Bytes that must stay free on the file system (`disk_reserve`).
    pub reserve: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            entries: DEFAULTS.directory_entries,
            size: DEFAULTS.directory_size,
            reserve: DEFAULTS.disk_reserve,
        }
    }
}

/// Bytes of a path in an archive, at most (`directory_path`).
pub const LONGEST_PATH: usize = DEFAULTS.directory_path;

/// Why a directory could not be unpacked or packed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// What is there is no archive, or is cut.
    #[error("{0}")]
    Malformed(String),
    /// An entry that may not be there.
    #[error("its entry {entry:?} {rule}")]
    Entry {
        /// Its path, shortened.
        entry: String,
        /// What it does, and what would be right.
        rule: String,
    },
    /// An entry with a path that is longer than [`LONGEST_PATH`].
    #[error("its entry {entry:?} {what} of more than {LONGEST_PATH} bytes (directory_path)")]
    Path {
        /// Its path, shortened.
        entry: String,
        /// What is too long.
        what: &'static str,
    },
    /// A limit.
    #[error("it holds more than {value} ({limit})")]
    Limit {
        /// The limit's name.
        limit: &'static str,
        /// Its value, with its unit.
        value: String,
    },
    /// The disk would not keep its reserve.
    #[error("the disk is full")]
    Full,
    /// Reading or writing here failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ArchiveError {
    fn entry(path: &[u8], rule: impl Into<String>) -> Self {
        let entry = lexical::shortened(&String::from_utf8_lossy(path)).to_string();
        Self::Entry { entry, rule: rule.into() }
    }

    fn path(path: &[u8], what: &'static str) -> Self {
        let entry = lexical::shortened(&String::from_utf8_lossy(path)).to_string();
        Self::Path { entry, what }
    }

    /// As a fault about a parameter that was sent.
    pub fn fault(self, parameter: &str) -> Fault {
        let what = |why: &dyn std::fmt::Display| {
            format!("parameter {parameter} is a directory, sent as a tar archive: {why}")
        };
        let fault = match &self {
            Self::Full => Fault::new(FaultCode::StorageFull, "the server's disk is full"),
            Self::Io(error) if crate::disk::is_full(error) => {
                Fault::new(FaultCode::StorageFull, "the server's disk is full")
            }
            Self::Io(error) => {
                tracing::error!(%error, parameter, "an archive could not be unpacked");
                Fault::new(FaultCode::Internal, "the directory could not be unpacked")
            }
            Self::Limit { limit, value } => {
                Fault::new(FaultCode::InvalidValue, what(&self)).limit(*limit, value)
            }
            Self::Path { .. } => {
                let most = format!("{LONGEST_PATH} bytes");
                Fault::new(FaultCode::InvalidValue, what(&self)).limit("directory_path", most)
            }
            Self::Malformed(_) | Self::Entry { .. } => {
                Fault::new(FaultCode::InvalidValue, what(&self))
            }
        };
        fault.parameter(parameter)
    }
}
