//! A small file system of its own for a directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skipped::skipped;

/// A small disk at a directory, gone when it is dropped.
pub(crate) struct Disk(PathBuf);

/// Puts a disk of so many MiB at a directory. `None`, with a word why, if this user can't.
pub(crate) fn small(at: &Path, mebibytes: u32) -> Option<Disk> {
    std::fs::create_dir_all(at).unwrap();
    let size = format!("size={mebibytes}m,mode=0700");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).status();
    if mounted.is_ok_and(|status| status.success()) {
        return Some(Disk(at.to_owned()));
    }
    skipped("root", "only root mounts a small disk");
    None
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
