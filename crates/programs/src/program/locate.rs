//! Where a program is.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A program that cannot be run, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingProgram {
    /// There is no such file.
    #[error("the program {} does not exist", path.display())]
    NotThere {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is no file that may be executed.
    #[error("the program {} may not be executed", path.display())]
    NotExecutable {
        /// Path of the program.
        path: PathBuf,
    },
    /// No directory of `PATH` has it.
    #[error("the program {program} is not on PATH")]
    NotOnPath {
        /// Its name.
        program: String,
    },
}

impl MissingProgram {
    /// What callers are told, who have no business with the paths of this machine.
    pub fn told(&self) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        match self {
            Self::NotThere { path } => format!("the program {} does not exist", name(path)),
            Self::NotExecutable { path } => {
                format!("the program {} may not be executed", name(path))
            }
            Self::NotOnPath { .. } => self.to_string(),
        }
    }
}

/// The absolute path of a program: below `directory` if there is a `/` in its name, else from
/// the directories of `search`, as `execvp` has it.
///
/// # Errors
/// If there is none that may be executed.
pub fn find(program: &str, directory: &Path, search: &OsStr) -> Result<PathBuf, MissingProgram> {
    if program.contains('/') {
        // `./add.sh` reads better in messages without the dot.
        let parts = directory.join(program);
        let path: PathBuf = parts.components().filter(|c| *c != Component::CurDir).collect();
        return if is_executable(&path) {
            Ok(path)
        } else if path.exists() {
            Err(MissingProgram::NotExecutable { path })
        } else {
            Err(MissingProgram::NotThere { path })
        };
    }
    let on_path = std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| !program.is_empty() && is_executable(path));
    on_path.ok_or_else(|| MissingProgram::NotOnPath { program: program.to_owned() })
}

/// A file that this process may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok() && path.is_file()
}
