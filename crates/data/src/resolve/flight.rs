//! Fetches under way, so that what two want at the same time is fetched once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fishplate_contract::{DataRef, Fault, FaultCode, Principal};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use url::Url;

use super::{Inner, fetch};
use crate::Progress;
use crate::lease::Lease;

/// How often who joined later is told how far it is.
const TELL: Duration = Duration::from_millis(100);

type Landing = Option<Result<Lease, Fault>>;

/// Who fetches what.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<String, Weak<Flight>>>);

/// One fetch. It ends when nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Flight {
    key: String,
    inner: Arc<Inner>,
    progress: Progress,
    landing: watch::Receiver<Landing>,
    task: AbortHandle,
}

impl Flights {
    /// Joins the fetch of a reference, or begins it.
    pub(super) fn join(
        &self,
        inner: &Arc<Inner>,
        reference: &DataRef,
        url: Url,
        owner: &Principal,
        progress: &Progress,
    ) -> Arc<Flight> {
        let key = fetch::key(reference, &url);
        // Other owners' fetches are others.
        let among_owners = format!("{} {key}", owner.as_str());
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&among_owners).and_then(Weak::upgrade) {
            return flight;
        }
        let (send, landing) = watch::channel(None);
        let fetch = fetch::Fetch {
            inner: Arc::clone(inner),
            reference: reference.clone(),
            url,
            key,
            owner: owner.clone(),
            progress: progress.clone(),
        };
        let task = tokio::spawn(async move {
            let landed = fetch.run().await;
            let _ = send.send(Some(landed));
        });
        let flight = Arc::new(Flight {
            key: among_owners.clone(),
            inner: Arc::clone(inner),
            progress: progress.clone(),
            landing,
            task: task.abort_handle(),
        });
        flights.insert(among_owners, Arc::downgrade(&flight));
        flight
    }
}

impl Flight {
    /// Waits for the end, telling how far it is.
    pub(super) async fn landed(&self, progress: &Progress) -> Result<Lease, Fault> {
        let mut landing = self.landing.clone();
        loop {
            match tokio::time::timeout(TELL, landing.wait_for(Option::is_some)).await {
                Ok(Ok(landed)) => {
                    if let Some(landed) = landed.as_ref() {
                        return landed.clone();
                    }
                }
                Ok(Err(_)) => {
                    return Err(Fault::new(FaultCode::Internal, "a transfer ended unexpectedly"));
                }
                Err(_) => progress.follow(&self.progress),
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
        let mut flights = self.inner.flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        if flights.get(&self.key).is_some_and(|flight| flight.strong_count() == 0) {
            flights.remove(&self.key);
        }
    }
}
