//! What the engine needs done with data by reference: brought into a workspace, out of it, and given
//! an address.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{
    DataRef, Digest, Fault, FaultCode, FileHandle, Payload, PlacementMethod, Principal, SessionId,
    SharedFile,
};
use fishplate_data::session::{SessionError, SessionFileHandle};
use fishplate_data::transfer::Delivery;
use fishplate_data::{PlacementPurpose, PoolError, Progress, RegistrationMode, place};
use fishplate_jobs::executor::BoxFuture;
use fishplate_jobs::stager::{
    DeliverOrder, FetchOrder, OutputFile, RegisterOrder, RegisteredOutput, Stager,
};
use ring::digest::{Context, SHA256, SHA512};

use crate::data::{Data, blocking};
use crate::faces::data::no_such_data;

/// The scheme of a file of the call's own session.
pub(crate) const SESSION: &str = "session:";

/// What is read at once to be hashed.
const CHUNK: usize = 1 << 20;

/// Moves data for the engine.
#[derive(Debug)]
pub struct DataStager(Arc<Data>);

impl DataStager {
    /// With this server's pool, sessions and transports.
    pub fn new(data: Arc<Data>) -> Self {
        Self(data)
    }
}

impl Stager for DataStager {
    fn fetch<'a>(
        &'a self,
        order: &'a FetchOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<PlacementMethod, Fault>> {
        Box::pin(async move {
            let found = self.0.found(&order.from, &order.owner, order.session, progress).await?;
            let target = order.target.clone();
            // What is small is copied rather than guarded.
            let private = order.private || found.len() < order.link_size;
            let wish = if private { PlacementPurpose::Private } else { PlacementPurpose::Shared };
            blocking(move || {
                place(found.path(), &target, wish).map_err(|error| PoolError::Io {
                    what: "placing",
                    path: target,
                    source: error,
                })
            })
            .await
        })
    }

    fn discard<'a>(&'a self, from: &'a DataRef, owner: &'a Principal) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !from.url.starts_with(SESSION) {
                self.0.resolver.discard(from, owner).await;
            }
        })
    }

    fn accepts(&self, to: &str) -> Result<(), Fault> {
        self.0.resolver.accepts(to)
    }

    fn deliver<'a>(
        &'a self,
        order: &'a DeliverOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<DataRef, Fault>> {
        Box::pin(async move {
            let OutputFile { path, len, name, media_type, .. } = order.file.clone();
            let unpacked = Delivery {
                payload: Payload::Spooled(Arc::new(SharedFile { path, len, guard: () })),
                name,
                media_type,
                digest: None,
                subject: order.subject.clone(),
                posts: None,
                progress: progress.clone(),
            };
            self.0.deliver(&unpacked, &order.to, &order.owner, progress).await
        })
    }

    fn data_bytes<'a>(
        &'a self,
        owner: &'a Principal,
        most: u64,
    ) -> BoxFuture<'a, Result<u64, Fault>> {
        let (pool, owner) = (self.0.pool.clone(), owner.clone());
        Box::pin(blocking(move || pool.charge_at_most(&owner, most)))
    }

    fn register<'a>(
        &'a self,
        order: &'a RegisterOrder,
    ) -> BoxFuture<'a, Result<RegisteredOutput, Fault>> {
        Box::pin(async move {
            let (data, order) = (Arc::clone(&self.0), order.clone());
            match order.session {
                Some(session) => blocking(move || data.put_into(&order, session)).await,
                None => blocking(move || data.take_over(&order)).await,
            }
        })
    }
}

/// Data that is here.
#[derive(Debug)]
pub(crate) enum LocalData {
    Pooled(fishplate_data::Lease),
    InSession(SessionFileHandle),
}

impl LocalData {
    /// As what holds it.
    pub(crate) fn held(self) -> Arc<dyn FileHandle> {
        match self {
            Self::Pooled(lease) => Arc::new(lease),
            Self::InSession(held) => Arc::new(held),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Pooled(lease) => lease.path(),
            Self::InSession(held) => held.path(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Pooled(lease) => lease.len(),
            Self::InSession(held) => held.len(),
        }
    }
}

impl Data {
    /// The data of a reference: of a session of this server, or of its pool; else fetched.
    ///
    /// # Errors
    /// As [`fishplate_data::Resolver::resolve`]; `NoSuchSession`.
    pub(crate) async fn found(
        &self,
        from: &DataRef,
        owner: &Principal,
        session: Option<SessionId>,
        progress: &Progress,
    ) -> Result<LocalData, Fault> {
        let _running = self.figures.transfer();
        let found = self.find(from, owner, session, progress).await?;
        self.figures.resolved(found.len());
        Ok(found)
    }

    /// Brings a payload to an address; the reference to it there.
    ///
    /// # Errors
    /// As [`fishplate_data::Resolver::deliver`].
    pub(crate) async fn deliver(
        &self,
        unpacked: &Delivery,
        to: &str,
        owner: &Principal,
        progress: &Progress,
    ) -> Result<DataRef, Fault> {
        let _running = self.figures.transfer();
        let delivered = self.resolver.deliver(unpacked, to, owner, progress).await?;
        self.figures.delivered(unpacked.payload.len().unwrap_or(0));
        Ok(delivered)
    }

    async fn find(
        &self,
        from: &DataRef,
        owner: &Principal,
        session: Option<SessionId>,
        progress: &Progress,
    ) -> Result<LocalData, Fault> {
        let Some(place) = self.in_session(&from.url, session)? else {
            // What this server has not, it need not ask itself for.
            if self.is_ours(&from.url) && self.resolver.at_hand(from, owner).await?.is_none() {
                return Err(no_such_data());
            }
            return self.resolver.resolve(from, owner, progress).await.map(LocalData::Pooled);
        };
        let Some(sessions) = self.sessions.clone() else {
            return Err(SessionError::NoSuchSession.into());
        };
        let owner = owner.clone();
        let held = blocking(move || match place {
            SessionReference::Own(id, name) => sessions.get(&owner, &id, &name),
            SessionReference::ByAddress(token, name) => {
                sessions.get_by_address(&token, &name).map(|(_, file)| file)
            }
        });
        let held = held.await?;
        let (expected, file) = (from.clone(), held.clone());
        blocking(move || matches(&expected, &file)).await?;
        progress.expect(held.len());
        progress.set(held.len());
        progress.enter(fishplate_contract::TransferState::Done);
        Ok(LocalData::InSession(held))
    }

    /// Whether an address is one that this server gave for data in its pool.
    fn is_ours(&self, url: &str) -> bool {
        let below = url.strip_prefix(&self.origin).filter(|_| !self.origin.is_empty());
        below.is_some_and(|rest| rest.starts_with("/data/"))
    }

    /// Which file of a session an address means, if it means one of this server's.
    fn in_session(
        &self,
        url: &str,
        session: Option<SessionId>,
    ) -> Result<Option<SessionReference>, Fault> {
        let decoded = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8().map(Cow::into_owned)
        };
        let unreadable = |_| {
            let what = "a file's name in an address is UTF-8, percent-encoded";
            Fault::new(FaultCode::InvalidValue, what)
        };
        if let Some(name) = url.strip_prefix(SESSION) {
            let id = session.ok_or_else(|| {
                let what = "session:NAME is a file of the call's session, and the call has none";
                Fault::new(FaultCode::NoSuchSession, what)
            })?;
            return Ok(Some(SessionReference::Own(id, decoded(name).map_err(unreadable)?)));
        }
        let below = url.strip_prefix(&self.origin).filter(|_| !self.origin.is_empty());
        let below = below.and_then(|rest| rest.strip_prefix("/session/"));
        let Some((token, name)) = below.and_then(|rest| rest.split_once('/')) else {
            return Ok(None);
        };
        let name = decoded(name).map_err(unreadable)?;
        Ok(Some(SessionReference::ByAddress(token.to_owned(), name)))
    }

    /// Puts an output into a session.
    fn put_into(
        &self,
        order: &RegisterOrder,
        session: SessionId,
    ) -> Result<RegisteredOutput, SessionError> {
        let sessions = self.sessions.as_ref().ok_or(SessionError::NoSuchSession)?;
        let OutputFile { path, len, name, .. } = &order.file;
        let url = self.session_file_url(sessions, &session, name)?;
        let reference = DataRef { url, len: Some(*len), digest: None };
        // Who asks again does not turn the name back from what another job put there since.
        let stands = order.earlier.as_ref().is_some_and(|earlier| earlier.url == reference.url)
            && sessions.get(&order.owner, &session, name).is_ok();
        if !stands {
            sessions.put(&order.owner, &session, name, path, RegistrationMode::Link)?;
        }
        Ok(RegisteredOutput { reference, expires: None })
    }

    /// Takes an output into the pool and grants it.
    fn take_over(&self, order: &RegisterOrder) -> Result<RegisteredOutput, PoolError> {
        if let Some(earlier) = &order.earlier
            && let Some(granted) = self.pool.redeem(&earlier.url)?
        {
            let digest = granted.lease.digest().or(earlier.digest);
            let reference = DataRef { digest, ..earlier.clone() };
            return Ok(RegisteredOutput { reference, expires: Some(granted.expires) });
        }
        let OutputFile { path, name, media_type, .. } = &order.file;
        let lease = self.pool.register(&order.owner, path, RegistrationMode::Link)?;
        let grant = self.grant(&lease, &order.owner, name, media_type)?;
        let reference = DataRef { url: grant.url, len: Some(lease.len()), digest: lease.digest() };
        Ok(RegisteredOutput { reference, expires: Some(grant.expires) })
    }
}

/// A file of a session of this server.
#[derive(Debug, PartialEq, Eq)]
enum SessionReference {
    /// Of the call's own.
    Own(SessionId, String),
    /// One whose address the caller has: its token and name.
    ByAddress(String, String),
}

/// A session's file must be what the reference says, too.
fn matches(reference: &DataRef, held: &SessionFileHandle) -> Result<(), PoolError> {
    if let Some(len) = reference.len
        && len != held.len()
    {
        let (expected, found) = (format!("{len} bytes"), format!("{} bytes", held.len()));
        return Err(PoolError::Mismatch { expected, found });
    }
    let Some(expected) = reference.digest else { return Ok(()) };
    let found = digest(held.file(), &expected).map_err(|source| PoolError::Io {
        what: "reading",
        path: held.path().to_owned(),
        source,
    })?;
    if found == expected {
        return Ok(());
    }
    Err(PoolError::Mismatch { expected: expected.to_string(), found: found.to_string() })
}

/// The digest of a file by the algorithm of another.
fn digest(file: &File, like: &Digest) -> io::Result<Digest> {
    let mut context = Context::new(match like {
        Digest::Sha256(_) => &SHA256,
        Digest::Sha512(_) => &SHA512,
    });
    let (mut chunk, mut at) = (vec![0; CHUNK], 0);
    loop {
        let read = file.read_at(&mut chunk, at)?;
        if read == 0 {
            break;
        }
        context.update(&chunk[..read]);
        at += read as u64;
    }
    let bytes = context.finish();
    let wrong = |_| io::Error::other("a digest of another length");
    Ok(match like {
        Digest::Sha256(_) => Digest::Sha256(bytes.as_ref().try_into().map_err(wrong)?),
        Digest::Sha512(_) => Digest::Sha512(bytes.as_ref().try_into().map_err(wrong)?),
    })
}
