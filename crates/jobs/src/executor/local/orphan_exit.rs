//! How programs end that are nobody's children any more, all of their supervisors being dead.
//!
//! Only a parent is told the exit status of a process. But since Linux 6.15 whoever has held a
//! descriptor of a process (pidfd) from before its end is told by `PIDFD_GET_INFO` afterwards, and
//! until somebody has waited for it `/proc/PID/stat` tells it too. So an engine that looks at an
//! orphan while it runs is told its exit. On an older kernel there is none.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;

use super::procfs::{ProcessId, pidfd_open, stat};

/// The orphans that this process watches.
#[derive(Debug, Default)]
pub(super) struct OrphanWatch {
    watched: Mutex<HashMap<ProcessId, OrphanState>>,
}

/// What is known of an orphan. An end is kept: whoever looks at the same time asks for it too.
#[derive(Debug)]
enum OrphanState {
    Running(OwnedFd),
    Ended(OrphanStatus),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrphanStatus {
    Exited(i32),
    Signalled(String),
}

impl OrphanWatch {
    /// Watches a program that runs.
    pub(super) fn watch(&self, program: ProcessId) {
        let mut watched = self.watched();
        if watched.contains_key(&program) {
            return;
        }
        // Opened first: the descriptor is of whoever had the number then, and if the program is
        // alive now that was it.
        if let Some(fd) = pidfd_open(program.pid)
            && program.is_alive()
        {
            watched.insert(program, OrphanState::Running(fd));
        }
    }

    /// How a program ended that was watched; nothing if it was not, or the kernel does not tell.
    pub(super) fn status(&self, program: ProcessId) -> Option<OrphanStatus> {
        let mut watched = self.watched();
        let seen = watched.get_mut(&program)?;
        if let OrphanState::Running(fd) = seen {
            let code = zombie_status(program).or_else(|| exit_info(fd))?;
            *seen = OrphanState::Ended(OrphanStatus::of_wait(code));
        }
        let OrphanState::Ended(status) = seen else { return None };
        Some(status.clone())
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<ProcessId, OrphanState>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrphanStatus {
    /// Reads a status as `wait` gives it.
    fn of_wait(code: i32) -> Self {
        if libc::WIFEXITED(code) {
            return Self::Exited(libc::WEXITSTATUS(code));
        }
        let signal = libc::WTERMSIG(code);
        let name = Signal::try_from(signal)
            .map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned());
        Self::Signalled(name)
    }
}

/// The last field of `/proc/PID/stat`, until it is gone: while nobody has waited for it (Z), and
/// while somebody does (X), when its descriptor does not tell yet.
fn zombie_status(program: ProcessId) -> Option<i32> {
    if stat(program.pid)?.start != program.start {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{}/stat", program.pid)).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    matches!(state, "Z" | "X").then_some(())?;
    fields.last()?.parse().ok()
}

/// `struct pidfd_info` of `linux/pidfd.h`, in its first form.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// From `pid` to `fsgid`.
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`.
const EXIT: u64 = 1 << 3;

/// The status that the kernel keeps for a descriptor once the process was waited for.
fn exit_info(fd: &OwnedFd) -> Option<i32> {
    const PIDFD_GET_INFO: libc::Ioctl = libc::_IOWR::<PidfdInfo>(0xFF, 11);
    let mut info = PidfdInfo { mask: EXIT, ..PidfdInfo::default() };
    #[expect(unsafe_code, reason = "no library wraps this ioctl")]
    // SAFETY: the descriptor is open, and the structure has the layout and the size that the
    // request tells; the kernel writes no more than that.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Whether this kernel tells it.
    fn kernel_tells() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
    }

    fn ended(script: &str, wait: bool) -> Option<OrphanStatus> {
        let mut child = Command::new("sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let program = ProcessId::of(child.id().try_into().unwrap()).unwrap();
        let orphan_watch = OrphanWatch::default();
        orphan_watch.watch(program);
        drop(child.stdin.take());
        if wait {
            child.wait().unwrap();
        } else {
            while program.is_alive() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        let status = orphan_watch.status(program);
        assert_eq!(orphan_watch.status(program), status, "whoever asks is told");
        child.wait().unwrap();
        status
    }

    #[test]
    fn an_orphan_that_was_watched_tells_how_it_ended() {
        assert_eq!(ended("exit 7", false), Some(OrphanStatus::Exited(7)));
        assert_eq!(ended("kill -9 $$", false), Some(OrphanStatus::Signalled("SIGKILL".to_owned())));
        let waited = ended("exit 7", true);
        assert_eq!(waited, kernel_tells().then_some(OrphanStatus::Exited(7)));
    }

    #[test]
    fn nobody_tells_of_what_was_not_watched() {
        let nobody = ProcessId { pid: i32::MAX, start: 1 };
        let orphan_watch = OrphanWatch::default();
        orphan_watch.watch(nobody);
        assert_eq!(orphan_watch.status(nobody), None);
    }
}
