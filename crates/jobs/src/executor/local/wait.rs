//! Waiting for children: what neither std nor nix does, in one place.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::process_tree::{ExitStatus, WaitUsage};

/// What one look for dead children found.
#[derive(Debug)]
pub(super) enum WaitResult {
    /// One, reaped.
    Reaped { pid: i32, status: ExitStatus, usage: WaitUsage },
    /// Children, but none that is dead.
    Alive,
    /// No children.
    None,
}

/// What there is to see of children without reaping one.
#[derive(Debug)]
pub(super) enum PeekResult {
    /// One is dead and not reaped yet.
    Dead(i32, ExitStatus),
    /// Children, but none that is dead.
    Alive,
    /// No children.
    None,
}

/// Looks for a dead child and leaves it as it is.
#[expect(unsafe_code, reason = "nix does not tell of every signal that ends a process")]
pub(super) fn peek() -> PeekResult {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the pointer is to memory of the right type that lives through the call.
    if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) } != 0 {
        return PeekResult::None;
    }
    // SAFETY: zeroed is a valid siginfo, and what waitid writes over it tells of a child.
    let (pid, code, status) = unsafe {
        let info = info.assume_init();
        (info.si_pid(), info.si_code, info.si_status())
    };
    match (pid, code) {
        (0, _) => PeekResult::Alive,
        (_, libc::CLD_EXITED) => PeekResult::Dead(pid, ExitStatus::Exit(status)),
        _ => PeekResult::Dead(pid, ExitStatus::Signal(status)),
    }
}

/// Reaps this child if it is dead.
#[expect(unsafe_code, reason = "nix has no wait4, which tells what the child used")]
pub(super) fn reap_of(child: i32) -> WaitResult {
    let mut raw = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to memory of the right type that lives through the call.
        let pid = unsafe {
            libc::wait4(child, &raw mut raw, libc::WNOHANG | libc::__WALL, usage.as_mut_ptr())
        };
        match pid {
            0 => return WaitResult::Alive,
            pid if pid > 0 => {
                // SAFETY: zeroed is a valid rusage, whatever wait4 wrote over it.
                let usage = unsafe { usage.assume_init() };
                return WaitResult::Reaped {
                    pid,
                    status: ExitStatus::of(raw),
                    usage: used(&usage),
                };
            }
            _ if nix::Error::last() == nix::Error::EINTR => {}
            _ => return WaitResult::None,
        }
    }
}

fn used(usage: &libc::rusage) -> WaitUsage {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    WaitUsage {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        max_memory: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }
}

/// The signal that asks a runner to end its job, and a supervisor to look which of its jobs have a
/// request to end in their journals.
pub(super) const CANCEL: Signal = Signal::SIGUSR1;

/// Blocks the signals that are read instead of interrupting (children that died, [`CANCEL`], and these)
/// in this process, and gives a descriptor to read them from.
pub(super) fn block_signals(others: &[Signal]) -> nix::Result<SignalFd> {
    let signals = [Signal::SIGCHLD, CANCEL].into_iter().chain(others.iter().copied()).collect();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&signals), None)?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Reads all signals that are there. Tells whether [`CANCEL`] was among them.
pub(super) fn drain(signals: &SignalFd) -> bool {
    let mut cancel = false;
    while let Ok(Some(info)) = signals.read_signal() {
        cancel |= i32::try_from(info.ssi_signo) == Ok(CANCEL as i32);
    }
    cancel
}

/// Waits for a child's death, for a short time. A single call, where polling needs two.
#[expect(unsafe_code, reason = "nix has no sigtimedwait")]
pub(super) fn await_child(most: Duration) {
    let set = SigSet::from_iter([Signal::SIGCHLD]);
    let time = nix::sys::time::TimeSpec::from_duration(most);
    // SAFETY: the set and the time live through the call; a null siginfo is not written.
    unsafe { libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), time.as_ref()) };
}

/// Waits until one of these can be read or is closed on the other side. Tells which; none if the
/// time is over.
pub(super) fn readable<const N: usize>(
    descriptors: [Option<BorrowedFd<'_>>; N],
    most: Option<Duration>,
) -> [bool; N] {
    let mut set: Vec<PollFd<'_>> =
        descriptors.iter().flatten().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    let timeout = most.map_or(PollTimeout::NONE, |most| {
        // Rounded up: a wait of less than a millisecond is not a busy loop.
        let millis = most.as_micros().div_ceil(1000).min(60_000);
        PollTimeout::try_from(i32::try_from(millis).unwrap_or(60_000)).unwrap_or(PollTimeout::MAX)
    });
    let ready = poll(&mut set, timeout).is_ok_and(|ready| ready > 0);
    let mut polled = set.iter();
    descriptors.map(|descriptor| {
        let this = descriptor.is_some().then(|| polled.next()).flatten();
        ready && this.and_then(PollFd::any).unwrap_or(false)
    })
}
