//! What a job's directory holds: bytes and files.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;

use super::work;

/// Bytes in a job's workspace, its logs, and the arrays and archives made of its outputs. What
/// vanishes during the count is not counted.
pub fn disk_use(directory: &Path) -> u64 {
    let logs = ["stdout", "stderr"].map(|log| {
        std::fs::symlink_metadata(directory.join(log)).map_or(0, |metadata| bytes_of(&metadata))
    });
    let mut sum = logs.iter().sum::<u64>() + workspace_use(directory);
    for made in [super::arrays::DIRECTORY, super::directories::PLACE] {
        walk(&directory.join(made), &mut |_, metadata| sum += bytes_of(metadata));
    }
    sum
}

/// Bytes in a job's workspace.
pub(crate) fn workspace_use(directory: &Path) -> u64 {
    let mut sum = 0;
    walk(&work(directory), &mut |_, metadata| sum += bytes_of(metadata));
    sum
}

/// A file's length, or what it occupies if that is less (a sparse file).
fn bytes_of(metadata: &Metadata) -> u64 {
    metadata.len().min(metadata.blocks().saturating_mul(512))
}

/// Calls `each` with all that is below `root` and is not a directory: its path from there, and
/// what it is. Follows no symbolic link.
pub(super) fn walk(root: &Path, each: &mut dyn FnMut(&Path, &Metadata)) {
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let path = entry.path();
            if metadata.is_dir() {
                rest.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                each(relative, &metadata);
            }
        }
    }
}

/// Lets their owner into all directories from here down, so that they can be removed.
pub(super) fn grant_directories(root: &Path) -> io::Result<()> {
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                rest.push(entry.path());
            }
        }
    }
    Ok(())
}
