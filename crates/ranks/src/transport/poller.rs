//! epoll, level-triggered, and an event by which a waiting thread is woken.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::transport::Waiter;

/// Which connection an event is of.
const WOKEN: u64 = u64::MAX;
const EVENTS: usize = 64;

#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    woken: OwnedFd,
    /// What ended a wait: it need not be asked for again.
    awaited: Mutex<Vec<u64>>,
}

impl Poller {
    /// With an event of its own, or one that others can write too.
    pub(super) fn new(event: Option<OwnedFd>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let woken = match event {
            Some(event) => event,
            None => eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        epoll::add(&epoll, &woken, EventData::new_u64(WOKEN), EventFlags::IN)?;
        Ok(Self { epoll, woken, awaited: Mutex::default() })
    }

    /// Watches a socket until it is closed.
    pub(super) fn add(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    /// Changes whether room to write is waited for.
    pub(super) fn modify(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    /// Watches a socket no more, though it stays open.
    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Tokens of sockets that are ready now, into `ready`. A thread that sleeps meanwhile is woken all the same: its event
    /// stays for [`Poller::wait`].
    pub(super) fn ready(&self, ready: &mut Vec<u64>) {
        ready.append(&mut self.awaited.lock().unwrap_or_else(PoisonError::into_inner));
        if ready.is_empty() {
            self.poll(ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        }
    }

    /// Whether a thread is to be woken.
    fn poll(&self, ready: &mut Vec<u64>, timeout: Option<&Timespec>) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        // An interruption by a signal is as good as an event: whoever waits looks again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, timeout) else { return false };
        let tokens = events.iter().map(|event| event.data.u64());
        let before = ready.len();
        ready.extend(tokens.filter(|token| *token != WOKEN));
        ready.len() - before < events.len()
    }
}

/// One poller can watch another.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn interest(writable: bool) -> EventFlags {
    if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

impl Waiter for Poller {
    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut ready = Vec::new();
        if self.poll(&mut ready, timeout.as_ref()) {
            let _ = rustix::io::read(&self.woken, &mut [0; 8]);
        }
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).append(&mut ready);
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.woken, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn who_looks_leaves_the_event_to_who_sleeps() {
        let poller = Poller::new(None).unwrap();
        let is_woken = || {
            let mut woken = [PollFd::new(&poller.woken, PollFlags::IN)];
            poll(&mut woken, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        poller.wake();
        poller.ready(&mut Vec::new());
        assert!(is_woken());
        poller.wait(None);
        assert!(!is_woken());
    }
}
