//! Which functions of MPI the library has: the header's, without those of `unsupported.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use super::Generated;

const PAGE: &str = "docs/reference/mpi.md";
const HEADER: &str = "crates/mpi/include/mpi.h";
const UNSUPPORTED: &str = "crates/mpi/src/unsupported.rs";

pub(super) fn page(root: &Path) -> anyhow::Result<Generated> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("{path} can't be read"))
    };
    let (header, source) = (read(HEADER)?, read(UNSUPPORTED)?);
    let all = functions(&header);
    let missing = unsupported(&source)?;
    let unknown: Vec<_> = missing.difference(&all).collect();
    anyhow::ensure!(unknown.is_empty(), "{UNSUPPORTED} has what {HEADER} has not: {unknown:?}");
    let had: BTreeSet<_> = all.difference(&missing).cloned().collect();
    let text = format!(
        "# Functions of MPI\n\n\
         `libmpi_abi.so.1` has all {} functions of the MPI standard's ABI (MPI 5.0), each also as `PMPI_...`, so every program\n\
         that was compiled against that ABI starts. {} of them do what the standard says; {} fail with\n\
         `MPI_ERR_UNSUPPORTED_OPERATION` and their name: one-sided communication, files, and starting processes. Why it is\n\
         so, and what Fortran programs need: [decision 0017](../decisions/0017-mpi-abi.md). The lists are written by `cargo\n\
         xtask generate`; `MPI_` is left out.\n\n\
         ## Supported\n\n{}\n\n## Not supported\n\n{}\n",
        all.len(),
        had.len(),
        missing.len(),
        list(&had),
        list(&missing),
    );
    Ok(Generated { path: PAGE.into(), text })
}

/// Functions that the header declares, without `MPI_`.
fn functions(header: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit_once(' ')?.1.strip_prefix("MPI_")?;
        (!before.starts_with([' ', '#', 't'])).then(|| name.to_owned())
    };
    header.lines().filter_map(name).collect()
}

/// What the macro's call names.
fn unsupported(source: &str) -> anyhow::Result<BTreeSet<String>> {
    let (_, call) = source.rsplit_once("\nunsupported! {").context("unsupported! is not there")?;
    let groups = call.split(';').filter_map(|group| group.rsplit_once(':'));
    Ok(groups.flat_map(|(_, names)| names.split_whitespace()).map(str::to_owned).collect())
}

/// With one line for each first letter.
fn list(names: &BTreeSet<String>) -> String {
    let letters: BTreeSet<_> = names.iter().filter_map(|name| name.chars().next()).collect();
    let line = |letter: char| {
        let same = names.iter().filter(|name| name.starts_with(letter));
        same.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    letters.into_iter().map(line).collect::<Vec<_>>().join("\n\n")
}
