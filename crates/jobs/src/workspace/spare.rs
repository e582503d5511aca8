//! Directories of removed jobs, kept for the next jobs: `spare/` beside `jobs/`.
//!
//! A directory with a workspace, two logs and a journal is five files to create and five to
//! delete. Handing it on is one rename each way. That is a good part of a short job's cost on any
//! file system, and most of it on ext4 without a journal, which looks through all that was deleted
//! in the last minute before it creates a file.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most directories kept.
const MOST: usize = 64;

/// How many places are tried before a directory is made or deleted after all.
const TRIES: usize = 10;

/// The record that makes all before it in a journal void.
pub(crate) const NEW_JOURNAL: &[u8] = b"{\"at\":\"new\"}\n";

/// A journal is gone on with up to this length, then emptied: freeing blocks is what costs.
const LONGEST_JOURNAL: u64 = 16 << 10;

/// Blocks of the disk, and how much of one a job's records need: so that a job whose start could
/// be noted can be concluded on a full disk too, its journal does not begin near a block's end.
const BLOCK: u64 = 4096;
const RECORDS: u64 = 1536;

/// Makes the place for spare directories in a data directory. Without it none are kept.
pub(crate) fn make_place(data: &Path) -> io::Result<()> {
    super::prepare::make_private(&data.join("spare"))
}

/// Turns a spare directory into that of a new job. `false`: there is none, or the job has one.
pub(super) fn take(directory: &Path) -> bool {
    let Some(place) = place(directory) else { return false };
    // Each process goes its own round, so that they seldom meet.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    (0..TRIES).any(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % MOST;
        fs::rename(place.join(number.to_string()), directory).is_ok()
    })
}

/// Turns the directory of a job into a spare one, if it can pass for new. The workspace in it is
/// empty already.
pub(super) fn put(directory: &Path) -> bool {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(place) = place(directory) else { return false };
    if !renew(directory).unwrap_or(false) {
        return false;
    }
    (0..TRIES).any(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % MOST;
        // Fails if there is one: a directory replaces an empty one only.
        fs::rename(directory, place.join(number.to_string())).is_ok()
    })
}

/// Makes a directory, with an empty workspace, as if it were new; `false` if a program changed more of it than its contents.
fn renew(directory: &Path) -> io::Result<bool> {
    let mut logs = Vec::new();
    let mut journal = None;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let permissions = metadata.mode() & 0o7777;
        match entry.file_name().to_str() {
            Some("work") if metadata.is_dir() && permissions == 0o700 => {}
            Some("run" | "stdout" | "stderr")
                if metadata.is_file() && permissions == 0o600 && metadata.nlink() == 1 =>
            {
                if metadata.len() > 0 {
                    match entry.file_name().to_str() {
                        Some("run") if metadata.len() < LONGEST_JOURNAL => {
                            journal = Some((entry.path(), metadata.len()));
                        }
                        _ => logs.push(entry.path()),
                    }
                }
            }
            _ => return Ok(false),
        }
    }
    for log in logs {
        nix::unistd::truncate(&log, 0)?;
    }
    if let Some((journal, length)) = journal {
        let mut record = vec![b'\n'];
        let used = (length + 1 + NEW_JOURNAL.len() as u64) % BLOCK;
        if used > BLOCK - RECORDS {
            record.extend((used..BLOCK).map(|_| b' '));
        }
        record.extend_from_slice(NEW_JOURNAL);
        fs::File::options().append(true).open(journal)?.write_all(&record)?;
    }
    Ok(true)
}

fn place(directory: &Path) -> Option<PathBuf> {
    Some(directory.parent()?.parent()?.join("spare"))
}
