//! The listener: accepts, bounds, and hands on.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::Principal;
use hyper::Request;
use hyper::body::Incoming as HyperBody;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::direct::{Direct, Outlet};
use super::linger::{Lingering, Wanted};
use super::respond;
use super::route::{is_open, unnamed};
use super::stall::Unstalled;
use super::timer::ConnectionTimer;
use crate::host::Host;

/// How long to rest when the system has no descriptor left to give.
const NO_DESCRIPTOR: Duration = Duration::from_millis(100);

/// Descriptors left for everything that is no connection.
const SPARE_DESCRIPTORS: u64 = 256;

/// A bound address; nothing is accepted yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds an address such as `127.0.0.1:8080` or `localhost:8080`; port 0 picks a free one.
///
/// # Errors
/// What the system says: in use, not ours, not allowed.
pub async fn bind(address: &str) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok(Listening { listener, address })
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    pub async fn serve(self, host: Arc<Host>) {
        let most = allowed_connections(host.settings.max_connections);
        let places = Arc::new(Semaphore::new(most));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if !is_of_the_connection(&error) {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(NO_DESCRIPTOR).await;
                    }
                    continue;
                }
            };
            let host = Arc::clone(&host);
            tokio::spawn(async move {
                host.metrics.connected();
                connection(&host, stream).await;
                host.metrics.disconnected();
                drop(place);
            });
        }
    }
}

async fn connection(host: &Arc<Host>, stream: TcpStream) {
    // Small answers must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let (outlet, linger) = (&Outlet::default(), &Wanted::default());
    let stream = Direct::new(stream, outlet.clone());
    let stream = Unstalled::new(stream, host.settings.answer_stall);
    let stream = Lingering::new(stream, host.settings.drain_time, linger.clone());
    let service = service_fn(|request: Request<HyperBody>| async move {
        let mut reply = match principal(host, &request) {
            Ok(principal) => respond(host, request, principal).await,
            // Other servers fetch data here, and nobody in front of us knows them.
            Err(_) if is_open(host, &request) => {
                respond(host, request, Principal::anonymous()).await
            }
            Err(header) => unnamed(header),
        };
        if reply.headers().contains_key(header::CONNECTION) {
            // Not all of the request was read.
            linger.ask();
        }
        reply.body_mut().through(outlet);
        Ok::<_, Infallible>(reply)
    });
    let served = http1::Builder::new()
        .timer(ConnectionTimer::default())
        .header_read_timeout(host.settings.header_timeout)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Who calls, as a trusted proxy in front of us says. Where one was promised, a request in which it
/// names nobody has come past it.
fn principal<'h, B>(host: &'h Host, request: &Request<B>) -> Result<Principal, &'h str> {
    let Some(header) = &host.settings.user_header else { return Ok(Principal::anonymous()) };
    let value = request.headers().get(header).map(HeaderValue::as_bytes);
    let name = value.and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
    name.filter(|name| !name.is_empty()).map(Principal::named).ok_or(header)
}

/// An error of the connection that was to be accepted, not of the listener.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Raises the limit on descriptors as far as it goes; tells how many connections it carries.
fn allowed_connections(wanted: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let needed = (wanted as u64).saturating_add(SPARE_DESCRIPTORS);
    let raised = needed.min(hard).max(soft);
    let now = if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() { raised } else { soft };
    let carried = usize::try_from(now.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(wanted);
    if carried < wanted {
        tracing::warn!(carried, wanted, "the limit on open files carries fewer connections");
    }
    carried.clamp(16, wanted.max(16))
}
