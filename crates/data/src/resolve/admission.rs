//! Who may fetch or deliver now. Beneath what may run in all, one owner has only so many places and so has
//! one peer: neither those who ask for much nor peers that are slow keep everybody else waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fishplate_contract::Principal;
use tokio::sync::oneshot;

use crate::transfer::TransferSettings;

/// The places of all transfers.
#[derive(Clone, Debug)]
pub(super) struct Admission(Arc<AdmissionInner>);

#[derive(Debug)]
struct AdmissionInner {
    most: PermitLimits,
    taken: Mutex<PermitCounts>,
}

#[derive(Debug)]
struct PermitLimits {
    in_all: u32,
    of_owner: u32,
    of_peer: u32,
}

#[derive(Debug, Default)]
struct PermitCounts {
    in_all: u32,
    of_owners: HashMap<Principal, u32>,
    of_peers: HashMap<String, u32>,
    /// In the order in which they came.
    waiting: VecDeque<PermitRequest>,
}

#[derive(Debug)]
struct PermitRequest {
    whose: PermitOwner,
    admit: oneshot::Sender<Permit>,
}

#[derive(Clone, Debug)]
struct PermitOwner {
    owner: Principal,
    peer: String,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    whose: PermitOwner,
    /// `None` once it was given back.
    shared: Option<Arc<AdmissionInner>>,
}

impl Admission {
    pub(super) fn new(settings: &TransferSettings) -> Self {
        let most = PermitLimits {
            in_all: settings.running.max(1),
            of_owner: settings.per_owner.max(1),
            of_peer: settings.per_peer.max(1),
        };
        Self(Arc::new(AdmissionInner { most, taken: Mutex::default() }))
    }

    /// Waits for a place: whoever came first of those for whom there is one gets it.
    pub(super) async fn take(&self, owner: &Principal, peer: String) -> Permit {
        let whose = PermitOwner { owner: owner.clone(), peer };
        loop {
            let admitted = {
                let mut taken = self.0.lock();
                // Those who wait do so because there is no place for them.
                if taken.has_room(&self.0.most, &whose) {
                    return taken.seat(whose, &self.0);
                }
                let (admit, admitted) = oneshot::channel();
                taken.waiting.push_back(PermitRequest { whose: whose.clone(), admit });
                admitted
            };
            if let Ok(place) = admitted.await {
                return place;
            }
        }
    }
}

impl AdmissionInner {
    fn lock(&self) -> MutexGuard<'_, PermitCounts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place back and lets those in for whom there is one now.
    fn release(self: &Arc<Self>, whose: &PermitOwner) {
        let mut taken = self.lock();
        taken.leave(whose);
        let mut nth = 0;
        while taken.in_all < self.most.in_all
            && let Some(waiting) = taken.waiting.get(nth)
        {
            if !waiting.admit.is_closed() && !taken.has_room(&self.most, &waiting.whose) {
                nth += 1;
                continue;
            }
            let Some(PermitRequest { whose, admit }) = taken.waiting.remove(nth) else { break };
            if admit.is_closed() {
                continue; // it was given up
            }
            let place = taken.seat(whose, self);
            if let Err(mut place) = admit.send(place) {
                // Given up just now. Its place is not dropped, which would come back here.
                place.shared = None;
                taken.leave(&place.whose);
            }
        }
    }
}

impl PermitCounts {
    fn has_room(&self, most: &PermitLimits, whose: &PermitOwner) -> bool {
        self.in_all < most.in_all
            && self.of_owners.get(&whose.owner).is_none_or(|taken| *taken < most.of_owner)
            && self.of_peers.get(&whose.peer).is_none_or(|taken| *taken < most.of_peer)
    }

    fn seat(&mut self, whose: PermitOwner, shared: &Arc<AdmissionInner>) -> Permit {
        self.in_all += 1;
        *self.of_owners.entry(whose.owner.clone()).or_default() += 1;
        *self.of_peers.entry(whose.peer.clone()).or_default() += 1;
        Permit { whose, shared: Some(Arc::clone(shared)) }
    }

    fn leave(&mut self, whose: &PermitOwner) {
        self.in_all = self.in_all.saturating_sub(1);
        give_back(&mut self.of_owners, &whose.owner);
        give_back(&mut self.of_peers, &whose.peer);
    }
}

fn give_back<K: std::hash::Hash + Eq>(taken: &mut HashMap<K, u32>, whose: &K) {
    if let Some(count) = taken.get_mut(whose) {
        *count -= 1;
        if *count == 0 {
            taken.remove(whose);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.release(&self.whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn admission(running: u32, per_owner: u32, per_peer: u32) -> Admission {
        Admission::new(&TransferSettings {
            running,
            per_owner,
            per_peer,
            ..TransferSettings::default()
        })
    }

    fn now(taking: Pin<&mut impl Future<Output = Permit>>) -> Option<Permit> {
        match taking.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn neither_an_owner_nor_a_peer_takes_all_places() {
        let admission = admission(5, 3, 2);
        let [a, b] = ["a", "b"].map(Principal::named);
        let take = |owner, peer: &str| now(pin!(admission.take(owner, peer.to_owned())));
        let slow = [take(&a, "slow"), take(&a, "slow")];
        assert!(slow.iter().all(Option::is_some));
        assert!(take(&a, "slow").is_none(), "the peer has more than its places");
        assert!(take(&b, "slow").is_none(), "the peer has more than its places");
        let other = take(&a, "other").expect("a place at another peer");
        assert!(take(&a, "third").is_none(), "the owner has more than its places");
        let _more = [take(&b, "third").expect("a place"), take(&b, "other").expect("a place")];
        assert!(take(&b, "fourth").is_none(), "more than all places were taken");
        drop(other);
        assert!(take(&b, "fourth").is_some());
    }

    #[test]
    fn who_waits_is_let_in_as_soon_as_there_is_a_place_and_keeps_nobody_behind_waiting() {
        let admission = admission(2, 2, 1);
        let owner = Principal::anonymous();
        let slow = now(pin!(admission.take(&owner, "slow".to_owned()))).unwrap();
        let other = now(pin!(admission.take(&owner, "other".to_owned()))).unwrap();
        let mut first = pin!(admission.take(&owner, "slow".to_owned()));
        let mut gone = Box::pin(admission.take(&owner, "quick".to_owned()));
        let mut last = pin!(admission.take(&owner, "quick".to_owned()));
        assert!(now(first.as_mut()).is_none() && now(last.as_mut()).is_none());
        assert!(now(gone.as_mut()).is_none());
        drop(gone);
        drop(other);
        let last = now(last).expect("the place of the other");
        assert!(now(first.as_mut()).is_none(), "the peer has more than its places");
        drop(slow);
        let first = now(first).expect("the place of the slow one");
        drop((first, last));
        assert_eq!(admission.0.lock().in_all, 0);
        assert!(admission.0.lock().of_owners.is_empty() && admission.0.lock().of_peers.is_empty());
    }

    #[test]
    fn a_place_that_nobody_takes_up_any_more_is_free() {
        let admission = admission(1, 1, 1);
        let owner = Principal::anonymous();
        let taken = now(pin!(admission.take(&owner, "peer".to_owned()))).unwrap();
        let mut waiting = Box::pin(admission.take(&owner, "peer".to_owned()));
        assert!(now(waiting.as_mut()).is_none());
        drop(taken); // the waiting one is admitted, and does not look
        drop(waiting);
        assert!(now(pin!(admission.take(&owner, "peer".to_owned()))).is_some());
    }
}
