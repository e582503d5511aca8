//! Outputs that are directories: packed when the job has ended.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use fishplate_formats::archive::{self, ArchiveError};
use fishplate_formats::disk::FreeSpace;

use super::{beneath, work};
use crate::executor::OutputContent;
use fishplate_programs::plan::Plan;

/// Where archives go.
pub(super) const PLACE: &str = "packed";

/// The archive of a directory of the workspace. What can't be one is told with the place.
pub(super) fn pack(
    plan: &Plan,
    directory: &Path,
    path: &str,
    name: &str,
    required: bool,
) -> Result<Option<OutputContent>, String> {
    let absent = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let found = match beneath::open_place(&work(directory), path) {
        Ok(found) => found,
        Err(error) if absent(&error) && !required => return Ok(None),
        Err(error) if absent(&error) => return Err(format!("the program did not write {path}")),
        Err(error) => return Err(format!("{path} can't be read: {error}")),
    };
    if !found.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(format!("{path} is no directory"));
    }
    let archive = format!("{PLACE}/{name}.tar");
    let target = directory.join(&archive);
    let packed = make(&target).map_err(ArchiveError::Io).and_then(|file| {
        let reserve = plan.limits.disk_reserve;
        archive::pack(&found, &file, &mut || has_room(directory, reserve))?;
        Ok(file.metadata()?.len())
    });
    match packed {
        Ok(len) => Ok(Some(OutputContent::Archive { path: archive, len })),
        Err(error) => {
            let _ = fs::remove_file(&target);
            Err(match error {
                ArchiveError::Entry { entry, rule } => format!("{path}: {entry:?} {rule}"),
                ArchiveError::Full => {
                    format!("{path} can't be packed: the disk is full (disk_reserve)")
                }
                error => format!("{path} can't be packed: {error}"),
            })
        }
    }
}

/// Anew, if it was there.
fn make(target: &Path) -> io::Result<File> {
    if let Some(place) = target.parent() {
        super::prepare::make_private(place)?;
    }
    let _ = fs::remove_file(target);
    File::create_new(target)
}

/// Whether the disk keeps its reserve; one that can't be asked says so when it is full.
fn has_room(directory: &Path, reserve: u64) -> bool {
    FreeSpace::at(directory).map_or(true, |free| free.room() >= reserve)
}
