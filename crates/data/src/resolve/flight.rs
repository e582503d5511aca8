//! Fetches under way, so that what two want at the same time is fetched once.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fishplate_contract::Fault;
use tokio::sync::watch;

use crate::Progress;
use crate::lease::Lease;

/// How often those who wait for another's fetch are told how far it is.
const TELL: Duration = Duration::from_millis(100);

type Landing = Option<Result<Lease, Fault>>;

/// Who fetches what.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<String, Flight>>);

/// One fetch. Whoever came first does it; if they give up, the next one does.
#[derive(Clone, Debug)]
struct Flight {
    progress: Progress,
    landing: watch::Receiver<Landing>,
}

impl Flights {
    /// What another one is fetching under this key, or else what `fetch` does.
    pub(super) async fn join(
        &self,
        key: String,
        progress: &Progress,
        fetch: impl Future<Output = Result<Lease, Fault>>,
    ) -> Result<Lease, Fault> {
        loop {
            // Nothing is waited for under the lock.
            let found = match self.lock().entry(key.clone()) {
                std::collections::hash_map::Entry::Occupied(there) => Err(there.get().clone()),
                std::collections::hash_map::Entry::Vacant(free) => {
                    let (landed, landing) = watch::channel(None);
                    free.insert(Flight { progress: progress.clone(), landing });
                    Ok(landed)
                }
            };
            match found {
                Ok(landed) => {
                    let _leading = Leading { flights: self, key: &key };
                    return self.lead(fetch, &landed).await;
                }
                Err(other) => {
                    if let Some(landed) = other.landed(progress).await {
                        return landed;
                    }
                }
            }
        }
    }

    async fn lead(
        &self,
        fetch: impl Future<Output = Result<Lease, Fault>>,
        landed: &watch::Sender<Landing>,
    ) -> Result<Lease, Fault> {
        let lease = fetch.await;
        if landed.receiver_count() > 1 {
            let _ = landed.send(Some(lease.clone()));
        }
        lease
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Waits for the end, telling how far it is; `None` if it was given up.
    async fn landed(mut self, progress: &Progress) -> Landing {
        loop {
            match tokio::time::timeout(TELL, self.landing.wait_for(Option::is_some)).await {
                Ok(landed) => return landed.ok()?.clone(),
                Err(_) => progress.follow(&self.progress),
            }
        }
    }
}

/// Whoever fetches: when they end, or are dropped, the next one may.
struct Leading<'f> {
    flights: &'f Flights,
    key: &'f str,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.flights.lock().remove(self.key);
    }
}
