//! Directories as inputs and outputs: packed before they are sent, unpacked where they shall go. A
//! file whose name ends with `.tar` or `.tar.zst` is an archive already, and stays one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fishplate_contract::Payload;
use fishplate_formats::archive::{self, ArchiveError, ArchiveLimits};
use tempfile::{NamedTempFile, TempDir};

use crate::deliver::DeliveryError;
use crate::error::Error;
use crate::input::{self, LocalFile, blocking};
use crate::save::directory_of;

/// What a directory that comes from a server may hold: all that there is room for.
const LIMITS: ArchiveLimits = ArchiveLimits { entries: u64::MAX, size: u64::MAX, reserve: 0 };

/// What a packed directory is called.
const ARCHIVES: [&str; 2] = [".tar", ".tar.zst"];

/// Whether a file of this name shall hold the archive itself.
pub fn is_archive_name(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    ARCHIVES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

/// A directory as the bytes of an archive.
///
/// # Errors
/// [`Error::File`].
pub async fn packed(directory: PathBuf) -> Result<Payload, Error> {
    blocking(move || {
        LocalFile::temporary(packed_file(&directory)?).map_err(Error::file("pack", &directory))
    })
    .await
}

/// A directory packed into a file that is removed when it is dropped, below a directory of its own
/// so that it can be called as `directory` is.
///
/// # Errors
/// [`Error::File`].
pub fn packed_to_offer(directory: &Path) -> Result<(TempDir, PathBuf), Error> {
    let beside = temporary()?;
    let whole = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut name = whole.file_name().map_or_else(|| OsString::from("directory"), OsString::from);
    name.push(ARCHIVES[0]);
    let path = beside.path().join(name);
    let file = packed_file(directory)?;
    file.persist(&path).map_err(|error| Error::file("pack", directory)(error.error))?;
    Ok((beside, path))
}

/// A directory that is removed when it is dropped.
pub(crate) fn temporary() -> Result<TempDir, Error> {
    let made = tempfile::Builder::new().prefix(".fishplate-").tempdir();
    made.map_err(Error::file("write", &std::env::temp_dir()))
}

fn packed_file(directory: &Path) -> Result<NamedTempFile, Error> {
    let pack = || {
        let file = input::temporary()?;
        archive::pack(&File::open(directory)?, file.as_file(), &mut || true)?;
        Ok(file)
    };
    pack().map_err(|error| match error {
        ArchiveError::Io(error) => Error::file("pack", directory)(error),
        other => Error::file("pack", directory)(io::Error::other(other)),
    })
}

/// Before a program runs: nothing is in the way.
pub fn check_target(target: &Path) -> Result<(), DeliveryError> {
    if is_archive_name(target) || !is_in_the_way(target) {
        return Ok(());
    }
    Err(DeliveryError::InTheWay { path: target.to_owned() })
}

fn is_in_the_way(target: &Path) -> bool {
    match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Unpacks an output into a directory, which is made with those above it: all of it, or none.
///
/// # Errors
/// [`DeliveryError`]; a fault if it is no archive; [`Error::File`].
pub async fn unpacked(payload: Payload, name: String, target: PathBuf) -> Result<(), Error> {
    blocking(move || unpack(&payload, &name, &target)).await
}

fn unpack(payload: &Payload, name: &str, target: &Path) -> Result<(), Error> {
    check_target(target)?;
    make_parent(target)?;
    // Without a slash at its end it can be renamed to.
    let target: PathBuf = target.components().collect();
    let cannot = Error::file("make", &target);
    let beside = tempfile::Builder::new().prefix(".fishplate-").tempdir_in(directory_of(&target));
    let beside = match beside {
        Ok(beside) => beside,
        Err(error) => return Err(cannot(error)),
    };
    let inside = beside.path().join("directory");
    if let Payload::Spooled(held) = payload {
        archive::unpack_file(held.path(), &inside, name, &LIMITS).map_err(Error::Fault)?;
    } else {
        let pieces = payload.pieces().ok_or_else(|| DeliveryError::Elsewhere(name.to_owned()))?;
        let bytes = pieces.iter().map(Bytes::as_ref).collect::<Vec<_>>().concat();
        archive::unpack_any(&bytes[..], &inside, name, &LIMITS).map_err(Error::Fault)?;
    }
    // An empty directory gives way; one in which something was put meanwhile does not.
    fs::rename(&inside, &target).map_err(cannot)
}

/// Makes the directory in which a file or directory shall be.
pub(crate) fn make_parent(target: &Path) -> Result<(), Error> {
    let target: PathBuf = target.components().collect();
    let parent = directory_of(&target);
    fs::create_dir_all(parent).map_err(Error::file("make", parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_goes_and_comes_back_whole_and_nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("case");
        fs::create_dir_all(from.join("0/uniform")).unwrap();
        fs::write(from.join("0/U"), "flow").unwrap();
        let payload = packed(from.clone()).await.unwrap();
        let to = dir.path().join("back");
        unpacked(payload.clone(), "case".to_owned(), to.clone()).await.unwrap();
        assert_eq!(fs::read(to.join("0/U")).unwrap(), b"flow");
        assert!(to.join("0/uniform").is_dir());
        let again = unpacked(payload.clone(), "case".to_owned(), to).await.unwrap_err();
        assert!(again.to_string().contains("is there already"), "{again}");
        let empty = dir.path().join("empty/");
        fs::create_dir(&empty).unwrap();
        unpacked(payload, "case".to_owned(), empty.clone()).await.unwrap();
        assert!(empty.join("0/U").is_file());
        let (guard, offered) = packed_to_offer(&from).unwrap();
        assert!(offered.ends_with("case.tar") && offered.is_file());
        drop(guard);
        assert!(!offered.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_archive_is_known_by_its_name() {
        for (name, expected) in
            [("a.tar", true), ("a.tar.zst", true), ("tar", false), ("a/", false)]
        {
            assert_eq!(is_archive_name(Path::new(name)), expected, "{name}");
        }
    }
}
