//! epoll, level-triggered, and an event by which a waiting thread is woken.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
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
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &woken, EventData::new_u64(WOKEN), EventFlags::IN)?;
        Ok(Self { epoll, woken })
    }

    /// Watches a socket until it is closed.
    pub(super) fn add(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    /// Changes whether room to write is waited for.
    pub(super) fn modify(&self, socket: impl AsFd, token: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    /// Tokens of sockets that are ready now, into `ready`.
    pub(super) fn ready(&self, ready: &mut Vec<u64>) {
        let mut events = Vec::with_capacity(EVENTS);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Err(error) = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&zero)) {
            tracing::trace!(%error, "epoll was interrupted");
        }
        for event in events {
            let token = event.data.u64();
            if token == WOKEN {
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.woken, &mut count);
            } else {
                ready.push(token);
            }
        }
    }
}

fn interest(writable: bool) -> EventFlags {
    if writable { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

impl Waiter for Poller {
    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut event = Vec::with_capacity(1);
        // An interruption by a signal is as good as an event: whoever waits looks again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut event), timeout.as_ref());
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.woken, &1u64.to_ne_bytes());
    }
}
