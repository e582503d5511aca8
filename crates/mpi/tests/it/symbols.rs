//! The symbols of the library and those of the header.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{built, header};

/// Names that follow a type at the beginning of a line, up to their parenthesis.
fn of_header() -> BTreeSet<String> {
    let text = std::fs::read_to_string(header()).unwrap();
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let (_, name) = before.rsplit_once(' ')?;
        let ours = name.starts_with("MPI_") || name.starts_with("PMPI_");
        (ours && !before.starts_with([' ', '#', 't'])).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

fn of_library() -> BTreeSet<String> {
    let nm = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(built().join("libmpi_abi.so"))
        .output()
        .unwrap();
    assert!(nm.status.success());
    String::from_utf8(nm.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_library_has_every_function_of_the_header_by_both_names_and_no_other() {
    let (wanted, had) = (of_header(), of_library());
    assert_eq!(wanted.len(), 2 * 664);
    let missing: Vec<_> = wanted.difference(&had).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let more: Vec<_> = had.difference(&wanted).filter(|name| name.contains("MPI_")).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn the_library_has_the_name_that_programs_ask_for() {
    let readelf =
        Command::new("readelf").arg("-d").arg(built().join("libmpi_abi.so")).output().unwrap();
    let dynamic = String::from_utf8(readelf.stdout).unwrap();
    assert!(dynamic.contains("Library soname: [libmpi_abi.so.1]"), "{dynamic}");
}
