//! The workspace before the start: inputs written, staged files copied.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use fishplate_formats::disk::{self, FreeSpace};

use super::{beneath, give_back_outputs, work};
use fishplate_programs::plan::{InputContent, Plan, StagedFile};

/// A workspace that could not be made ready.
#[derive(Debug, thiserror::Error)]
#[error("can't {what}")]
pub struct PrepareError {
    what: String,
    /// What the system says.
    pub source: io::Error,
}

impl PrepareError {
    /// The disk, or the quota on it, is full.
    pub fn is_storage_full(&self) -> bool {
        disk::is_full(&self.source)
    }
}

/// Makes the workspace in a job's directory ready: the directory itself, inputs, staged files.
/// Doing it again is harmless as long as no program runs in it.
///
/// # Errors
/// What could not be made, and why.
pub fn prepare(plan: &Plan, directory: &Path) -> Result<(), PrepareError> {
    let failed = |what: String| move |source| PrepareError { what, source };
    make_directories(directory).map_err(failed("make the job's directory".to_owned()))?;
    if plan.reuse.is_some() {
        // The program would write into them.
        give_back_outputs(directory).map_err(failed("remove another job's outputs".to_owned()))?;
    }
    let root = work(directory);
    for input in &plan.inputs {
        let bytes = match &input.content {
            InputContent::Text(text) => text.as_bytes(),
            InputContent::Bytes(bytes) => bytes,
            InputContent::InPlace => {
                beneath::find(&root, &input.path)
                    .map_err(failed(format!("find input file {} in its place", input.path)))?;
                continue;
            }
            InputContent::Fetched(fetched) => {
                beneath::adopt(&root, &input.path, &directory.join(&fetched.at))
                    .map_err(failed(format!("move the fetched input {}", input.path)))?;
                continue;
            }
            InputContent::Fetch(_) => {
                let why = io::Error::other("it was not fetched");
                return Err(failed(format!("find input file {}", input.path))(why));
            }
        };
        beneath::create(&root, &input.path, 0o600)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(failed(format!("write input file {}", input.path)))?;
    }
    let staged = copy_staged(plan, &root);
    if staged.as_ref().is_err_and(PrepareError::is_storage_full) {
        // The job waits for room, and must not take what there is meanwhile.
        for staged in &plan.staged {
            // Never through a link.
            if beneath::find(&root, &staged.to).is_ok() {
                remove_copy(&staged.from, &root.join(&staged.to), DEEPEST_STAGED);
            }
        }
    }
    staged
}

/// Copies all that is staged, or nothing if that would leave less free than must be: other jobs would
/// be ended for it.
fn copy_staged(plan: &Plan, root: &Path) -> Result<(), PrepareError> {
    if plan.staged.is_empty() {
        return Ok(());
    }
    let failed = |staged: &StagedFile| {
        let what = format!("copy {} into the workspace", staged.from.display());
        move |source| PrepareError { what, source }
    };
    let mut size = 0_u64;
    for staged in &plan.staged {
        size += size_of(&staged.from, DEEPEST_STAGED).map_err(failed(staged))?;
    }
    let reserve = plan.limits.disk_reserve;
    // If the file system can't be asked, the write that fails will say so.
    if let Ok(free) = FreeSpace::at(root)
        && free.room() < reserve.saturating_add(size)
    {
        let what = "copy the staged files into the workspace".to_owned();
        let why = format!(
            "{free} on the file system of the jobs, they take {size}, and {reserve} must stay free \
             (disk_reserve)"
        );
        return Err(PrepareError { what, source: io::Error::new(io::ErrorKind::StorageFull, why) });
    }
    for staged in &plan.staged {
        copy(&staged.from, root, &staged.to, DEEPEST_STAGED).map_err(failed(staged))?;
    }
    Ok(())
}

/// How many bytes a copy takes.
fn size_of(from: &Path, deepest: u32) -> io::Result<u64> {
    let metadata = std::fs::metadata(from)?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    if !metadata.is_dir() || deepest == 0 {
        return Err(endless());
    }
    let mut size = 0;
    for entry in std::fs::read_dir(from)? {
        size += size_of(&entry?.path(), deepest - 1)?;
    }
    Ok(size)
}

fn endless() -> io::Error {
    io::Error::other("it is neither a file nor a directory that ends somewhere")
}

/// Makes a job's directory and the workspace in it, if they are not there.
pub(crate) fn make_directories(directory: &Path) -> io::Result<()> {
    if super::directory_cache::take(directory) {
        return Ok(());
    }
    make_private(directory)?;
    make_private(&work(directory))
}

/// How many directories below a staged one are copied: more is a loop of symbolic links.
const DEEPEST_STAGED: u32 = 64;

pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().mode(0o700).recursive(true).create(directory)
        }
        done => done,
    }
}

/// Copies what the service's owner named, links in it followed: they are the owner's.
fn copy(from: &Path, root: &Path, to: &str, deepest: u32) -> io::Result<()> {
    let mut source = File::open(from)?;
    let metadata = source.metadata()?;
    if metadata.is_file() {
        let mut target = beneath::create(root, to, mode_of(&metadata))?;
        // Uses copy_file_range, which shares blocks where the file system can.
        io::copy(&mut source, &mut target)?;
        return Ok(());
    }
    if !metadata.is_dir() || deepest == 0 {
        return Err(endless());
    }
    beneath::create_directory(root, to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| io::Error::other("a name in it is not UTF-8"))?;
        copy(&entry.path(), root, &format!("{to}/{name}"), deepest - 1)?;
    }
    Ok(())
}

/// Removes as much of a copy as there is, and nothing else that is in the same directories.
fn remove_copy(from: &Path, to: &Path, deepest: u32) {
    let is_directory = std::fs::metadata(from).is_ok_and(|metadata| metadata.is_dir());
    if !is_directory {
        let _ = std::fs::remove_file(to);
        return;
    }
    if deepest > 0 && std::fs::symlink_metadata(to).is_ok_and(|there| there.is_dir()) {
        for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
            remove_copy(&entry.path(), &to.join(entry.file_name()), deepest - 1);
        }
        // There may be more in it.
        let _ = std::fs::remove_dir(to);
    }
}

/// The original's mode, but its new owner may write.
fn mode_of(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o777 | 0o600
}
