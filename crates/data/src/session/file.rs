//! The files of a session.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fishplate_contract::{FileHandle, PlacementMethod, Principal, SessionId, Timestamp, lexical};
use fishplate_formats::disk::FreeSpace;

use super::{SessionError, Sessions, names_in, random, timestamp};
use crate::lease::{open_exclusive, open_leased};
use crate::placement::{self, PlacementPurpose};
use crate::pool::{RegistrationMode, Shortage, WHOLE, kept_free, link_unwritable};

/// How often a name that is turned while we look is looked at again.
const TRIES: usize = 100;

/// A file of a session as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// Its name.
    pub name: String,
    /// Length in bytes.
    pub len: u64,
    /// When it was put there.
    pub put: Timestamp,
}

/// A version of a session's file that is in use: whatever is put under its name meanwhile, its bytes
/// stay. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionFileHandle(Arc<FileVersion>);

#[derive(Debug)]
struct FileVersion {
    file: File,
    path: PathBuf,
    len: u64,
    put: Timestamp,
}

impl SessionFileHandle {
    /// The open file, for reading at offsets: clones share its cursor.
    pub fn file(&self) -> &File {
        &self.0.file
    }

    /// Tells this version from others of the same name, and of any other file.
    pub fn version(&self) -> &str {
        self.0.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// When it was put there.
    pub fn put(&self) -> Timestamp {
        self.0.put
    }
}

impl FileHandle for SessionFileHandle {
    fn path(&self) -> &Path {
        &self.0.path
    }

    fn len(&self) -> u64 {
        self.0.len
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self) {}
}

impl Sessions {
    /// The files of a session, by name.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`].
    pub fn files(
        &self,
        owner: &Principal,
        id: &SessionId,
    ) -> Result<Vec<SessionFile>, SessionError> {
        self.find(owner, id)?;
        self.files_of(id)
    }

    fn files_of(&self, id: &SessionId) -> Result<Vec<SessionFile>, SessionError> {
        let names = self.directory(id).join("names");
        let mut files = Vec::new();
        for name in names_in(&names)? {
            let path = names.join(&name);
            // A name on its way, or one that was turned between: it is there again.
            if check_name(&name).is_err() {
                continue;
            }
            match (fs::metadata(&path), fs::symlink_metadata(&path)) {
                (Ok(file), Ok(link)) => {
                    let put = link.modified().map(timestamp).unwrap_or_default();
                    files.push(SessionFile { name, len: file.len(), put });
                }
                (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                (Err(error), _) | (_, Err(error)) => {
                    return Err(SessionError::io("reading", &path)(error));
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// A file of a session. It was used now.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`], [`SessionError::NoSuchFile`], [`SessionError::BadName`].
    pub fn get(
        &self,
        owner: &Principal,
        id: &SessionId,
        name: &str,
    ) -> Result<SessionFileHandle, SessionError> {
        check_name(name)?;
        self.touch(owner, id)?;
        self.read_version(id, name)
    }

    /// A file of a session for whoever has its address, and whose it is: the token ([`Sessions::token`]) is the
    /// permission. The session does not live longer for it.
    ///
    /// # Errors
    /// [`SessionError::NoSuchAddress`], [`SessionError::BadName`].
    pub fn get_by_address(
        &self,
        token: &str,
        name: &str,
    ) -> Result<(Principal, SessionFileHandle), SessionError> {
        check_name(name)?;
        let id = self.session_of(token, name)?;
        let found = self.read(&id).and_then(|session| {
            self.find(&session.owner, &id)?;
            let file = self.read_version(&id, name)?;
            Ok((session.owner, file))
        });
        // Who has only the address knows of no session.
        found.map_err(|error| match error {
            SessionError::NoSuchSession | SessionError::NoSuchFile { .. } => {
                SessionError::NoSuchAddress
            }
            error => error,
        })
    }

    fn read_version(&self, id: &SessionId, name: &str) -> Result<SessionFileHandle, SessionError> {
        let directory = self.directory(id);
        let link = directory.join("names").join(name);
        for _ in 0..TRIES {
            let Some(version) = version_of(&link)? else { break };
            let path = directory.join("versions").join(version);
            let open = open_leased(&path).map_err(SessionError::io("opening", &path))?;
            let Some(file) = open else { continue };
            let read = || Ok((file.metadata()?.len(), fs::symlink_metadata(&link)?.modified()?));
            let (len, put) = match read() {
                Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => continue,
                read => read.map_err(SessionError::io("reading", &link))?,
            };
            return Ok(SessionFileHandle(Arc::new(FileVersion {
                file,
                path,
                len,
                put: timestamp(put),
            })));
        }
        Err(SessionError::NoSuchFile { name: name.to_owned() })
    }

    /// Puts a whole file into a session, in the place of one of that name. Tells how it came there;
    /// linked, it can't be written to afterwards (mode 0444).
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`], [`SessionError::BadName`], [`SessionError::Quota`],
    /// [`SessionError::Full`].
    pub fn put(
        &self,
        owner: &Principal,
        id: &SessionId,
        name: &str,
        file: &Path,
        how: RegistrationMode,
    ) -> Result<PlacementMethod, SessionError> {
        self.put_by(owner, id, name, file, |to| {
            let source = File::open(file)?;
            let metadata = source.metadata()?;
            if !metadata.is_file() {
                return Err(
                    io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file").into()
                );
            }
            if how == RegistrationMode::Link && link_unwritable(&source, &metadata, file, to)? {
                return Ok((source, PlacementMethod::Link));
            }
            self.check_disk(metadata.len()).map_err(ImportError::Refused)?;
            Ok(placement::copy_new(&source, to, WHOLE)?)
        })
    }

    /// Puts data that somebody holds, such as a lease of the pool, into a session.
    ///
    /// # Errors
    /// As [`Sessions::put`].
    pub fn put_held(
        &self,
        owner: &Principal,
        id: &SessionId,
        name: &str,
        held: &dyn FileHandle,
    ) -> Result<PlacementMethod, SessionError> {
        if !held.is_shared() {
            return self.put(owner, id, name, held.path(), RegistrationMode::Link);
        }
        self.put_by(owner, id, name, held.path(), |to| {
            let placing = placement::place(held.path(), to, PlacementPurpose::Shared)?;
            let file = File::open(to)?;
            if placing != PlacementMethod::Link {
                file.set_permissions(fs::Permissions::from_mode(WHOLE))?;
            }
            Ok((file, placing))
        })
    }

    fn put_by(
        &self,
        owner: &Principal,
        id: &SessionId,
        name: &str,
        from: &Path,
        bring: impl FnOnce(&Path) -> Result<(File, PlacementMethod), ImportError>,
    ) -> Result<PlacementMethod, SessionError> {
        check_name(name)?;
        self.touch(owner, id)?;
        let directory = self.directory(id);
        let len = fs::metadata(from).map_err(SessionError::io("reading", from))?.len();
        self.check_room(id, name, len)?;
        let version = format!("{:032x}", u128::from_ne_bytes(random()?));
        let path = directory.join("versions").join(&version);
        let (file, placing) = bring(&path).map_err(|error| match error {
            ImportError::Refused(error) => error,
            ImportError::Failed(error)
                if error.kind() == io::ErrorKind::NotFound && !directory.exists() =>
            {
                SessionError::NoSuchSession
            }
            ImportError::Failed(error) => SessionError::io("putting into a session", from)(error),
        })?;
        let turned = self.publish(id, name, &version, &file);
        drop(file);
        if turned.is_err() {
            let _ = fs::remove_file(&path);
        }
        if let Some(before) = turned? {
            remove_unread(&directory.join("versions").join(before))?;
        }
        Ok(placing)
    }

    /// Turns a name to a version that is whole. Gives the version that it was turned to before.
    fn publish(
        &self,
        id: &SessionId,
        name: &str,
        version: &str,
        file: &File,
    ) -> Result<Option<String>, SessionError> {
        let directory = self.directory(id);
        // One at a time, so that all of them together keep to the quota.
        let turn = directory.join("names");
        let lock = File::open(&turn).map_err(SessionError::gone_or("opening", &turn))?;
        lock.lock().map_err(SessionError::io("locking", &turn))?;
        // So that the sweep does not take it for one that was left.
        file.lock_shared().map_err(SessionError::io("locking", &directory))?;
        let len = file.metadata().map_err(SessionError::io("reading", &directory))?.len();
        self.check_room(id, name, len)?;
        let link = directory.join("names").join(name);
        let before = version_of(&link)?;
        let new = directory.join(version);
        symlink(Path::new("../versions").join(version), &new)
            .and_then(|()| fs::rename(&new, &link))
            .map_err(SessionError::gone_or("naming", &link))?;
        Ok(before)
    }

    fn check_room(&self, id: &SessionId, name: &str, len: u64) -> Result<(), SessionError> {
        let settings = self.settings();
        let files = self.files_of(id)?;
        let others = files.iter().filter(|file| file.name != name);
        let (count, bytes) = others.fold((0, 0), |(n, sum), file| (n + 1, sum + file.len));
        if count >= settings.files {
            let value = settings.files as u64;
            return Err(SessionError::Quota { limit: "session_files", value, wanted: 1 });
        }
        if let Some(value) = settings.quota
            && bytes + len > value
        {
            return Err(SessionError::Quota { limit: "session_quota", value, wanted: len });
        }
        self.check_disk(0)
    }

    /// Whether so many bytes more have room on the disk.
    pub(super) fn check_disk(&self, needed: u64) -> Result<(), SessionError> {
        let directory = &self.settings().directory;
        let disk_reserve = self.settings().disk_reserve;
        let free = FreeSpace::at(directory).map_err(SessionError::io("asking", directory))?;
        if free.room() >= kept_free(disk_reserve).saturating_add(needed) {
            return Ok(());
        }
        let shortage = Some(Shortage { needed, free, disk_reserve });
        Err(SessionError::Full { directory: directory.clone(), shortage })
    }

    /// Removes a file from a session. `false`: there is none of that name.
    ///
    /// # Errors
    /// [`SessionError::NoSuchSession`], [`SessionError::BadName`].
    pub fn remove_file(
        &self,
        owner: &Principal,
        id: &SessionId,
        name: &str,
    ) -> Result<bool, SessionError> {
        check_name(name)?;
        self.touch(owner, id)?;
        let directory = self.directory(id);
        let turn = directory.join("names");
        let lock = File::open(&turn).map_err(SessionError::gone_or("opening", &turn))?;
        lock.lock().map_err(SessionError::io("locking", &turn))?;
        let link = turn.join(name);
        let Some(version) = version_of(&link)? else { return Ok(false) };
        fs::remove_file(&link).map_err(SessionError::io("removing", &link))?;
        remove_unread(&directory.join("versions").join(version))?;
        Ok(true)
    }
}

/// Why a file could not be brought into a session.
enum ImportError {
    Refused(SessionError),
    Failed(io::Error),
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// The version that a name stands for.
pub(super) fn version_of(link: &Path) -> Result<Option<String>, SessionError> {
    match fs::read_link(link) {
        Ok(to) => Ok(to.file_name().and_then(|name| name.to_str()).map(str::to_owned)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SessionError::io("reading", link)(error)),
    }
}

/// Removes a version unless somebody reads it; then the sweep does.
pub(super) fn remove_unread(path: &Path) -> Result<bool, SessionError> {
    let lock = open_exclusive(path).map_err(SessionError::io("opening", path))?;
    if lock.is_none() {
        return Ok(false);
    }
    fs::remove_file(path).map_err(SessionError::io("removing", path))?;
    Ok(true)
}

/// Longest name that file systems take.
const LONGEST: usize = 255;

/// Whether a text can be the name of a file.
fn check_name(name: &str) -> Result<(), SessionError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST {
        "it is longer than 255 bytes"
    } else if matches!(name, "." | "..") {
        "it means a directory"
    } else if name.contains('/') {
        "it has a slash"
    } else if name.chars().any(char::is_control) {
        "it has control characters"
    } else if name.chars().any(lexical::turns_direction) {
        "it has characters that turn the direction of writing"
    } else {
        return Ok(());
    };
    Err(SessionError::BadName { name: name.to_owned(), why })
}
