//! The files of a workspace as an operation describes them: no two may get into each other's way.

use std::collections::BTreeMap;
use std::ops::Range;

use super::diagnostic::DiagnosticReport;
use crate::template::StandardStream;

/// Who puts a file where, and where that is said.
#[derive(Clone, Debug)]
pub(super) struct WorkspaceFile {
    pub(super) path: String,
    pub(super) role: FileRole,
    /// It is a directory, in which others may be.
    pub(super) directory: bool,
    pub(super) span: Range<usize>,
}

/// What a file is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FileRole {
    /// The input of that name.
    Input(String),
    /// The output of that name, from its slot.
    Output(String),
    /// The output of that name, that the program names itself.
    Found(String),
    /// The `in out` of that name: the program reads and changes it.
    InOut(String),
    /// A literal redirection.
    Stream(StandardStream),
    /// The owner's file.
    Staged,
}

impl FileRole {
    fn name(&self) -> String {
        match self {
            Self::Input(name) => format!("the input `{name}`"),
            Self::Output(name) | Self::Found(name) => format!("the output `{name}`"),
            Self::InOut(name) => format!("`{name}`"),
            Self::Stream(stream) => stream.name().to_owned(),
            Self::Staged => "a staged file".to_owned(),
        }
    }

    /// There before the program runs.
    fn is_placed(&self) -> bool {
        matches!(self, Self::Input(_) | Self::InOut(_) | Self::Staged)
    }
}

/// Reports files that two have for different things, and files that others have as directories.
pub(super) fn check(files: &[WorkspaceFile], report: &mut DiagnosticReport<'_>) {
    let mut seen: BTreeMap<&str, &WorkspaceFile> = BTreeMap::new();
    for file in files {
        match seen.get(file.path.as_str()) {
            Some(other) => {
                if !may_share(&other.role, &file.role) {
                    let message =
                        format!("{} and {} are the same file", other.role.name(), file.role.name());
                    report
                        .error(file.span.clone(), message)
                        .label(format!("`{}` in the workspace", file.path))
                        .hint(way_out(&other.role, &file.role));
                }
            }
            None => {
                seen.insert(&file.path, file);
            }
        }
    }
    for file in files {
        for (end, _) in file.path.match_indices('/') {
            let holds = |other: &&&WorkspaceFile| other.role == FileRole::Staged || other.directory;
            if let Some(other) = seen.get(&file.path[..end]).filter(|other| !holds(other)) {
                let message = format!(
                    "{} is a file, and {} is in a directory of that name",
                    other.role.name(),
                    file.role.name()
                );
                report.error(file.span.clone(), message).label(format!("`{}`", file.path));
            }
        }
        let reads = file.role == FileRole::Stream(StandardStream::Input);
        let placed = files.iter().any(|other| {
            other.role.is_placed()
                && (other.path == file.path || file.path.starts_with(&format!("{}/", other.path)))
        });
        if reads && !placed {
            report
                .warning(file.span.clone(), format!("nothing puts `{}` into the workspace", file.path))
                .hint("`stage` copies a file of yours, [input.NAME] with `filename` one of the caller's");
        }
    }
}

fn may_share(first: &FileRole, second: &FileRole) -> bool {
    use FileRole::{Found, Input, Staged, Stream as Redirected};
    match (first, second) {
        // Standard input may come from whatever is there, and what a stream wrote be an output.
        (Redirected(StandardStream::Input), other) | (other, Redirected(StandardStream::Input)) => {
            other.is_placed()
        }
        (Redirected(_), Found(_)) | (Found(_), Redirected(_)) => true,
        // A program may change the owner's file and the caller get it.
        (Staged, Found(_)) | (Found(_), Staged) => true,
        (Input(first), Found(second)) | (Found(second), Input(first)) => first == second,
        _ => false,
    }
}

fn way_out(first: &FileRole, second: &FileRole) -> String {
    match (first, second) {
        (FileRole::Input(first), FileRole::Output(second))
        | (FileRole::Output(second), FileRole::Input(first))
            if first == second =>
        {
            format!(
                "if the program changes the file, write `[in out file {first}:TYPE]` once; if it \
                 reads one and writes another, set `filename` in [output.{second}]"
            )
        }
        (FileRole::Staged, _) | (_, FileRole::Staged) => {
            "give one of them another name, with `to` or `filename`".to_owned()
        }
        (FileRole::Stream(_), FileRole::Stream(_)) => {
            "redirect each stream to a file of its own".to_owned()
        }
        _ => "give one of them another name, with `filename` or `path`".to_owned(),
    }
}
