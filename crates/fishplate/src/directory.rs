//! Directories as inputs and outputs: packed before they are sent, unpacked where they shall go. A
//! file whose name ends with `.tar` or `.tar.zst` is an archive already, and stays one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use fishplate_client::Error;
use fishplate_client::input::temporary_input;
use fishplate_contract::{Payload, Value};
use fishplate_formats::archive::{self, Limits};

use crate::deliver::DeliveryError;

/// What a directory that comes from a server may hold: all that there is room for.
const LIMITS: Limits = Limits { entries: u64::MAX, size: u64::MAX, reserve: 0 };

/// What a packed directory is called.
const ARCHIVES: [&str; 2] = [".tar", ".tar.zst"];

/// Whether a file of this name shall hold the archive itself.
pub(crate) fn is_archive_name(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    ARCHIVES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

/// A directory as the value of an input.
pub(crate) async fn packed(directory: PathBuf) -> Result<Value> {
    let packing = tokio::task::spawn_blocking(move || {
        let file = packed_file(&directory)?;
        let len = file.as_file().metadata()?.len();
        anyhow::Ok(temporary_input(file.into_temp_path(), len))
    });
    packing.await?
}

/// A directory packed into a file that is removed when it is dropped, below a directory of its own
/// so that it can be called as `directory` is.
pub(crate) fn packed_to_offer(directory: &Path) -> Result<(tempfile::TempDir, PathBuf)> {
    let beside = tempfile::Builder::new().prefix(".fishplate-").tempdir()?;
    let whole = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut name = whole.file_name().map_or_else(|| OsString::from("directory"), OsString::from);
    name.push(ARCHIVES[0]);
    let path = beside.path().join(name);
    packed_file(directory)?.persist(&path)?;
    Ok((beside, path))
}

fn packed_file(directory: &Path) -> Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().prefix(".fishplate-").tempfile()?;
    let cannot = || format!("cannot pack {}", directory.display());
    let opened = File::open(directory).with_context(cannot)?;
    archive::pack(&opened, file.as_file(), &mut || true).with_context(cannot)?;
    Ok(file)
}

/// Before a program runs: nothing is in the way.
pub(crate) fn check_target(target: &Path) -> Result<(), DeliveryError> {
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

/// Unpacks an output into a directory: all of it, or none.
pub(crate) async fn unpacked(payload: Payload, name: String, target: PathBuf) -> Result<()> {
    let unpacking = tokio::task::spawn_blocking(move || unpack(&payload, &name, &target));
    unpacking.await?
}

fn unpack(payload: &Payload, name: &str, target: &Path) -> Result<()> {
    check_target(target)?;
    // Without a slash at its end it can be renamed to.
    let target: PathBuf = target.components().collect();
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let beside = tempfile::Builder::new().prefix(".fishplate-").tempdir_in(parent)?;
    let inside = beside.path().join("directory");
    let pieces =
        payload.pieces().map(|pieces| pieces.iter().map(Bytes::as_ref).collect::<Vec<_>>());
    match (pieces, payload) {
        (Some(pieces), _) => {
            let archive = beside.path().join("archive");
            fs::write(&archive, pieces.concat())?;
            archive::unpack_file(&archive, &inside, name, &LIMITS).map_err(Error::Fault)?;
        }
        (None, Payload::Spooled(held)) => {
            archive::unpack_file(held.path(), &inside, name, &LIMITS).map_err(Error::Fault)?;
        }
        (None, _) => anyhow::bail!("the output {name} is elsewhere"),
    }
    // An empty directory gives way; one in which something was put meanwhile does not.
    fs::rename(&inside, &target).with_context(|| format!("cannot make {}", target.display()))
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
        let Value::Data(payload) = packed(from.clone()).await.unwrap() else { panic!() };
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
