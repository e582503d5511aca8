//! Waits that end within microseconds of their time. The runtime's own are counted in milliseconds: at a thousand
//! requests a second each would begin late by half of one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Instant;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// A timer of the system.
pub(super) struct Timer(AsyncFd<Descriptor>);

struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        #[expect(unsafe_code, reason = "the runtime has no safe way to watch a descriptor")]
        // SAFETY: the timer owns its descriptor, and nothing closes or replaces it while `AsyncFd` has it.
        let watched = unsafe { AsyncFd::register(Descriptor(timer)) };
        Ok(Self(watched?))
    }

    /// Waits until then; at once if it has been.
    pub(super) async fn until(&self, at: Instant) -> io::Result<()> {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let once = Expiration::OneShot(TimeSpec::from_duration(left));
        self.0.get_ref().0.set(once, TimerSetTimeFlags::empty())?;
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(waited) = ready.try_io(|timer| timer.get_ref().0.wait().map_err(Into::into)) {
                return waited;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_wait_ends_at_its_time_and_not_before() {
        let timer = Timer::new().expect("the system has timers");
        for micros in [0, 1, 300, 2_500] {
            let at = Instant::now() + Duration::from_micros(micros);
            timer.until(at).await.expect("it runs");
            assert!(Instant::now() >= at, "{micros}");
        }
    }
}
