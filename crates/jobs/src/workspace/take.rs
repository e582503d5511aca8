//! Outputs of an equal job: its files, under second names.

use std::fs;
use std::io;
use std::path::Path;

use super::{beneath, make_directories};

/// The file of a job's directory that tells which of its outputs are another job's files too, a line each.
const LIST: &str = "taken";

/// Gives files of a job's directory, which has ended, the same names in another's; what can't have two is copied. What it does is noted
/// before, so that it can be undone whenever the process is killed.
///
/// # Errors
/// One of them is not there, or not a regular file, or its name is taken.
pub(crate) fn take_outputs(from: &Path, to: &Path, paths: &[String]) -> io::Result<()> {
    make_directories(to)?;
    let is_new = |path: &String| !fs::exists(to.join(path)).unwrap_or(true);
    if !paths.iter().all(is_new) {
        let what = "an input has the name of an output";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    if paths.iter().any(|path| path.contains('\n')) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an output's name has two lines"));
    }
    fs::write(to.join(LIST), paths.join("\n"))?;
    paths.iter().try_for_each(|path| beneath::link(from, to, path))
}

/// Removes what was taken: a program that runs there must find none of it, since what it writes would be written into the other job's files.
///
/// # Errors
/// A file can't be removed.
pub(crate) fn give_back_outputs(directory: &Path) -> io::Result<()> {
    let list = directory.join(LIST);
    let taken = match fs::read_to_string(&list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    for path in taken.lines() {
        match beneath::remove(directory, path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_file(list)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::executor::conformance;
    use crate::workspace::prepare;
    use fishplate_programs::plan::Plan;

    #[test]
    fn outputs_are_the_same_files_until_they_are_given_back() {
        let data = tempfile::tempdir().unwrap();
        let (from, to) = (data.path().join("from"), data.path().join("to"));
        for directory in [&from, &to] {
            fs::create_dir_all(directory.join("work")).unwrap();
        }
        fs::create_dir_all(from.join("work/deep")).unwrap();
        fs::write(from.join("work/deep/mesh"), "a mesh").unwrap();
        fs::write(from.join("work/input"), "other").unwrap();
        fs::write(to.join("work/input"), "input").unwrap();
        let paths =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mesh = paths(&["work/deep/mesh"]);
        take_outputs(&from, &to, &mesh).unwrap();
        let inode =
            |directory: &Path| fs::metadata(directory.join("work/deep/mesh")).unwrap().ino();
        assert_eq!(inode(&from), inode(&to));
        give_back_outputs(&to).unwrap();
        give_back_outputs(&to).unwrap();
        assert!(!to.join("work/deep/mesh").exists() && from.join("work/deep/mesh").exists());
        // Nor does a program that is started there, after all, find it.
        take_outputs(&from, &to, &mesh).unwrap();
        let plan = conformance::plan("/bin/true", &[]);
        prepare(&Plan { reuse: Some(String::new()), ..plan }, &to).unwrap();
        assert!(!to.join("work/deep/mesh").exists() && !to.join(LIST).exists());
        // What is an input here is no output of another job.
        assert!(take_outputs(&from, &to, &paths(&["work/deep/mesh", "work/input"])).is_err());
        assert!(take_outputs(&from, &to, &paths(&["work/deep/none"])).is_err());
        give_back_outputs(&to).unwrap();
        assert_eq!(fs::read_to_string(to.join("work/input")).unwrap(), "input");
        // A link that a program left leads nowhere, on either side.
        std::os::unix::fs::symlink("/etc/passwd", from.join("work/link")).unwrap();
        assert!(take_outputs(&from, &to, &paths(&["work/link"])).is_err());
        give_back_outputs(&to).unwrap();
        fs::create_dir(data.path().join("outside")).unwrap();
        std::os::unix::fs::symlink(data.path().join("outside"), to.join("work/out")).unwrap();
        fs::create_dir(from.join("work/out")).unwrap();
        fs::write(from.join("work/out/mesh"), "a mesh").unwrap();
        assert!(take_outputs(&from, &to, &paths(&["work/out/mesh"])).is_err());
        assert_eq!(fs::read_dir(data.path().join("outside")).unwrap().count(), 0);
    }
}
