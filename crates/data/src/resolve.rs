//! From a reference to data that is here, and from data that is here to where it was wanted.

mod admission;
mod fetch;
mod flight;
mod minimum_rate;
mod retry;
#[cfg(test)]
mod tests;
mod write_batch;

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    DataRef, Digest, Fault, FaultCode, FileHandle as _, Principal, TransferState,
};
use tokio::time::Instant;
use url::Url;

use crate::Progress;
use crate::lease::Lease;
use crate::pool::{Pool, PoolError};
use crate::transfer::http::peer;
use crate::transfer::{Delivery, TransferSettings, Transports};
use admission::Admission;
use flight::Flights;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use retry::RetryBudget;
use write_batch::WriteBatch;

/// How often, and how long after, what came of a stopped fetch is tried to be removed: who writes it
/// may still be about to end.
const DISCARD_TRIES: u32 = 40;
const DISCARD_PAUSE: Duration = Duration::from_millis(50);

/// Gets what references stand for into the pool, and delivers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<ResolverInner>);

#[derive(Debug)]
struct ResolverInner {
    pool: Pool,
    transports: Transports,
    settings: TransferSettings,
    admission: Admission,
    flights: Flights,
    batch: Arc<WriteBatch>,
}

impl Resolver {
    /// A resolver into this pool, over these transports.
    pub fn new(pool: Pool, transports: Transports, settings: TransferSettings) -> Self {
        let admission = Admission::new(&settings);
        Self(Arc::new(ResolverInner {
            pool,
            transports,
            settings,
            admission,
            flights: Flights::default(),
            batch: Arc::default(),
        }))
    }

    /// The pool that it fetches into.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The schemes of addresses that it knows.
    pub fn schemes(&self) -> Vec<&'static str> {
        self.0.transports.schemes()
    }

    /// The data of a reference: at once if it is a grant of this pool or this owner has that data
    /// already, else fetched, verified and pooled. What two callers of one owner fetch at the same
    /// time is fetched once. Dropped, it stops; what has come stays for the next attempt.
    ///
    /// # Errors
    /// A fault of code `NoSuchData`, `AddressForbidden`, `DataMismatch`, `TransferFailed`,
    /// `QuotaExceeded`, `StorageFull`, `InvalidValue` (no URL) or `Internal`.
    pub async fn resolve(
        &self,
        reference: &DataRef,
        owner: &Principal,
        progress: &Progress,
    ) -> Result<Lease, Fault> {
        progress.enter(TransferState::Running);
        let lease = self.lease(reference, owner, progress).await;
        match &lease {
            Ok(lease) => {
                progress.expect(lease.len());
                progress.set(lease.len());
                progress.enter(TransferState::Done);
            }
            Err(_) => progress.enter(TransferState::Failed),
        }
        lease
    }

    /// The data of a reference if this machine holds it already: by a grant of this pool, or because
    /// this owner has data of that digest. Nobody else is asked.
    ///
    /// # Errors
    /// As [`Resolver::resolve`].
    pub async fn at_hand(
        &self,
        reference: &DataRef,
        owner: &Principal,
    ) -> Result<Option<Lease>, Fault> {
        let url = address(&reference.url)?;
        self.here(reference, &url, owner).await
    }

    /// Removes what has come of a fetch that was stopped for good, unless somebody else fetches the
    /// same. What was stopped may take a moment to end.
    pub async fn discard(&self, reference: &DataRef, owner: &Principal) {
        let Ok(url) = address(&reference.url) else { return };
        let key = fetch::key(reference, &url);
        let among_owners = among_owners(owner, &key);
        for _ in 0..DISCARD_TRIES {
            if !self.0.flights.is_wanted(&among_owners) {
                let (pool, owner, key) = (self.0.pool.clone(), owner.clone(), key.clone());
                match blocking(move || pool.discard_partial(&owner, &key)).await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(fault) => {
                        tracing::warn!(%fault, "what came of a fetch could not be removed");
                        return;
                    }
                }
            }
            tokio::time::sleep(DISCARD_PAUSE).await;
        }
    }

    /// All of these, several at once; each one's result is at its place.
    pub async fn resolve_all(
        &self,
        references: &[DataRef],
        owner: &Principal,
        progress: &[Progress],
    ) -> Vec<Result<Lease, Fault>> {
        let mut results: Vec<_> = references.iter().map(|_| None).collect();
        let most = usize::try_from(self.0.settings.running).unwrap_or(1).max(1);
        let mut waiting = references.iter().enumerate();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < most
                && let Some((nth, reference)) = waiting.next()
            {
                let progress = progress.get(nth).cloned().unwrap_or_default();
                running.push(async move { (nth, self.resolve(reference, owner, &progress).await) });
            }
            match running.next().await {
                Some((nth, result)) => results[nth] = Some(result),
                None => break,
            }
        }
        results.into_iter().flatten().collect()
    }

    /// Whether a payload may be delivered to an address at all, told before there is one: its form
    /// and our own policy. The other end is not asked.
    ///
    /// # Errors
    /// A fault of code `AddressForbidden`, `NotSupported` or `InvalidValue`.
    pub fn accepts(&self, to: &str) -> Result<(), Fault> {
        let url = address(to)?;
        let transport = self.0.transports.find_to_deliver(url.scheme())?;
        transport.accepts(&url).map_err(Fault::from).map_err(undelivered)
    }

    /// Brings a payload to an address; the reference to it there.
    ///
    /// # Errors
    /// A fault of code `AddressForbidden`, `TransferFailed`, `NotSupported`, `InvalidValue` or
    /// `Internal`.
    pub async fn deliver(
        &self,
        pending: &Delivery,
        to: &str,
        owner: &Principal,
        progress: &Progress,
    ) -> Result<DataRef, Fault> {
        let pending = Delivery { progress: progress.clone(), ..pending.clone() };
        if let Some(len) = pending.payload.len() {
            progress.expect(len);
        }
        let delivered = self.bring(&pending, to, owner).await;
        progress.enter(match &delivered {
            Ok(_) => TransferState::Done,
            Err(_) => TransferState::Failed,
        });
        delivered
    }

    async fn lease(
        &self,
        reference: &DataRef,
        owner: &Principal,
        progress: &Progress,
    ) -> Result<Lease, Fault> {
        let url = address(&reference.url)?;
        if let Some(lease) = self.here(reference, &url, owner).await? {
            progress.mark_cached();
            return Ok(lease);
        }
        let key = fetch::key(reference, &url);
        let among_owners = among_owners(owner, &key);
        let fetch = fetch::Fetch { inner: &self.0, reference, url, key, owner, progress };
        self.0.flights.join(among_owners, progress, fetch.run()).await
    }

    /// What this machine holds already: a grant's data, or data of that digest that this owner has.
    async fn here(
        &self,
        reference: &DataRef,
        url: &Url,
        owner: &Principal,
    ) -> Result<Option<Lease>, Fault> {
        let granted = url.path().contains("/data/");
        let digest = reference.digest.filter(|digest| matches!(digest, Digest::Sha256(_)));
        if !granted && digest.is_none() {
            return Ok(None);
        }
        let (pool, owner, url) = (self.0.pool.clone(), owner.clone(), url.to_string());
        let lease = blocking(move || {
            if granted && let Some(granted) = pool.redeem(&url)? {
                return Ok(Some(granted.lease));
            }
            match digest {
                Some(digest) => pool.find(&owner, &digest),
                None => Ok(None),
            }
        })
        .await?;
        if let Some(lease) = &lease {
            matches(reference, lease).await?;
        }
        Ok(lease)
    }

    async fn bring(
        &self,
        pending: &Delivery,
        to: &str,
        owner: &Principal,
    ) -> Result<DataRef, Fault> {
        let url = address(to)?;
        let transport = Arc::clone(self.0.transports.find_to_deliver(url.scheme())?);
        let mut place = self.0.admission.take(owner, peer(&url)).await;
        let mut retry_budget = RetryBudget::new(&self.0.settings);
        pending.progress.enter(TransferState::Running);
        let at = loop {
            let (before, since) = (pending.progress.bytes(), Instant::now());
            let bringing = transport.deliver(pending, &url);
            let error = match retry_budget.watch(bringing, &pending.progress, &url).await {
                Ok(at) => break at,
                Err(error) => error,
            };
            drop(place); // others may have it meanwhile
            let gained = pending.progress.bytes().saturating_sub(before);
            let gained = minimum_rate::suffices(gained, since.elapsed(), self.0.settings.rate);
            retry_budget.endure(error, gained).await.map_err(undelivered)?;
            place = self.0.admission.take(owner, peer(&url)).await;
        };
        let (digest, len) = (pending.digest, pending.payload.len());
        Ok(DataRef { url: at.map_or_else(|| to.to_owned(), String::from), len, digest })
    }
}

/// Other owners' fetches are others.
fn among_owners(owner: &Principal, key: &str) -> String {
    format!("{} {} {key}", owner.as_str().len(), owner.as_str())
}

/// Data that is here must be what the reference says too.
async fn matches(reference: &DataRef, lease: &Lease) -> Result<(), Fault> {
    let wrong =
        |expected: String, found: String| Err(PoolError::Mismatch { expected, found }.into());
    if let Some(len) = reference.len
        && len != lease.len()
    {
        return wrong(format!("{len} bytes"), format!("{} bytes", lease.len()));
    }
    if let Some(expected) = reference.digest {
        let lease = lease.clone();
        let found = blocking(move || match expected {
            Digest::Sha256(_) => lease.known_digest(),
            Digest::Sha512(_) => sha512(&lease),
        });
        let found = found.await?;
        if found != expected {
            return wrong(expected.to_string(), found.to_string());
        }
    }
    Ok(())
}

/// The digest of leased data, of an algorithm that the pool does not keep.
fn sha512(lease: &Lease) -> Result<Digest, PoolError> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA512);
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    loop {
        match lease.file().and_then(|file| file.read_at(&mut buffer, at)) {
            Ok(0) => break,
            Ok(got) => {
                context.update(&buffer[..got]);
                at += got as u64;
            }
            Err(error) => return Err(PoolError::io("reading", lease.path())(error)),
        }
    }
    let mut digest = [0; 64];
    digest.copy_from_slice(context.finish().as_ref());
    Ok(Digest::Sha512(digest))
}

fn address(url: &str) -> Result<Url, Fault> {
    Url::parse(url.trim())
        .map_err(|error| Fault::new(FaultCode::InvalidValue, format!("{url:?} is no URL: {error}")))
}

/// Nothing was looked for, so nothing is missing.
fn undelivered(mut fault: Fault) -> Fault {
    if fault.code == FaultCode::NoSuchData {
        fault.code = FaultCode::TransferFailed;
    }
    fault
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PoolError> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Fault::from),
        Err(_) => Err(Fault::new(FaultCode::Internal, "work on the pool ended unexpectedly")),
    }
}
