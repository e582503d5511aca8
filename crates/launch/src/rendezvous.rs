//! The launcher's side of the rendezvous.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use fishplate_ranks::launch::descriptors;
use fishplate_ranks::launch::lines::Lines;
use fishplate_ranks::launch::rendezvous::{
    Address, ClientMessage, LONGEST_LINE, MessageError, ServerMessage,
};
use fishplate_ranks::status::{RankStatus, longest_line};
use fishplate_ranks::{Credential, DomainId, Rank};

use crate::endpoints::EndpointsFile;

/// The pause after somebody could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a rank is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Where it is reached, once it has said so.
    pub(crate) address: Option<Address>,
    /// It left in order.
    pub(crate) left: bool,
    /// What it told last, and when.
    pub(crate) status: Option<(Instant, RankStatus)>,
    /// It has a connection to tell it.
    pub(crate) reports: bool,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    rank: Option<Rank>,
    /// The rank tells its status on it, and nothing else.
    reports: bool,
    lines: Lines,
}

/// See [`fishplate_ranks::launch::rendezvous`].
#[derive(Debug)]
pub(crate) struct Rendezvous {
    domain: DomainId,
    credential: Credential,
    listener: UnixListener,
    /// Before that nobody is accepted, because there are too many open files: who waits stays, and would be found again at once.
    accept_at: Option<Instant>,
    connections: Vec<Connection>,
    pub(crate) members: Vec<Membership>,
    /// Why nobody can join any more.
    closed: Option<String>,
    /// A rank has told its status, or has ended, and nobody has looked since.
    pub(crate) news: bool,
    /// Descriptors of memory that ranks share; none if they don't.
    memory: Vec<OwnedFd>,
    /// Where clients are told of the ranks.
    pub(crate) endpoints: Option<EndpointsFile>,
}

/// What a rank asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abort {
    pub(crate) rank: Rank,
    pub(crate) code: i32,
}

impl Rendezvous {
    pub(crate) fn new(
        path: &Path,
        domain: DomainId,
        credential: Credential,
        ranks: u32,
        memory: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let members = (0..ranks).map(|_| Membership::default()).collect();
        Ok(Self {
            domain,
            credential,
            listener,
            accept_at: None,
            connections: Vec::new(),
            members,
            closed: None,
            news: false,
            memory,
            endpoints: None,
        })
    }

    /// What is waited for.
    pub(crate) fn sources(&self, now: Instant) -> impl Iterator<Item = BorrowedFd<'_>> {
        let streams = self.connections.iter().map(|connection| connection.stream.as_fd());
        let listener = self.paused(now).is_none().then(|| self.listener.as_fd());
        listener.into_iter().chain(streams)
    }

    /// Until when nobody is accepted, if so.
    pub(crate) fn paused(&self, now: Instant) -> Option<Instant> {
        self.accept_at.filter(|at| *at > now)
    }

    /// Hears what ranks have said by now; the first that wants to end all.
    pub(crate) fn hear(&mut self) -> Option<Abort> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    self.connections.push(Connection {
                        stream,
                        rank: None,
                        reports: false,
                        lines: Lines::default(),
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
            }
        }
        let mut abort = None;
        for mut connection in std::mem::take(&mut self.connections) {
            let mut bytes = [0; LONGEST_LINE];
            let open = loop {
                match connection.stream.read(&mut bytes) {
                    Ok(0) => break false,
                    Ok(count) => connection.lines.extend(&bytes[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break false,
                }
                if !self.take_lines(&mut connection, &mut abort) {
                    break false;
                }
            };
            if open {
                self.connections.push(connection);
            } else if let (true, Some(rank)) = (connection.reports, connection.rank) {
                self.members[rank as usize].reports = false;
                self.news = true;
            }
        }
        self.answer();
        abort
    }

    /// Whether the connection may go on.
    fn take_lines(&mut self, connection: &mut Connection, abort: &mut Option<Abort>) -> bool {
        while let Some(line) = connection.lines.take() {
            let message = std::str::from_utf8(&line).map_err(|_| MessageError::Strange);
            let message = message.and_then(str::parse);
            if connection.reports {
                let (Ok(ClientMessage::Status(status)), Some(rank)) = (message, connection.rank)
                else {
                    return false;
                };
                self.members[rank as usize].status = Some((Instant::now(), status));
                self.news = true;
                continue;
            }
            match (message, connection.rank) {
                (Ok(ClientMessage::Join { domain, rank, credential, address }), None) => {
                    if let Err(reason) = self.join(domain, rank, &credential, address) {
                        refuse(connection, reason);
                        return false;
                    }
                    connection.rank = Some(rank);
                }
                (Ok(ClientMessage::Report { domain, rank, credential }), None)
                    if self.knows(domain, &credential)
                        && self
                            .members
                            .get(rank as usize)
                            .is_some_and(|member| !member.reports) =>
                {
                    (connection.rank, connection.reports) = (Some(rank), true);
                    self.members[rank as usize].reports = true;
                }
                (Ok(ClientMessage::Leave), Some(rank)) => {
                    self.members[rank as usize].left = true;
                    self.news = true;
                }
                (Ok(ClientMessage::Abort { code }), Some(rank)) => {
                    abort.get_or_insert(Abort { rank, code });
                }
                (Err(error), None) => {
                    refuse(connection, error.to_string());
                    return false;
                }
                _ => {
                    refuse(connection, MessageError::Strange.to_string());
                    return false;
                }
            }
        }
        let ranks = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let longest = if connection.reports { longest_line(ranks) } else { LONGEST_LINE };
        connection.lines.waiting() <= longest
    }

    fn knows(&self, domain: DomainId, credential: &Credential) -> bool {
        domain == self.domain && *credential == self.credential
    }

    fn join(
        &mut self,
        domain: DomainId,
        rank: Rank,
        credential: &Credential,
        address: Address,
    ) -> Result<(), String> {
        if !self.knows(domain, credential) {
            return Err("domain and credential are not those of this launcher".to_owned());
        }
        let ranks = self.members.len();
        let member = self.members.get_mut(rank as usize);
        let member = member.ok_or(format!("there is no rank {rank}: {ranks} were started"))?;
        if member.address.is_some() {
            return Err(format!("rank {rank} has joined already: a rank is one process, once"));
        }
        if let Some(reason) = &self.closed {
            return Err(reason.clone());
        }
        member.address = Some(address);
        Ok(())
    }

    /// Tells all where all are, when the last of them has joined.
    fn answer(&mut self) {
        let addresses: Option<Vec<_>> =
            self.members.iter().map(|member| member.address.clone()).collect();
        if let (Some(addresses), None) = (addresses, &self.closed) {
            self.closed = Some("all ranks have joined already".to_owned());
            let told = self
                .endpoints
                .take()
                .map(|file| file.write(self.domain, &self.credential, &addresses));
            if let Some(Err(error)) = told {
                let reason = format!("the file of endpoints can't be written: {error}");
                self.connections.iter_mut().for_each(|one| refuse(one, reason.clone()));
                return;
            }
            let all = if self.memory.is_empty() { 0 } else { addresses.len() };
            let sharing = (0..).take(all).collect();
            let line = format!("{}\n", ServerMessage::Ranks { addresses, sharing });
            let joined = |one: &&mut Connection| one.rank.is_some() && !one.reports;
            for connection in self.connections.iter_mut().filter(joined) {
                // Its buffer is empty and takes a line for thousands of ranks. Who is gone need not know.
                let _ = descriptors::send(&connection.stream, line.as_bytes(), &self.memory);
            }
            self.memory.clear();
        }
    }

    /// A rank's process has ended. If it had not joined, the others wait in vain.
    pub(crate) fn ended(&mut self, rank: Rank) {
        self.news = true;
        if self.members[rank as usize].address.is_some() || self.closed.is_some() {
            return;
        }
        let reason =
            format!("rank {rank} has ended without joining, so the domain is never complete");
        for connection in &mut self.connections {
            refuse(connection, reason.clone());
        }
        self.closed = Some(reason);
    }
}

fn refuse(connection: &mut Connection, reason: String) {
    let line = format!("{}\n", ServerMessage::Refused(reason));
    let _ = connection.stream.write_all(line.as_bytes());
}
