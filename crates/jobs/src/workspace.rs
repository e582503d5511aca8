//! A job's directory: what is put there before the start, what is read there while the program
//! runs, and what is collected after its end.
//!
//! ```text
//! DIRECTORY/         mode 0700, one a job
//!   work/            the workspace: the program's working directory
//!   arrays/          outputs that are arrays, where their files are not the arrays' bytes
//!   fetched/         inputs that were fetched, until they are moved into the workspace
//!   packed/          outputs that are directories, as archives
//!   sent/            outputs that are arrays, as files that tell their shapes
//!   addresses        which addresses outputs have; `delivered`: where they were brought
//!   plan             its plan, if that is too long for its record
//!   stdout, stderr   its log, where the plan does not redirect them into the workspace
//!   run              the journal of the executor on this machine
//!   manifest         what the job is, for when its record is lost
//!   handed-out       there, once its outputs were given to somebody
//!   taken            which of its outputs are those of an equal job
//! ```
//!
//! Directories of removed jobs are kept for the next ones in `spare/` beside the jobs' common
//! parent, if that is there.
//!
//! - [`prepare`](mod@prepare): inputs and staged files in
//! - [`read_log`], [`progress`]: while it runs
//! - [`collect`](mod@collect), [`open_output`]: outputs and the judgement of the logs
//! - [`remove`]: all of it gone; `removal`: what may go without a record

mod arrays;
mod beneath;
mod collect;
mod directories;
mod directory_cache;
mod manifest;
mod prepare;
mod removal;
mod size;
mod streams;
mod strip;
mod take;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use collect::collect;
pub(crate) use directory_cache::create as make_directory_cache;
pub use manifest::Manifest;
pub(crate) use prepare::make_directories;
pub use prepare::{PrepareError, prepare};
pub(crate) use removal::{
    DirectoryLock, Unrecorded, hold, is_going, is_lost, listed, mark, put_aside, remove_going,
    sweep, unmark,
};
pub use size::disk_use;
pub(crate) use size::{taken_since, workspace_use};
pub use streams::{MOST_LOG_READ, OutputStream, log_length, progress, read_log};
pub(crate) use strip::strip;
pub(crate) use take::{give_back_outputs, take_outputs};

use fishplate_programs::plan::Plan;

/// The file of a job's directory that tells whether its outputs were given to somebody.
pub(crate) const HANDED_OUT: &str = "handed-out";

/// The workspace in a job's directory.
pub fn work(directory: &Path) -> PathBuf {
    directory.join("work")
}

/// Opens an output that [`collect`](mod@collect) found, by its path in the workspace. Follows no symbolic link
/// and opens regular files only.
///
/// # Errors
/// The file is not there, or not a regular file of the workspace.
pub fn open_output(directory: &Path, path: &str) -> io::Result<File> {
    beneath::open_regular(&work(directory), path)
}

/// Opens a file of a workspace as a place, neither for reading nor for writing.
pub(crate) fn open_path(work: &Path, path: &str) -> io::Result<File> {
    beneath::open_place(work, path)
}

/// Opens a regular file of a workspace for reading.
pub(crate) fn open_file(work: &Path, path: &str) -> io::Result<File> {
    beneath::open_regular(work, path)
}

/// Gives an input that others hold too to the program alone: a copy takes its place.
pub(crate) fn make_private_input(directory: &Path, path: &str) -> io::Result<()> {
    let (root, draft) = (work(directory), format!("{path}.private"));
    let mut source = beneath::open_regular(&root, path)?;
    // Of a start that was broken off.
    let _ = std::fs::remove_file(root.join(&draft));
    let mut copy = beneath::create_new(&root, &draft)?;
    io::copy(&mut source, &mut copy)?;
    // What is there makes room, and nothing else may be in the way of a rename.
    beneath::replace(&root, &draft, path)
}

/// Removes a job's directory and all that is in it, or hands it on to another job, emptied. Not an
/// error if it is not there. No process of the job may be left.
///
/// # Errors
/// Something in it can't be removed.
pub fn remove(directory: &Path) -> io::Result<()> {
    if empty(&work(directory)).unwrap_or(false) && directory_cache::put(directory) {
        return Ok(());
    }
    remove_tree(directory)
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // A program may have taken the right to write from its own directories.
            size::grant_directories(directory)?;
            std::fs::remove_dir_all(directory)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Cuts logs that ran over to what they may hold.
pub(crate) fn cut_logs(directory: &Path, log_size: u64) {
    for log in ["stdout", "stderr"] {
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let Ok(file) = options.open(directory.join(log)) else { continue };
        if file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > log_size) {
            // Not to be cut means to be kept whole.
            let _ = file.set_len(log_size);
        }
    }
}

/// Removes what is in a directory; `false` if it is none. A program can put a link in its place.
fn empty(directory: &Path) -> io::Result<bool> {
    if !std::fs::symlink_metadata(directory)?.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(true)
}

/// Where a stream of the program goes.
pub(crate) fn stream_path(plan: &Plan, directory: &Path, stream: OutputStream) -> PathBuf {
    let (redirected, log) = match stream {
        OutputStream::Stdout => (&plan.stdout, "stdout"),
        OutputStream::Stderr => (&plan.stderr, "stderr"),
    };
    match redirected {
        Some(file) => work(directory).join(file),
        None => directory.join(log),
    }
}

/// The program's standard input.
///
/// # Errors
/// The file is not there.
pub(crate) fn open_stdin(plan: &Plan, directory: &Path) -> io::Result<Option<File>> {
    plan.stdin.as_ref().map(|file| beneath::open_regular(&work(directory), file)).transpose()
}

/// The file that takes a stream of the program: new and empty.
///
/// # Errors
/// It can't be created.
pub(crate) fn create_stream(
    plan: &Plan,
    directory: &Path,
    stream: OutputStream,
) -> io::Result<File> {
    let (redirected, log) = match stream {
        OutputStream::Stdout => (&plan.stdout, "stdout"),
        OutputStream::Stderr => (&plan.stderr, "stderr"),
    };
    match redirected {
        // Not for appending: a program may seek in what it takes for a file of its own.
        Some(file) => beneath::create(&work(directory), file, 0o600),
        // For appending, so that a log cut to its limit stays one without a hole.
        None => File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(directory.join(log)),
    }
}
