//! Small data on its way from memory into the pool: one thread puts away what has come meanwhile,
//! because to wake one for each costs more than the putting away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fishplate_contract::{Digest, Fault, FaultCode, Principal};
use tokio::sync::oneshot;

use crate::lease::Lease;
use crate::pool::{Pool, PoolError};

/// What waits to be put away.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    parcels: Vec<Parcel>,
    /// A thread is putting away.
    attended: bool,
}

#[derive(Debug)]
struct Parcel {
    owner: Principal,
    pieces: Vec<Bytes>,
    must_be: Option<Digest>,
    stored: oneshot::Sender<Result<Lease, PoolError>>,
}

impl Shelf {
    /// Stores data that is in memory.
    pub(super) async fn store(
        self: &Arc<Self>,
        pool: &Pool,
        owner: &Principal,
        pieces: Vec<Bytes>,
        must_be: Option<Digest>,
    ) -> Result<Lease, Fault> {
        let (stored, storing) = oneshot::channel();
        let attended = {
            let mut waiting = self.lock();
            waiting.parcels.push(Parcel { owner: owner.clone(), pieces, must_be, stored });
            std::mem::replace(&mut waiting.attended, true)
        };
        if !attended {
            let (shelf, pool) = (Arc::clone(self), pool.clone());
            tokio::task::spawn_blocking(move || shelf.put_away(&pool));
        }
        match storing.await {
            Ok(stored) => Ok(stored?),
            Err(_) => Err(Fault::new(FaultCode::Internal, "work on the pool ended unexpectedly")),
        }
    }

    fn put_away(&self, pool: &Pool) {
        // If this thread panics, the next parcel gets another one.
        let _attending = Attending(self);
        loop {
            let parcels = std::mem::take(&mut self.lock().parcels);
            // All are told together: to wake who waits costs as much as a file.
            let waiting = parcels.into_iter().filter(|parcel| !parcel.stored.is_closed());
            let stored: Vec<_> = waiting
                .map(|Parcel { owner, pieces, must_be, stored }| {
                    (stored, pool.store(&owner, &pieces, must_be.as_ref(), false))
                })
                .collect();
            for (tell, result) in stored {
                let _ = tell.send(result);
            }
            let mut waiting = self.lock();
            if waiting.parcels.is_empty() {
                waiting.attended = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Attending<'s>(&'s Shelf);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut waiting = self.0.lock();
            waiting.attended = false;
            waiting.parcels.clear(); // their senders tell that it failed
        }
    }
}
