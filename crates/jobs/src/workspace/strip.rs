//! Giving back what a job took from everybody: its files go, what it said stays.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{OutputStream, arrays, directories, remove_tree, stream_path, work};
use fishplate_programs::plan::Plan;

/// What stays of each stream.
const LOG_HEAD: u64 = 64 << 10;

/// Removes what a job wrote, but for the heads of its streams. Its program has ended. What can't be
/// removed stays; the first error is told.
pub(crate) fn strip(plan: &Plan, directory: &Path) -> io::Result<()> {
    let streams =
        [OutputStream::Stdout, OutputStream::Stderr].map(|it| stream_path(plan, directory, it));
    let mut first = Ok(());
    for stream in &streams {
        first = first.and(cut(stream));
    }
    first = first.and(remove_below(&work(directory), &streams));
    for made in [arrays::DIRECTORY, directories::PLACE, "sent", "fetched"] {
        first = first.and(ignore_missing(remove_tree(&directory.join(made))));
    }
    first
}

fn cut(stream: &Path) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match File::options().write(true).custom_flags(flags).open(stream) {
        Ok(file) => file,
        // A link, a directory: it goes with the rest.
        Err(_) => return Ok(()),
    };
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > LOG_HEAD { file.set_len(LOG_HEAD) } else { Ok(()) }
}

/// Removes all below a directory but these files.
fn remove_below(root: &Path, but: &[PathBuf]) -> io::Result<()> {
    let mut first = Ok(());
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        let done = if kind.is_dir() && but.iter().any(|kept| kept.starts_with(&path)) {
            remove_below(&path, but)
        } else if kind.is_dir() {
            remove_tree(&path)
        } else if kind.is_file() && but.contains(&path) {
            Ok(())
        } else {
            fs::remove_file(&path)
        };
        first = first.and(ignore_missing(done));
    }
    first
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
