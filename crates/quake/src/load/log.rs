//! What became of each request, for audits: a file of records of 16 bytes, little-endian, after a line that names it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::record::Outcome;

/// How such a file begins.
const NAME: &[u8; 16] = b"quake requests1\n";
const RECORD: usize = 16;
/// What is written at once.
const BUFFER: usize = 64 << 10;

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Its number, as `{request}` has it.
    pub number: u32,
    /// When it began, in milliseconds since the common start.
    pub began: u32,
    /// How long it took, in microseconds; 4294967295 stands for more.
    pub took: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// Its operation's place in the experiment, from 0.
    pub operation: u8,
    /// The HTTP status; 0: none.
    pub status: u16,
}

/// Why a log can't be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log of requests {}", path.display())]
pub struct LogError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// A log as it is written.
pub(super) struct RequestLog(BufWriter<File>);

impl RequestLog {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        file.write_all(NAME)?;
        Ok(Self(file))
    }

    pub(super) fn write(&mut self, request: &LoggedRequest) -> io::Result<()> {
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&request.number.to_le_bytes());
        record[4..8].copy_from_slice(&request.began.to_le_bytes());
        record[8..12].copy_from_slice(&request.took.to_le_bytes());
        let outcome = Outcome::ALL.iter().position(|outcome| *outcome == request.outcome);
        record[12] = outcome.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX);
        record[13] = request.operation;
        record[14..].copy_from_slice(&request.status.to_le_bytes());
        self.0.write_all(&record)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The requests in a log, in the order in which they ended. A last record that is cut off, because its writer was
/// killed, is left out.
///
/// # Errors
/// The file can't be read, or is no such log.
pub fn read(
    path: &Path,
) -> Result<impl Iterator<Item = Result<LoggedRequest, LogError>> + use<>, LogError> {
    let path = path.to_owned();
    let failed = {
        let path = path.clone();
        move |source| LogError { path: path.clone(), source }
    };
    let mut file = BufReader::with_capacity(BUFFER, File::open(&path).map_err(&failed)?);
    let mut name = [0; NAME.len()];
    file.read_exact(&mut name).map_err(&failed)?;
    if name != *NAME {
        return Err(failed(io::Error::other("it is none")));
    }
    Ok(std::iter::from_fn(move || {
        let mut record = [0; RECORD];
        match file.read_exact(&mut record) {
            Ok(()) => Some(parse(&record).map_err(&failed)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(Err(failed(error))),
        }
    }))
}

fn parse(record: &[u8; RECORD]) -> io::Result<LoggedRequest> {
    let number = |at: usize| {
        u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
    };
    let outcome = Outcome::ALL.get(usize::from(record[12]));
    Ok(LoggedRequest {
        number: number(0),
        began: number(4),
        took: number(8),
        outcome: *outcome.ok_or_else(|| io::Error::other("a record has no outcome"))?,
        operation: record[13],
        status: u16::from_le_bytes([record[14], record[15]]),
    })
}

/// A time in whole units, or the most there is.
pub(super) fn saturated(time: Duration, units: fn(&Duration) -> u128) -> u32 {
    u32::try_from(units(&time)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_but_for_what_was_cut_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("requests.bin");
        let mut log = RequestLog::create(&path).expect("created");
        let requests: Vec<LoggedRequest> = (0_u8..9)
            .map(|n| LoggedRequest {
                number: u32::from(n) * 400_000_000,
                began: u32::from(n) * 1000,
                took: u32::MAX - u32::from(n),
                outcome: Outcome::ALL[usize::from(n)],
                operation: n,
                status: 200 + u16::from(n),
            })
            .collect();
        for request in &requests {
            log.write(request).expect("written");
        }
        log.finish().expect("written");
        let read_all = || -> Vec<LoggedRequest> {
            read(&path).expect("a log").collect::<Result<_, _>>().expect("of records")
        };
        assert_eq!(read_all(), requests);
        let whole = std::fs::metadata(&path).expect("it is there").len();
        File::options().write(true).open(&path).and_then(|it| it.set_len(whole - 3)).expect("cut");
        assert_eq!(read_all(), requests[..8]);
    }

    #[test]
    fn another_file_is_no_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        std::fs::write(&path, [0; 64]).expect("written");
        assert!(read(&path).is_err());
    }
}
