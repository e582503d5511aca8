//! The journal of one job, the file `run` in its directory: who runs it, what was started, how it
//! ended. One JSON record a line, each written by one `write`.
//!
//! Whoever may start or end the job's program holds a lock on the open file (`F_OFD_SETLK`). The
//! kernel frees it when the last process that has the file open is gone, and the program's own
//! process has it open until it is executed. So a free lock proves that its holder is dead, and
//! that nothing is between fork and exec.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use serde::{Deserialize, Serialize};

use super::message::StartRefusal;
use super::procfs::{ProcessId, io};
use crate::executor::{NOTE, ProgramExit};
use crate::process::boot;

/// Bytes kept for what follows the intent: the start, a request to end it, the end without its
/// outputs.
const ROOM: u64 = 2 << 10;

/// Bytes of a journal without records: none, or a line's end where its directory was another job's.
const EMPTY: u64 = 1;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "lowercase")]
pub(super) enum JournalEntry {
    /// The workspace is being made ready; nothing was started.
    Preparing(JobOwner),
    /// The program is about to be started.
    Intent(JobOwner),
    /// The program was started.
    Started {
        /// Its process.
        program: ProcessId,
        /// When, in milliseconds since 1970.
        time: i64,
    },
    /// It was certainly not started.
    Refused {
        /// The fence under which it was tried.
        fence: u64,
        /// What was in the way.
        refusal: StartRefusal,
    },
    /// Somebody asked for its end.
    Cancel {
        /// When, in milliseconds since 1970.
        time: i64,
    },
    /// Whoever cares for the job has begun to end it, as was asked.
    Ending,
    /// Its program and all it left behind have ended.
    Ended {
        /// Status, usage, and what was collected.
        ending: Box<ProgramExit>,
    },
}

/// Who starts a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct JobOwner {
    /// The fence under which it was ordered.
    pub(super) fence: u64,
    /// The boot of the machine.
    pub(super) boot: String,
    /// The runner.
    #[serde(rename = "worker")]
    pub(super) runner: ProcessId,
    /// The supervisor, which goes on if the runner dies.
    #[serde(rename = "keeper")]
    pub(super) supervisor: ProcessId,
    /// The control group of the job, if it has one.
    pub(super) cgroup: Option<PathBuf>,
    /// Seconds between SIGTERM and SIGKILL when it is ended.
    pub(super) grace: f64,
}

/// What a journal says, all records taken together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JournalState {
    pub(super) author: JobOwner,
    pub(super) phase: Phase,
    /// Somebody asked for its end,
    pub(super) cancelled: bool,
    /// and whoever cares for the job knows.
    pub(super) ending: bool,
}

/// How far a job got.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Preparing,
    Intent,
    Started { program: ProcessId, time: i64 },
    Refused(StartRefusal),
    Ended(Box<ProgramExit>),
}

impl JournalState {
    /// Whether a start under this fence may follow what is in the journal, its lock being held.
    fn may_start(&self, fence: u64) -> bool {
        self.author.fence <= fence && matches!(self.phase, Phase::Preparing | Phase::Refused(_))
    }

    /// Whether it was written since the machine was booted.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.author.boot == boot()
    }
}

/// A journal whose lock is held.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// The right to start a job: at most one start of it goes past here. `None` if it was started
    /// or somebody is about to.
    pub(super) fn claim(directory: &Path, fence: u64) -> io::Result<Option<Self>> {
        let file = options().create(true).open(path(directory))?;
        if !lock(&file)? {
            return Ok(None);
        }
        let mut journal = Self { file };
        if journal.file.metadata()?.len() <= EMPTY {
            return Ok(Some(journal));
        }
        let free = journal.run()?.is_none_or(|run| run.may_start(fence));
        Ok(free.then_some(journal))
    }

    /// The journal of a job whose runner is dead.
    pub(super) fn take_over(directory: &Path) -> io::Result<TakeoverResult> {
        match options().open(path(directory)) {
            Ok(file) if lock(&file)? => Ok(TakeoverResult::Ours(Self { file })),
            Ok(_) => Ok(TakeoverResult::Held),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TakeoverResult::Missing),
            Err(error) => Err(error),
        }
    }

    /// What it says.
    pub(super) fn run(&mut self) -> io::Result<Option<JournalState>> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut bytes)?;
        Ok(understand(&bytes))
    }

    /// Adds a record.
    pub(super) fn write(&mut self, record: &JournalEntry) -> io::Result<()> {
        append(&mut self.file, b"", record)
    }

    /// Adds a record where the one before may be torn: its writer is dead, or had no room.
    pub(super) fn write_after_death(&mut self, record: &JournalEntry) -> io::Result<()> {
        append(&mut self.file, b"\n", record)
    }

    /// Keeps room on the disk for the records to come, so that the end can be noted however full
    /// it is by then. The file does not become longer: what is read is what was written.
    pub(super) fn keep_room(&self) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        let needed = metadata.len() + ROOM;
        // The block of the first record has the room, nearly everywhere.
        if metadata.blocks() * 512 >= needed {
            return Ok(());
        }
        let length = i64::try_from(needed).unwrap_or(i64::MAX);
        match fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length) {
            // Some file systems can't keep room; then it is as it is.
            Err(nix::Error::EOPNOTSUPP | nix::Error::ENOSYS) => Ok(()),
            done => done.map_err(io),
        }
    }
}

/// What came of taking a journal over.
#[derive(Debug)]
pub(super) enum TakeoverResult {
    /// Its lock is ours.
    Ours(Journal),
    /// Somebody holds it, maybe for a moment only: try again.
    Held,
    /// There is none (any more).
    Missing,
}

/// What a job's journal says, and whether its lock is held.
#[derive(Debug)]
pub(super) struct JournalReading {
    /// `None` if the journal has no whole record (yet).
    pub(super) run: Option<JournalState>,
    /// Somebody who may start or end the job is alive.
    pub(super) held: bool,
}

/// Reads a journal without touching its lock. `None` if there is none.
pub(super) fn read(directory: &Path) -> io::Result<Option<JournalReading>> {
    let mut file = match options().open(path(directory)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The lock first: what its holder wrote before it died is then seen.
    let held = is_held(&file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(JournalReading { run: understand(&bytes), held }))
}

/// Notes in the journal that somebody asked for the job's end.
pub(super) fn note_cancel(directory: &Path, time: i64) -> io::Result<()> {
    append(&mut options().open(path(directory))?, b"", &JournalEntry::Cancel { time })
}

fn path(directory: &Path) -> PathBuf {
    directory.join(NOTE)
}

fn options() -> std::fs::OpenOptions {
    let mut options = File::options();
    options.read(true).append(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

fn append(file: &mut File, before: &[u8], record: &JournalEntry) -> io::Result<()> {
    let mut line = before.to_vec();
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    let written = file.write_all(&line);
    if written.is_err() {
        // A full disk takes a part of it, and so the room that a shorter record could still have.
        let _ = cut_torn(file);
    }
    written
}

/// Cuts off the end of a journal that is no whole line.
fn cut_torn(file: &mut File) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() { file.set_len(whole as u64) } else { Ok(()) }
}

fn understand(bytes: &[u8]) -> Option<JournalState> {
    // A line without its end was torn when its writer was killed; the next begins a new one.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut run: Option<JournalState> = None;
    for line in bytes[..whole].split(|byte| *byte == b'\n') {
        let Ok(record) = serde_json::from_slice(line) else { continue };
        match (record, &mut run) {
            (JournalEntry::Preparing(author), _) => {
                run = Some(JournalState {
                    author,
                    phase: Phase::Preparing,
                    cancelled: false,
                    ending: false,
                });
            }
            (JournalEntry::Intent(author), _) => {
                run = Some(JournalState {
                    author,
                    phase: Phase::Intent,
                    cancelled: false,
                    ending: false,
                });
            }
            // The first end is the end.
            (_, Some(JournalState { phase: Phase::Ended(_), .. })) | (_, None) => {}
            (JournalEntry::Started { program, time }, Some(run)) => {
                run.phase = Phase::Started { program, time };
            }
            // What was started was not refused, whoever believes it.
            (
                JournalEntry::Refused { .. },
                Some(JournalState { phase: Phase::Started { .. }, .. }),
            ) => {}
            (JournalEntry::Refused { refusal, .. }, Some(run)) => {
                run.phase = Phase::Refused(refusal);
            }
            (JournalEntry::Cancel { .. }, Some(run)) => run.cancelled = true,
            (JournalEntry::Ending, Some(run)) => run.ending = true,
            (JournalEntry::Ended { ending }, Some(run)) => run.phase = Phase::Ended(ending),
        }
    }
    run
}

#[expect(clippy::cast_possible_truncation, reason = "the constants are wider than the field")]
const WRITE: libc::c_short = libc::F_WRLCK as libc::c_short;
#[expect(clippy::cast_possible_truncation, reason = "as above")]
const UNLOCKED: libc::c_short = libc::F_UNLCK as libc::c_short;

fn region() -> libc::flock {
    // The whole file; OFD locks want a process ID of zero.
    libc::flock { l_type: WRITE, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Takes the lock if it is free.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&region())) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(error) => Err(io(error)),
    }
}

fn is_held(file: &File) -> io::Result<bool> {
    let mut region = region();
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut region)).map_err(io)?;
    Ok(region.l_type != UNLOCKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(fence: u64) -> JobOwner {
        let nobody = ProcessId { pid: 1, start: 1 };
        JobOwner {
            fence,
            boot: boot().to_owned(),
            runner: nobody,
            supervisor: nobody,
            cgroup: None,
            grace: 0.0,
        }
    }

    fn refused(fence: u64) -> JournalEntry {
        JournalEntry::Refused { fence, refusal: StartRefusal::NotStarted("busy".to_owned()) }
    }

    #[test]
    fn a_start_is_claimed_once_while_held_and_once_started() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = Journal::claim(directory.path(), 1).unwrap().unwrap();
        assert!(Journal::claim(directory.path(), 2).unwrap().is_none(), "held");
        first.write(&JournalEntry::Intent(author(1))).unwrap();
        drop(first);
        assert!(Journal::claim(directory.path(), 2).unwrap().is_none(), "an intent is for good");
    }

    #[test]
    fn a_refused_start_may_be_tried_again_but_not_under_an_older_fence() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 5).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(5))).unwrap();
        journal.write(&refused(5)).unwrap();
        drop(journal);
        assert!(Journal::claim(directory.path(), 4).unwrap().is_none());
        let mut again = Journal::claim(directory.path(), 6).unwrap().unwrap();
        again.write(&JournalEntry::Preparing(author(6))).unwrap();
        let reading = read(directory.path()).unwrap().unwrap();
        assert!(reading.held);
        assert_eq!(reading.run.unwrap().phase, Phase::Preparing);
    }

    #[test]
    fn a_torn_record_is_as_if_it_had_not_been_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(1))).unwrap();
        journal.file.write_all(b"{\"at\":\"ended\",\"ending\":{\"star").unwrap();
        assert_eq!(journal.run().unwrap().unwrap().phase, Phase::Intent);
        let ending = Box::new(ProgramExit { swept: 3, ..ProgramExit::default() });
        journal.write_after_death(&JournalEntry::Ended { ending: ending.clone() }).unwrap();
        journal.write_after_death(&JournalEntry::Ended { ending: Box::default() }).unwrap();
        assert_eq!(journal.run().unwrap().unwrap().phase, Phase::Ended(ending), "the first counts");
    }

    #[test]
    fn what_was_started_is_not_refused_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(1))).unwrap();
        let program = ProcessId { pid: 2, start: 2 };
        journal.write(&JournalEntry::Started { program, time: 7 }).unwrap();
        journal.write_after_death(&refused(1)).unwrap();
        assert_eq!(journal.run().unwrap().unwrap().phase, Phase::Started { program, time: 7 });
        drop(journal);
        assert!(Journal::claim(directory.path(), 2).unwrap().is_none(), "it is not started again");
    }

    #[test]
    fn room_is_kept_beyond_what_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(1))).unwrap();
        let len = journal.file.metadata().unwrap().len();
        journal.file.set_len(1 << 20).unwrap();
        journal.keep_room().unwrap();
        let metadata = journal.file.metadata().unwrap();
        assert_eq!(metadata.len(), 1 << 20);
        assert!(metadata.blocks() * 512 >= (1 << 20) + ROOM, "{metadata:?}");
        journal.file.set_len(len).unwrap();
        journal.write(&JournalEntry::Ending).unwrap();
        assert!(journal.run().unwrap().unwrap().ending);
    }

    #[test]
    fn what_a_full_disk_took_of_a_record_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(1))).unwrap();
        let len = journal.file.metadata().unwrap().len();
        for torn in [&b"{\"at\":\"ended\",\"ending\":{"[..], b""] {
            journal.file.write_all(torn).unwrap();
            cut_torn(&mut journal.file).unwrap();
            assert_eq!(journal.file.metadata().unwrap().len(), len);
        }
        journal.write(&JournalEntry::Ended { ending: Box::default() }).unwrap();
        assert_eq!(journal.run().unwrap().unwrap().phase, Phase::Ended(Box::default()));
    }

    #[test]
    fn a_request_to_end_it_is_seen_by_whoever_reads_next() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&JournalEntry::Intent(author(1))).unwrap();
        note_cancel(directory.path(), 5).unwrap();
        assert!(journal.run().unwrap().unwrap().cancelled);
        drop(journal);
        assert!(!read(directory.path()).unwrap().unwrap().held);
    }
}
