//! An output where its program left it.

use std::path::{Path, PathBuf};

use fishplate_contract::Held;

/// A file of a job's workspace. It stays there until the job is removed, whoever drops this.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    len: u64,
}

impl OutputFile {
    pub(super) fn new(path: PathBuf, len: u64) -> Self {
        Self { path, len }
    }
}

impl Held for OutputFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {}
}
