//! C programs, alone and as several ranks.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{built, header};

/// Compiles `tests/c/NAME.c`.
fn compiled(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    compile(&directory.join(name).with_extension("c"), &[])
}

/// Compiles a program against the header, and links it to the library by its name.
pub(crate) fn compile(source: &Path, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    let cc = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-stringop-overread", "-pthread", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(header().parent().unwrap())
        .arg(source)
        .arg(built().join("libmpi_abi.so"))
        .args(options)
        .output()
        .unwrap();
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    program
}

/// The beginning of a launch.
pub(crate) fn launcher(ranks: u32) -> Command {
    let mut command = Command::new(built().join("fishplate"));
    command.args(["run", "--timeout", "300s", "-n", &ranks.to_string()]);
    command
}

fn run(program: &Path, ranks: u32, transport: &str) -> Output {
    launcher(ranks).args(["--transport", transport]).arg(program).output().unwrap()
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
fn programs_of_sessions_only_leave_in_order() {
    passes("sessions");
}

#[test]
fn errors_have_their_class_and_a_message_and_reach_the_handler() {
    passes("errors");
}

#[test]
fn every_message_function_does_as_the_standard_says_with_counts_of_both_kinds() {
    passes("every_message");
}

#[test]
fn requests_are_tested_looked_at_and_cancelled_and_statuses_say_how_they_went() {
    passes("completion");
}

#[test]
fn every_collective_operation_runs_in_three_ways_in_place_and_between_groups() {
    passes("every_collective");
}

#[test]
fn reductions_are_defined_on_the_datatypes_that_the_standard_names() {
    passes("reductions");
}

#[test]
fn topologies_tell_who_is_a_neighbour_and_neighbours_exchange() {
    passes("topologies");
}

#[test]
fn every_constructor_makes_the_datatype_that_it_tells_of() {
    passes("constructors");
}

#[test]
fn groups_are_sets_and_communicators_are_made_of_them() {
    passes("groups");
}

#[test]
fn attributes_handlers_names_and_hints_stay_with_their_objects() {
    passes("objects");
}

#[test]
fn a_process_can_ask_what_it_runs_on_before_during_and_after() {
    passes("environment");
}

#[test]
fn tools_are_told_that_there_are_no_variables() {
    passes("tools");
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

#[test]
fn an_abort_reaches_the_launcher_and_runs_no_destructors() {
    let output = run(&compiled("abort"), 2, "shared-memory");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("rank 0 ended all ranks (MPI_Abort) with exit code 7"), "{said}");
    assert!(!said.contains("a destructor ran"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "last words");
}

#[test]
fn programs_of_one_launch_know_which_they_are() {
    let program = compiled("application");
    let mut command = launcher(1);
    command.arg(&program).args(["0", ":", "-n", "2"]).arg(&program).arg("1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Its parent is a shell, which does not tell it.
#[test]
fn a_program_in_a_script_dies_with_the_launcher() {
    let program = compiled("waiting");
    let mut command = launcher(2);
    command.args(["sh", "-c", "\"$0\"; exit 1"]).arg(&program).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = [lines.next(), lines.next()].map(|line| line.unwrap().unwrap());
    assert!(pids.iter().all(|pid| is_alive(pid)));
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "they live on: {pids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
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
