//! The clock that the server sees. The host's own is left alone: it is everybody's, and a time namespace (time_namespaces(7))
//! moves the monotonic clocks only, before its first process starts. So the server is started with libfaketime, which
//! reads from a file how far the time it gives is off.

use std::io;
use std::path::Path;

/// Sets the clock off by so many seconds. The file changes in one step.
pub(super) fn set(file: &Path, seconds: i64) -> io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut new = tempfile::NamedTempFile::new_in(directory.unwrap_or_else(|| Path::new(".")))?;
    io::Write::write_all(&mut new, format!("{seconds:+}\n").as_bytes())?;
    new.persist(file)?;
    Ok(())
}
