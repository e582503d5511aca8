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

type FlightResult = Option<Result<Lease, Fault>>;

/// Who fetches what.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<FlightTable>);

#[derive(Debug, Default)]
struct FlightTable {
    flights: HashMap<String, Flight>,
    /// How many want what stands for a key, whoever of them fetches it.
    wanted: HashMap<String, usize>,
}

enum FlightRole {
    Other(Flight),
    Ours(watch::Sender<FlightResult>),
}

/// One fetch. Whoever came first does it; if they give up, the next one does.
#[derive(Clone, Debug)]
struct Flight {
    progress: Progress,
    result: watch::Receiver<FlightResult>,
}

impl Flights {
    /// What another one is fetching under this key, or else what `fetch` does.
    pub(super) async fn join(
        &self,
        key: String,
        progress: &Progress,
        fetch: impl Future<Output = Result<Lease, Fault>>,
    ) -> Result<Lease, Fault> {
        let _wanting = Waiter::new(self, &key);
        loop {
            let other = match self.find_or_lead(&key, progress) {
                FlightRole::Other(flight) => flight,
                FlightRole::Ours(landed) => {
                    let _leader = Leader { flights: self, key: &key };
                    let lease = fetch.await;
                    let _ = landed.send(Some(lease.clone()));
                    return lease;
                }
            };
            if let Some(landed) = other.landed(progress).await {
                if landed.is_ok() {
                    progress.mark_cached();
                }
                return landed;
            }
        }
    }

    fn find_or_lead(&self, key: &str, progress: &Progress) -> FlightRole {
        let flights = &mut self.lock().flights;
        if let Some(flight) = flights.get(key) {
            return FlightRole::Other(flight.clone());
        }
        let (landed, result) = watch::channel(None);
        flights.insert(key.to_owned(), Flight { progress: progress.clone(), result });
        FlightRole::Ours(landed)
    }

    /// Whether somebody in this process fetches what stands for a key, or waits for who does.
    pub(super) fn is_wanted(&self, key: &str) -> bool {
        self.lock().wanted.contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, FlightTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Waits for the end, telling how far it is; `None` if it was given up.
    async fn landed(mut self, progress: &Progress) -> FlightResult {
        loop {
            match tokio::time::timeout(TELL, self.result.wait_for(Option::is_some)).await {
                Ok(landed) => return landed.ok()?.clone(),
                Err(_) => progress.follow(&self.progress),
            }
        }
    }
}

/// Whoever fetches: when they end, or are dropped, the next one may.
struct Leader<'f> {
    flights: &'f Flights,
    key: &'f str,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.flights.lock().flights.remove(self.key);
    }
}

/// Whoever wants what is fetched, until they have it or are dropped.
struct Waiter<'f> {
    flights: &'f Flights,
    key: &'f str,
}

impl<'f> Waiter<'f> {
    fn new(flights: &'f Flights, key: &'f str) -> Self {
        *flights.lock().wanted.entry(key.to_owned()).or_default() += 1;
        Self { flights, key }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let wanted = &mut self.flights.lock().wanted;
        if let Some(count) = wanted.get_mut(self.key) {
            *count -= 1;
            if *count == 0 {
                wanted.remove(self.key);
            }
        }
    }
}
