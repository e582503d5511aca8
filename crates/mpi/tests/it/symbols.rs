//! The symbols of the library, those of the header, and those that our programs in C call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
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

fn nm(options: &[&str], files: &[PathBuf]) -> BTreeSet<String> {
    let mut command = Command::new("nm");
    let nm = command.arg("--format=just-symbols").args(options).args(files).output().unwrap();
    assert!(nm.status.success());
    String::from_utf8(nm.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn of_library() -> BTreeSet<String> {
    nm(&["--dynamic", "--defined-only"], &[built().join("libmpi_abi.so")])
}

/// What `src/unsupported.rs` names: it fails, and says so.
fn unsupported() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/unsupported.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let (_, call) = source.rsplit_once("\nunsupported! {").unwrap();
    let groups = call.split(';').filter_map(|group| group.rsplit_once(':'));
    let names = groups.flat_map(|(_, names)| names.split_whitespace());
    names.map(|name| format!("MPI_{name}")).collect()
}

/// What the programs of `tests/c` need of the library when they are compiled: what stands in a comment or a string is not among it,
/// and what a macro makes is.
fn of_programs() -> BTreeSet<String> {
    let objects = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let sources = programs.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let compile = |source: PathBuf| {
        let object = objects.path().join(source.file_stem().unwrap()).with_extension("o");
        let mut cc = Command::new("cc");
        cc.args(["-w", "-c", "-o"]).arg(&object).arg("-I").arg(header().parent().unwrap());
        assert!(cc.arg(source).status().unwrap().success());
        object
    };
    nm(&["--undefined-only"], &sources.map(compile).collect::<Vec<_>>())
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
fn a_program_calls_each_function_that_is_supported() {
    let (unsupported, called) = (unsupported(), of_programs());
    let declared = of_header().into_iter().filter(|name| name.starts_with("MPI_"));
    let (failing, wanted): (Vec<_>, Vec<_>) = declared.partition(|name| unsupported.contains(name));
    assert_eq!(failing.len(), unsupported.len());
    let missing: Vec<_> = wanted.iter().filter(|name| !called.contains(*name)).collect();
    assert!(missing.is_empty(), "no program in tests/c calls {missing:?}");
}

#[test]
fn the_library_has_the_name_that_programs_ask_for() {
    let readelf =
        Command::new("readelf").arg("-d").arg(built().join("libmpi_abi.so")).output().unwrap();
    let dynamic = String::from_utf8(readelf.stdout).unwrap();
    assert!(dynamic.contains("Library soname: [libmpi_abi.so.1]"), "{dynamic}");
}
