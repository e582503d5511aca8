//! The processes of a server under test, as `/proc` shows them.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that is no zombie.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Its name, cut at 15 characters.
    pub(crate) name: String,
    parent: i32,
    session: i32,
    /// Its words, with a zero behind each.
    pub(crate) line: String,
}

/// Process IDs of the supervisor of this data directory; there may be none, or for a moment two.
pub(crate) fn supervisors(data: &Path) -> Vec<i32> {
    named(data, "fishplate-super")
}

/// Process IDs of all supervisors of this data directory.
pub(crate) fn job_processes(data: &Path) -> Vec<i32> {
    [supervisors(data), runners(data)].concat()
}

/// Process IDs of the runners of this data directory.
pub(crate) fn runners(data: &Path) -> Vec<i32> {
    named(data, "fishplate-run")
}

/// Each leads a session, and none is the child of one of its name. A supervisor's child that is about to
/// become a runner, and a runner's child that is about to become a program, have their parent's
/// name for a moment, but are none.
fn named(data: &Path, name: &str) -> Vec<i32> {
    let all: Vec<Process> =
        of_data(data).into_iter().filter(|process| process.name == name).collect();
    let is_one = |process: &&Process| {
        process.session == process.pid && !all.iter().any(|other| other.pid == process.parent)
    };
    all.iter().filter(is_one).map(|process| process.pid).collect()
}

/// All processes whose command line names this data directory.
pub(crate) fn of_data(data: &Path) -> Vec<Process> {
    let data = data.to_str().unwrap();
    all().filter(|process| process.line.split('\0').any(|word| word == data)).collect()
}

/// All processes that belong to a job of this data directory, wherever they are.
pub(crate) fn of_jobs(data: &Path) -> Vec<Process> {
    let jobs = data.join("jobs");
    all()
        .filter(|process| {
            let path = format!("/proc/{}", process.pid);
            let of_a_job = fs::read(format!("{path}/environ")).is_ok_and(|environment| {
                environment.split(|byte| *byte == 0).any(|name| name.starts_with(b"FISHPLATE_JOB="))
            });
            of_a_job && fs::read_link(format!("{path}/cwd")).is_ok_and(|cwd| cwd.starts_with(&jobs))
        })
        .collect()
}

/// All processes that have this variable in their environment, as they got it.
pub(crate) fn with_variable(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}").into_bytes();
    let has_it = |process: &Process| {
        fs::read(format!("/proc/{}/environ", process.pid)).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        })
    };
    all().filter(has_it).collect()
}

/// Whether there is a process of this number that is no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    living(pid).is_some()
}

/// kill -9 of processes that may be gone already.
pub(crate) fn kill_all(pids: &[i32]) {
    for pid in pids {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| living(entry.file_name().to_str()?.parse().ok()?))
}

fn living(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    if after.trim_start().starts_with(['Z', 'X']) {
        return None;
    }
    let name = before.split_once('(')?.1.to_owned();
    let mut fields = after.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(Process { pid, name, parent, session, line: String::from_utf8_lossy(&line).into_owned() })
}

/// The largest resident size of a process so far, in bytes, without the program itself and other files
/// that it has mapped: of a debug build those are half of it.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    field("VmHWM:") - field("RssFile:")
}
