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
pub(super) struct WriteBatch(Mutex<PendingWrites>);

#[derive(Debug, Default)]
struct PendingWrites {
    writes: Vec<PendingWrite>,
    /// A thread is putting away.
    attended: bool,
}

#[derive(Debug)]
struct PendingWrite {
    owner: Principal,
    pieces: Vec<Bytes>,
    must_be: Option<Digest>,
    stored: oneshot::Sender<Result<Lease, PoolError>>,
}

impl WriteBatch {
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
            waiting.writes.push(PendingWrite { owner: owner.clone(), pieces, must_be, stored });
            std::mem::replace(&mut waiting.attended, true)
        };
        if !attended {
            let (batch, pool) = (Arc::clone(self), pool.clone());
            tokio::task::spawn_blocking(move || batch.put_away(&pool));
        }
        match storing.await {
            Ok(stored) => Ok(stored?),
            Err(_) => Err(Fault::new(FaultCode::Internal, "work on the pool ended unexpectedly")),
        }
    }

    fn put_away(&self, pool: &Pool) {
        // If this thread panics, the next write gets another one.
        let _attending = BatchWriter(self);
        loop {
            let writes = std::mem::take(&mut self.lock().writes);
            // All are told together: to wake who waits costs as much as a file.
            let waiting = writes.into_iter().filter(|pending| !pending.stored.is_closed());
            let stored: Vec<_> = waiting
                .map(|PendingWrite { owner, pieces, must_be, stored }| {
                    (stored, pool.store(&owner, &pieces, must_be.as_ref(), false))
                })
                .collect();
            for (tell, result) in stored {
                let _ = tell.send(result);
            }
            let mut waiting = self.lock();
            if waiting.writes.is_empty() {
                waiting.attended = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingWrites> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct BatchWriter<'s>(&'s WriteBatch);

impl Drop for BatchWriter<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut waiting = self.0.lock();
            waiting.attended = false;
            waiting.writes.clear(); // their senders tell that it failed
        }
    }
}
