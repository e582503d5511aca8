//! The files of a run: written line by line while it goes on, and read again, also when it was killed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cell, CellOutcome, Event, LoadSecond, SystemSecond};
use crate::experiment::Experiment;

const EXPERIMENT: &str = "experiment.toml";
const INPUTS: &str = "inputs.json";
const LOCK: &str = "lock";
const CELLS: &str = "cells";
pub(crate) const CELL: &str = "cell.json";
pub(crate) const LOAD: &str = "load.jsonl";
const SYSTEM: &str = "system.jsonl";
const EVENTS: &str = "events.jsonl";
const REQUESTS: &str = "requests.bin";
const LOG: &str = "log";
const OUTCOME: &str = "outcome.json";

/// The files of a run can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refused.
    #[error("{} can't be read or written", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{} is damaged, line {line}: {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What was wrong.
        why: String,
    },
    /// It is the directory of another run.
    #[error(
        "{} holds a run of another experiment: take another directory, or the experiment.toml in that one",
        path.display()
    )]
    Another {
        /// The directory.
        path: PathBuf,
    },
    /// What it was run with has changed.
    #[error(
        "{}: since this run began {} changed: take another directory, or have them as they were",
        path.display(),
        files.join(", ")
    )]
    Changed {
        /// The directory.
        path: PathBuf,
        /// Files that the experiment names.
        files: Vec<String>,
    },
    /// Another run writes to it.
    #[error("another run writes to {}: wait for its end, or take another directory", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// It holds no run.
    #[error("{} holds no run: it has no experiment.toml", path.display())]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
}

impl RecordError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// A run of an experiment.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Begins a run, or goes on with one of the same experiment.
    ///
    /// # Errors
    /// If it can't be written, or holds a run of another experiment.
    pub fn create(path: &Path, experiment: &str) -> Result<Self, RecordError> {
        let file = path.join(EXPERIMENT);
        match fs::read_to_string(&file) {
            Ok(before) if before == experiment => {}
            Ok(_) => return Err(RecordError::Another { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path.join(CELLS)).map_err(RecordError::at(path))?;
                replace(&file, experiment.as_bytes())?;
            }
            Err(error) => return Err(RecordError::at(&file)(error)),
        }
        Ok(Self { path: path.to_owned() })
    }

    /// What an experiment's files are when it is begun, by their digests ([`Experiment::inputs`]); later, whether they are
    /// still the same: cells of two experiments are none of one, and a verdict on the one is none on the other.
    ///
    /// # Errors
    /// If they are not, or it can't be read or written.
    pub fn keep_inputs(&self, inputs: &BTreeMap<String, String>) -> Result<(), RecordError> {
        let file = self.path.join(INPUTS);
        if !file.is_file() {
            return replace(&file, &as_json(inputs));
        }
        let before: BTreeMap<String, String> = read_json(&file)?;
        let names: BTreeSet<&String> = before.keys().chain(inputs.keys()).collect();
        let changed = names.into_iter().filter(|name| before.get(*name) != inputs.get(*name));
        let files: Vec<String> = changed.cloned().collect();
        match files.is_empty() {
            true => Ok(()),
            false => Err(RecordError::Changed { path: self.path.clone(), files }),
        }
    }

    /// Keeps other runs from it until the file is dropped: each would remove what the other writes.
    ///
    /// # Errors
    /// If another run writes to it.
    pub fn lock(&self) -> Result<File, RecordError> {
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(RecordError::at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(RecordError::InUse { path: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(RecordError::at(&path)(error)),
        }
    }

    /// One that was begun.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        if path.join(EXPERIMENT).is_file() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(RecordError::NoRun { path: path.to_owned() })
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The experiment, to the letter.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn experiment_text(&self) -> Result<String, RecordError> {
        let file = self.path.join(EXPERIMENT);
        fs::read_to_string(&file).map_err(RecordError::at(&file))
    }

    /// The experiment.
    ///
    /// # Errors
    /// If it can't be read, or is none any more.
    pub fn experiment(&self) -> Result<Experiment, RecordError> {
        let text = self.experiment_text()?;
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let begin = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..begin].iter().filter(|byte| **byte == b'\n').count();
            let path = self.path.join(EXPERIMENT);
            RecordError::Damaged { path, line, why: error.message().to_owned() }
        })
    }

    /// A cell of this name (as `Cell::name` has it), for the `repetition`th time.
    pub fn cell(&self, name: &str, repetition: u64) -> CellDirectory {
        let path = self.path.join(CELLS).join(name).join(repetition.to_string());
        CellDirectory { path, name: name.to_owned(), repetition }
    }

    /// Those that were begun, by name and repetition.
    ///
    /// # Errors
    /// If they can't be listed.
    pub fn cells(&self) -> Result<Vec<CellDirectory>, RecordError> {
        let mut cells = Vec::new();
        for name in names(&self.path.join(CELLS))? {
            for repetition in names(&self.path.join(CELLS).join(&name))? {
                let cell = repetition.parse().ok().map(|repetition| self.cell(&name, repetition));
                cells.extend(cell.filter(|cell| cell.path.join(CELL).is_file()));
            }
        }
        cells.sort_by(|a, b| (&a.name, a.repetition).cmp(&(&b.name, b.repetition)));
        Ok(cells)
    }
}

fn names(directory: &Path) -> Result<Vec<String>, RecordError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RecordError::at(directory)(error)),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().map_err(RecordError::at(directory))
}

/// Writes a file so that whoever reads it finds the old or the new one whole.
fn replace(file: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let new = file.with_extension("new");
    let written = (|| {
        let mut to = File::create(&new)?;
        to.write_all(bytes)?;
        to.sync_all()?;
        fs::rename(&new, file)
    })();
    written.map_err(RecordError::at(file))
}

/// A cell, once.
#[derive(Clone, Debug)]
pub struct CellDirectory {
    path: PathBuf,
    name: String,
    repetition: u64,
}

impl CellDirectory {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As `Cell::name` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From 1.
    pub fn repetition(&self) -> u64 {
        self.repetition
    }

    /// Where it is noted what became of each request.
    pub fn requests(&self) -> PathBuf {
        self.path.join(REQUESTS)
    }

    /// Where processes of the system write.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Whether it need not be run again.
    pub fn is_complete(&self) -> bool {
        self.path.join(OUTCOME).is_file()
    }

    /// Begins it: what an attempt before has left is removed.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn begin(&self, cell: &Cell) -> Result<CellWriter, RecordError> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RecordError::at(&self.path)(error));
            }
            _ => fs::create_dir_all(self.log()).map_err(RecordError::at(&self.path))?,
        }
        replace(&self.path.join(CELL), &as_json(cell))?;
        let lines = |name: &str| {
            let path = self.path.join(name);
            let file = File::create(&path).map_err(RecordError::at(&path))?;
            Ok(LineFile { path, to: BufWriter::new(file) })
        };
        Ok(CellWriter {
            load: lines(LOAD)?,
            system: lines(SYSTEM)?,
            events: lines(EVENTS)?,
            outcome: self.path.join(OUTCOME),
        })
    }

    /// A line of one of its files is JSON, and what it says can't be.
    pub(crate) fn damaged(&self, file: &str, line: usize, why: &dyn ToString) -> RecordError {
        RecordError::Damaged { path: self.path.join(file), line, why: why.to_string() }
    }

    /// Which it is.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn cell(&self) -> Result<Cell, RecordError> {
        read_json(&self.path.join(CELL))
    }

    /// What it came to; none while it is not complete.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn outcome(&self) -> Result<Option<CellOutcome>, RecordError> {
        self.is_complete().then(|| read_json(&self.path.join(OUTCOME))).transpose()
    }

    /// What agents saw, in the order in which they told it.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn load(&self) -> Result<Lines<LoadSecond>, RecordError> {
        Lines::of(self.path.join(LOAD))
    }

    /// What was seen on the host of the system.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn system(&self) -> Result<Lines<SystemSecond>, RecordError> {
        Lines::of(self.path.join(SYSTEM))
    }

    /// What happened.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn events(&self) -> Result<Lines<Event>, RecordError> {
        Lines::of(self.path.join(EVENTS))
    }
}

fn as_json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("records are JSON");
    bytes.push(b'\n');
    bytes
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let bytes = fs::read(path).map_err(RecordError::at(path))?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::Damaged {
        path: path.to_owned(),
        line: error.line(),
        why: error.to_string(),
    })
}

/// Writes the lines of a cell while it runs.
#[derive(Debug)]
pub struct CellWriter {
    load: LineFile,
    system: LineFile,
    events: LineFile,
    outcome: PathBuf,
}

impl CellWriter {
    /// What an agent saw.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn load(&mut self, second: &LoadSecond) -> Result<(), RecordError> {
        self.load.write(second)
    }

    /// What was seen on the host of the system.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn system(&mut self, second: &SystemSecond) -> Result<(), RecordError> {
        self.system.write(second)
    }

    /// What happened; it is in the file when this returns.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn event(&mut self, event: &Event) -> Result<(), RecordError> {
        self.events.write(event)?;
        self.events.flush()
    }

    /// Has the lines until now in their files.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        self.load.flush()?;
        self.system.flush()?;
        self.events.flush()
    }

    /// The cell is complete.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn complete(mut self, outcome: &CellOutcome) -> Result<(), RecordError> {
        self.flush()?;
        replace(&self.outcome, &as_json(outcome))
    }
}

#[derive(Debug)]
struct LineFile {
    path: PathBuf,
    to: BufWriter<File>,
}

impl LineFile {
    fn write<T: Serialize>(&mut self, value: &T) -> Result<(), RecordError> {
        let mut line = serde_json::to_vec(value).expect("records are JSON");
        line.push(b'\n');
        self.to.write_all(&line).map_err(RecordError::at(&self.path))
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.to.flush().map_err(RecordError::at(&self.path))
    }
}

/// The lines of a file, one at a time. A last line without its end is none: whoever wrote it was killed meanwhile.
#[derive(Debug)]
pub struct Lines<T> {
    path: PathBuf,
    from: BufReader<File>,
    line: usize,
    text: Vec<u8>,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn of(path: PathBuf) -> Result<Self, RecordError> {
        let file = File::open(&path).map_err(RecordError::at(&path))?;
        Ok(Self { path, from: BufReader::new(file), line: 0, text: Vec::new(), kind: PhantomData })
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.text.clear();
        self.line += 1;
        match self.from.read_until(b'\n', &mut self.text) {
            Err(error) => Some(Err(RecordError::at(&self.path)(error))),
            Ok(_) if self.text.last() != Some(&b'\n') => None,
            Ok(_) => {
                Some(serde_json::from_slice(&self.text).map_err(|error| RecordError::Damaged {
                    path: self.path.clone(),
                    line: self.line,
                    why: error.to_string(),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;
    use crate::record::Happening;

    fn run() -> (tempfile::TempDir, RunDirectory) {
        let directory = tempfile::tempdir().expect("a directory");
        let run = RunDirectory::create(&directory.path().join("run"), "name = \"a\"\n");
        (directory, run.expect("it can be written"))
    }

    fn cell() -> Cell {
        Cell { values: [("heap".to_owned(), "64m".to_owned())].into(), repetition: 1 }
    }

    fn outcome() -> CellOutcome {
        serde_json::from_str(
            r#"{"ended": "all requests were made", "seconds": 2.0, "outcomes": {"right": 1, "late": 0, "wrong": 0,
                "error": 0, "refused": 0, "unreachable": 0, "broken": 0, "unanswered": 0}, "baseline": 1.0,
                "audit": null, "environment": {}, "clocks": []}"#,
        )
        .expect("it is one")
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_last_line_is_none() {
        let (_keep, run) = run();
        let begun = run.cell("heap=64m", 1);
        let mut writer = begun.begin(&cell()).expect("it can be written");
        for second in 0..3 {
            let load = LoadSecond { second, ..LoadSecond::default() };
            writer.load(&load).expect("it can be written");
            let system = SystemSecond {
                second,
                probe: Some(Err("refused".to_owned())),
                ..SystemSecond::default()
            };
            writer.system(&system).expect("it can be written");
        }
        writer.event(&Event { at: -0.5, what: Happening::Ready }).expect("it can be written");
        let now = begun.events().expect("it is there").map(|event| event.expect("whole").what);
        assert_eq!(now.collect::<Vec<_>>(), [Happening::Ready], "an event is there at once");
        writer.flush().expect("it can be written");
        drop(writer);
        let load = begun.path().join(LOAD);
        let mut torn = OpenOptions::new().append(true).open(&load).expect("it is there");
        torn.write_all(b"{\"agent\":0,\"second\":3").expect("it can be written");
        let seconds = |cell: &CellDirectory| -> Result<Vec<u32>, RecordError> {
            cell.load()?.map(|second| Ok(second?.second)).collect()
        };
        assert_eq!(seconds(&begun).expect("whole"), [0, 1, 2]);
        let probe = begun.system().expect("it is there").next().expect("a line").expect("whole");
        assert_eq!(probe.probe, Some(Err("refused".to_owned())));
        torn.write_all(b"\n{}\n").expect("it can be written");
        let error = seconds(&begun).expect_err("it is damaged").to_string();
        assert!(error.contains("load.jsonl is damaged, line 4"), "{error}");
    }

    #[test]
    fn a_cell_is_complete_with_its_outcome_and_begins_clean() {
        let (_keep, run) = run();
        let begun = run.cell("heap=64m", 1);
        assert!(run.cells().expect("it can be read").is_empty());
        let writer = begun.begin(&cell()).expect("it can be written");
        fs::write(begun.requests(), "old").expect("it can be written");
        drop(writer);
        let found = run.cells().expect("it can be read");
        assert_eq!(found.iter().map(CellDirectory::name).collect::<Vec<_>>(), ["heap=64m"]);
        assert!(!found[0].is_complete() && found[0].outcome().expect("none").is_none());
        let writer = begun.begin(&cell()).expect("it can be written");
        assert!(!begun.requests().exists(), "of the attempt before");
        writer.complete(&outcome()).expect("it can be written");
        assert!(begun.is_complete());
        assert_eq!(begun.outcome().expect("whole").expect("there").seconds, 2.0);
        assert_eq!(begun.cell().expect("whole"), cell());
    }

    #[test]
    fn one_run_at_a_time_writes() {
        let (_keep, run) = run();
        let lock = run.lock().expect("nobody else");
        let error = RunDirectory::open(run.path()).expect("it is one").lock();
        assert!(matches!(error, Err(RecordError::InUse { .. })), "{error:?}");
        drop(lock);
        run.lock().expect("it is free again");
    }

    #[test]
    fn a_run_goes_on_with_the_same_experiment_and_no_other() {
        let (_keep, run) = run();
        RunDirectory::create(run.path(), "name = \"a\"\n").expect("the same");
        let error = RunDirectory::create(run.path(), "name = \"b\"\n").expect_err("another");
        assert!(matches!(error, RecordError::Another { .. }), "{error}");
        let inputs = |digest: &str| [("add.xml".to_owned(), digest.to_owned())].into();
        run.keep_inputs(&inputs("1")).expect("the first");
        run.keep_inputs(&inputs("1")).expect("the same");
        for (changed, files) in [(inputs("2"), "add.xml"), (BTreeMap::new(), "add.xml")] {
            let error = run.keep_inputs(&changed).expect_err("others").to_string();
            assert!(error.contains(&format!("began {files} changed")), "{error}");
        }
        let none = run.path().join("none");
        assert!(matches!(RunDirectory::open(&none), Err(RecordError::NoRun { .. })));
        let opened = RunDirectory::open(run.path()).expect("it is one");
        assert_eq!(opened.experiment_text().expect("it is there"), "name = \"a\"\n");
        let error = opened.experiment().expect_err("it has no system");
        assert!(error.to_string().contains("missing field"), "{error}");
    }
}
