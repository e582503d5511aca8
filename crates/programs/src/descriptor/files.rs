//! Many services from files and directories.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::check::{CheckedService, check_file};
use super::diagnostic::{Diagnostic, Severity};

/// A service file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or directory is not there or may not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// Path of the file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no text: a program, as a rule.
    #[error(
        "{0} is no service file: a program's command line goes after --, with a name: \
         fishplate serve -n {1} -- {0} ..."
    )]
    Program(String, String),
    /// The directory has no service files.
    #[error("{} has no service files (*.toml)", path.display())]
    Empty {
        /// Path of the file or directory.
        path: PathBuf,
    },
}

/// The name of a server's configuration file, which is no service file of the directory that it is in.
pub const CONFIGURATION: &str = "fishplate.toml";

/// Checks service files, and for a directory every `*.toml` in it by name. Two services of one
/// name are an error of the second.
///
/// # Errors
/// If a file or directory cannot be read, or a directory has no service files and may not be empty.
pub fn read(paths: &[PathBuf], may_be_empty: bool) -> Result<Vec<CheckedService>, ReadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| ReadError::Unreadable { path, source }
    };
    let mut services = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in files_in(path).map_err(unreadable(path))? {
                services.push(check_file(&file).map_err(unreadable(&file))?);
            }
            if !may_be_empty
                && !services.iter().any(|checked| Path::new(&checked.source.name).starts_with(path))
            {
                return Err(ReadError::Empty { path: path.clone() });
            }
        } else {
            services.push(check_file(path).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => program(path),
                _ => unreadable(path)(source),
            })?);
        }
    }
    reject_duplicates(&mut services);
    Ok(services)
}

fn program(path: &Path) -> ReadError {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    ReadError::Program(path.display().to_string(), name.into_owned())
}

fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        let is_service = is_toml && path.file_name().is_none_or(|name| name != CONFIGURATION);
        if is_service && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn reject_duplicates(services: &mut [CheckedService]) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for checked in services {
        let Some(description) = &checked.description else { continue };
        let name = description.service.name.clone();
        let Some(first) = seen.get(&name) else {
            seen.insert(name, checked.source.name.clone());
            continue;
        };
        checked.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            message: format!("the service `{name}` is there already"),
            span: checked.name.clone(),
            label: format!("also in {first}"),
            hint: Some("a service's `name` is its address: give each its own".to_owned()),
        });
        checked.description = None;
    }
}
