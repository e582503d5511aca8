//! A plan in its job's record. A long one stands in a file of the job's directory, and its record
//! tells which, so that the store stays small whatever callers send.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fishplate_programs::plan::Plan;

/// Bytes of a plan that stands in the record itself.
const LONGEST_RECORDED: usize = 64 << 10;

/// What a record begins with that tells a file. No JSON does.
const IN_FILE: char = '@';

/// The file's name, in whichever directory it is.
const FILE: &str = "plan";

/// A plan to be recorded.
#[derive(Debug)]
pub(super) struct PlanText(String);

impl PlanText {
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        Ok(Self(serde_json::to_string(plan)?))
    }

    /// What it takes, in memory and on the disk.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// It goes into a file.
    pub(super) fn is_long(&self) -> bool {
        self.0.len() > LONGEST_RECORDED
    }

    /// What stands in the record. A long one is written to a file before, in this directory of the
    /// job's (`""`: in the job's own), and brought to the disk if it is to be durable.
    pub(super) fn record(self, directory: &Path, place: &str, durable: bool) -> io::Result<String> {
        if !self.is_long() {
            return Ok(self.0);
        }
        let place = Path::new(place).join(FILE);
        let path = directory.join(&place);
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(self.0.as_bytes())?;
        if durable {
            file.sync_data()?;
        }
        Ok(format!("{IN_FILE}{}", place.display()))
    }
}

/// The plan in the record of the job in this directory.
pub(crate) fn read(record: &str, directory: &Path) -> io::Result<Plan> {
    Ok(match record.strip_prefix(IN_FILE) {
        Some(path) => serde_json::from_slice(&fs::read(directory.join(path))?)?,
        None => serde_json::from_str(record)?,
    })
}
