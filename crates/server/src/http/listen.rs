//! The listener: accepts, bounds, and hands on.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::Principal;
use futures_util::future::{join, join_all};
use hyper::body::Incoming as HyperBody;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connections::{ConnectionSlot, Connections, RequestGuard};
use super::direct::{FileQueue, SendfileStream};
use super::origin::RequestFilter;
use super::relay;
use super::reply::HttpResponse;
use super::repoll::repolled;
use super::respond;
use super::route::{below, denied, is_open, is_passage, is_switch, not_for_us, probe, service_of};
use super::sender::Sender;
use super::timeout::TimeoutStream;
use super::timer::ConnectionTimer;
use super::tls::ServerTls;
use crate::audit::CALLER;
use crate::authentication::authenticator::{Peer, RequestHead};
use crate::authentication::client_address::client_address;
use crate::current::CurrentHost;
use crate::faces::passage::is_upgrade_to;
use crate::faces::sites::SITE_PROTOCOL;

/// How long to rest when the system has no descriptor left to give.
const NO_DESCRIPTOR: Duration = Duration::from_millis(100);

/// Descriptors left for everything that is no connection.
const SPARE_DESCRIPTORS: u64 = 256;

/// The most that a connection reads ahead of who reads a request's body, and has in memory of an
/// answer, but for one piece of it. A request's header must fit in it.
const BUFFER: usize = 64 << 10;

/// Bytes of an answer that the system takes before it has sent them: else it keeps megabytes for each
/// reader who takes nothing. What is on its way does not count, so nobody far away is slowed down.
const UNSENT: u32 = 128 << 10;

/// When the system asks whether a peer that says nothing is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);

/// How often it asks then, and how many times before the connection has ended: two minutes in all.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Peers who are told at once that they have too many connections; others are told nothing.
const TOLD_AT_ONCE: usize = 64;

/// How long somebody who has too many connections may take to hear it.
const TELLING: Duration = Duration::from_secs(1);

/// A bound address; nothing is accepted yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    /// The host that it was told to bind.
    name: String,
    tls: Option<Arc<ServerTls>>,
}

/// Binds an address such as `127.0.0.1:8080` or `localhost:8080`; port 0 picks a free one.
///
/// # Errors
/// What the system says: in use, not ours, not allowed.
pub async fn bind(address: &str) -> io::Result<Listener> {
    let name = address.rsplit_once(':').map_or("", |(name, _)| name).to_owned();
    let listener = TcpListener::bind(address).await?;
    // Those that are accepted have it from the listener. Where there is no such bound, memory is lost only.
    let _ = SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_PROBES);
    let _ = SockRef::from(&listener).set_tcp_keepalive(&keepalive);
    let address = listener.local_addr()?;
    Ok(Listener { listener, address, name, tls: None })
}

impl Listener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same, speaking TLS only.
    #[must_use]
    pub fn with_tls(self, tls: Arc<ServerTls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Serves until it is told to stop and all that was being answered is with its callers, or until it is
    /// dropped.
    pub async fn serve(self, host: Arc<CurrentHost>) {
        let settings = &host.get().settings;
        let most = allowed_connections(
            settings.max_connections,
            settings.gateway_connections.saturating_mul(2),
        );
        let connections = Connections::new(most, settings.connections_per_peer);
        let served = Arc::new(Served {
            current: Arc::clone(&host),
            listener: ListenerName { address: self.address.ip(), name: self.name.clone() },
        });
        let relays = host.get().settings.relays.clone();
        let relayed = join_all(relays.iter().map(|it| relay::serve(&served, &connections, it)));
        let all_answered = async {
            host.stopped().await;
            connections.answered().await;
        };
        tokio::select! {
            // Neither of these ends.
            _ = join(self.accept(&served, &connections), relayed) => {}
            () = all_answered => {}
        }
    }

    async fn accept(&self, served: &Arc<Served>, connections: &Arc<Connections>) {
        let telling = Arc::new(Semaphore::new(TOLD_AT_ONCE));
        let current = &served.current;
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !is_of_the_connection(&error) {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(NO_DESCRIPTOR).await;
                    }
                    continue;
                }
            };
            let Some(slot) = connections.admit(peer.ip()).await else {
                tracing::debug!(%peer, "refused: it has too many connections");
                current.get().metrics.refused(503);
                if let Ok(turn) = Arc::clone(&telling).try_acquire_owned() {
                    let most = current.get().settings.connections_per_peer;
                    tokio::spawn(async move {
                        let _ = timeout(TELLING, tell_too_many(stream, most)).await;
                        drop(turn);
                    });
                }
                continue;
            };
            let served = Arc::clone(served);
            let tls = self.tls.clone();
            tokio::spawn(async move {
                let metrics = Arc::clone(&served.current.get().metrics);
                metrics.connected();
                let (address, slot) = (peer.ip(), Arc::new(slot));
                match tls {
                    Some(tls) => encrypted(&served, stream, address, slot, &tls).await,
                    None => plain(&served, stream, address, slot).await,
                }
                metrics.disconnected();
            });
        }
    }
}

/// What a listener was told to bind, by which it knows its own names.
#[derive(Debug)]
struct ListenerName {
    address: IpAddr,
    name: String,
}

/// What a connection is answered by.
pub(super) struct Served {
    pub(super) current: Arc<CurrentHost>,
    listener: ListenerName,
}

async fn plain(served: &Served, stream: TcpStream, address: IpAddr, place: Arc<ConnectionSlot>) {
    // Small answers must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let outlet = FileQueue::default();
    let stream = SendfileStream::new(stream, outlet.clone());
    let peer = Peer::at(address);
    connection(served, stream, &peer, &place, Some(&outlet)).await;
}

async fn encrypted(
    served: &Served,
    stream: TcpStream,
    address: IpAddr,
    place: Arc<ConnectionSlot>,
    tls: &ServerTls,
) {
    let _ = stream.set_nodelay(true);
    let header_timeout = served.current.get().settings.header_timeout;
    let greeted = tokio::select! {
        greeted = timeout(header_timeout, tls.accept(stream)) => greeted,
        () = place.told_to_leave() => return,
    };
    match greeted {
        Ok(Ok(Some(stream))) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|it| it.clone().into_owned());
            let peer = Peer { encrypted: true, certificate, ..Peer::at(address) };
            // What is encrypted can't be sent from files as it is.
            connection(served, stream, &peer, &place, None).await;
        }
        Ok(Ok(None)) => tracing::debug!(%address, "a connection did not begin with TLS"),
        Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS came about"),
        Err(_) => tracing::debug!(%address, "no TLS came about in time (limit header_timeout)"),
    }
}

/// Answers what is asked over a connection.
pub(super) async fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    served: &Served,
    stream: S,
    peer: &Peer,
    place: &Arc<ConnectionSlot>,
    outlet: Option<&FileQueue>,
) {
    let host = served.current.get();
    let (stall, drain) = (host.settings.answer_stall, host.settings.drain_time);
    let header_timeout = host.settings.header_timeout;
    drop(host);
    let stream = TimeoutStream::new(stream, stall, drain, Some(Arc::clone(place)));
    let service = service_fn(|request: Request<HyperBody>| async move {
        let Some(busy) = place.busy() else {
            // It was told to go: what it asks for now is not begun.
            return std::future::pending().await;
        };
        let mut reply = answer(served, peer, request, &busy).await;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            busy.passed();
            if is_upgrade_to(reply.headers(), SITE_PROTOCOL) {
                // As many come as others ask for; who may register a site has a right to it, and it has limits of its own.
                place.release_peer();
            }
        }
        if let Some(outlet) = outlet {
            reply.body_mut().through(outlet);
        }
        reply.body_mut().keep_busy(busy);
        Ok::<_, Infallible>(reply)
    });
    let serving = http1::Builder::new()
        .timer(ConnectionTimer::default())
        .header_read_timeout(header_timeout)
        .max_buf_size(BUFFER)
        // Some readers look for names of fields as the specifications write them.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        biased;
        ended = repolled(serving) => if let Err(error) = ended {
            let hint = if error.is_parse() { " (does it speak https to a port of http?)" } else { "" };
            tracing::debug!(%error, "a connection ended early{hint}");
        },
        () = place.told_to_leave() => {
            tracing::debug!("an idle connection made room for another");
        }
    }
}

async fn answer(
    served: &Served,
    peer: &Peer,
    request: Request<HyperBody>,
    busy: &RequestGuard,
) -> HttpResponse {
    let host = &served.current.get();
    let admitted = served.current.admit();
    let name = below(host, request.uri().path());
    if let Some(told) = probe(name, &admitted) {
        return told;
    }
    let listener = &served.listener;
    let filter = host.filter.get_or_init(|| {
        RequestFilter::of_listener(listener.address, &listener.name, &host.settings)
    });
    if let Err(refusal) = filter.check(&request) {
        return not_for_us(host, &refusal);
    }
    let is_of_service = host.service(name).is_some();
    if !is_of_service && is_passage(name) {
        // Ranks go on while their server stops, and reach each other as long as they can. A request that passes alone is
        // waited for.
        if is_switch(&request) {
            busy.passing();
        }
    } else if let Err(fault) = admitted {
        let (asked, body) = request.into_parts();
        let mut told = denied(host, &asked, &body, &fault);
        told.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return told;
    }
    let headers = request.headers();
    let client = client_address(headers, peer, &host.settings.proxies);
    // Other servers fetch data here, and nobody knows them.
    if !is_of_service && is_open(name, &request) {
        return CALLER.scope(client, respond(host, request, Principal::anonymous())).await;
    }
    let head = RequestHead { headers, peer, client, security: None };
    let service = if is_of_service { name } else { service_of(name) };
    let method = request.method();
    let message_tells =
        is_of_service && method == Method::POST && host.authenticators.read_envelopes();
    let read = matches!(*method, Method::GET | Method::HEAD);
    let is_open = is_of_service && read && host.settings.open_descriptions;
    match host.identify(head, service, message_tells || is_open).await {
        Ok(principal) => {
            let principal = principal.or_else(|| is_open.then(Principal::anonymous));
            let sender = Sender::new(principal, head);
            CALLER.scope(client, respond(host, request, sender)).await
        }
        Err(fault) => {
            let (asked, body) = request.into_parts();
            denied(host, &asked, &body, &fault)
        }
    }
}

/// Tells somebody who has too many connections so, and lets them read it: what they send meanwhile
/// is thrown away.
async fn tell_too_many(mut stream: TcpStream, most: usize) -> io::Result<()> {
    let what = format!(
        "this address has {most} connections, and all of them are in use (limit \
         connections_per_peer); wait for some of them\n"
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{what}",
        what.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
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

/// Raises the limit on descriptors as far as it goes, for others too; tells how many connections it carries.
fn allowed_connections(wanted: usize, others: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let needed = (wanted as u64).saturating_add(SPARE_DESCRIPTORS);
    let raised = needed.saturating_add(others as u64).min(hard).max(soft);
    let now = if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() { raised } else { soft };
    let carried = usize::try_from(now.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(wanted);
    if carried < wanted {
        tracing::warn!(carried, wanted, "the limit on open files carries fewer connections");
    }
    carried.clamp(16, wanted.max(16))
}
