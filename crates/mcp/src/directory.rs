//! Files of this machine that may be given as inputs: those below one directory that the user named, and no others, whatever
//! the path says and whatever links lie there (`openat2`, `RESOLVE_BENEATH`).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fishplate_contract::{Payload, SharedFile};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// A directory whose files may be read.
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    path: PathBuf,
}

/// Why a file can't be given.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It is not there, not below the directory, or may not be read.
    #[error("cannot read {path:?} below {directory}")]
    Unreadable {
        /// The path, as it was given.
        path: String,
        /// The directory.
        directory: String,
        /// What the system said.
        source: io::Error,
    },
    /// A directory, a pipe, a device.
    #[error("{path:?} is no regular file")]
    NoFile {
        /// The path, as it was given.
        path: String,
    },
}

impl Directory {
    /// That at this path.
    ///
    /// # Errors
    /// If it can't be opened as a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, &path, flags, Mode::empty())?, path })
    }

    /// A file, by its path below the directory; or by its whole path, if that begins with the directory's.
    ///
    /// # Errors
    /// If it is not below the directory, not there, or no regular file.
    pub fn file(&self, path: &str) -> Result<Payload, DirectoryError> {
        let below = Path::new(path).strip_prefix(&self.path).unwrap_or(Path::new(path));
        let unreadable = |source: io::Error| DirectoryError::Unreadable {
            path: path.to_owned(),
            directory: self.path.display().to_string(),
            source,
        };
        // Not to wait for who would write to a pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&self.root, below, flags, Mode::empty(), resolve);
        let file = File::from(opened.map_err(|error| unreadable(error.into()))?);
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(DirectoryError::NoFile { path: path.to_owned() });
        }
        // Whoever reads it gets this one, whatever lies at its name by then.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(Payload::Spooled(Arc::new(SharedFile { path, len: metadata.len(), guard: file })))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(payload: &Payload) -> String {
        match payload {
            Payload::Spooled(held) => fs::read_to_string(held.path()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_below_the_directory_are_read_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        fs::create_dir_all(own.join("in")).unwrap();
        fs::write(own.join("in/a.txt"), "inside").unwrap();
        fs::write(place.path().join("b.txt"), "outside").unwrap();
        symlink("in/a.txt", own.join("near")).unwrap();
        symlink("../b.txt", own.join("far")).unwrap();
        symlink("/", own.join("root")).unwrap();
        let directory = Directory::open(&own).unwrap();
        let whole = own.canonicalize().unwrap().join("in/a.txt");
        for path in ["in/a.txt", "./in/../in/a.txt", "near", whole.to_str().unwrap()] {
            assert_eq!(text(&directory.file(path).unwrap()), "inside", "{path}");
        }
        let outside = place.path().join("b.txt");
        let proc = "/proc/self/environ";
        for path in [
            "../b.txt",
            "far",
            "in/../../b.txt",
            "root/etc/hostname",
            proc,
            outside.to_str().unwrap(),
        ] {
            assert!(
                matches!(directory.file(path), Err(DirectoryError::Unreadable { .. })),
                "{path}"
            );
        }
        assert!(matches!(directory.file("in"), Err(DirectoryError::NoFile { .. })));
        assert!(matches!(directory.file("none"), Err(DirectoryError::Unreadable { .. })));
    }

    #[test]
    fn a_file_that_is_replaced_is_still_the_one_that_was_given() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a"), "first").unwrap();
        let given = Directory::open(place.path()).unwrap().file("a").unwrap();
        fs::remove_file(place.path().join("a")).unwrap();
        fs::write(place.path().join("a"), "second").unwrap();
        assert_eq!(text(&given), "first");
    }
}
