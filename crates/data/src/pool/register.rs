//! Registration: a file that is whole becomes data of the pool at once; its digest follows.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fishplate_contract::Principal;

use super::incoming::WHOLE;
use super::object::{NewObject, ObjectKey};
use super::{Pool, PoolError, PoolInner, random_name, remove_file};
use crate::lease::{Lease, is_at};
use crate::placement;

/// How a file may come into the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationMode {
    /// As it is, by another name, if nobody can write to it any more; else as a copy. It can't be
    /// written to afterwards (mode 0444).
    Link,
    /// As a copy, which shares its blocks where the file system can.
    Copy,
}

impl Pool {
    /// Takes a file in that is whole, and begins to compute its digest. It is in the pool at once,
    /// and after a kill too.
    ///
    /// # Errors
    /// [`PoolError::Quota`], [`PoolError::Full`], or if it can't be read or is no plain file.
    pub fn register(
        &self,
        owner: &Principal,
        file: &Path,
        how: RegistrationMode,
    ) -> Result<Lease, PoolError> {
        let inner = &self.0;
        let source = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(file)
            .map_err(PoolError::io("opening", file))?;
        let metadata = source.metadata().map_err(PoolError::io("reading", file))?;
        if !metadata.is_file() {
            let plain = io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file");
            return Err(PoolError::io("registering", file)(plain));
        }
        let name = random_name()?;
        let at = inner.registered_path(&name);
        let linked = how == RegistrationMode::Link
            && link_unwritable(&source, &metadata, file, &at)
                .map_err(PoolError::io("linking", file))?;
        let registered =
            if linked { source } else { inner.copy_in(&source, metadata.len(), &at)? };
        self.enter_registered(owner, registered, name, at)
    }

    /// The same with a file that is open, which may have no path that leads to it: as a copy.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_open(&self, owner: &Principal, source: &File) -> Result<Lease, PoolError> {
        let name = random_name()?;
        let at = self.0.registered_path(&name);
        let len = source.metadata().map_err(PoolError::io("reading", &at))?.len();
        let registered = self.0.copy_in(source, len, &at)?;
        self.enter_registered(owner, registered, name, at)
    }

    fn enter_registered(
        &self,
        owner: &Principal,
        registered: File,
        name: String,
        at: PathBuf,
    ) -> Result<Lease, PoolError> {
        let len = registered.metadata().map_err(PoolError::io("reading", &at))?.len();
        let number = match self.0.enter(owner, len, false, &NewObject::Unhashed(name)) {
            Ok(number) => number,
            Err(error) => {
                remove_file(&at)?;
                return Err(error);
            }
        };
        self.hash_later(number)?;
        Ok(self.0.lease_of(registered, at, len, None, ObjectKey::Number(number)))
    }
}

impl PoolInner {
    /// Copies an open file to a name, leased before it has it.
    fn copy_in(&self, source: &File, len: u64, to: &Path) -> Result<File, PoolError> {
        self.make_room_on_disk(len)?;
        let at = self.incoming_path(&format!("u-{}", random_name()?));
        let copy = || {
            let copy = placement::copy_new(source, &at, WHOLE)?.0;
            fs::rename(&at, to)?;
            Ok(copy)
        };
        copy().map_err(|error| {
            let _ = fs::remove_file(&at);
            PoolError::io("copying into", self.directory())(error)
        })
    }
}

/// Gives an open file another name if nobody can write to it any more: it has no other names yet,
/// is ours, and nobody has it open for writing. `false`: it has to be copied.
pub(crate) fn link_unwritable(
    source: &File,
    metadata: &fs::Metadata,
    from: &Path,
    to: &Path,
) -> io::Result<bool> {
    let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !ours || metadata.nlink() != 1 {
        return Ok(false);
    }
    // Before it has the name, so that nobody takes it for one that was left.
    source.lock_shared()?;
    source.set_permissions(fs::Permissions::from_mode(WHOLE))?;
    let linked = link_unless_written(source, from, to);
    if !matches!(linked, Ok(true)) {
        // It stays its owner's.
        source.set_permissions(metadata.permissions())?;
    }
    linked
}

fn link_unless_written(source: &File, from: &Path, to: &Path) -> io::Result<bool> {
    if has_writers(source) {
        return Ok(false);
    }
    match fs::hard_link(from, to) {
        Ok(()) => {}
        Err(error) if placement::cannot_link(&error) => return Ok(false),
        Err(error) => return Err(error),
    }
    // Somebody may have put another file in its place.
    let same = is_at(source, to)?;
    if !same {
        fs::remove_file(to)?;
    }
    Ok(same)
}

/// Whether somebody may have the file open for writing: the kernel gives a read lease
/// (`F_SETLEASE`) only if nobody has. A file system without such leases can't tell that nobody has.
fn has_writers(file: &File) -> bool {
    let control = |command: libc::c_int, argument: libc::c_int| {
        #[expect(unsafe_code, reason = "nix has no leases")]
        // SAFETY: these commands take an integer, and the descriptor is open.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // Who opens the file for writing before the lease is given back has the kernel send a signal,
    // which would be the end of us if it were the one of the default.
    let leased = control(F_SETSIG, libc::SIGURG)
        .and_then(|()| control(libc::F_SETLEASE, libc::F_RDLCK))
        .is_ok();
    if leased {
        let _ = control(libc::F_SETLEASE, libc::F_UNLCK);
    }
    !leased
}

/// `linux/fcntl.h`; the C library's headers hide it.
const F_SETSIG: libc::c_int = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_tell_its_writers_has_some() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let writer = File::create(&path).unwrap();
        let file = File::open(&path).unwrap();
        assert!(has_writers(&file));
        drop(writer);
        assert!(!has_writers(&file));
        // It has no leases.
        assert!(has_writers(&File::open("/dev/null").unwrap()));
    }
}
