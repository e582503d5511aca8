//! What sessions could not do.

use std::io;
use std::path::PathBuf;

use fishplate_contract::{Fault, FaultCode};

use crate::pool::{Shortage, is_full};

/// Why a session could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no such session of this owner, or it has expired.
    #[error("there is no such session, or it has expired: open another")]
    NoSuchSession,
    /// There is no file at this address.
    #[error(
        "there is no file of a session at this address; the session may have been closed, or have expired"
    )]
    NoSuchAddress,
    /// The session has no file of that name.
    #[error("the session has no file {name:?}")]
    NoSuchFile {
        /// The name.
        name: String,
    },
    /// A text that can't be a file's name.
    #[error("{name:?} can't be the name of a file: {why}")]
    BadName {
        /// The text.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The session is full.
    #[error("the session has no room for {wanted} more within {limit}: remove files")]
    Quota {
        /// The limit, by the name of its setting.
        limit: &'static str,
        /// Its value.
        value: u64,
        /// How much more was wanted.
        wanted: u64,
    },
    /// There are as many sessions as there may be.
    #[error(
        "there are {value} sessions, which is all that {limit} allows: close some, or wait until some \
         expire"
    )]
    TooMany {
        /// The limit, by the name of its setting.
        limit: &'static str,
        /// Its value.
        value: usize,
    },
    /// No room on the file system.
    #[error("the disk of {} is full{}: close sessions, or lower disk_reserve", .directory.display(),
        Shortage::told(.shortage))]
    Full {
        /// The directory.
        directory: PathBuf,
        /// How much is missing; `None` if the file system refused and did not tell.
        shortage: Option<Shortage>,
    },
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
}

impl SessionError {
    /// For `map_err`: what was being done to which file.
    pub(super) fn io(
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

    /// The same for what is always there unless the session was closed meanwhile.
    pub(super) fn gone_or(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let other = Self::io(what, path);
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::NoSuchSession,
            _ => other(source),
        }
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::NoSuchSession => FaultCode::NoSuchSession,
            SessionError::NoSuchFile { .. } | SessionError::NoSuchAddress => FaultCode::NoSuchData,
            SessionError::BadName { .. } => FaultCode::InvalidValue,
            SessionError::Quota { .. } | SessionError::TooMany { .. } => FaultCode::QuotaExceeded,
            SessionError::Full { .. } => FaultCode::StorageFull,
            SessionError::Io { .. } => FaultCode::Internal,
        };
        // A path of this machine is nothing for a caller.
        let message = match &error {
            SessionError::Full { shortage, .. } => Shortage::message(shortage),
            SessionError::Io { what, source, .. } => format!("{what} a session: {source}"),
            error => error.to_string(),
        };
        let fault = Self::new(code, message);
        match error {
            SessionError::Quota { limit, value, .. } => fault.limit(limit, value),
            SessionError::TooMany { limit, value } => fault.limit(limit, value),
            SessionError::Full { shortage: Some(shortage), .. } => shortage.limit(fault),
            _ => fault,
        }
    }
}
