//! One fetch: as many attempts as it takes, each from where the last one stopped.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{DataRef, Digest, Fault, FaultCode, FileHandle as _, Principal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use url::Url;

use super::admission::Permit;
use super::minimum_rate::{self, MinimumRate};
use super::retry::RetryBudget;
use super::{ResolverInner, blocking, matches};
use crate::Progress;
use crate::lease::Lease;
use crate::pool::{Incoming, PoolError};
use crate::transfer::http::peer;
use crate::transfer::parallel::widen;
use crate::transfer::{
    OpenedSource, ReadRequest, TransferBody, TransferError, Transport, Validator,
};

/// What is no longer comes through memory: that a transfer of it breaks is rarer than it costs to
/// be ready for that.
const SMALL: u64 = 256 << 10;
/// Pieces between the connection and the disk.
const QUEUE: usize = 4;
/// How long to wait for another process that fetches the same.
const OTHERS: Duration = Duration::from_millis(200);

/// A fetch that was not begun.
pub(super) struct Fetch<'f> {
    pub(super) inner: &'f ResolverInner,
    pub(super) reference: &'f DataRef,
    pub(super) url: Url,
    pub(super) key: String,
    pub(super) owner: &'f Principal,
    pub(super) progress: &'f Progress,
}

/// What is fetched, for finding it again after a restart.
pub(super) fn key(reference: &DataRef, url: &Url) -> String {
    match &reference.digest {
        Some(digest) => format!("{url} {digest}"),
        None => url.to_string(),
    }
}

enum FetchError {
    /// Perhaps worth another attempt.
    Transfer(TransferError),
    /// Another attempt would fail the same way.
    Fault(Fault),
}

impl From<TransferError> for FetchError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

impl From<Fault> for FetchError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Fetch<'_> {
    pub(super) async fn run(self) -> Result<Lease, Fault> {
        let transport = Arc::clone(self.inner.transports.find(self.url.scheme())?);
        let mut permit = self.permit().await;
        // Another digest than the pool's own is verified while the data comes.
        let passing = matches!(self.reference.digest, Some(Digest::Sha512(_)));
        if !passing && let Some(file) = transport.local(&self.url).await? {
            return self.register(file).await;
        }
        let mut retry_budget = RetryBudget::new(&self.inner.settings);
        let mut taking = None;
        loop {
            let (before, since) = (taking.as_ref().map_or(0, Incoming::len), Instant::now());
            let error = match self.attempt(&transport, &retry_budget, &mut taking).await {
                Ok(lease) => return Ok(lease),
                Err(FetchError::Fault(fault)) => {
                    // It would come to the same end again.
                    give_up(taking.take()).await;
                    return Err(fault);
                }
                Err(FetchError::Transfer(error)) => error,
            };
            drop(permit); // others may have it meanwhile
            let gained = taking.as_ref().map_or(0, Incoming::len).saturating_sub(before);
            let gained = minimum_rate::suffices(gained, since.elapsed(), self.inner.settings.rate);
            retry_budget.endure(error, gained).await?;
            permit = self.permit().await;
        }
    }

    async fn permit(&self) -> Permit {
        self.inner.admission.take(self.owner, peer(&self.url)).await
    }

    /// Takes a file of this machine in: its blocks are shared where that is possible.
    async fn register(&self, file: File) -> Result<Lease, Fault> {
        let failed = |source| TransferError::Local { what: "reading a file", source };
        let state = |file: &File| file.metadata().and_then(|m| Ok((m.len(), m.modified()?)));
        let before = state(&file).map_err(failed)?;
        self.bounded(before.0)?;
        let (pool, owner) = (self.inner.pool.clone(), self.owner.clone());
        let (lease, after) = blocking(move || {
            let lease = pool.register_open(&owner, &file)?;
            Ok((lease, state(&file)))
        })
        .await?;
        if before != after.map_err(failed)? {
            let reason = "it was written to while it was read".to_owned();
            return Err(TransferError::Broken { peer: peer(&self.url), reason }.into());
        }
        matches(self.reference, &lease).await?;
        Ok(lease)
    }

    async fn attempt(
        &self,
        transport: &Arc<dyn Transport>,
        retry_budget: &RetryBudget,
        taking: &mut Option<Incoming>,
    ) -> Result<Lease, FetchError> {
        let mut opened =
            retry_budget.step(&self.url, transport.open(&self.url, wanted(taking))).await?;
        self.check(&opened)?;
        if let Some(total) = opened.total {
            self.progress.expect(total);
        }
        if taking.is_none()
            && let Some(lease) = self.in_pool(opened.digest, opened.total).await?
        {
            return Ok(lease);
        }
        if taking.is_none() && opened.total.is_some_and(|total| total <= SMALL) {
            return self.small(self.paced(opened), retry_budget).await;
        }
        let mut incoming = match taking.take() {
            Some(incoming) => incoming,
            None => self.receive(opened.total).await?,
        };
        let have = incoming.len();
        if have > 0 && opened.offset == 0 && is_of(&incoming, opened.version.as_ref()) {
            // Bytes from before a restart, or of an attempt that this one did not know of.
            if opened.total == Some(have) {
                self.progress.set(have);
                return self.commit(incoming, opened, retry_budget).await;
            }
            *taking = Some(incoming);
            drop(opened); // its connection can't be used for anything else
            opened =
                retry_budget.step(&self.url, transport.open(&self.url, wanted(taking))).await?;
            self.check(&opened)?;
            incoming = taking.take().ok_or_else(lost)?;
        }
        incoming = align(incoming, opened.offset, opened.total, opened.version.clone()).await?;
        self.progress.set(incoming.len());
        widen(&mut opened, transport, &self.url, self.inner.settings.connections);
        opened = self.paced(opened);
        let (written, ended) = self.pump(&mut *opened.body, incoming, retry_budget).await;
        match (written, ended) {
            (Some(incoming), Ok(())) => self.commit(incoming, opened, retry_budget).await,
            (written, Err(error)) => {
                *taking = written;
                Err(error)
            }
            (None, Ok(())) => Err(lost().into()),
        }
    }

    /// What the other end is about to send, if it tells the digest and this owner has that data here: another job had it fetched,
    /// or made it. The rest of the connection is given up for it, which is worth it for what is not small.
    async fn in_pool(
        &self,
        told: Option<Digest>,
        total: Option<u64>,
    ) -> Result<Option<Lease>, Fault> {
        let Some(digest @ Digest::Sha256(_)) = told else { return Ok(None) };
        let passing = matches!(self.reference.digest, Some(Digest::Sha512(_)));
        if passing || total.is_none_or(|total| total <= SMALL) {
            return Ok(None);
        }
        let (pool, owner, key) = (self.inner.pool.clone(), self.owner.clone(), self.key.clone());
        let lease = blocking(move || {
            let lease = pool.find(&owner, &digest)?.filter(|lease| Some(lease.len()) == total);
            if lease.is_some() {
                // What came of it before a restart is worth nothing any more.
                pool.discard_partial(&owner, &key)?;
            }
            Ok(lease)
        });
        let lease = lease.await?;
        if lease.is_some() {
            self.progress.mark_cached();
        }
        Ok(lease)
    }

    fn paced(&self, mut opened: OpenedSource) -> OpenedSource {
        opened.body =
            Box::new(MinimumRate::new(opened.body, peer(&self.url), &self.inner.settings));
        opened
    }

    /// What can be told to be wrong before a byte has come.
    fn check(&self, opened: &OpenedSource) -> Result<(), Fault> {
        let Some(total) = opened.total else { return Ok(()) };
        if let Some(expected) = self.reference.len
            && expected != total
        {
            return Err(PoolError::other_length(expected, total).into());
        }
        if let (Some(Digest::Sha256(expected)), Some(Digest::Sha256(told))) =
            (self.reference.digest, opened.digest)
            && expected != told
        {
            let (expected, told) = (Digest::Sha256(expected), Digest::Sha256(told));
            return Err(PoolError::other_digest(&expected, &told).into());
        }
        self.bounded(total)
    }

    fn bounded(&self, total: u64) -> Result<(), Fault> {
        match self.inner.settings.size {
            Some(size) if total > size => {
                let message = format!("{} has {total} bytes: too many", peer(&self.url));
                let limit = format!("{size} bytes");
                Err(Fault::new(FaultCode::QuotaExceeded, message).limit("transfer_size", limit))
            }
            _ => Ok(()),
        }
    }

    /// Takes data in through memory.
    async fn small(
        &self,
        mut opened: OpenedSource,
        retry_budget: &RetryBudget,
    ) -> Result<Lease, FetchError> {
        self.progress.set(0);
        let mut pieces = Vec::new();
        while let Some(piece) = retry_budget.step(&self.url, opened.body.next()).await? {
            self.progress.add(piece.len() as u64);
            pieces.push(piece);
        }
        let came = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.whole(&opened, came)?;
        let must_be = self.digest(&mut opened, retry_budget).await;
        Ok(self.inner.batch.store(&self.inner.pool, self.owner, pieces, must_be).await?)
    }

    /// The place in the pool for what comes, with what has come before.
    async fn receive(&self, total: Option<u64>) -> Result<Incoming, Fault> {
        loop {
            let (pool, owner, key) =
                (self.inner.pool.clone(), self.owner.clone(), self.key.clone());
            let received = blocking(move || match pool.receive(&owner, Some(&key), total) {
                Ok(incoming) => Ok(Some(incoming.only_if_resumable())),
                Err(PoolError::Busy) => Ok(None),
                Err(error) => Err(error),
            });
            match received.await? {
                Some(incoming) => return Ok(incoming),
                None => tokio::time::sleep(OTHERS).await,
            }
        }
    }

    /// Passes bytes on to the disk until they end or something fails.
    async fn pump(
        &self,
        body: &mut dyn TransferBody,
        mut incoming: Incoming,
        retry_budget: &RetryBudget,
    ) -> (Option<Incoming>, Result<(), FetchError>) {
        let mut len = incoming.len();
        let (send, mut pieces) = mpsc::channel::<Bytes>(QUEUE);
        let writer = tokio::task::spawn_blocking(move || {
            while let Some(piece) = pieces.blocking_recv() {
                if let Err(error) = incoming.append(piece) {
                    return (incoming, Err(error));
                }
            }
            (incoming, Ok(()))
        });
        let ended = loop {
            match retry_budget.step(&self.url, body.next()).await {
                Ok(Some(piece)) => {
                    len += piece.len() as u64;
                    if let Err(fault) = self.bounded(len) {
                        break Err(fault.into());
                    }
                    let came = piece.len() as u64;
                    if send.send(piece).await.is_err() {
                        break Ok(()); // the writer failed and says why
                    }
                    // What is told is kept, whoever gives up now.
                    self.progress.add(came);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        drop(send);
        match writer.await {
            Ok((incoming, Ok(()))) => (Some(incoming), ended),
            Ok((incoming, Err(error))) => (Some(incoming), Err(Fault::from(error).into())),
            Err(_) => (None, Err(lost().into())),
        }
    }

    async fn commit(
        &self,
        incoming: Incoming,
        mut opened: OpenedSource,
        retry_budget: &RetryBudget,
    ) -> Result<Lease, FetchError> {
        match self.whole(&opened, incoming.len()) {
            Err(FetchError::Fault(fault)) => {
                give_up(Some(incoming)).await;
                return Err(fault.into());
            }
            whole => whole?,
        }
        let must_be = self.digest(&mut opened, retry_budget).await;
        Ok(blocking(move || incoming.commit(must_be.as_ref(), false)).await?)
    }

    /// All that was promised has come.
    fn whole(&self, opened: &OpenedSource, came: u64) -> Result<(), FetchError> {
        if let Some(total) = opened.total
            && came < total
        {
            let reason = format!("it ended after {came} of {total} bytes");
            return Err(TransferError::Broken { peer: peer(&self.url), reason }.into());
        }
        match self.reference.len {
            Some(expected) if expected != came => {
                Err(Fault::from(PoolError::other_length(expected, came)).into())
            }
            _ => Ok(()),
        }
    }

    /// What the data must be: as the reference says, else as the other end does.
    async fn digest(
        &self,
        opened: &mut OpenedSource,
        retry_budget: &RetryBudget,
    ) -> Option<Digest> {
        let told = self.reference.digest.or(opened.digest);
        if told.is_some() {
            return told;
        }
        match retry_budget.step(&self.url, opened.body.digest()).await {
            Ok(told) => told,
            Err(error) => {
                // Nobody promised one.
                tracing::debug!(%error, "no digest was told");
                None
            }
        }
    }
}

/// Makes the room free that a fetch took which has failed for good.
async fn give_up(taken: Option<Incoming>) {
    let Some(incoming) = taken else { return };
    if let Err(fault) = blocking(move || incoming.give_up()).await {
        tracing::warn!(%fault, "what came of a fetch could not be removed");
    }
}

fn lost() -> Fault {
    Fault::new(FaultCode::Internal, "a writer to the pool ended unexpectedly")
}

/// What is missing.
fn wanted(taking: &Option<Incoming>) -> ReadRequest {
    match taking {
        Some(incoming) if incoming.version().is_some() => ReadRequest {
            offset: incoming.len(),
            len: None,
            version: incoming.version().map(|version| Validator(version.to_owned())),
        },
        _ => ReadRequest::default(),
    }
}

fn is_of(incoming: &Incoming, version: Option<&Validator>) -> bool {
    version.is_some_and(|version| incoming.version() == Some(&version.0))
}

/// Makes what is there end where the body begins.
async fn align(
    mut incoming: Incoming,
    offset: u64,
    total: Option<u64>,
    version: Option<Validator>,
) -> Result<Incoming, Fault> {
    blocking(move || {
        if incoming.len() != offset {
            incoming.truncate(offset)?;
        }
        if let Some(version) = version {
            incoming.note_version(&version.0)?;
        }
        if let Some(total) = total
            && let Err(error) = incoming.expect(total)
        {
            incoming.give_up()?;
            return Err(error);
        }
        Ok(incoming)
    })
    .await
}
