//! Files that we serve ourselves, so that a server fetches them while a call of ours runs: only
//! those that were added, at addresses that nobody can guess, until the offer is dropped.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fishplate_contract::{DataRef, Digest};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::utf8_percent_encode;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::data::answer::{self, DataBody};
use crate::data::digesting::{self, StopOnDrop};
use crate::data::put::SEGMENT;
use crate::error::Error;
use crate::input::blocking;
use crate::location;

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 64;
/// A connection that brings no request for so long is closed.
const HEAD_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// Files that are served until this is dropped.
#[derive(Debug)]
pub struct Offer {
    /// `http://HOST:PORT`.
    base: String,
    offered: Arc<OfferTable>,
    /// Ends the accepting and every connection when it goes.
    _serving: JoinSet<()>,
    stop: StopOnDrop,
}

/// The files by the secret parts of their addresses.
#[derive(Debug, Default)]
struct OfferTable(Mutex<HashMap<String, Arc<OfferedFile>>>);

/// A file that may be fetched.
#[derive(Debug)]
pub(crate) struct OfferedFile {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    /// Strong: it changes with the file.
    pub(crate) etag: String,
    /// Once it is known; `None` in it if the file can't be read any more.
    pub(crate) digest: watch::Receiver<Option<Digest>>,
    /// Removes it in the end, if it is a copy.
    _directory: Option<tempfile::TempDir>,
}

impl Offer {
    /// Listens on `HOST[:PORT]`, which is also what the addresses tell: an address of this machine,
    /// or a name or address that leads to it (through a router that forwards the port, say).
    ///
    /// # Errors
    /// [`Error::CannotOffer`].
    pub async fn at(address: &str) -> Result<Self, Error> {
        let cannot = |reason: String| Error::CannotOffer { address: address.to_owned(), reason };
        let (host, port) =
            split(address).ok_or_else(|| cannot("write HOST or HOST:PORT".into()))?;
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<SocketAddr> = found.map_err(|error| cannot(error.to_string()))?.collect();
        let listener = match TcpListener::bind(&found[..]).await {
            // Not an address of this machine: somebody else forwards to it.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && port != 0 => {
                let is_v6 = found.iter().any(SocketAddr::is_ipv6);
                let any: IpAddr =
                    if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
                TcpListener::bind((any, port)).await
            }
            bound => bound,
        };
        Self::on(listener.map_err(|error| cannot(error.to_string()))?, host)
            .map_err(|error| cannot(error.to_string()))
    }

    /// Listens on this machine's address on the way to a service, at a free port.
    ///
    /// # Errors
    /// [`Error::CannotOffer`]; [`Error::BadUrl`].
    pub async fn towards(url: &str) -> Result<Self, Error> {
        let uri = location::parse(url)?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let local = local_address(&host, port).await;
        let cannot = |error: io::Error| Error::CannotOffer {
            address: host.clone(),
            reason: error.to_string(),
        };
        let local = local.map_err(cannot)?;
        let listener = TcpListener::bind((local, 0)).await.map_err(cannot)?;
        Self::on(listener, &local.to_string()).map_err(cannot)
    }

    fn on(listener: TcpListener, host: &str) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let offered = Arc::new(OfferTable::default());
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&offered)));
        let base = format!("http://{host}:{port}");
        Ok(Self { base, offered, _serving: serving, stop: StopOnDrop::default() })
    }

    /// Offers a file; the reference to it. Its digest is computed meanwhile and told to whoever
    /// fetches it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub async fn add(&self, path: &Path) -> Result<DataRef, Error> {
        self.add_kept(path, None).await
    }

    /// The same for a file in a directory that goes with the offer.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub async fn add_temporary(
        &self,
        path: &Path,
        directory: tempfile::TempDir,
    ) -> Result<DataRef, Error> {
        self.add_kept(path, Some(directory)).await
    }

    async fn add_kept(
        &self,
        path: &Path,
        directory: Option<tempfile::TempDir>,
    ) -> Result<DataRef, Error> {
        let (opening, stop) = (path.to_owned(), Arc::clone(&self.stop.0));
        let (known, digest) = watch::channel(None);
        let file = blocking(move || OfferedFile::open(&opening, digest, directory)).await;
        let file = Arc::new(file.map_err(Error::file("read", path))?);
        let hashed = Arc::clone(&file);
        tokio::task::spawn_blocking(move || {
            // Without a digest the file is fetched all the same, or whoever fetches it hears why.
            if let Ok(Some(digest)) = digesting::of_file(&hashed.path, &stop) {
                known.send_replace(Some(digest));
            }
        });
        let secret = secret();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let url = format!("{}/{secret}/{}", self.base, utf8_percent_encode(&name, SEGMENT));
        let len = Some(file.len);
        self.offered.0.lock().unwrap_or_else(PoisonError::into_inner).insert(secret, file);
        Ok(DataRef { url, len, digest: None })
    }
}

impl OfferTable {
    /// The file that a path leads to: the secret decides, the name after it is decoration.
    fn find(&self, path: &str) -> Option<Arc<OfferedFile>> {
        let secret = path.strip_prefix('/')?.split('/').next()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(secret).cloned()
    }
}

impl OfferedFile {
    fn open(
        path: &Path,
        digest: watch::Receiver<Option<Digest>>,
        directory: Option<tempfile::TempDir>,
    ) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            let told = "only a regular file can be offered; NAME:FILE sends it by value";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        File::open(path)?; // So that a file we may not read is told now.
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        let etag =
            format!("\"{:x}-{:x}-{seconds:x}.{nanoseconds:x}\"", metadata.ino(), metadata.len());
        Ok(Self { path: path.to_owned(), len: metadata.len(), etag, digest, _directory: directory })
    }
}

/// 256 random bits in hexadecimal.
fn secret() -> String {
    let mut bits = [0_u8; 32];
    // The system's generator is there, or nothing secure could run on this machine.
    getrandom::fill(&mut bits).expect("the system gives random numbers");
    Digest::Sha256(bits).hex()
}

/// `HOST`, `HOST:PORT`, `[V6]:PORT` or a bare IPv6 address.
fn split(address: &str) -> Option<(&str, u16)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok()?)),
            None => rest.is_empty().then_some((host, 0)),
        };
    }
    if address.is_empty() || address.contains('/') {
        return None;
    }
    match address.split_once(':') {
        None => Some((address, 0)),
        Some((_, more)) if more.contains(':') => Some((address, 0)),
        Some(("", _)) => None,
        Some((host, port)) => Some((host, port.parse().ok()?)),
    }
}

/// The address that packets to there would carry; nothing is sent.
async fn local_address(host: &str, port: u16) -> io::Result<IpAddr> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for to in tokio::net::lookup_host((host, port)).await? {
        let any: IpAddr =
            if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).await?;
        match socket.connect(to).await {
            Ok(()) => return socket.local_addr().map(|local| local.ip()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn accept(listener: TcpListener, offered: Arc<OfferTable>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        // A connection that went away again, or too many open files: the next may do better.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        connections.spawn(serve(stream, Arc::clone(&offered)));
    }
}

async fn serve(stream: TcpStream, offered: Arc<OfferTable>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let offered = Arc::clone(&offered);
        async move { Ok::<_, Infallible>(answered(&offered, &request).await) }
    });
    // Whoever breaks off comes again.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answered(offered: &OfferTable, request: &Request<Incoming>) -> Response<DataBody> {
    match offered.find(request.uri().path()) {
        Some(file) => answer::of(&file, request.method(), request.headers()).await,
        None => answer::nothing(),
    }
}

#[cfg(test)]
mod tests;
