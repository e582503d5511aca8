//! One plan in one process: what a batch system starts for a job.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fishplate_jobs::executor::conformance::plan;
use fishplate_jobs::executor::{OutputContent, ProgramExit};
use fishplate_programs::plan::{InputContent, InputFile, OutputRule, OutputSource, Plan};

use crate::server::until;

const JOB: &str = "000102030405060708090a0b0c0d0e0f";

/// Runs a line of shell with the input `x` ("four") and the output `y`.
fn start(at: &Path, script: &str, change: impl FnOnce(&mut Plan)) -> Child {
    let mut plan = plan("/bin/sh", &["-c", script]);
    let content = InputContent::Text("four".to_owned());
    plan.inputs.push(InputFile { path: "x".to_owned(), content });
    plan.outputs.push(OutputRule {
        name: "y".to_owned(),
        data_type: "string".to_owned(),
        source: OutputSource::Path("y".to_owned()),
        required: true,
        non_empty: false,
        format: None,
        media_type: String::new(),
    });
    change(&mut plan);
    let file = at.join("plan.json");
    fs::write(&file, serde_json::to_vec(&plan).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fishplate"));
    command.args(["run-plan", JOB]).arg(file).arg(at.join("job"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> ProgramExit {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plan_is_prepared_run_and_collected_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let script = "cat > rest; tr a-z A-Z < x > y; echo $FISHPLATE_JOB; sleep 1000 & exit 0";
    let ending = end(start(directory.path(), script, |_| ()));
    assert_eq!((ending.exit_code, ending.cancelled), (Some(0), false));
    // What it left behind was ended.
    assert_eq!((ending.swept, ending.ended_by.as_str()), (1, "sweep"));
    let collected = ending.collected.unwrap();
    assert_eq!(collected.outputs[0].content, OutputContent::Text("FOUR".to_owned()));
    let log = fs::read_to_string(directory.path().join("job/stdout")).unwrap();
    assert_eq!(log.trim(), JOB);
    assert_eq!(fs::read(directory.path().join("job/work/rest")).unwrap(), b"", "no input");
}

#[test]
fn the_limits_of_a_plan_hold_and_a_batch_system_can_end_it() {
    let directory = tempfile::tempdir().unwrap();
    let limited = end(start(directory.path(), "sleep 1000", |plan| {
        plan.limits.wall_time = Some(0.2);
    }));
    assert_eq!(limited.limit.unwrap().0, "wall_time");
    let directory = tempfile::tempdir().unwrap();
    let child = start(directory.path(), "touch begun; sleep 1000", |_| ());
    until("it runs", || directory.path().join("job/work/begun").exists());
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let killed = end(child);
    assert!(killed.cancelled && killed.exit_code.is_none(), "{killed:?}");
}

#[test]
fn a_program_that_is_missing_is_told_and_nothing_ends_well() {
    let directory = tempfile::tempdir().unwrap();
    let missing = start(directory.path(), "", |plan| plan.program = "/no/such".into());
    let output = missing.wait_with_output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("program such does not exist"), "{said}");
}
