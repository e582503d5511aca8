//! Values of outputs into files. A file appears whole under its name, or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fishplate_contract::Payload;
use fishplate_data::stream::Reader;

use crate::error::Error;
use crate::input::blocking;

/// Puts the bytes of an output into a file; their number. They come in the place of what was there. A spooled output in
/// the same file system is only renamed. What exists and is no regular file (a device, a pipe,
/// `/dev/stdout`) is written to.
///
/// # Errors
/// [`Error::File`]; [`Error::BadAnswer`] for a reference, which is not followed; [`Error::BrokenOff`]
/// for a stream that is not whole, of which no file is left.
pub async fn save(payload: &Payload, to: &Path) -> Result<u64, Error> {
    if let Payload::Reference(reference) = payload {
        return Err(Error::BadAnswer {
            url: reference.url.clone(),
            reason: "the output is a reference to data elsewhere, which is not followed".to_owned(),
        });
    }
    let (payload, to) = (payload.clone(), to.to_owned());
    blocking(move || put(&payload, &to).map_err(Error::file("write", &to))).await
}

/// Puts what `write` writes into a file, likewise; its length in bytes. A special file (a device, a
/// pipe) can be written from beginning to end only.
///
/// # Errors
/// [`Error::File`].
pub async fn save_with(
    to: &Path,
    write: impl FnOnce(&File) -> io::Result<()> + Send + 'static,
) -> Result<u64, Error> {
    let to = to.to_owned();
    blocking(move || put_with(&to, write).map_err(Error::file("write", &to))).await
}

/// The directory in which an output for this file is best spooled: its own, where it will be
/// renamed; none if the file is a device or a pipe.
pub fn spool_dir_for(to: &Path) -> Option<PathBuf> {
    if is_special(to) { None } else { Some(directory_of(&target_of(to)).to_owned()) }
}

fn put(payload: &Payload, to: &Path) -> io::Result<u64> {
    if is_special(to) {
        return copy_into(payload, &mut File::options().append(true).open(to)?);
    }
    let target = target_of(to);
    if let Payload::Spooled(held) = payload {
        match fs::rename(held.path(), &target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            renamed => {
                renamed?;
                held.keep();
                return Ok(held.len());
            }
        }
    }
    let mut temporary = temporary_for(&target)?;
    let len = copy_into(payload, temporary.as_file_mut())?;
    temporary.persist(target)?;
    Ok(len)
}

fn put_with(to: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<u64> {
    if is_special(to) {
        let file = File::options().append(true).open(to)?;
        let before = file.metadata()?.len();
        write(&file)?;
        return Ok(file.metadata()?.len().saturating_sub(before));
    }
    let target = target_of(to);
    let temporary = temporary_for(&target)?;
    write(temporary.as_file())?;
    Ok(temporary.persist(target)?.metadata()?.len())
}

fn temporary_for(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".fishplate-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666)) // What the umask leaves of it.
        .tempfile_in(directory_of(target))
}

fn copy_into(payload: &Payload, file: &mut File) -> io::Result<u64> {
    match payload {
        Payload::Inline(_) | Payload::Pieces(_) => {
            let pieces = payload.pieces().unwrap_or_default();
            pieces.iter().try_for_each(|piece| file.write_all(piece))?;
            Ok(payload.len().unwrap_or_default())
        }
        Payload::Spooled(held) => io::copy(&mut File::open(held.path())?, file),
        Payload::Reference(_) => Err(io::ErrorKind::Unsupported.into()),
        Payload::Stream(stream) => {
            let mut reader = Reader::of(stream).map_err(io::Error::other)?;
            let mut len = 0;
            while let Some(chunk) = reader.chunk().map_err(io::Error::other)? {
                file.write_all(&chunk)?;
                len += chunk.len() as u64;
            }
            Ok(len)
        }
    }
}

/// Where a link leads: what it names is replaced, not the link.
pub(crate) fn target_of(to: &Path) -> PathBuf {
    fs::canonicalize(to).unwrap_or_else(|_| to.to_owned())
}

/// What is written to and never replaced: devices, pipes, and what is open already
/// (`/dev/stdout`), even if a file stands behind it.
pub fn is_special(to: &Path) -> bool {
    let is_open_already =
        ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|at| to.starts_with(at));
    fs::metadata(to)
        .is_ok_and(|metadata| !metadata.is_dir() && (!metadata.is_file() || is_open_already))
}

pub(crate) fn directory_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fishplate_wire::SpoolSink;

    use super::*;
    use crate::spool::Spool;

    async fn spooled(dir: &Path, bytes: &'static [u8]) -> Payload {
        let mut spool = Spool::new(Some(dir));
        let held = spool.create();
        spool.write(&held, Bytes::from_static(bytes));
        spool.flush().await.unwrap();
        spool.finish().await.unwrap();
        Payload::Spooled(held)
    }

    #[tokio::test]
    async fn an_output_replaces_what_was_there_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("result");
        fs::write(&to, "old").unwrap();
        save(&Payload::Inline(Bytes::from_static(b"new")), &to).await.unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
        let large = spooled(dir.path(), b"large").await;
        save(&large, &to).await.unwrap();
        drop(large);
        assert_eq!(fs::read(&to).unwrap(), b"large");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_is_written_bit_by_bit_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("result");
        fs::write(&to, "old").unwrap();
        let failing = |mut file: &File| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(save_with(&to, failing).await.is_err());
        assert_eq!(fs::read(&to).unwrap(), b"old");
        let whole = |mut file: &File| file.write_all(b"whole");
        assert_eq!(save_with(&to, whole).await.unwrap(), 5);
        assert_eq!(fs::read(&to).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        save_with(Path::new("/dev/null"), whole).await.unwrap();
    }

    #[tokio::test]
    async fn a_link_stays_a_link_and_a_device_stays_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save(&spooled(dir.path(), b"new").await, &link).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");

        save(&spooled(dir.path(), b"gone").await, Path::new("/dev/null")).await.unwrap();
        assert!(is_special(Path::new("/dev/null")));
        let file = File::options().append(true).open(&file).unwrap();
        let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        save(&Payload::Inline(Bytes::from_static(b", more")), Path::new(&open)).await.unwrap();
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"new, more");

        assert_eq!(spool_dir_for(Path::new("/dev/null")), None);
        assert_eq!(spool_dir_for(Path::new("plain")), Some(PathBuf::from(".")));
    }

    #[tokio::test]
    async fn a_failure_names_the_target_and_leaves_no_half_file() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("none/result");
        let error = save(&Payload::Inline(Bytes::from_static(b"x")), &to).await.unwrap_err();
        assert!(matches!(error, Error::File { doing: "write", path, .. } if path == to));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
