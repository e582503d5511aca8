//! What a job's directory holds: bytes and files.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;

use super::work;
use fishplate_programs::plan::Plan;

/// Bytes in a job's workspace, its logs, what was fetched for it, the arrays and archives made of its
/// outputs, and its plan if that is long. What vanishes during the count is not counted.
pub fn disk_use(directory: &Path) -> u64 {
    let files = ["stdout", "stderr", "plan"].map(|file| {
        std::fs::symlink_metadata(directory.join(file)).map_or(0, |metadata| bytes_of(&metadata))
    });
    let mut sum = files.iter().sum::<u64>() + workspace_use(directory);
    for made in ["fetched", super::arrays::DIRECTORY, super::directories::PLACE] {
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

/// Bytes on the disk that a program took in its workspace and its logs since it was started (in
/// milliseconds since 1970): what it was given counts only from when it was changed.
pub(crate) fn taken_since(plan: &Plan, directory: &Path, started: i64) -> u64 {
    let given: Vec<&Path> = plan.inputs.iter().map(|input| Path::new(&input.path)).collect();
    let staged: Vec<&Path> = plan.staged.iter().map(|staged| Path::new(&staged.to)).collect();
    let logs = ["stdout", "stderr"].map(|log| std::fs::symlink_metadata(directory.join(log)));
    let mut sum: u64 = logs.iter().flatten().map(|metadata| metadata.blocks() * 512).sum();
    let mut linked = HashSet::new();
    walk(&work(directory), &mut |path, metadata| {
        let ours = given.iter().chain(&staged).any(|given| path.starts_with(given));
        let once = metadata.nlink() == 1 || linked.insert((metadata.dev(), metadata.ino()));
        if once && (!ours || changed(metadata) > started) {
            sum += metadata.blocks() * 512;
        }
    });
    sum
}

/// When a file was last changed, in milliseconds since 1970. What the program may have done to
/// hide it is seen; what others do to a file that they hold too is not.
fn changed(metadata: &Metadata) -> i64 {
    let (seconds, nanoseconds) = match metadata.nlink() {
        1 => (metadata.ctime(), metadata.ctime_nsec()),
        _ => (metadata.mtime(), metadata.mtime_nsec()),
    };
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::conformance;
    use fishplate_programs::plan::{InputContent, InputFile};

    #[test]
    fn what_a_program_was_given_counts_only_when_it_was_changed() {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = (*conformance::order(directory.path(), "").plan).clone();
        let path = "deck".to_owned();
        plan.inputs.push(InputFile { path, content: InputContent::InPlace });
        let root = work(directory.path());
        let write = |name: &str| std::fs::write(root.join(name), vec![1; 1 << 20]).unwrap();
        std::fs::create_dir(&root).unwrap();
        write("deck");
        let started = changed(&root.join("deck").metadata().unwrap());
        // Some file systems keep a little more for a file that grows.
        let taken = || taken_since(&plan, directory.path(), started) >> 20 << 20;
        assert_eq!(taken(), 0);
        write("mesh");
        std::fs::hard_link(root.join("mesh"), root.join("twice")).unwrap();
        assert_eq!(taken(), 1 << 20);
        std::fs::write(directory.path().join("stdout"), vec![1; 1 << 20]).unwrap();
        assert_eq!(taken(), 2 << 20);
        // Others may link and unlink what they hold too.
        std::fs::hard_link(root.join("deck"), directory.path().join("others")).unwrap();
        assert_eq!(taken(), 2 << 20);
        while taken() < 3 << 20 {
            write("deck");
        }
    }
}
