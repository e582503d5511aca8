//! An address, and who is behind it: ranks of one domain or of several (paper 002, Figure 4). The path of a request says whose it is.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};
use crate::settings::Settings;
use crate::transport::Waiter;
use crate::transport::poller::Poller;
use crate::transport::soap::client_call::{fault, form_of};
use crate::transport::soap::http::{HttpError, answer, read_request};
use crate::transport::soap::incoming::{BUFFER, unknown};
use crate::transport::socket::{hang_up, is_transient, some, watch};
use crate::transport::url;

const LISTENER: u64 = u64::MAX - 1;
/// How long nothing is accepted when it can't be: there may be no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Where ranks listen. Connections belong to nobody until their first request has told whose they are; whichever of the ranks passes messages
/// reads it.
pub struct Endpoint {
    listener: TcpListener,
    poller: Poller,
    settings: Settings,
    /// Whether there may be a [deadline](Self::deadline).
    any_deadline: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: HashMap<(DomainId, Rank), (Arc<Inbox>, Arc<Poller>)>,
    /// Connections whose first request has not told yet.
    pending: Vec<Option<Pending>>,
    /// Ranks of the domains whose members are here: each may have a connection and say nothing.
    ranks: usize,
    /// When connections are accepted again.
    accepts_at: Option<Instant>,
}

struct Pending {
    stream: TcpStream,
    bytes: Vec<u8>,
    begun: Instant,
}

/// Connections for one rank.
#[derive(Default)]
pub(super) struct Inbox {
    any: AtomicBool,
    connections: Mutex<Vec<(TcpStream, Vec<u8>)>>,
}

impl Inbox {
    /// Connections that have come, each with what was read of it.
    pub(super) fn take(&self) -> Vec<(TcpStream, Vec<u8>)> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Endpoint {
    /// Ranks are reached at this listener. Hosts that vanish are noticed within the `peer_timeout` of `settings`.
    pub fn new(listener: TcpListener, settings: &Settings) -> Result<Arc<Self>> {
        let join = |error: std::io::Error| Error::Join { problem: error.to_string() };
        listener.set_nonblocking(true).map_err(join)?;
        let poller = Poller::new(None).map_err(join)?;
        poller.add(&listener, LISTENER, false).map_err(join)?;
        Ok(Arc::new(Self {
            listener,
            poller,
            settings: settings.clone(),
            any_deadline: AtomicBool::default(),
            state: Mutex::default(),
        }))
    }

    /// Where a rank is, at the listener's address or another one of the same host.
    pub fn url(&self, domain: DomainId, rank: Rank, host: Option<IpAddr>) -> Result<String> {
        let address = self.listener.local_addr();
        let mut address = address.map_err(|error| Error::Join { problem: error.to_string() })?;
        if let Some(host) = host {
            address = SocketAddr::new(host, address.port());
        }
        Ok(format!("http://{address}{}", url::path(domain, rank)))
    }

    /// Something may be there for ranks.
    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// A rank of a domain with so many is here from now on.
    pub(super) fn join(
        &self,
        domain: DomainId,
        rank: Rank,
        ranks: usize,
        poller: Arc<Poller>,
    ) -> Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        let before = self.lock().members.insert((domain, rank), (inbox.clone(), poller));
        match before {
            None => {
                self.lock().ranks += ranks;
                Ok(inbox)
            }
            Some(before) => {
                self.lock().members.insert((domain, rank), before);
                let problem = format!("rank {rank} of the domain is at this endpoint already");
                Err(Error::Join { problem })
            }
        }
    }

    /// It is not here any more.
    pub(super) fn leave(&self, domain: DomainId, rank: Rank, ranks: usize) {
        let mut state = self.lock();
        state.members.remove(&(domain, rank));
        state.ranks -= ranks;
    }

    /// Whether a rank is here.
    pub(super) fn has(&self, member: (DomainId, Rank)) -> bool {
        self.lock().members.contains_key(&member)
    }

    /// Gives a connection to the rank that its next request is for.
    pub(super) fn hand_over(&self, to: (DomainId, Rank), stream: TcpStream, bytes: Vec<u8>) {
        self.lock().give(to, stream, bytes);
    }

    /// Accepts connections, and gives those to ranks that have told whose they are.
    pub(super) fn advance(&self) {
        let mut state = self.lock();
        let mut ready = Vec::new();
        self.poller.ready(&mut ready);
        for token in ready {
            if token == LISTENER {
                self.accept(&mut state);
            } else if let Ok(at) = usize::try_from(token) {
                self.read(&mut state, at);
            }
        }
        self.expire(&mut state);
    }

    /// When a connection has had its time to tell, or others are accepted again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if !self.any_deadline.load(Ordering::Acquire) {
            return None;
        }
        self.deadline_of(&self.lock())
    }

    fn deadline_of(&self, state: &State) -> Option<Instant> {
        let pending = state.pending.iter().flatten();
        // Those of ranks that have nothing to say may stay.
        let oldest = pending.clone().map(|one| one.begun).min();
        let oldest = oldest.filter(|_| pending.count() > state.ranks);
        let end = oldest.map(|begun| begun + self.settings.authentication_timeout);
        end.into_iter().chain(state.accepts_at).min()
    }

    /// Does what it is time for, and ends the oldest connections where there are too many.
    fn expire(&self, state: &mut State) {
        let now = Instant::now();
        if state.accepts_at.is_some_and(|at| at <= now) {
            let again = self.poller.add(&self.listener, LISTENER, false);
            state.accepts_at = again.err().map(|_| now + ACCEPT_PAUSE);
        }
        let most = state.ranks.saturating_add(self.settings.unauthenticated_connections);
        loop {
            let pending = state.pending.iter().flatten().count();
            let slots = state.pending.iter().enumerate();
            let oldest = slots.filter_map(|(at, one)| Some((one.as_ref()?.begun, at))).min();
            let Some((begun, at)) = oldest else { break };
            let is_late = begun + self.settings.authentication_timeout <= now;
            if pending <= most && !(is_late && pending > state.ranks) {
                break;
            }
            // It may have told by now.
            self.read(state, at);
            if state.pending[at].take().is_some() {
                tracing::debug!("a connection has not told in time whose it is");
            }
        }
        self.any_deadline.store(self.deadline_of(state).is_some(), Ordering::Release);
    }

    fn accept(&self, state: &mut State) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(&error) => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    tracing::warn!(%error, "a connection can't be accepted");
                    if self.poller.remove(&self.listener).is_ok() {
                        state.accepts_at = Some(Instant::now() + ACCEPT_PAUSE);
                    }
                    return;
                }
            };
            let free = state.pending.iter().position(Option::is_none);
            let at = free.unwrap_or(state.pending.len());
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| watch(&SockRef::from(&stream), self.settings.peer_timeout))
                .and_then(|()| self.poller.add(&stream, at as u64, false));
            if let Err(error) = watched {
                tracing::debug!(%error, "a connection broke");
                continue;
            }
            if free.is_none() {
                state.pending.push(None);
            }
            let begun = Instant::now();
            state.pending[at] = Some(Pending { stream, bytes: Vec::new(), begun });
            self.read(state, at);
            self.expire(state);
        }
    }

    fn read(&self, state: &mut State, at: usize) {
        let Some(pending) = state.pending.get_mut(at).and_then(Option::take) else { return };
        let Pending { mut stream, mut bytes, begun } = pending;
        let mut buffer = [0; BUFFER];
        let most = BUFFER - bytes.len();
        match some(stream.read(&mut buffer[..most])) {
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => return tracing::debug!(%error, "a connection without a request ended"),
        }
        let refused = match read_request(&bytes) {
            Ok(None) if bytes.len() < BUFFER => {
                state.pending[at] = Some(Pending { stream, bytes, begun });
                return;
            }
            Ok(None) => answer(431, &[], b"its head is too long\n", true),
            Err(HttpError(error)) => answer(400, &[], format!("{error}\n").as_bytes(), true),
            Ok(Some((head, _))) => {
                let member = url::member(&head.path);
                match member.filter(|member| state.members.contains_key(member)) {
                    Some(member) => {
                        if let Err(error) = self.poller.remove(&stream) {
                            return tracing::debug!(%error, "a connection broke");
                        }
                        return state.give(member, stream, bytes);
                    }
                    None => fault(&form_of(&head), &unknown(&head.path), true),
                }
            }
        };
        // It fits into an empty socket; who does not read it need not know.
        let _ = stream.write_all(&refused);
        hang_up(&stream);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give(&self, to: (DomainId, Rank), stream: TcpStream, bytes: Vec<u8>) {
        let Some((inbox, poller)) = self.members.get(&to) else { return };
        let mut connections = inbox.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.push((stream, bytes));
        inbox.any.store(true, Ordering::Release);
        poller.wake();
    }
}
