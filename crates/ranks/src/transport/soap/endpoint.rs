//! An address, and who is behind it: ranks of one domain or of several (paper 002, Figure 4). The path of a request says whose it is.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;

use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};
use crate::transport::Waiter;
use crate::transport::poller::Poller;
use crate::transport::soap::client_call::{fault, form_of};
use crate::transport::soap::http::{HttpError, answer, read_request};
use crate::transport::soap::incoming::{BUFFER, unknown};
use crate::transport::soap::url;
use crate::transport::socket::{hang_up, is_transient, some, watch};

const LISTENER: u64 = u64::MAX - 1;

/// Where ranks listen. Connections belong to nobody until their first request has told whose they are; whichever of the ranks passes messages
/// reads it.
pub struct Endpoint {
    listener: TcpListener,
    poller: Poller,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: HashMap<(DomainId, Rank), (Arc<Inbox>, Arc<Poller>)>,
    /// Connections whose first request has not told yet.
    pending: Vec<Option<(TcpStream, Vec<u8>)>>,
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
    /// Ranks are reached at this listener. Hosts that vanish are noticed within `timeout`.
    pub fn new(listener: TcpListener, timeout: Duration) -> Result<Arc<Self>> {
        let join = |error: std::io::Error| Error::Join { problem: error.to_string() };
        listener.set_nonblocking(true).map_err(join)?;
        let poller = Poller::new(None).map_err(join)?;
        poller.add(&listener, LISTENER, false).map_err(join)?;
        Ok(Arc::new(Self { listener, poller, timeout, state: Mutex::default() }))
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

    /// A rank is here from now on.
    pub(super) fn join(
        &self,
        domain: DomainId,
        rank: Rank,
        poller: Arc<Poller>,
    ) -> Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        let before = self.lock().members.insert((domain, rank), (inbox.clone(), poller));
        match before {
            None => Ok(inbox),
            Some(before) => {
                self.lock().members.insert((domain, rank), before);
                let problem = format!("rank {rank} of the domain is at this endpoint already");
                Err(Error::Join { problem })
            }
        }
    }

    /// It is not here any more.
    pub(super) fn leave(&self, domain: DomainId, rank: Rank) {
        self.lock().members.remove(&(domain, rank));
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
    }

    fn accept(&self, state: &mut State) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(&error) => return,
                Err(error) => return tracing::warn!(%error, "a connection can't be accepted"),
            };
            let free = state.pending.iter().position(Option::is_none);
            let at = free.unwrap_or(state.pending.len());
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| watch(&SockRef::from(&stream), self.timeout))
                .and_then(|()| self.poller.add(&stream, at as u64, false));
            if let Err(error) = watched {
                tracing::debug!(%error, "a connection broke");
                continue;
            }
            if free.is_none() {
                state.pending.push(None);
            }
            state.pending[at] = Some((stream, Vec::new()));
            self.read(state, at);
        }
    }

    fn read(&self, state: &mut State, at: usize) {
        let Some((mut stream, mut bytes)) = state.pending.get_mut(at).and_then(Option::take) else {
            return;
        };
        let mut buffer = [0; BUFFER];
        let most = BUFFER - bytes.len();
        match some(stream.read(&mut buffer[..most])) {
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => return tracing::debug!(%error, "a connection without a request ended"),
        }
        let refused = match read_request(&bytes) {
            Ok(None) if bytes.len() < BUFFER => {
                state.pending[at] = Some((stream, bytes));
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
