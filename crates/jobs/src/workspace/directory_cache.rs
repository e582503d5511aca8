//! Directories of removed jobs, kept for the next jobs: `spare/` beside `jobs/`.
//!
//! A directory with a workspace, two logs and a journal is five files to create and five to
//! delete. Handing it on is one rename each way. That is a good part of a short job's cost on any
//! file system, and most of it on ext4 without a journal, which looks through all that was deleted
//! in the last minute before it creates a file.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{HANDED_OUT, manifest, removal};
use crate::executor::NOTE;

/// Most directories kept.
const MOST: usize = 64;

/// How many places are tried before a directory is made or deleted after all.
const TRIES: usize = 10;

/// Makes the place for spare directories in a data directory. Without it none are kept.
pub(crate) fn create(data: &Path) -> io::Result<()> {
    super::prepare::make_private(&data.join("spare"))
}

/// Turns a spare directory into that of a new job. `false`: there is none, or the job has one.
pub(super) fn take(directory: &Path) -> bool {
    let Some(place) = place(directory) else { return false };
    // Each process goes its own round, so that they seldom meet.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..TRIES {
        let number = (start() + NEXT.fetch_add(1, Ordering::Relaxed)) % MOST;
        match fs::rename(place.join(number.to_string()), directory) {
            Ok(()) => return true,
            // The job has one, whether or not there is a spare one here.
            Err(_) if directory.exists() => return false,
            Err(_) => {}
        }
    }
    false
}

/// Turns the directory of a job into a spare one, if it can pass for new. The workspace in it is
/// empty already.
pub(super) fn put(directory: &Path) -> bool {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(place) = place(directory) else { return false };
    if !renew(directory).unwrap_or(false) {
        return false;
    }
    removal::unmark(directory);
    (0..TRIES).any(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % MOST;
        // Fails if there is one: a directory replaces an empty one only.
        fs::rename(directory, place.join(number.to_string())).is_ok()
    })
}

/// Makes a directory as if it were new; `false` if a program changed more of it than its contents.
fn renew(directory: &Path) -> io::Result<bool> {
    let (mut logs, mut marks) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let permissions = metadata.mode() & 0o7777;
        match entry.file_name().to_str() {
            Some("work") if metadata.is_dir() && permissions == 0o700 => {}
            Some(NOTE | "stdout" | "stderr")
                if metadata.is_file() && permissions == 0o600 && metadata.nlink() == 1 =>
            {
                if metadata.len() > 0 {
                    logs.push(entry.path());
                }
            }
            Some(name)
                if (manifest::is_manifest(name) || name == HANDED_OUT) && metadata.is_file() =>
            {
                marks.push(entry.path());
            }
            _ => return Ok(false),
        }
    }
    for log in logs {
        if log.ends_with(NOTE) {
            renew_journal(&log)?;
        } else {
            nix::unistd::truncate(&log, 0)?;
        }
    }
    marks.into_iter().try_for_each(fs::remove_file)?;
    Ok(true)
}

/// Cuts a journal to an empty line, which means nothing in it. Not to nothing: ext4 takes a file
/// that was cut to nothing and written anew for a careless replacement, and flushes it to the disk
/// when it is closed (`auto_da_alloc`): that is a wait for the disk a job.
fn renew_journal(path: &Path) -> io::Result<()> {
    let journal = fs::File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    journal.set_len(1)?;
    journal.write_all_at(b"\n", 0)
}

/// Where this process begins its round: elsewhere than the others, so that they do not go in step.
fn start() -> usize {
    std::process::id() as usize * 13
}

fn place(directory: &Path) -> Option<PathBuf> {
    Some(directory.parent()?.parent()?.join("spare"))
}
