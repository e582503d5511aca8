//! Files that agents send, as they come: where they go is decided here, and how large they may be.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::fleet::Speaker;
use crate::agent::files;
use crate::agent::message::FileKind;
use crate::experiment::Experiment;
use crate::record::CellDirectory;

/// What the audit's program wrote.
pub(super) const AUDIT: &str = "audit";

/// Files that are being received.
#[derive(Debug)]
pub(super) struct ReceivedFiles {
    open: BTreeMap<PathBuf, (BufWriter<File>, u64)>,
    /// Bytes that one may have.
    most: u64,
}

impl ReceivedFiles {
    pub(super) fn new(most: u64) -> Self {
        Self { open: BTreeMap::new(), most }
    }

    /// Adds a part.
    ///
    /// # Errors
    /// It can't be written, is none, or too much; or there is no such file.
    pub(super) fn add(&mut self, path: &Path, bytes: &str) -> io::Result<()> {
        if !self.open.contains_key(path) {
            let file = BufWriter::new(File::create(path)?);
            self.open.insert(path.to_owned(), (file, 0));
        }
        let (file, length) = self.open.get_mut(path).expect("it was put there");
        *length += files::receive(bytes, file)?;
        if *length > self.most {
            let most = self.most;
            let what =
                format!("{} has more than {most} bytes (limits.requests_size)", path.display());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        Ok(())
    }

    /// All that were sent are whole.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.open).into_values().try_for_each(|(mut file, _)| file.flush())
    }
}

/// Where an agent's file goes; nowhere, if it has no such file.
pub(super) fn place(
    of: &FileKind,
    speaker: Speaker,
    directory: &CellDirectory,
    experiment: &Experiment,
) -> Option<PathBuf> {
    match (of, speaker) {
        (FileKind::Requests, Speaker::Client(agent)) => Some(requests(directory, agent)),
        (FileKind::Output, Speaker::System) => Some(directory.path().join(AUDIT)),
        (FileKind::Log(process), Speaker::System) => {
            let known = experiment.system.process.contains_key(process);
            known.then(|| directory.log().join(process))
        }
        _ => None,
    }
}

/// Where it is noted what became of each request of an agent.
pub(super) fn requests(directory: &CellDirectory, agent: u32) -> PathBuf {
    match agent {
        0 => directory.requests(),
        _ => directory.requests().with_extension(format!("{agent}.bin")),
    }
}
