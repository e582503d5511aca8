//! Which directories may go without a record: those whose end was decided, and those that nobody
//! has accepted a job in yet. What is in all others was somebody's, and stays.
//!
//! A job goes in two steps, its record and then its directory, and whoever does it may be killed in
//! between. So the directory is *marked* first (the sticky bit of its mode): one without a record
//! and without a mark lost its record. And a directory is there before the record of a job that has
//! inputs: whoever accepts it *holds* it meanwhile (a shared `flock`, gone with its process).

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::manifest::Manifest;
use super::prepare::make_private;
use super::work;
use crate::executor::NOTE;

const STICKY: u32 = 0o1000;
const MARKED: u32 = 0o1700;
const UNMARKED: u32 = 0o700;

/// How often a directory is made that others sweep while it is.
const TRIES: u32 = 100;

/// How directories are called that are being removed, beside those of jobs.
const GOING: &str = ".removed-";

/// Notes that a directory is to go, before its record does.
pub(crate) fn mark(directory: &Path) {
    // There may be none, or none yet.
    let _ = fs::set_permissions(directory, Permissions::from_mode(MARKED));
}

/// Takes that back.
pub(crate) fn unmark(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(UNMARKED));
}

/// A job's directory that is held until the job has a record.
#[derive(Debug)]
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "its lock is what counts")] File);

/// Makes a job's directory and holds it. Spare ones are for jobs that have a record already.
pub(crate) fn hold(directory: &Path) -> io::Result<DirectoryLock> {
    for _ in 1..TRIES {
        match try_hold(directory) {
            // It was swept between two of the steps.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            held => return held,
        }
    }
    try_hold(directory)
}

fn try_hold(directory: &Path) -> io::Result<DirectoryLock> {
    make_private(directory)?;
    make_private(&work(directory))?;
    let file = open(directory)?;
    file.lock_shared()?;
    if is_at(&file, directory)? {
        Ok(DirectoryLock(file))
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// What may be done with a directory that has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    /// It is gone.
    Removed,
    /// A job is being accepted in it, or was just now.
    InUse,
    /// It was a job's whose record was lost.
    Lost,
}

/// Removes a directory that had no record, unless it holds something, or somebody has it.
/// `is_recorded` looks again.
pub(crate) fn sweep(directory: &Path, is_recorded: &dyn Fn() -> bool) -> io::Result<Unrecorded> {
    let gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(Unrecorded::Removed),
        _ => Err(error),
    };
    let file = match open(directory) {
        Err(error) => return gone(error),
        Ok(file) => file,
    };
    if !is_marked(&file.metadata()?) {
        if holds_something(directory) {
            // It may have been accepted since somebody looked.
            return Ok(if is_recorded() { Unrecorded::InUse } else { Unrecorded::Lost });
        }
        // From here on nobody begins to accept a job in it.
        if file.try_lock().is_err() || is_recorded() || holds_something(directory) {
            return Ok(Unrecorded::InUse);
        }
    }
    match put_aside(directory).and_then(|going| remove_going(&going)) {
        Err(error) => gone(error),
        Ok(()) => Ok(Unrecorded::Removed),
    }
}

/// Gives a job's directory, marked or not, a name that nobody hands on: [`remove_going`] removes it,
/// whoever else does.
pub(crate) fn put_aside(directory: &Path) -> io::Result<PathBuf> {
    let name = directory.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let going = directory.with_file_name(format!("{GOING}{}", name.to_string_lossy()));
    fs::rename(directory, &going)?;
    Ok(going)
}

/// A directory that somebody was removing, by its name.
pub(crate) fn is_going(name: &str) -> bool {
    name.starts_with(GOING)
}

/// Goes on removing one that [`is_going`].
pub(crate) fn remove_going(directory: &Path) -> io::Result<()> {
    super::remove_tree(directory)
}

/// Whether a directory without a record lost it.
pub(crate) fn is_lost(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|it| !is_marked(&it)) && holds_something(directory)
}

/// Whether a job was accepted here, or an executor wrote something. A directory that was another
/// job's has empty files.
fn holds_something(directory: &Path) -> bool {
    let has = |file: &str, more_than: u64| {
        fs::symlink_metadata(directory.join(file)).is_ok_and(|it| it.len() > more_than)
    };
    // A journal without records is a line's end.
    Manifest::is_in(directory) || has(NOTE, 1) || has("stdout", 0) || has("stderr", 0)
}

fn is_marked(metadata: &Metadata) -> bool {
    metadata.mode() & STICKY != 0
}

fn open(directory: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags).open(directory)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let open = file.metadata()?;
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// The directories of jobs below `jobs`, and those that are being removed.
pub(crate) fn listed(jobs: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(jobs)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("jobs/one");
        (data, directory)
    }

    #[test]
    fn what_nobody_accepted_goes_at_once_and_what_somebody_accepts_stays() {
        let (_data, directory) = directory();
        let held = hold(&directory).unwrap();
        fs::write(directory.join("work/input"), "half").unwrap();
        assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::InUse);
        drop(held);
        assert_eq!(sweep(&directory, &|| true).unwrap(), Unrecorded::InUse);
        assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::Removed);
        assert!(!directory.exists());
        assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::Removed);
    }

    #[test]
    fn nothing_of_a_job_that_is_being_accepted_is_swept() {
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        let (_data, jobs) = directory();
        for round in 0..300 {
            let directory = &jobs.join(round.to_string());
            let recorded = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for _ in 0..5 {
                        sweep(directory, &|| recorded.load(SeqCst)).unwrap();
                    }
                });
                let held = hold(directory).unwrap();
                let placed = fs::write(directory.join("work/input"), "whole");
                recorded.store(true, SeqCst);
                drop(held);
                placed.unwrap();
            });
            assert!(directory.join("work/input").exists(), "round {round}");
        }
    }

    #[test]
    fn what_was_accepted_or_started_stays_unless_its_end_was_decided() {
        for (file, text) in [("manifest", "{"), ("run", "{}\n"), ("stdout", "x"), ("stderr", "x")] {
            let (_data, directory) = directory();
            super::super::make_directories(&directory).unwrap();
            fs::write(directory.join(file), text).unwrap();
            assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::Lost, "{file}");
            mark(&directory);
            unmark(&directory);
            assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::Lost, "{file}");
            mark(&directory);
            assert_eq!(sweep(&directory, &|| false).unwrap(), Unrecorded::Removed, "{file}");
            assert_eq!(fs::read_dir(directory.parent().unwrap()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_that_was_handed_on_holds_nothing_and_is_not_marked() {
        let (data, directory) = directory();
        super::super::make_directory_cache(data.path()).unwrap();
        super::super::make_directories(&directory).unwrap();
        fs::write(directory.join("run"), "{}\n").unwrap();
        mark(&directory);
        for file in ["run", "stdout", "stderr"] {
            fs::write(directory.join(file), "{}\n").unwrap();
            fs::set_permissions(directory.join(file), Permissions::from_mode(0o600)).unwrap();
        }
        super::super::remove(&directory).unwrap();
        let spare = data.path().join("spare");
        assert_eq!(fs::read_dir(&spare).unwrap().count(), 1);
        let handed_on = fs::read_dir(&spare).unwrap().next().unwrap().unwrap().path();
        fs::rename(handed_on, &directory).unwrap();
        assert!(!is_marked(&fs::metadata(&directory).unwrap()));
        assert!(!holds_something(&directory));
    }
}
