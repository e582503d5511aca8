//! The connections of a listener: how many there are, of one peer and of all, and who makes room for
//! a newcomer when there are too many.
//!
//! The connection that has idled longest does: no request of it is being answered, so its peer loses
//! nothing but the way to ask the next one. One that was only begun, or whose header comes in drops,
//! idles since it was accepted. One that was passed on to a rank makes room for nobody.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How often a server that stops looks whether all is answered.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Stands where others have the time since when they idle: a request is being answered.
const BUSY: u64 = u64::MAX;
/// An answer was made and is not yet all with the system.
const ANSWERED: u64 = BUSY - 1;
/// It was told to go.
const LEAVING: u64 = BUSY - 2;
/// A connection was asked for, to be passed on: a server that stops does not wait for it, as ranks ask again.
const PASSING: u64 = BUSY - 3;
/// The connection itself was passed on (`Upgrade`), and nobody here tells it to go.
const PASSED: u64 = BUSY - 4;

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    most_of_peer: usize,
    begun: Instant,
    open: Mutex<OpenConnection>,
    /// A newcomer waits for somebody to idle.
    crowded: AtomicBool,
    /// Somebody has gone, or idles where a newcomer waits.
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnection {
    /// Those of no peer have bounds elsewhere: sites', and through a relay.
    connections: HashMap<u64, (Option<IpAddr>, Arc<Activity>)>,
    peers: HashMap<IpAddr, usize>,
    next: u64,
}

/// What a connection does.
#[derive(Debug)]
pub(super) struct Activity {
    /// Milliseconds since the listener began, or one of the words above.
    idle_since: AtomicU64,
    leave: Notify,
}

/// A connection's place; it is free when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    id: u64,
    activity: Arc<Activity>,
    all: Arc<Connections>,
}

/// A request is being answered until this is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let _ = self.0.turn(BUSY, ANSWERED) || self.0.turn(PASSING, ANSWERED);
    }
}

impl RequestGuard {
    /// The request is for a connection to somebody else.
    pub(super) fn passing(&self) {
        self.0.turn(BUSY, PASSING);
    }

    /// From here on its connection is one to somebody else.
    pub(super) fn passed(&self) {
        self.0.turn(PASSING, PASSED);
    }
}

impl Connections {
    pub(super) fn new(most: usize, most_of_peer: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_peer,
            begun: Instant::now(),
            open: Mutex::default(),
            crowded: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// A place for a newcomer, as soon as there is one; `None` if its peer has as many connections as
    /// it may have and all of them are busy.
    pub(super) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        self.admit_of(Some(peer(address))).await
    }

    /// The same of one that counts for no peer: through a relay come all callers.
    pub(super) async fn admit_relayed(self: &Arc<Self>) -> Option<ConnectionSlot> {
        self.admit_of(None).await
    }

    async fn admit_of(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<ConnectionSlot> {
        loop {
            // Made before looking, so that nothing that happens meanwhile is missed.
            let changed = self.changed.notified();
            let of_peer = peer.and_then(|peer| self.open().peers.get(&peer).copied());
            let of_peer = of_peer.unwrap_or_default();
            if of_peer >= self.most_of_peer {
                if !self.dismiss(|of| of == peer) {
                    return None;
                }
            } else if self.open().connections.len() >= self.most {
                self.crowded.store(true, Ordering::SeqCst);
                self.dismiss(|_| true);
            } else {
                self.crowded.store(false, Ordering::SeqCst);
                return Some(self.enter(peer));
            }
            changed.await;
        }
    }

    /// Waits until no request is being answered, but for connections that are passed on. Nobody is told to go: who asks for more is told that it is too late.
    pub(super) async fn answered(&self) {
        loop {
            let is_idle = |activity: &Activity| {
                !matches!(activity.idle_since.load(Ordering::SeqCst), BUSY | ANSWERED)
            };
            if self.open().connections.values().all(|(_, activity)| is_idle(activity)) {
                return;
            }
            // Once in a server's life: no reason for those who answer to tell anybody.
            sleep(LOOK_AGAIN).await;
        }
    }

    fn enter(self: &Arc<Self>, peer: Option<IpAddr>) -> ConnectionSlot {
        let activity =
            Arc::new(Activity { idle_since: AtomicU64::new(self.now()), leave: Notify::new() });
        let mut open = self.open();
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, (peer, Arc::clone(&activity)));
        if let Some(peer) = peer {
            *open.peers.entry(peer).or_default() += 1;
        }
        ConnectionSlot { id, activity, all: Arc::clone(self) }
    }

    /// Tells the connection that has idled longest among some to go; whether there is one that idles
    /// or was already told.
    fn dismiss(&self, among: impl Fn(Option<IpAddr>) -> bool) -> bool {
        let open = self.open();
        let candidates = || {
            let among = open.connections.iter().filter(|(_, (peer, _))| among(*peer));
            among.map(|(id, (_, activity))| {
                (activity.idle_since.load(Ordering::SeqCst), *id, activity)
            })
        };
        if candidates().any(|(since, ..)| since == LEAVING) {
            return true;
        }
        let idle = || candidates().filter(|(since, ..)| *since < PASSED);
        while let Some((since, _, longest)) = idle().min_by_key(|(since, id, _)| (*since, *id)) {
            // It may have been asked something since we looked.
            if longest.turn(since, LEAVING) {
                longest.leave.notify_one();
                return true;
            }
        }
        false
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or_default()
    }

    fn open(&self) -> MutexGuard<'_, OpenConnection> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// A peer has one less.
    fn release(&mut self, peer: Option<IpAddr>) {
        let Some(peer) = peer else { return };
        if let Some(count) = self.peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
    }
}

impl Activity {
    fn turn(&self, from: u64, to: u64) -> bool {
        self.idle_since.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl ConnectionSlot {
    /// A request has come; `None` if the connection was told to go before.
    pub(super) fn busy(&self) -> Option<RequestGuard> {
        loop {
            let before = self.activity.idle_since.load(Ordering::SeqCst);
            if before == LEAVING {
                return None;
            }
            if self.activity.turn(before, BUSY) {
                return Some(RequestGuard(Arc::clone(&self.activity)));
            }
        }
    }

    /// All that was written is with the system.
    pub(super) fn flushed(&self) {
        // Most flushes have nothing to do with it.
        if self.activity.idle_since.load(Ordering::Relaxed) == ANSWERED
            && self.activity.turn(ANSWERED, self.all.now())
            && self.all.crowded.load(Ordering::SeqCst)
        {
            self.all.changed.notify_one();
        }
    }

    /// From here on it counts for no peer.
    pub(super) fn release_peer(&self) {
        let mut open = self.all.open();
        let peer = open.connections.get_mut(&self.id).and_then(|(peer, _)| peer.take());
        open.release(peer);
        drop(open);
        self.all.changed.notify_one();
    }

    /// Waits until it is to make room for somebody.
    pub(super) async fn told_to_leave(&self) {
        self.activity.leave.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.all.open();
        let peer = open.connections.remove(&self.id).and_then(|(peer, _)| peer);
        open.release(peer);
        drop(open);
        self.all.changed.notify_one();
    }
}

/// Who is at an address: of IPv6 everybody has a network of 64 bits to choose from.
pub(crate) fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Has a connection go when it is told to.
    fn leaving(place: ConnectionSlot) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { place.told_to_leave().await })
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_idled_longest_makes_room() {
        let all = Connections::new(3, 3);
        let busy = all.admit(at(1)).await.unwrap();
        let answering = busy.busy().unwrap();
        sleep(Duration::from_secs(1)).await;
        let second = leaving(all.admit(at(2)).await.unwrap());
        sleep(Duration::from_secs(1)).await;
        let third = leaving(all.admit(at(3)).await.unwrap());
        let _fourth = all.admit(at(4)).await.unwrap();
        assert!(second.is_finished() && !third.is_finished());
        let _fifth = all.admit(at(5)).await.unwrap();
        assert!(third.is_finished());
        // An answer that is not all with the system is not cut.
        drop(answering);
        let newcomer = Arc::clone(&all);
        let newcomer = tokio::spawn(async move { newcomer.admit(at(6)).await });
        let _fourth = _fourth.busy().unwrap();
        let _fifth = _fifth.busy().unwrap();
        sleep(Duration::from_secs(100)).await;
        assert!(!newcomer.is_finished());
        busy.flushed();
        leaving(busy).await.unwrap();
        assert!(newcomer.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_peer_has_a_bound_of_its_own() {
        let all = Connections::new(10, 2);
        let first = all.admit(at(1)).await.unwrap();
        let second = leaving(all.admit(at(1)).await.unwrap());
        let first_busy = first.busy().unwrap();
        let third = all.admit(at(1)).await.unwrap();
        assert!(second.is_finished(), "its own idle one makes room");
        let _third_busy = third.busy().unwrap();
        assert!(all.admit(at(1)).await.is_none());
        assert!(all.admit(at(2)).await.is_some(), "others are not concerned");
        drop((first, first_busy));
        assert!(all.admit(at(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_passed_on_makes_no_room_and_stops_no_server() {
        let all = Connections::new(10, 2);
        let first = all.admit(at(1)).await.unwrap();
        let asked = first.busy().unwrap();
        asked.passing();
        asked.passed();
        drop(asked);
        first.flushed();
        let second = all.admit(at(1)).await.unwrap();
        let asked = second.busy().unwrap();
        asked.passing();
        // Nobody idles who could be told to go.
        let third = tokio::time::timeout(Duration::from_secs(1), all.admit(at(1)));
        assert!(third.await.unwrap().is_none());
        all.answered().await;
        drop(asked);
        second.flushed();
        let second = leaving(second);
        assert!(all.admit(at(1)).await.is_some(), "that request was answered");
        assert!(second.is_finished());
    }

    #[tokio::test]
    async fn what_counts_for_no_peer_has_no_bound_here() {
        let all = Connections::new(10, 1);
        let mut slots = Vec::new();
        for _ in 0..3 {
            slots.push(all.admit_relayed().await.unwrap());
        }
        let first = all.admit(at(1)).await.unwrap();
        let _busy = first.busy().unwrap();
        assert!(all.admit(at(1)).await.is_none());
        first.release_peer();
        let second = all.admit(at(1)).await.unwrap();
        let _busy = second.busy().unwrap();
        drop(first);
        assert!(all.admit(at(1)).await.is_none(), "it was counted once");
    }

    #[test]
    fn a_peer_is_an_address_or_a_network_of_ipv6() {
        let same = |a: &str, b: &str| peer(a.parse().unwrap()) == peer(b.parse().unwrap());
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:2"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("::1", "::2"));
    }
}
