//! Sessions (paper 000, section 4.4): directories of files on a server that programs share, without
//! their coming back to the client.
//!
//! ```text
//! DIR/.key              seals the addresses of files
//! DIR/ID/               mode 0700
//!   session             whose it is (JSON); its time of modification is that of the last use
//!   names/NAME          symbolic link to a version
//!   versions/VERSION    whole files, mode 0444
//! ```
//!
//! A file is never written to: who puts one of the same name puts another version, and the name is
//! turned to it at once. The version before stays as long as somebody reads it (a shared lock on
//! the open file, as leases have). A session is made, and goes, by renaming its directory, so that
//! no half one is ever seen.

mod address;
mod backup;
mod error;
mod file;
mod index;
mod sweep;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Clock, Principal, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use index::SessionIndex;

pub use backup::{backup, shift_times};
pub use error::SessionError;
pub use file::{SessionFile, SessionFileHandle};
pub use sweep::SessionSweepReport;

/// Where sessions are and how much of anything is allowed. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The directory of all sessions.
    pub directory: PathBuf,
    /// The files of one session together (`session_quota`).
    pub quota: Option<u64>,
    /// How many files one session has (`session_files`).
    pub files: usize,
    /// Sessions that all owners have together (`sessions_open`).
    pub open: usize,
    /// Sessions that one owner has (`sessions_per_owner`).
    pub per_owner: usize,
    /// How long a session lives unused, at the most and if nobody asks for less (`session_idle`).
    pub idle: Duration,
    /// What jobs need free on the file system (`disk_reserve`); sessions leave twice as much.
    pub disk_reserve: u64,
}

impl SessionSettings {
    /// Sessions in this directory, with the default limits.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            quota: DEFAULTS.session_quota,
            files: DEFAULTS.session_files,
            open: DEFAULTS.sessions_open,
            per_owner: DEFAULTS.sessions_per_owner,
            idle: DEFAULTS.session_idle,
            disk_reserve: DEFAULTS.disk_reserve,
        }
    }
}

/// The sessions of a server. Cheap to clone; several processes may have the same directory. Its
/// functions block.
#[derive(Clone)]
pub struct Sessions {
    settings: Arc<SessionSettings>,
    clock: Arc<dyn Clock>,
    seal: Arc<address::Seal>,
    index: Arc<Mutex<SessionIndex>>,
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Principal,
    /// When it was opened.
    pub opened: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
    /// When it expires unless it is used.
    pub expires: Timestamp,
}

/// The file `session`.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    owner: String,
    opened: i64,
    idle: i64,
}

impl Sessions {
    /// The sessions in the settings' directory, which is made if it is not there.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn new(settings: SessionSettings, clock: Arc<dyn Clock>) -> Result<Self, SessionError> {
        make_private(&settings.directory)?;
        let seal = Arc::new(address::Seal::of(&settings.directory)?);
        let index = Arc::default();
        Ok(Self { settings: Arc::new(settings), clock, seal, index })
    }

    /// Where they are and what is allowed.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Opens a session that expires when it was not used for so long.
    ///
    /// # Errors
    /// [`SessionError::TooMany`], [`SessionError::Full`], or if it can't be written.
    pub fn open(&self, owner: &Principal, idle: Option<Duration>) -> Result<Session, SessionError> {
        self.check_disk(0)?;
        // As long as it is held nobody else of this process opens one, and so none is too many.
        let mut index = self.index_for(owner)?;
        let id = SessionId::from_bytes(random()?);
        let most = self.settings.idle;
        let idle = idle.map_or(most, |idle| idle.min(most));
        let now = self.clock.now();
        let record =
            SessionRecord { owner: owner.as_str().to_owned(), opened: now.0, idle: millis(idle) };
        let new = self.settings.directory.join(format!(".new-{id}"));
        let made = self.write_new(&new, &record, now).and_then(|()| {
            fs::rename(&new, self.directory(&id)).map_err(SessionError::io("making", &new))
        });
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&new);
            return Err(error);
        }
        index.add(id, owner);
        Ok(session(id, &record, now))
    }

    fn write_new(
        &self,
        new: &Path,
        record: &SessionRecord,
        now: Timestamp,
    ) -> Result<(), SessionError> {
        for part in ["names", "versions"] {
            make_private(&new.join(part))?;
        }
        let write = || {
            let mut file = File::create_new(new.join("session"))?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.set_modified(time(now))
        };
        write().map_err(SessionError::io("writing", new))
    }

    /// The session of that name, if it is this owner's and has not expired.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`].
    pub fn find(&self, owner: &Principal, id: &SessionId) -> Result<Session, SessionError> {
        let session = self.read(id)?;
        if session.owner != *owner || session.expires <= self.clock.now() {
            return Err(SessionError::NoSuchSession);
        }
        Ok(session)
    }

    /// The same; it was used now.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`].
    pub fn touch(&self, owner: &Principal, id: &SessionId) -> Result<Session, SessionError> {
        let session = self.find(owner, id)?;
        let now = self.clock.now();
        let life = session.expires.since(session.used);
        self.note_use(id, now)?;
        Ok(Session { used: now, expires: now.after(life), ..session })
    }

    fn note_use(&self, id: &SessionId, now: Timestamp) -> Result<(), SessionError> {
        let path = self.directory(id).join("session");
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(time(now)))
            .map_err(SessionError::gone_or("noting the use of", &path))
    }

    /// The sessions of an owner that have not expired, the last used first.
    ///
    /// # Errors
    /// If the directory can't be read.
    pub fn list(&self, owner: &Principal) -> Result<Vec<Session>, SessionError> {
        let now = self.clock.now();
        let mut sessions = Vec::new();
        for id in self.ids()? {
            match self.read(&id) {
                Ok(session) if session.owner == *owner && session.expires > now => {
                    sessions.push(session);
                }
                Ok(_) | Err(SessionError::NoSuchSession) => {}
                Err(error) => return Err(error),
            }
        }
        sessions.sort_by_key(|session| std::cmp::Reverse((session.used, session.id)));
        Ok(sessions)
    }

    /// Removes a session and all of its files, also those that somebody reads.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`], or if it can't be removed.
    pub fn close(&self, owner: &Principal, id: &SessionId) -> Result<(), SessionError> {
        self.find(owner, id)?;
        self.remove(id)
    }

    fn remove(&self, id: &SessionId) -> Result<(), SessionError> {
        let closed = self.settings.directory.join(format!(".closed-{id}"));
        let directory = self.directory(id);
        fs::rename(&directory, &closed).map_err(SessionError::gone_or("closing", &directory))?;
        self.forget(id);
        fs::remove_dir_all(&closed).map_err(SessionError::io("removing", &closed))
    }

    fn read(&self, id: &SessionId) -> Result<Session, SessionError> {
        let path = self.directory(id).join("session");
        let read = || {
            let file = File::open(&path)?;
            let used = file.metadata()?.modified()?;
            let record: SessionRecord = serde_json::from_reader(io::BufReader::new(file))?;
            Ok((record, used))
        };
        let (record, used) = read().map_err(SessionError::gone_or("reading", &path))?;
        Ok(session(*id, &record, timestamp(used)))
    }

    fn ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let names = names_in(&self.settings.directory)?;
        Ok(names.iter().filter_map(|name| SessionId::from_str(name).ok()).collect())
    }

    fn directory(&self, id: &SessionId) -> PathBuf {
        self.settings.directory.join(id.to_string())
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn session(id: SessionId, record: &SessionRecord, used: Timestamp) -> Session {
    let idle = Duration::from_millis(u64::try_from(record.idle).unwrap_or(0));
    Session {
        id,
        owner: crate::grant::principal(&record.owner),
        opened: Timestamp(record.opened),
        used,
        expires: used.after(idle),
    }
}

fn names_in(directory: &Path) -> Result<Vec<String>, SessionError> {
    let listing = fs::read_dir(directory).map_err(SessionError::gone_or("listing", directory))?;
    let mut names = Vec::new();
    for entry in listing {
        let entry = entry.map_err(SessionError::io("listing", directory))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

fn make_private(directory: &Path) -> Result<(), SessionError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(SessionError::io("making", directory))
}

fn random() -> Result<[u8; 16], SessionError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|error| SessionError::io("reading", "/dev/urandom")(error.into()))?;
    Ok(bits)
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp(millis(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
