//! A used directory made as good as new.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::work;

/// The most files in a workspace that are worth removing one by one.
const MOST_FILES: usize = 16;

/// Empties a job's directory, if that is quickly done: it holds its log, its journal and a
/// workspace of a few plain files. Tells whether it is empty now; if not, some of it may be gone.
///
/// # Errors
/// Something that should go did not.
pub fn empty(directory: &Path) -> io::Result<bool> {
    let root = work(directory);
    for (count, entry) in fs::read_dir(&root)?.enumerate() {
        let entry = entry?;
        if count == MOST_FILES || entry.file_type()?.is_dir() {
            return Ok(false);
        }
        fs::remove_file(entry.path())?;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "work" {
            continue;
        }
        let ours = ["run", "stdout", "stderr"].iter().any(|ours| name == *ours);
        if !ours || !cut(&entry.path())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Cuts a file to nothing, if it has no other name by which somebody could still know it.
fn cut(path: &Path) -> io::Result<bool> {
    let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() || data.nlink() != 1 {
        return Ok(false);
    }
    if data.len() > 0 {
        file.set_len(0)?;
    }
    Ok(true)
}
