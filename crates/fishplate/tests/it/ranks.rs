//! `fishplate run`: real ranks that pass messages, die, are stopped, write at once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use fishplate_ranks::launch::Client;
use fishplate_ranks::{ANY_SOURCE, Error, Operation, Settings};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::gateway;
use crate::server::until;
use crate::sites;
use crate::skipped::skipped;

/// Which of the programs below a process of this test binary is.
pub(crate) const PROGRAM: &str = "FISHPLATE_TEST_RANKS";

/// Not a test: what ranks run, when they run this binary.
#[test]
#[ignore = "a program of the tests beside it"]
fn program() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    // However long it takes to start a server anew.
    let patient = Settings { peer_timeout: Duration::from_secs(60), ..Settings::default() };
    let settings = if name == "stream" { patient } else { Settings::default() };
    let client = Client::join(settings).unwrap();
    let world = client.process().world();
    let (rank, size) = (world.rank(), world.size());
    match name.as_str() {
        "sum" => {
            let mut sum = [0u32];
            world.allreduce(&[rank], &mut sum, &Operation::sum::<u32>()).run().unwrap();
            println!("\nrank {rank} of {size}: {}", sum[0]);
            client.leave();
        }
        "waits" => {
            println!("\nready {}", std::process::id());
            let _ = world.recv(&mut [0u8], ANY_SOURCE, 1);
        }
        "stream" => {
            gateway::stream(&world);
            client.leave();
        }
        "everything" => {
            sites::everything(&world);
            client.leave();
        }
        "slow" => {
            gateway::slow(&world);
            client.leave();
        }
        // Each waits for the next one.
        "circle" => {
            world.send(&[1u8; 3], (rank + 1) % size, 6).unwrap();
            world.recv(&mut [0u8; 3], (rank + size - 1) % size, 6).unwrap();
            let _ = world.recv(&mut [0u8], (rank + 1) % size, 7);
        }
        // What a SOAP client stores at rank 1 goes back to it.
        "steered" => {
            if rank == 1 {
                let mut data = vec![0u8; 256_000];
                let status = world.recv(&mut data, 0, 7).unwrap();
                data.truncate(status.length);
                data.reverse();
                world.ssend(&data, 1, 8).unwrap();
            }
            world.barrier().run().unwrap();
            client.leave();
        }
        // What rank 1 does while the others wait for it.
        death => {
            if rank == 1 {
                match death {
                    "killed" => kill(Pid::this(), Signal::SIGKILL).unwrap(),
                    "exits" => std::process::exit(0),
                    "aborts" => {
                        client.abort(7);
                        std::process::exit(7);
                    }
                    "stopped" => {
                        println!("\nstopping {}", std::process::id());
                        kill(Pid::this(), Signal::SIGSTOP).unwrap();
                    }
                    other => panic!("no program {other}"),
                }
                world.send(&[1u8], 0, 0).unwrap();
                client.leave();
            } else if death == "stopped" && rank == 0 {
                world.recv(&mut [0u8], 1, 0).unwrap();
                println!("\nheard");
                client.leave();
            } else if death == "stopped" {
                client.leave();
            } else {
                let failed = world.recv(&mut [0u8], ANY_SOURCE, 1).unwrap_err();
                assert_eq!(failed, Error::Failed { rank: 1 });
                println!("\nrank 1 is missed by {rank}");
                client.leave();
            }
        }
    }
}

fn fishplate(words: &[&str]) -> Command {
    // A test that runs in the background may ignore SIGINT, and what a shell ignores from its start it never sees.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_fishplate"), "run"]);
    command.args(words).stdin(Stdio::null());
    command
}

/// Ranks of the program above.
fn ranks(options: &[&str], program: &str) -> Command {
    let mut command = fishplate(options);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "ranks::program", "--ignored", "--nocapture"]).env(PROGRAM, program);
    command
}

/// Ranks of a shell.
fn shell(options: &[&str], script: &str) -> Command {
    let mut command = fishplate(options);
    command.args(["sh", "-c", script]);
    command
}

fn run(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A command with pipes, whose output is read as it comes.
fn spawn(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

fn next_line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn end(mut child: Child) -> (ExitStatus, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

#[test]
fn ranks_join_a_domain_and_pass_messages() {
    for (count, transport) in [
        (1u32, "shared-memory"),
        (2, "tcp"),
        (2, "shared-memory"),
        (4, "tcp"),
        (4, "shared-memory"),
        (4, "soap"),
    ] {
        let options = ["-n", &count.to_string(), "--transport", transport];
        let (code, stdout, stderr) = run(ranks(&options, "sum"));
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        for rank in 0..count {
            let line = format!("\nrank {rank} of {count}: {}\n", (0..count).sum::<u32>());
            assert!(stdout.contains(&line), "{line} {stdout}");
        }
    }
    // Nobody started it: it is alone.
    let alone = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ranks::program", "--ignored", "--nocapture"])
        .env(PROGRAM, "sum")
        .output()
        .unwrap();
    assert!(String::from_utf8(alone.stdout).unwrap().contains("rank 0 of 1: 0"));
}

/// The Python with zeep that the interoperability tests have installed.
pub(crate) fn zeep() -> Option<PathBuf> {
    let mut found =
        std::fs::read_dir(interop("../.cache/interop")).ok()?.flatten().map(|entry| entry.path());
    let found = found.find(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"zeep-"))
    })?;
    Some(found.join("bin/python")).filter(|python| python.is_file())
}

/// Runs two ranks of the program "steered", and a client that is told where they are.
fn steered(client: impl FnOnce(&Path) -> Output) {
    let directory = tempfile::tempdir().unwrap();
    let endpoints = directory.path().join("endpoints.json");
    let options = ["-n", "2", "--transport", "soap", "--endpoints", endpoints.to_str().unwrap()];
    let (mut child, _stdout) = spawn(ranks(&options, "steered"));
    until("all ranks have joined", || endpoints.exists() || child.try_wait().unwrap().is_some());
    let client = client(&endpoints);
    if !client.status.success() {
        signal(&child, Signal::SIGTERM);
    }
    let (status, said) = end(child);
    assert!(client.status.success(), "{}{said}", String::from_utf8_lossy(&client.stderr));
    assert_eq!(status.code(), Some(0), "{said}");
}

pub(crate) fn interop(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(file)
}

#[test]
fn zeep_stores_and_receives_in_a_domain_that_runs() {
    let Some(python) = zeep() else {
        return skipped("zeep", "zeep is not installed; `make interop` does that");
    };
    steered(|endpoints| {
        Command::new(python).arg(interop("zeep/domain.py")).arg(endpoints).output().unwrap()
    });
}

#[test]
fn gsoap_stores_and_receives_in_a_domain_that_runs() {
    if Command::new("soapcpp2").arg("-V").output().is_err()
        || !Path::new("/usr/include/stdsoap2.h").exists()
    {
        return skipped("gsoap", "gSOAP is not installed; `make interop` does that");
    }
    steered(|endpoints| {
        let told: Value = serde_json::from_slice(&std::fs::read(endpoints).unwrap()).unwrap();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let url = word(&told["ranks"][1]);
        let directory = tempfile::tempdir().unwrap();
        let step = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).current_dir(directory.path());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        step("wsdl2h", &["-O1", "-o", "domain.h", &format!("{url}?wsdl")]);
        step("soapcpp2", &["-C", "-j", "-x", "-w", "-I/usr/share/gsoap/import", "domain.h"]);
        let client = interop("gsoap/domain.cpp");
        let sources = [client.to_str().unwrap(), "soapC.cpp", "soapdomainSoap11Proxy.cpp"];
        step(
            "c++",
            &[&["-std=c++17", "-I.", "-o", "client"], &sources[..], &["-lgsoap++"]].concat(),
        );
        Command::new(directory.path().join("client"))
            .args([url, word(&told["domain"]), word(&told["credential"])])
            .output()
            .unwrap()
    });
}

#[test]
fn endpoints_are_for_soap_only() {
    let (code, _, stderr) = run(shell(&["--endpoints", "x"], "true"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("with --transport soap only"), "{stderr}");
}

#[test]
fn a_killed_rank_ends_the_others_and_is_named() {
    let (code, _, stderr) = run(ranks(&["-n", "3"], "killed"));
    assert_eq!(code, Some(128 + 9), "{stderr}");
    assert!(stderr.contains("rank 1 was killed by signal 9 (SIGKILL)"), "{stderr}");
}

#[test]
fn with_keep_going_the_others_learn_which_rank_is_missing() {
    for transport in ["tcp", "shared-memory", "soap"] {
        let limit = "peer_timeout=500ms";
        let options = ["-n", "3", "--keep-going", "--limit", limit, "--transport", transport];
        let (code, stdout, stderr) = run(ranks(&options, "killed"));
        assert_eq!(code, Some(128 + 9), "{stderr}");
        for rank in [0, 2] {
            assert!(stdout.contains(&format!("rank 1 is missed by {rank}")), "{stdout}{stderr}");
        }
    }
}

#[test]
fn a_rank_that_exits_without_leaving_ends_the_others() {
    let (code, _, stderr) = run(ranks(&["-n", "3"], "exits"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("rank 1 ended with exit code 0, but without leaving"), "{stderr}");
}

#[test]
fn an_abort_ends_all_with_its_code() {
    let (code, _, stderr) = run(ranks(&["-n", "3"], "aborts"));
    assert_eq!(code, Some(7));
    assert!(stderr.contains("rank 1 ended all ranks (MPI_Abort) with exit code 7"), "{stderr}");
}

#[test]
fn a_stopped_rank_is_waited_for_beyond_what_a_silent_peer_may_take() {
    for transport in ["tcp", "shared-memory", "soap"] {
        let options =
            ["-n", "3", "--label", "--limit", "peer_timeout=300ms", "--transport", transport];
        let (child, mut stdout) = spawn(ranks(&options, "stopped"));
        // What others say may come before: a thread runs on for a moment while its process is being stopped.
        let (mut line, mut said) = (String::new(), String::new());
        while !line.starts_with("[1] stopping ") {
            line = next_line(&mut stdout);
            said.push_str(&line);
            said.push('\n');
        }
        let rank = line["[1] stopping ".len()..].parse().unwrap();
        until("it is stopped", || {
            std::fs::read_to_string(format!("/proc/{rank}/stat")).unwrap().contains(") T ")
        });
        std::thread::sleep(Duration::from_millis(1500));
        kill(Pid::from_raw(rank), Signal::SIGCONT).unwrap();
        stdout.read_to_string(&mut said).unwrap();
        let (status, stderr) = end(child);
        assert!(status.success() && said.contains("[0] heard"), "{transport}: {said}{stderr}");
    }
}

#[test]
fn a_rank_that_never_joins_is_named_to_those_who_wait() {
    let program = std::env::current_exe().unwrap();
    let mut command = ranks(&["-n", "2"], "sum");
    command.args([":", "-n", "1", "true"]);
    let (code, stdout, stderr) = run(command);
    assert_eq!(code, Some(101), "a panic of {}", program.display());
    let said = format!("{stdout}{stderr}");
    assert!(said.contains("rank 2 has ended without joining"), "{said}");
}

#[test]
fn a_limit_that_is_wrong_in_the_environment_is_named() {
    let mut command = ranks(&["-n", "1"], "sum");
    command.env("FISHPLATE_LIMITS", "eager_limit=much");
    let (code, stdout, stderr) = run(command);
    assert_eq!(code, Some(101));
    let said = format!("{stdout}{stderr}");
    assert!(said.contains("FISHPLATE_LIMITS has eager_limit=much"), "{said}");
}

#[test]
fn exit_codes_are_the_first_ranks_that_failed() {
    let (code, ..) = run(shell(&["-n", "3"], "exit $((FISHPLATE_RANK * 3))"));
    assert!(matches!(code, Some(3 | 6)), "{code:?}");
    let mut first = "test $FISHPLATE_RANK != 2 || exit 9; sleep 1000".to_owned();
    assert_eq!(run(shell(&["-n", "3"], &first)).0, Some(9));
    // One that handles its end has the time for it.
    let ready = tempfile::tempdir().unwrap();
    first = "trap 'echo saved; exit 0' TERM; \
             if test $FISHPLATE_RANK = 2; then \
               until test -e $READY/0 -a -e $READY/1; do sleep 0.01; done; exit 9; \
             fi; \
             touch $READY/$FISHPLATE_RANK; while :; do sleep 0.01; done"
        .to_owned();
    let mut command = shell(&["-n", "3"], &first);
    command.env("READY", ready.path());
    let (code, stdout, _) = run(command);
    assert_eq!((code, stdout.as_str()), (Some(9), "saved\nsaved\n"));
    let (code, _, stderr) = run(fishplate(&["-n", "2", "./no/such/program"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("rank 0: ./no/such/program can't be started"), "{stderr}");
    let (code, _, stderr) =
        run(fishplate(&["-n", "1", "sleep", "1000", ":", "--wdir", "/no/such", "true"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("rank 1: true can't be started in /no/such"), "{stderr}");
}

#[test]
fn lines_of_four_ranks_that_write_at_once_stay_whole() {
    let line = "x".repeat(200);
    let script = format!("for i in $(seq 10000); do echo $i {line}; done");
    let (code, stdout, _) = run(shell(&["-n", "4", "--tag-output"], &script));
    assert_eq!(code, Some(0));
    let mut next = BTreeMap::new();
    for written in stdout.lines() {
        let (rank, rest) = written.split_once(' ').unwrap();
        let number = next.entry(rank).or_insert(0);
        *number += 1;
        assert_eq!(rest, format!("{number} {line}"));
    }
    assert_eq!(next, [("[0]", 10000), ("[1]", 10000), ("[2]", 10000), ("[3]", 10000)].into());
}

#[test]
fn nobody_reads_and_all_end() {
    let (child, stdout) = spawn(shell(&["-n", "2"], "yes"));
    drop(stdout);
    assert_eq!(end(child).0.code(), Some(128 + 13));
}

#[test]
fn environment_directory_input_and_numbers_are_what_mpiexec_gives() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    let script = "echo $FISHPLATE_RANK/$FISHPLATE_RANKS $FISHPLATE_APPLICATION $A $B; pwd; cat";
    let mut command = fishplate(&["-l", "-np", "1", "-x", "A=a b", "sh", "-c", script, ":"]);
    command.args(["-np", "2", "-wdir", at, "sh", "-c", script]).env("B", "c");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"first\nlast").unwrap();
    let output = child.wait_with_output().unwrap();
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    let here = format!("[0] {}", std::env::current_dir().unwrap().display());
    let [one, two] = [1, 2].map(|rank| format!("[{rank}] {at}"));
    let mut expected = [
        "[0] 0/3 0 a b c",
        &here,
        "[0] first",
        "[0] last",
        "[1] 1/3 1 c",
        &one,
        "[2] 2/3 1 c",
        &two,
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn signals_reach_all_ranks() {
    let script = "trap 'echo usr' USR1; trap 'echo int; exit 3' INT; echo ready; \
                  while :; do :; done";
    let (child, mut stdout) = spawn(shell(&["-n", "2"], script));
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["ready", "ready"]);
    signal(&child, Signal::SIGUSR1);
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["usr", "usr"]);
    signal(&child, Signal::SIGINT);
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["int", "int"]);
    let (status, stderr) = end(child);
    assert_eq!((status.code(), stderr.as_str()), (Some(130), ""));
}

#[test]
fn who_ignores_its_end_is_killed_after_the_grace_or_at_the_second_time() {
    let deaf = "trap '' TERM; trap 'echo int' INT; echo ready; while :; do sleep 0.01; done";
    let (child, mut stdout) = spawn(shell(&["-n", "2", "--kill-grace", "100ms"], deaf));
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["ready", "ready"]);
    signal(&child, Signal::SIGTERM);
    assert_eq!(end(child).0.code(), Some(143));
    let (child, mut stdout) = spawn(shell(&["-n", "2", "--kill-grace", "1h"], deaf));
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["ready", "ready"]);
    signal(&child, Signal::SIGINT);
    assert_eq!([next_line(&mut stdout), next_line(&mut stdout)], ["int", "int"]);
    signal(&child, Signal::SIGINT);
    assert_eq!(end(child).0.code(), Some(130));
    // Also if all are being ended because one failed.
    let ready = tempfile::tempdir().unwrap();
    let script = "trap 'echo term' TERM; trap 'echo int' INT; \
                  if test $FISHPLATE_RANK = 0; then touch $READY/0; \
                  else until test -e $READY/0; do sleep 0.01; done; exit 9; fi; \
                  while :; do sleep 0.01; done";
    let mut command = shell(&["-n", "2", "--kill-grace", "1h"], script);
    command.env("READY", ready.path());
    let (child, mut stdout) = spawn(command);
    assert_eq!(next_line(&mut stdout), "term");
    signal(&child, Signal::SIGINT);
    assert_eq!(next_line(&mut stdout), "int");
    signal(&child, Signal::SIGINT);
    assert_eq!(end(child).0.code(), Some(9));
}

/// Pipes and connections of many ranks are more than a shell allows a process by default.
#[test]
fn many_ranks_are_started_with_few_open_files() {
    let limited = |limit: &str, ranks: &str| {
        let mut command = Command::new("sh");
        let script = format!("ulimit {limit}; exec \"$@\"");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_fishplate"), "run", "-n", ranks]);
        command.args(["sh", "-c", "ulimit -Sn"]);
        run(command)
    };
    let (code, stdout, stderr) = limited("-Sn 30", "20");
    assert_eq!((code, stdout), (Some(0), "30\n".repeat(20)), "{stderr}");
    let (code, _, stderr) = limited("-n 40", "20");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("20 ranks need 132 open files, and 40 are allowed"), "{stderr}");
}

#[test]
fn what_takes_too_long_is_ended() {
    let (code, _, stderr) = run(shell(&["-n", "2", "--timeout", "200ms"], "sleep 1000"));
    assert_eq!(code, Some(124));
    assert!(stderr.contains("it took longer than the time"), "{stderr}");
}

#[test]
fn what_ranks_leave_running_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while ! test -s pid; do :; done";
    let options = ["-n", "1", "--wdir", directory.path().to_str().unwrap()];
    let (code, _, stderr) = run(shell(&options, script));
    assert_eq!(code, Some(0));
    assert!(stderr.contains("a process that ranks had left running"), "{stderr}");
    let left = std::fs::read_to_string(directory.path().join("pid")).unwrap();
    assert!(!alive(left.trim().parse().unwrap()));
}

#[test]
fn ranks_of_a_command_that_is_killed_die_with_it() {
    let (mut child, mut stdout) = spawn(shell(&["-n", "2"], "echo $$; exec sleep 1000"));
    let ranks = [next_line(&mut stdout), next_line(&mut stdout)];
    child.kill().unwrap();
    child.wait().unwrap();
    for rank in ranks {
        until("it is dead", || !alive(rank.parse().unwrap()));
    }
}

#[test]
fn a_deadlock_is_named_and_sigquit_tells_who_waits() {
    let options = ["-n", "3", "--limit", "long_wait=20ms"];
    let mut command = ranks(&options, "circle");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let named = lines.find(|line| line.starts_with("deadlock: ")).unwrap();
    assert_eq!(
        named,
        "deadlock: rank 0 waits in recv from 1 tag 7; rank 1 waits in recv from 2 tag 7; \
         rank 2 waits in recv from 0 tag 7"
    );
    signal(&child, Signal::SIGQUIT);
    let told: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 3), "{told:?}");
    for (rank, next) in [(0, 1), (1, 2), (2, 0)] {
        let is_wait = |line: &String| {
            line.starts_with(&format!("rank {rank} waits "))
                && line.ends_with(&format!(" s in recv from {next} tag 7"))
        };
        assert!(told.iter().any(is_wait), "{told:?}");
        let traffic = format!("{rank} -> {next}  messages: 1  3 B  over memory");
        assert!(told.contains(&traffic), "{traffic} {told:?}");
    }
}

#[test]
fn what_takes_too_long_tells_who_waits() {
    let options = ["-n", "2", "--limit", "long_wait=20ms", "--timeout", "3s"];
    let (code, _, stderr) = run(ranks(&options, "circle"));
    assert_eq!(code, Some(124), "{stderr}");
    assert!(stderr.contains("deadlock: rank 0 waits in recv from 1 tag 7; rank 1"), "{stderr}");
    assert!(stderr.contains("rank 1 waits "), "{stderr}");
}

#[test]
fn the_summary_is_json() {
    let script = "echo written; test $FISHPLATE_RANK != 1 || kill -SEGV $$";
    let (code, stdout, stderr) = run(shell(&["--json", "-n", "2", "--keep-going"], script));
    assert_eq!(code, Some(128 + 11));
    assert_eq!(stderr, "written\nwritten\n");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(summary["cause"], "rank 1 was killed by signal 11 (SIGSEGV)");
    assert_eq!((&summary["failedRank"], &summary["exitCode"]), (&1.into(), &139.into()));
    assert_eq!(summary["ranks"][0]["exitCode"], 0);
    assert_eq!(summary["ranks"][1]["signal"], "SIGSEGV");
    assert_eq!(summary["ranks"][1]["joined"], false);
}

#[test]
fn programs_are_led_to_the_mpi_library_beside_the_binary() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_fishplate"), at("fishplate")).unwrap();
    let script = "readlink -f ${LD_LIBRARY_PATH%%:*}/libmpi_abi.so.1; echo $LD_LIBRARY_PATH";
    let run_there = |binary: &Path| {
        let mut command = Command::new(binary);
        command.args(["run", "sh", "-c", script]).env("LD_LIBRARY_PATH", "/some/where");
        run(command).1
    };
    assert!(!run_there(&at("fishplate")).contains("libmpi_abi"));
    let built = at("libmpi_abi.so");
    std::fs::write(&built, "").unwrap();
    let built = built.canonicalize().unwrap();
    let written = run_there(&at("fishplate"));
    assert!(written.starts_with(built.to_str().unwrap()), "{written}");
    assert!(written.trim_end().ends_with(":/some/where"), "{written}");
}
