//! The pool and sessions as processes see them: several at a time, killed, on full disks.

mod full;
mod killing;
mod placing;
mod sharing;
#[path = "../../../../tests/skipped.rs"]
mod skipped;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fishplate_contract::{Digest, Principal};

pub(crate) use skipped::skipped;

/// Tells a child of a test where to work.
const PLACE: &str = "FISHPLATE_TEST_PLACE";

/// Runs a test of this binary, which is ignored otherwise, in a process of its own.
fn child(test: &str, place: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).stdout(Stdio::piped());
    command
}

/// Where a child was told to work.
fn place() -> PathBuf {
    std::env::var_os(PLACE).expect("a child's place").into()
}

/// Kills with -9.
fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn sha256(bytes: &[u8]) -> Digest {
    let value = ring::digest::digest(&ring::digest::SHA256, bytes);
    Digest::Sha256(value.as_ref().try_into().unwrap())
}

fn owner(number: usize) -> Principal {
    Principal::named(format!("owner {number}"))
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Whether this may mount file systems; says so if not.
fn may_mount() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skipped("root", "only root may mount a file system");
    }
    root
}

/// A file system that is mounted as long as this lives.
struct Mount(PathBuf);

impl Mount {
    fn new(words: &[&str], at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(words).arg(at).output().unwrap();
        if !mounted.status.success() {
            let reason = String::from_utf8_lossy(&mounted.stderr);
            skipped("mounts", &format!("this machine does not mount {words:?}: {reason}"));
            return None;
        }
        Some(Self(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
