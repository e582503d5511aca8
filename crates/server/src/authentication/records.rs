//! A text file of records, a line each, that other processes change while it is used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::file_version::FileVersion;

/// A line of a file.
pub trait Record: Sized + Clone {
    /// The file's name in the data directory.
    const FILE: &'static str;

    /// The record of a line.
    ///
    /// # Errors
    /// What would be right.
    fn read(line: &str) -> Result<Self, String>;

    /// Its line.
    fn line(&self) -> String;

    /// What it is found by; each is there once.
    fn key(&self) -> &str;
}

/// Why a file of records can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system's reason.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is no record.
    #[error("line {line} of {} is not usable: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What would be right.
        reason: String,
    },
}

/// Records by their keys.
pub type Records<R> = BTreeMap<String, R>;

/// A file of records. It is read again when it has changed; who changes it replaces it.
#[derive(Debug)]
pub struct RecordFile<R> {
    path: PathBuf,
    /// What it was when it was read last.
    read: Mutex<Option<ReadVersion<R>>>,
}

/// A version of the file, and its records if it could be used.
type ReadVersion<R> = (FileVersion, Option<Arc<Records<R>>>);

impl<R: Record> RecordFile<R> {
    /// That of a data directory; it need not be there.
    pub fn open(data: &Path) -> Self {
        Self { path: data.join(R::FILE), read: Mutex::default() }
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If it can't be read, or a line is no record.
    pub fn all(&self) -> Result<Arc<Records<R>>, RecordError> {
        let version = FileVersion::of(&self.path).map_err(|source| self.failed(source))?;
        let Some(version) = version else {
            return Ok(Arc::default());
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read.as_ref().filter(|(known, _)| *known == version);
        if let Some((_, Some(records))) = known {
            return Ok(Arc::clone(records));
        }
        let parsed = self.text().and_then(|text| self.parse(&text)).map(Arc::new);
        if let (Err(error), None) = (&parsed, known) {
            tracing::error!("nobody can log in: {error}");
        }
        *read = Some((version, parsed.as_ref().ok().map(Arc::clone)));
        parsed
    }

    fn text(&self) -> Result<String, RecordError> {
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|source| self.failed(source)),
        }
    }

    fn parse(&self, text: &str) -> Result<Records<R>, RecordError> {
        let mut records = Records::new();
        for (index, line) in text.lines().enumerate() {
            if is_comment(line) {
                continue;
            }
            let wrong =
                |reason| RecordError::Line { path: self.path.clone(), line: index + 1, reason };
            let record = R::read(line).map_err(wrong)?;
            if let Some(twice) = records.insert(record.key().to_owned(), record) {
                return Err(wrong(format!("{} stands twice", twice.key())));
            }
        }
        Ok(records)
    }

    /// Changes it; others who change it wait, and who reads it sees all of the change or nothing. Comments stay, and
    /// the order of lines; new ones come last.
    ///
    /// # Errors
    /// If it can't be read or written.
    pub fn change<T>(&self, change: impl FnOnce(&mut Records<R>) -> T) -> Result<T, RecordError> {
        let failed = |source| self.failed(source);
        let private = |path: &Path| {
            File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        let beside = |suffix: &str| self.path.with_file_name(format!(".{}{suffix}", R::FILE));
        let lock = private(&beside(".lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let text = self.text()?;
        let mut records = self.parse(&text)?;
        let changed = change(&mut records);
        let mut written = || {
            let new = beside(".new");
            let mut file = private(&new)?;
            for line in text.lines() {
                if is_comment(line) {
                    writeln!(file, "{line}")?;
                } else if let Some(kept) =
                    R::read(line).ok().and_then(|it| records.remove(it.key()))
                {
                    writeln!(file, "{}", kept.line())?;
                }
            }
            for new in records.values() {
                writeln!(file, "{}", new.line())?;
            }
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
        };
        written().map_err(failed)?;
        Ok(changed)
    }

    fn failed(&self, source: io::Error) -> RecordError {
        RecordError::File { path: self.path.clone(), source }
    }
}

/// A line for readers.
fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Word(String);

    impl Record for Word {
        const FILE: &'static str = "words";

        fn read(line: &str) -> Result<Self, String> {
            if line.contains(' ') { Err("one word".to_owned()) } else { Ok(Self(line.to_owned())) }
        }

        fn line(&self) -> String {
            self.0.clone()
        }

        fn key(&self) -> &str {
            &self.0
        }
    }

    #[test]
    fn what_another_process_changes_is_seen_at_once() {
        let data = tempfile::tempdir().unwrap();
        let (ours, theirs) = (RecordFile::open(data.path()), RecordFile::open(data.path()));
        assert!(ours.all().unwrap().is_empty());
        for count in 1..50 {
            let word = Word(format!("w{count:02}"));
            theirs.change(|words| words.insert(word.0.clone(), word.clone())).unwrap();
            assert_eq!(
                (ours.all().unwrap().len(), ours.all().unwrap().get(&word.0)),
                (count, Some(&word))
            );
        }
        let mode = fs::metadata(data.path().join("words")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        theirs.change(|words| words.remove("w07")).unwrap();
        assert!(!ours.all().unwrap().contains_key("w07"));
    }

    #[test]
    fn many_who_change_it_lose_nothing() {
        let data = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let file = RecordFile::open(data.path());
                scope.spawn(move || {
                    for count in 0..10 {
                        let word = Word(format!("{writer}-{count}"));
                        file.change(|words| words.insert(word.0.clone(), word.clone())).unwrap();
                    }
                });
            }
        });
        assert_eq!(RecordFile::<Word>::open(data.path()).all().unwrap().len(), 40);
    }

    #[test]
    fn a_change_keeps_comments_where_they_are() {
        let data = tempfile::tempdir().unwrap();
        let file = RecordFile::<Word>::open(data.path());
        let path = data.path().join("words");
        fs::write(&path, "# ours\ntwo\n\n# theirs\nthree\n#four\none\n").unwrap();
        let change = |words: &mut Records<Word>| {
            words.remove("three");
            words.insert("new".to_owned(), Word("new".to_owned()))
        };
        file.change(change).unwrap();
        let kept = "# ours\ntwo\n\n# theirs\n#four\none\nnew\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
    }

    #[test]
    fn a_line_that_is_no_record_is_told_by_its_number() {
        let data = tempfile::tempdir().unwrap();
        let file = RecordFile::<Word>::open(data.path());
        for (text, told) in
            [("# a comment\n\none\ntwo words\n", "line 4"), ("one\ntwo\none\n", "line 3 of")]
        {
            fs::write(data.path().join("words"), text).unwrap();
            let error = file.all().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
