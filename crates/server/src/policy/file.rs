//! The policy file of a server, read again when it has changed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fishplate_contract::Fault;
use fishplate_programs::descriptor::{Diagnostic, Severity, SourceText};

use super::read::{CheckedPolicy, check};
use super::rules::AccessPolicy;
use crate::audit::AuditLog;
use crate::dispatch::authorise::{Access, Authoriser};
use crate::file_version::FileVersion;

/// Why a policy can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The system's reason.
    #[error("cannot read the policy {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something is wrong with it; the first error.
    #[error("the policy is not usable: {0}; `fishplate check` tells all")]
    Wrong(String),
}

/// A file of rules. A change holds for the next request; a file that can't be used changes nothing.
#[derive(Debug)]
pub struct PolicyFile {
    path: PathBuf,
    audit: Arc<AuditLog>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// What the file was when it was looked at last, whether it could be used or not.
    version: Option<FileVersion>,
    policy: Arc<AccessPolicy>,
}

impl PolicyFile {
    /// The policy in this file.
    ///
    /// # Errors
    /// If it can't be read, or is wrong.
    pub fn open(path: &Path, audit: Arc<AuditLog>) -> Result<Self, PolicyError> {
        let version = version(path)?;
        let current = Mutex::new(Current { version, policy: Arc::new(read(path)?) });
        Ok(Self { path: path.to_owned(), audit, current })
    }

    /// Notes that it is in force: when a server starts, or is reloaded.
    pub fn announce(&self) {
        self.note("in force");
    }

    /// What is in force.
    pub fn policy(&self) -> Arc<AccessPolicy> {
        let mut current = self.locked();
        let version = version(&self.path).ok().flatten();
        if version != current.version {
            current.version = version;
            let _ = self.take(&mut current);
        }
        Arc::clone(&current.policy)
    }

    /// Reads it again, whether it has changed or not.
    ///
    /// # Errors
    /// If it can't be used: then the policy from before stays in force, and the log says so.
    pub fn reload(&self) -> Result<(), PolicyError> {
        let mut current = self.locked();
        current.version = version(&self.path).ok().flatten();
        self.take(&mut current)
    }

    fn take(&self, current: &mut Current) -> Result<(), PolicyError> {
        // What an editor has only begun to write is no mistake by its form.
        let whole = |policy: AccessPolicy| match policy.allows_something() {
            false if current.policy.allows_something() => Err(PolicyError::Wrong(
                "it has no rule that allows anything any more; restart the server if that is meant"
                    .to_owned(),
            )),
            _ => Ok(policy),
        };
        match read(&self.path).and_then(whole) {
            Ok(policy) => current.policy = Arc::new(policy),
            Err(error) => {
                tracing::error!("the policy from before stays in force: {error}");
                self.note(&format!("not in force: {error}"));
                return Err(error);
            }
        }
        tracing::info!(policy = %self.path.display(), "the policy was read again");
        self.note("in force");
        Ok(())
    }

    fn note(&self, what: &str) {
        self.audit.change(format!("policy {} {what}", self.path.display()));
    }

    fn locked(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authoriser for PolicyFile {
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault> {
        if self.policy().decide(access).is_allowed() { Ok(()) } else { Err(access.forbidden()) }
    }
}

/// Checks the policy in a file.
///
/// # Errors
/// If it can't be read.
pub fn check_file(path: &Path) -> Result<CheckedPolicy, PolicyError> {
    let text = std::fs::read_to_string(path);
    let unreadable = |source| PolicyError::Unreadable { path: path.to_owned(), source };
    let name = path.display().to_string();
    Ok(check(SourceText { name, text: text.map_err(unreadable)? }))
}

fn version(path: &Path) -> Result<Option<FileVersion>, PolicyError> {
    let unreadable = |source| PolicyError::Unreadable { path: path.to_owned(), source };
    FileVersion::of(path).map_err(unreadable)
}

/// The rules of a file.
///
/// # Errors
/// If it can't be read, or is wrong.
pub fn read(path: &Path) -> Result<AccessPolicy, PolicyError> {
    let CheckedPolicy { source, policy, diagnostics } = check_file(path)?;
    let error = |it: &&Diagnostic| it.severity == Severity::Error;
    let first = || diagnostics.iter().find(error).map(|it| it.line(&source)).unwrap_or_default();
    policy.ok_or_else(|| PolicyError::Wrong(first()))
}
