//! Directories of delivered jobs, emptied and kept for the next: making and removing a job's
//! directory, its workspace and its three files costs more than all else that is done for a short
//! program, and on some file systems grows with the number removed lately.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{holder, lock};
use crate::workspace;

/// The most that are kept.
const MOST: usize = 64;

/// The spare directories of one engine, in a directory of its own that is named after the process,
/// so that what a killed one left is found and removed.
#[derive(Debug)]
pub(super) struct Spares {
    root: PathBuf,
    ready: Mutex<Vec<PathBuf>>,
    next: AtomicU64,
}

impl Spares {
    pub(super) fn open(data: &Path, holder: &str) -> io::Result<Self> {
        let all = data.join("spare");
        fs::create_dir_all(&all)?;
        for entry in fs::read_dir(&all)?.flatten() {
            if holder::is_dead(&entry.file_name().to_string_lossy().replace('_', "/")) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let root = all.join(holder.replace('/', "_"));
        fs::create_dir_all(&root)?;
        Ok(Self { root, ready: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// Puts a spare directory in a new job's place, if there is one; else the job's own is made
    /// when it is started.
    pub(super) fn give(&self, directory: &Path) {
        while let Some(spare) = lock(&self.ready).pop() {
            if fs::rename(spare, directory).is_ok() {
                return;
            }
        }
    }

    /// Frees what a removed job occupied: keeps its emptied directory, or removes it.
    pub(super) fn take(&self, directory: &Path) -> io::Result<()> {
        if lock(&self.ready).len() < MOST && workspace::empty(directory).unwrap_or(false) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let spare = self.root.join(number.to_string());
            if fs::rename(directory, &spare).is_ok() {
                lock(&self.ready).push(spare);
                return Ok(());
            }
        }
        workspace::remove(directory)
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(data: &Path, name: &str, extra: &[&str]) -> PathBuf {
        let directory = data.join("jobs").join(name);
        fs::create_dir_all(directory.join("work")).unwrap();
        for file in ["run", "stdout", "stderr"].iter().chain(extra) {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "of the job before").unwrap();
        }
        directory
    }

    fn left(directory: &Path) -> Vec<(String, u64)> {
        let mut left = Vec::new();
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let data = entry.metadata().unwrap();
            if data.is_dir() {
                assert_eq!(fs::read_dir(entry.path()).unwrap().count(), 0);
            } else {
                left.push((entry.file_name().into_string().unwrap(), data.len()));
            }
        }
        left.sort();
        left
    }

    #[test]
    fn nothing_of_a_job_is_in_the_next_ones_directory() {
        let data = tempfile::tempdir().unwrap();
        let spares = Spares::open(data.path(), &holder::this_process()).unwrap();
        let old = used(data.path(), "old", &["work/result", "work/mesh"]);
        spares.take(&old).unwrap();
        assert!(!old.exists());
        let new = data.path().join("jobs/new");
        spares.give(&new);
        let empty = |name: &str| (name.to_owned(), 0);
        assert_eq!(left(&new), [empty("run"), empty("stderr"), empty("stdout")]);
    }

    #[test]
    fn a_directory_that_is_not_plain_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let spares = Spares::open(data.path(), &holder::this_process()).unwrap();
        let cases: [&[&str]; 2] = [&["work/case/0/U"], &["something.else"]];
        for extra in cases {
            let old = used(data.path(), "old", extra);
            spares.take(&old).unwrap();
            assert!(!old.exists() && lock(&spares.ready).is_empty(), "{extra:?}");
        }
        let linked = used(data.path(), "linked", &[]);
        fs::hard_link(linked.join("stdout"), data.path().join("somebody-elses")).unwrap();
        spares.take(&linked).unwrap();
        assert!(lock(&spares.ready).is_empty(), "a file that has another name is not ours alone");
    }

    #[test]
    fn no_more_than_a_few_are_kept_and_a_dead_process_leaves_none() {
        let data = tempfile::tempdir().unwrap();
        let dead = data.path().join("spare/00000000-0000-0000-0000-000000000000_1_1_0/7");
        fs::create_dir_all(&dead).unwrap();
        let spares = Spares::open(data.path(), &holder::this_process()).unwrap();
        assert!(!dead.exists());
        for n in 0..MOST + 3 {
            spares.take(&used(data.path(), &n.to_string(), &[])).unwrap();
        }
        assert_eq!(lock(&spares.ready).len(), MOST);
        let root = spares.root.clone();
        drop(spares);
        assert!(!root.exists());
    }
}
