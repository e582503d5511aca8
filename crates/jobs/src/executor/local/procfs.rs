//! Processes, as `/proc` shows them, named so that none is taken for another: a process ID comes
//! round again, a process ID with its start time and the machine's boot does not.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use fishplate_contract::JobId;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// A process of this boot of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ProcessId {
    /// Its number.
    pub(super) pid: i32,
    /// When it started, in clock ticks since the boot.
    pub(super) start: u64,
}

impl ProcessId {
    /// The process that has this number now.
    pub(super) fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, start: stat.start })
    }

    /// Whether it runs: neither gone nor a zombie.
    pub(super) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.is_alive())
    }

    /// Sends it a signal, and never to another that got its number. Tells whether it was there.
    pub(super) fn signal(self, signal: Signal) -> bool {
        let Some(fd) = pidfd_open(self.pid) else { return false };
        // The descriptor holds on to whoever had the number when it was opened; if that is the
        // process meant, its number can't have changed hands before.
        self.is_alive() && pidfd_signal(&fd, signal)
    }
}

/// What `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) state: u8,
    pub(super) parent: i32,
    pub(super) session: i32,
    pub(super) start: u64,
    /// Resident pages.
    pub(super) resident: u64,
}

impl Stat {
    pub(super) fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start: self.start }
    }

    /// Neither a zombie nor dead.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// What there is to tell of a process, if there is one of that number.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(pid: i32, text: &[u8]) -> Option<Stat> {
    // The second field is the program's name in parentheses and may hold anything.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: i32::try_from(number(1)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        start: fields.get(19)?.parse().ok()?,
        resident: u64::try_from(number(21)?).ok()?,
    })
}

/// All processes.
pub(super) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// All processes below this one, however far, zombies too.
pub(super) fn descendants(root: i32) -> Vec<Stat> {
    if !has_children_files() {
        let seeds = BTreeSet::from([root]);
        let mut found = closure(&all(), seeds);
        found.retain(|stat| stat.pid != root);
        return found;
    }
    let mut found = Vec::new();
    let mut rest = children(root);
    while let Some(pid) = rest.pop() {
        if let Some(stat) = stat(pid) {
            found.push(stat);
            rest.extend(children(pid));
        }
    }
    found
}

/// Those of `processes` that are among `seeds` or below one of them.
pub(super) fn closure(processes: &[Stat], seeds: BTreeSet<i32>) -> Vec<Stat> {
    let mut below: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in processes {
        below.entry(stat.parent).or_default().push(stat.pid);
    }
    let mut rest: Vec<i32> = seeds.iter().copied().collect();
    let mut members = seeds;
    while let Some(pid) = rest.pop() {
        for child in below.get(&pid).into_iter().flatten() {
            if members.insert(*child) {
                rest.push(*child);
            }
        }
    }
    processes.iter().filter(|stat| members.contains(&stat.pid)).copied().collect()
}

/// Whether the kernel lists the children of a process (`CONFIG_PROC_CHILDREN`).
fn has_children_files() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| Path::new("/proc/thread-self/children").exists())
}

fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for thread in threads.flatten() {
        if let Ok(list) = fs::read_to_string(thread.path().join("children")) {
            found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    found
}

/// The variable by which a job's processes are known.
pub(super) const JOB_VARIABLE: &str = "FISHPLATE_JOB";

/// Processes that carry the job's ID in the environment with which they were started.
pub(super) fn carriers(job: JobId, among: &[Stat]) -> Vec<Stat> {
    let own = nix::unistd::getpid().as_raw();
    // Zombies have no environment any more.
    let carries =
        |stat: &&Stat| stat.pid != own && stat.is_alive() && job_of(stat.pid) == Some(job);
    among.iter().filter(carries).copied().collect()
}

/// The job whose ID a process carries, if it carries one.
pub(super) fn job_of(pid: i32) -> Option<JobId> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(JOB_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// When a process of this boot started, in milliseconds since 1970.
pub(super) fn start_millis(process: ProcessId) -> i64 {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    let per_second = u64::try_from(ticks.unwrap_or(100)).unwrap_or(100).max(1);
    let since_boot = i64::try_from(process.start * 1000 / per_second).unwrap_or(0);
    now_millis() - boot_millis() + since_boot
}

/// Milliseconds since the boot, the machine's sleep included.
pub(super) fn boot_millis() -> i64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
        .map_or(0, |time| time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000)
}

/// Milliseconds since 1970.
pub(super) fn now_millis() -> i64 {
    use fishplate_contract::Clock as _;
    fishplate_contract::SystemClock.now().0
}

#[expect(unsafe_code, reason = "neither std nor nix opens descriptors of processes")]
pub(super) fn pidfd_open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor, owned here, or -1.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        Some(OwnedFd::from_raw_fd(fd))
    }
}

#[expect(unsafe_code, reason = "neither std nor nix signals through descriptors of processes")]
fn pidfd_signal(fd: &OwnedFd, signal: Signal) -> bool {
    let none = std::ptr::null_mut::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and the kernel takes a null siginfo as that of kill(2).
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal as i32, none, 0)
    };
    sent == 0
}

/// Ends the processes, each known for itself. Tells which were there.
pub(super) fn signal_all(processes: &[Stat], signal: Signal) -> Vec<i32> {
    let reached = |stat: &&Stat| stat.is_alive() && stat.id().signal(signal);
    processes.iter().filter(reached).map(|stat| stat.pid).collect()
}

/// Turns an errno into the error type of std.
pub(super) fn io(error: nix::Error) -> io::Error {
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = b"7 (a) b (c)) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 99 5 0";
        let stat = parse_stat(7, text).unwrap();
        assert_eq!((stat.parent, stat.session, stat.start, stat.resident), (1, 3, 4711, 5));
        assert!(stat.is_alive());
    }

    #[test]
    fn a_process_is_alive_under_its_own_start_time_only() {
        let own = ProcessId::of(nix::unistd::getpid().as_raw()).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { start: own.start + 1, ..own }.is_alive());
        assert!(!ProcessId { start: own.start + 1, ..own }.signal(Signal::SIGKILL));
    }

    #[test]
    fn a_child_is_found_below_its_parent_by_either_way() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let own = nix::unistd::getpid().as_raw();
        assert!(descendants(own).iter().any(|stat| stat.pid == pid));
        assert!(closure(&all(), BTreeSet::from([own])).iter().any(|stat| stat.pid == pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(own).iter().any(|stat| stat.pid == pid));
    }
}
