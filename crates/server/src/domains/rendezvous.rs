//! The server's side of the rendezvous ([`fishplate_ranks::launch::rendezvous`]): one socket for the ranks of all domains.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use fishplate_ranks::launch::descriptors;
use fishplate_ranks::launch::lines::Lines;
use fishplate_ranks::launch::rendezvous::{
    ClientMessage, LONGEST_LINE, MessageError, ServerMessage,
};
use fishplate_ranks::status::{RankStatus, longest_line};
use fishplate_ranks::{Credential, DomainId, Rank};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::{DomainEntry, Domains, JoinReply, Member};

/// Longest path that a Unix socket's address holds (unix(7)).
const LONGEST_PATH: usize = 107;
/// How the names of sockets begin; the process's number follows.
const PREFIX: &str = "rendezvous.";

/// Below are services of the system, and no ports that it picks.
const FIRST_FREE_PORT: u16 = 1024;

/// What ranks that joined are told, once it is known.
type Promise = watch::Receiver<Option<JoinReply>>;

/// Listens to ranks as long as the domains are there; where.
pub(super) async fn listen(domains: &Arc<Domains>) -> io::Result<PathBuf> {
    let directory = &domains.directory;
    tokio::fs::create_dir_all(directory).await?;
    let path = directory.join(format!("{PREFIX}{}", std::process::id()));
    if path.as_os_str().as_bytes().len() > LONGEST_PATH {
        let what = format!(
            "{}: a socket's path has at most {LONGEST_PATH} bytes (--data)",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, what));
    }
    remove_dead(directory);
    let listener = UnixListener::bind(&path)?;
    tokio::spawn(accept(listener, Arc::downgrade(domains), Socket(path.clone())));
    Ok(path)
}

/// A socket's name, removed with it.
#[derive(Debug)]
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes sockets of servers that were killed.
fn remove_dead(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let answered = std::os::unix::net::UnixStream::connect(entry.path());
        if answered.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

async fn accept(listener: UnixListener, domains: Weak<Domains>, socket: Socket) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, domains.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, socket = %socket.0.display(), "a rank can't be listened to");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Unknown,
    /// A rank that joined.
    Joined(DomainId, Rank),
    /// A rank that tells its status, in a line that may be so long.
    Reporting(DomainId, Rank, usize),
}

/// Hears a rank until it ends.
async fn serve(mut stream: UnixStream, domains: Weak<Domains>) {
    let mut member = Peer::Unknown;
    let (mut lines, mut answer) = (Lines::default(), None);
    // It has not got what it may share.
    let mut owed = true;
    let ended = loop {
        let mut bytes = [0; LONGEST_LINE];
        tokio::select! {
            read = stream.read(&mut bytes) => match read {
                Ok(0) | Err(_) => break None,
                Ok(count) => lines.extend(&bytes[..count]),
            },
            told = told(&mut answer) => {
                answer = None;
                let Ok(JoinReply { message, memory, .. }) = told else {
                    break Some("the domain was ended".to_owned());
                };
                let shares = match (&message, member) {
                    (ServerMessage::Ranks { sharing, .. }, Peer::Joined(domain, rank)) => {
                        sharing.contains(&rank).then_some(domain)
                    }
                    _ => None,
                };
                let memory = if shares.is_some() { &memory[..] } else { &[] };
                if write(&mut stream, &format!("{message}\n"), memory).await.is_err() {
                    break None;
                }
                if let (Some(domain), Some(domains)) = (shares, domains.upgrade()) {
                    owed = false;
                    domains.note_shared(domain);
                }
            }
        }
        let Some(domains) = domains.upgrade() else { break None };
        match hear(&domains, &mut lines, &mut member) {
            Ok(None) => {}
            Ok(joined) => answer = joined,
            Err(reason) => break Some(reason),
        }
    };
    if let Some(reason) = ended {
        let line = format!("{}\n", ServerMessage::Refused(reason));
        let _ = stream.write_all(line.as_bytes()).await;
    }
    let Some(domains) = domains.upgrade() else { return };
    match member {
        Peer::Unknown => {}
        Peer::Joined(domain, rank) => domains.ended(domain, rank, owed),
        Peer::Reporting(domain, rank, _) => domains.note(domain, rank, |of| of.reports = false),
    }
}

/// Waits for what is to be told; for ever, if there is nothing to wait for.
///
/// # Errors
/// The domain was ended.
async fn told(promise: &mut Option<Promise>) -> Result<JoinReply, ()> {
    let Some(promise) = promise else { return std::future::pending().await };
    let answer = promise.wait_for(Option::is_some).await.map(|answer| answer.clone());
    answer.ok().flatten().ok_or(())
}

/// Writes a line, with descriptors beside its first bytes.
async fn write(stream: &mut UnixStream, line: &str, memory: &[OwnedFd]) -> io::Result<()> {
    let mut rest = line.as_bytes();
    if !memory.is_empty() {
        let first = || descriptors::send(&*stream, rest, memory);
        let written = loop {
            stream.writable().await?;
            match stream.try_io(Interest::WRITABLE, first) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => break written?,
            }
        };
        rest = &rest[written..];
    }
    stream.write_all(rest).await
}

/// Takes the whole lines of a rank; what it waits for, if it has joined with one of them.
///
/// # Errors
/// Why the connection ends.
fn hear(
    domains: &Domains,
    lines: &mut Lines,
    member: &mut Peer,
) -> Result<Option<Promise>, String> {
    let mut joined = None;
    while let Some(line) = lines.take() {
        let message = std::str::from_utf8(&line).map_err(|_| MessageError::Strange);
        match (message.and_then(str::parse), *member) {
            (Ok(join @ ClientMessage::Join { domain, rank, .. }), Peer::Unknown) => {
                joined = Some(domains.join(join)?);
                *member = Peer::Joined(domain, rank);
            }
            (Ok(ClientMessage::Report { domain, rank, credential }), Peer::Unknown) => {
                let ranks = domains.report(domain, rank, &credential)?;
                *member = Peer::Reporting(domain, rank, longest_line(ranks));
            }
            (Ok(ClientMessage::Status(status)), Peer::Reporting(domain, rank, _)) => {
                domains.note_status(domain, rank, status);
            }
            (Ok(ClientMessage::Leave), Peer::Joined(domain, rank)) => domains.leave(domain, rank),
            // It ends itself with that code, which its job tells.
            (Ok(ClientMessage::Abort { .. }), Peer::Joined(..)) => {}
            (Err(error), Peer::Unknown) => return Err(error.to_string()),
            _ => return Err(MessageError::Strange.to_string()),
        }
    }
    let longest = match *member {
        Peer::Reporting(_, _, longest) => longest,
        Peer::Unknown | Peer::Joined(..) => LONGEST_LINE,
    };
    if lines.waiting() > longest {
        return Err(MessageError::Strange.to_string());
    }
    Ok(joined)
}

fn known<'a>(
    all: &'a mut HashMap<DomainId, DomainEntry>,
    domain: DomainId,
    credential: &Credential,
) -> Result<&'a mut DomainEntry, String> {
    let entry = all.get_mut(&domain);
    let entry = entry.filter(|entry| entry.credential.as_ref() == Some(credential));
    entry.ok_or_else(|| "domain and credential are not those of a domain of this server".to_owned())
}

fn started(members: &mut BTreeMap<Rank, Member>, rank: Rank) -> Result<&mut Member, String> {
    members.get_mut(&rank).ok_or_else(|| format!("rank {rank} was not started here"))
}

impl DomainEntry {
    /// One rank less waits for the memory that it shares; the last one leaves us none of it.
    fn note_shared(&self) {
        self.answer.send_modify(|answer| {
            let Some(answer) = answer else { return };
            answer.waiting = answer.waiting.saturating_sub(1);
            if answer.waiting == 0 {
                answer.memory = Arc::default();
            }
        });
    }
}

impl Domains {
    pub(super) fn join(&self, message: ClientMessage) -> Result<Promise, String> {
        let ClientMessage::Join { domain, rank, credential, address } = message else {
            return Err(MessageError::Strange.to_string());
        };
        let mut all = self.lock();
        let entry = known(&mut all, domain, &credential)?;
        let member = started(&mut entry.members, rank)?;
        let may_be_there = |at: &SocketAddr| {
            let is_own = match &member.hosts[..] {
                [] => at.ip().is_loopback(),
                hosts => hosts.contains(&at.ip()),
            };
            is_own && at.port() >= FIRST_FREE_PORT
        };
        if !address.sockets().is_some_and(|all| all.iter().all(may_be_there)) {
            return Err(format!("rank {rank} may not listen at {address}"));
        }
        if member.address.is_some() {
            return Err(format!("rank {rank} has joined already: a rank is one process, once"));
        }
        if let Some(at) = address.socket()
            && let Err(error) = self.locations.write(domain, (rank, member.job), at, &credential)
        {
            tracing::warn!(%error, %domain, rank, "it is not reached through this server once that is started anew");
        }
        member.address = Some(address);
        member.connected = true;
        Ok(entry.answer.subscribe())
    }

    /// A rank will tell its status; how many ranks there are.
    fn report(&self, domain: DomainId, rank: Rank, credential: &Credential) -> Result<u32, String> {
        let mut all = self.lock();
        let entry = known(&mut all, domain, credential)?;
        let member = started(&mut entry.members, rank)?;
        // Each line is kept until it is whole, and may be long.
        if std::mem::replace(&mut member.reports, true) {
            return Err(format!("rank {rank} tells its status already, on another connection"));
        }
        Ok(entry.ranks.unwrap_or_default())
    }

    /// A rank has got the memory that it shares.
    fn note_shared(&self, domain: DomainId) {
        if let Some(entry) = self.lock().get(&domain) {
            entry.note_shared();
        }
    }

    /// A rank's connection has ended, perhaps before it got what it was `owed`.
    fn ended(&self, domain: DomainId, rank: Rank, owed: bool) {
        let mut all = self.lock();
        let Some(entry) = all.get_mut(&domain) else { return };
        if let Some(member) = entry.members.get_mut(&rank) {
            member.connected = false;
        }
        let shares = entry.answer.borrow().as_ref().is_some_and(|answer| {
            matches!(&answer.message, ServerMessage::Ranks { sharing, .. } if sharing.contains(&rank))
        });
        if owed && shares {
            entry.note_shared();
        }
    }

    /// A rank has told its status, of which this keeps as many routes as are its part.
    fn note_status(&self, domain: DomainId, rank: Rank, mut status: RankStatus) {
        let mut all = self.lock();
        let Some(entry) = all.get_mut(&domain) else { return };
        status.limit_routes(self.bounds.routes / entry.members.len().max(1));
        if let Some(member) = entry.members.get_mut(&rank) {
            member.status = Some((Instant::now(), Arc::new(status)));
        }
    }

    fn leave(&self, domain: DomainId, rank: Rank) {
        self.note(domain, rank, |member| member.left = true);
    }

    fn note(&self, domain: DomainId, rank: Rank, note: impl FnOnce(&mut Member)) {
        let mut all = self.lock();
        let entry = all.get_mut(&domain);
        if let Some(member) = entry.and_then(|entry| entry.members.get_mut(&rank)) {
            note(member);
        }
    }
}
