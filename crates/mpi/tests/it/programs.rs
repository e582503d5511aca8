//! C programs, alone and as several ranks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{built, header};

/// Compiles `tests/c/NAME.c` against the header, and links it to the library by its name.
fn compiled(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = directory.join(name);
    let cc = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-stringop-overread", "-pthread", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(header().parent().unwrap())
        .arg(source)
        .arg(built().join("libmpi_abi.so"))
        .output()
        .unwrap();
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    program
}

fn run(program: &Path, ranks: u32, transport: &str) -> Output {
    Command::new(built().join("fishplate"))
        .args(["run", "--timeout", "60s", "--transport", transport, "-n", &ranks.to_string()])
        .arg(program)
        .output()
        .unwrap()
}

fn passes(name: &str) {
    let program = compiled(name);
    for (ranks, transport) in
        [1, 2, 3, 5].into_iter().flat_map(|ranks| [(ranks, "shared-memory"), (ranks, "soap")])
    {
        let output = run(&program, ranks, transport);
        let said = String::from_utf8_lossy(&output.stderr);
        let what = format!("{name} at {ranks} ranks, {transport}");
        assert!(output.status.success(), "{what}: {} {said}", output.status);
        assert_eq!(said, "", "{what}");
    }
}

#[test]
fn messages_go_in_every_mode_and_are_waited_for_in_every_way() {
    passes("point_to_point");
}

#[test]
fn datatypes_say_what_they_are_and_carry_what_they_describe() {
    passes("datatypes");
}

#[test]
fn collective_operations_take_gaps_functions_of_programs_and_their_buffers_in_place() {
    passes("collectives");
}

#[test]
fn communicators_are_duplicated_split_joined_and_arranged() {
    passes("communicators");
}

#[test]
fn errors_have_their_class_and_a_message_and_reach_the_handler() {
    passes("errors");
}

#[test]
fn threads_pass_messages_side_by_side() {
    passes("threads");
}

#[test]
fn an_error_that_nobody_handles_ends_all_ranks_and_says_why() {
    let output = run(&compiled("fatal"), 3, "shared-memory");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let message = "rank 2: MPI_ERR_RANK: MPI_Send: rank 3 is not from 0 to 2";
    assert!(said.contains(message), "{said}");
}

/// Without a launcher a program is a domain of one rank (MPI 5.0, 11.8.2).
#[test]
fn a_program_that_nobody_launched_is_alone() {
    let program = compiled("point_to_point");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        built().join("libmpi_abi.so"),
        directory.path().join("libmpi_abi.so.1"),
    )
    .unwrap();
    let output = Command::new(program).env("LD_LIBRARY_PATH", directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
