//! Between threads of one process, each of them a rank. Payloads are moved or copied, never shared.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::peer::PeerState;
use crate::engine::{Engine, Frame, Payload};
use crate::header::{Header, Rank, RequestId};
use crate::transport::{Transport, Waiter};

#[derive(Debug)]
enum Item {
    Frame(Header, Payload),
    Closed(Rank),
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    woken: bool,
    closed: bool,
}

/// Where a rank's frames wait for it.
#[derive(Debug, Default)]
struct Inbox {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its owner still lives.
    fn push(&self, item: Item) -> bool {
        let mut queue = self.lock();
        if !queue.closed {
            queue.items.push_back(item);
            self.changed.notify_one();
        }
        !queue.closed
    }
}

impl Waiter for Inbox {
    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.unwrap_or(Duration::MAX);
        let idle = |queue: &mut Queue| queue.items.is_empty() && !queue.woken;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.woken = false;
    }

    fn wake(&self) {
        self.lock().woken = true;
        self.changed.notify_one();
    }
}

/// One rank's end.
#[derive(Debug)]
pub struct Local {
    rank: Rank,
    inboxes: Arc<[Arc<Inbox>]>,
}

impl Local {
    /// The ends of a domain of `size` ranks, in their order.
    pub fn domain(size: u32) -> Vec<Self> {
        let inboxes: Arc<[Arc<Inbox>]> = (0..size).map(|_| Arc::default()).collect();
        (0..size).map(|rank| Self { rank, inboxes: inboxes.clone() }).collect()
    }
}

impl Transport for Local {
    fn send(&mut self, mut frame: Frame, engine: &mut Engine) {
        frame.payload.detach();
        let to = frame.header.to;
        if self.inboxes[to as usize].push(Item::Frame(frame.header, frame.payload)) {
            if let Some(request) = frame.request {
                engine.sent(request);
            }
        } else if engine.peer_state(to) == PeerState::Left {
            engine.undelivered(to);
        }
    }

    fn progress(&mut self, engine: &mut Engine) -> bool {
        let items = std::mem::take(&mut self.inboxes[self.rank as usize].lock().items);
        let any = !items.is_empty();
        for item in items {
            match item {
                Item::Frame(header, payload) => {
                    if let Err(error) = engine.deliver(header, payload.bytes()) {
                        tracing::warn!(%error, rank = header.from, "a rank is given up");
                        engine.fail(header.from);
                    }
                }
                Item::Closed(rank) => engine.fail(rank),
            }
        }
        any
    }

    fn watch(&mut self) {}

    fn detach(&mut self, _: RequestId) {}

    fn disconnect(&mut self, _: Rank) {}

    fn is_flushed(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        self.inboxes[self.rank as usize].clone()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut queue = self.inboxes[self.rank as usize].lock();
        queue.closed = true;
        queue.items.clear();
        drop(queue);
        for inbox in self.inboxes.iter() {
            inbox.push(Item::Closed(self.rank));
        }
    }
}
