//! The fetcher of a server: data comes through its resolver into its pool, outputs go from there,
//! sessions' files come and go without either.

use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{
    DataRef, Digest, Fault, FaultCode, Held, Payload, Placing, Principal, SessionId,
};
use fishplate_data::session::SessionHeld;
use fishplate_data::transfer::Delivery;
use fishplate_data::{Adoption, GrantRequest, Progress, Resolver, Sessions, Wish, place};

use super::{AdoptOrder, Adopted, DeliverOrder, FetchOrder, Fetcher, OutputFile};
use crate::executor::BoxFuture;

/// How a file of the call's own session is referred to: `session:NAME`.
const SESSION: &str = "session:";

/// Moves data for jobs between workspaces, a pool, sessions and the world.
#[derive(Clone, Debug)]
pub struct DataFetcher {
    resolver: Resolver,
    sessions: Option<Sessions>,
    /// What the addresses of this server begin with, no slash at its end.
    origin: String,
}

impl DataFetcher {
    /// Over this resolver and its pool, and these sessions if there are any; `origin` is the
    /// server's public address.
    pub fn new(resolver: Resolver, sessions: Option<Sessions>, origin: &str) -> Self {
        Self { resolver, sessions, origin: origin.trim_end_matches('/').to_owned() }
    }

    /// What a session holds, if it is that which is referred to.
    fn of_session(&self, order: &FetchOrder) -> Result<Option<SessionFile>, Fault> {
        let url = order.from.url.trim();
        let (id, name) = if let Some(name) = url.strip_prefix(SESSION) {
            let Some(id) = order.session else {
                let what = format!(
                    "{url:?} is a file of the call's own session, and the call names no session"
                );
                return Err(Fault::new(FaultCode::NoSuchSession, what));
            };
            (id, name.to_owned())
        } else {
            let Some(rest) = url.strip_prefix(&self.origin) else { return Ok(None) };
            let Some((id, name)) =
                rest.strip_prefix("/session/").and_then(|rest| rest.split_once('/'))
            else {
                return Ok(None);
            };
            let Ok(id) = id.parse() else { return Ok(None) };
            (id, unescaped(name))
        };
        let Some(sessions) = self.sessions.clone() else {
            return Err(Fault::new(FaultCode::NoSuchSession, "this server has no sessions"));
        };
        let own = (order.session == Some(id)).then(|| order.owner.clone());
        Ok(Some(SessionFile { sessions, id, name, own }))
    }
}

/// A file of a session.
struct SessionFile {
    sessions: Sessions,
    id: SessionId,
    name: String,
    /// The session is the call's own; else its address is the permission.
    own: Option<Principal>,
}

impl SessionFile {
    fn get(&self) -> Result<SessionHeld, Fault> {
        let held = match &self.own {
            Some(owner) => self.sessions.get(owner, &self.id, &self.name),
            None => self.sessions.get_by_address(&self.id, &self.name),
        };
        held.map_err(Fault::from)
    }
}

impl Fetcher for DataFetcher {
    fn fetch<'a>(
        &'a self,
        order: &'a FetchOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<Placing, Fault>> {
        Box::pin(async move {
            let target = order.target.clone();
            let wish = |len: u64| {
                if order.private || len < order.link_size { Wish::Private } else { Wish::Shared }
            };
            if let Some(file) = self.of_session(order)? {
                let (from, private, link_size) =
                    (order.from.clone(), order.private, order.link_size);
                let (placed, len) = blocking(move || {
                    let held = file.get()?;
                    verify(&from, held.path(), held.len())?;
                    let private = private || held.len() < link_size;
                    let wish = if private { Wish::Private } else { Wish::Shared };
                    let placed = place(held.path(), &target, wish);
                    Ok((placed.map_err(|error| not_placed(&error))?, held.len()))
                })
                .await?;
                progress.expect(len);
                progress.set(len);
                return Ok(placed);
            }
            let lease = self.resolver.resolve(&order.from, &order.owner, progress).await?;
            let wish = wish(lease.len());
            blocking(move || place(lease.path(), &target, wish).map_err(|error| not_placed(&error)))
                .await
        })
    }

    fn deliver<'a>(
        &'a self,
        order: &'a DeliverOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<DataRef, Fault>> {
        Box::pin(async move {
            let delivery = Delivery {
                payload: Payload::Spooled(Arc::new(Output::of(&order.file))),
                name: order.file.name.clone(),
                media_type: order.file.media_type.clone(),
                digest: None,
                subject: order.subject.clone(),
                progress: progress.clone(),
            };
            self.resolver.deliver(&delivery, &order.to, progress).await
        })
    }

    fn adopt<'a>(&'a self, order: &'a AdoptOrder) -> BoxFuture<'a, Result<Adopted, Fault>> {
        Box::pin(async move {
            let (this, order) = (self.clone(), order.clone());
            blocking(move || match order.session {
                Some(session) => this.put_into(&session, &order),
                None => this.pool(&order),
            })
            .await
        })
    }
}

impl DataFetcher {
    fn pool(&self, order: &AdoptOrder) -> Result<Adopted, Fault> {
        let pool = self.resolver.pool();
        if let Some(earlier) = &order.earlier
            && let Some(granted) = pool.redeem(&earlier.url)?
            && granted.owner == order.owner
        {
            let url = earlier.url.clone();
            let (len, digest) = (Some(granted.lease.len()), granted.lease.digest());
            let reference = DataRef { url, len, digest };
            return Ok(Adopted { reference, expires: Some(granted.expires) });
        }
        let lease = pool.adopt(&order.owner, &order.file.path, Adoption::Link)?;
        let request = GrantRequest {
            origin: self.origin.clone(),
            name: order.file.name.clone(),
            media_type: order.file.media_type.clone(),
            life: None,
        };
        let grant = pool.grant(&lease, &order.owner, request)?;
        let reference = DataRef { url: grant.url, len: Some(lease.len()), digest: lease.digest() };
        Ok(Adopted { reference, expires: Some(grant.expires) })
    }

    fn put_into(&self, session: &SessionId, order: &AdoptOrder) -> Result<Adopted, Fault> {
        let Some(sessions) = &self.sessions else {
            return Err(Fault::new(FaultCode::NoSuchSession, "this server has no sessions"));
        };
        let OutputFile { path, name, len, .. } = &order.file;
        sessions.put(&order.owner, session, name, path, Adoption::Link)?;
        // The name is one that needs no escape.
        let url = format!("{}/session/{session}/{name}", self.origin);
        let reference = DataRef { len: Some(*len), ..DataRef::new(url) };
        Ok(Adopted { reference, expires: None })
    }
}

/// An output on its way.
#[derive(Debug)]
struct Output {
    path: std::path::PathBuf,
    len: u64,
}

impl Output {
    fn of(file: &OutputFile) -> Self {
        Self { path: file.path.clone(), len: file.len }
    }
}

impl Held for Output {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self) {}
}

/// Checks that a session's file is what its reference says.
fn verify(from: &DataRef, path: &Path, len: u64) -> Result<(), Fault> {
    let mismatch = |what: String| Err(Fault::new(FaultCode::DataMismatch, what));
    if let Some(expected) = from.len.filter(|expected| *expected != len) {
        return mismatch(format!("the session's file has {len} bytes, not {expected}"));
    }
    let Some(expected) = from.digest else { return Ok(()) };
    let found = digest_of(path, &expected).map_err(|error| not_placed(&error))?;
    if found == expected {
        return Ok(());
    }
    mismatch(format!("the session's file is {found}, not {expected}"))
}

/// The digest of a file, of the same algorithm.
fn digest_of(path: &Path, like: &Digest) -> std::io::Result<Digest> {
    use std::io::Read as _;
    let algorithm = match like {
        Digest::Sha256(_) => &ring::digest::SHA256,
        Digest::Sha512(_) => &ring::digest::SHA512,
    };
    let mut context = ring::digest::Context::new(algorithm);
    let mut file = std::fs::File::open(path)?;
    let mut chunk = vec![0; 256 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => context.update(&chunk[..read]),
        }
    }
    let digest = context.finish();
    let odd = |_| std::io::Error::other("a digest of another length");
    Ok(match like {
        Digest::Sha256(_) => Digest::Sha256(digest.as_ref().try_into().map_err(odd)?),
        Digest::Sha512(_) => Digest::Sha512(digest.as_ref().try_into().map_err(odd)?),
    })
}

fn not_placed(error: &std::io::Error) -> Fault {
    if crate::workspace::is_storage_full(error) {
        return Fault::new(FaultCode::StorageFull, "the server's disk is full");
    }
    tracing::error!(%error, "data could not be brought into a workspace");
    Fault::new(FaultCode::Internal, "the data could not be brought into the workspace")
}

/// A segment of a URL's path as it is meant.
fn unescaped(segment: &str) -> String {
    let segment = segment.split(['?', '#']).next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs what waits for the disk where it may. It ends even if nobody waits for it any more.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Fault::new(FaultCode::Internal, "the server is ending")),
    }
}

#[cfg(test)]
mod tests;
