//! What a job is, beside its files: so that a directory whose record was lost can still be told, and
//! given back to its owner.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fishplate_contract::{Principal, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::NewJob;

const FILE: &str = "manifest";

/// What the store was told of a job when it was accepted. Jobs that somebody may ask for later have
/// one; a call whose caller waits has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    owner: String,
    /// Its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A digest of operation and arguments.
    pub fingerprint: u64,
    /// How many jobs of its service may run at once.
    pub max_running: u32,
    submitted: i64,
    /// How to run it, as JSON.
    pub plan: String,
}

impl Manifest {
    /// That of a job that is about to be accepted.
    pub(crate) fn of(job: &NewJob) -> Self {
        Self {
            service: job.service.clone(),
            operation: job.operation.clone(),
            owner: job.owner.as_str().to_owned(),
            key: job.key.clone(),
            fingerprint: job.fingerprint,
            max_running: job.max_running,
            submitted: job.submitted.0,
            plan: job.plan.clone(),
        }
    }

    /// Its owner.
    pub fn owner(&self) -> Principal {
        Principal::named(self.owner.as_str())
    }

    /// When it was submitted.
    pub fn submitted(&self) -> Timestamp {
        Timestamp(self.submitted)
    }

    /// Writes it into the job's directory, which is there. Not flushed: it serves when the store is
    /// lost, not when the machine is.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW).open(directory.join(FILE))?.write_all(&bytes)
    }

    /// That of a job's directory; `None` if there is none that can be read.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(directory.join(FILE))
            .ok()?;
        serde_json::from_reader(io::BufReader::new(file)).ok()
    }

    /// Whether there is one, readable or not.
    pub(super) fn is_in(directory: &Path) -> bool {
        fs::symlink_metadata(directory.join(FILE)).is_ok()
    }
}

/// Whether a file of a job's directory is its manifest.
pub(super) fn is_manifest(name: &str) -> bool {
    name == FILE
}
