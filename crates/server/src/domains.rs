//! Communication domains that have ranks here (paper 002, section 3.2): whose they are, which job is which rank, where ranks are
//! reached. In memory, but for what their gateway needs: a server that is started anew knows no domain of before, whose ranks go on and are reached
//! through it.
//!
//! - `locations`: where ranks listen, on disk
//! - [`rendezvous`]: what ranks say to their server, over a Unix socket

mod locations;
pub mod rendezvous;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fishplate_contract::{Fault, FaultCode, JobId, Principal};
use fishplate_jobs::engine::Engine;
use fishplate_ranks::launch::rendezvous::{Address, ServerMessage};
use fishplate_ranks::launch::{LaunchEnvironment, TransportKind};
use fishplate_ranks::status::{KnownRank, RankStatus};
use fishplate_ranks::transport::shared_memory::Segment;
use fishplate_ranks::{Credential, DomainId, Rank};
use tokio::sync::{Semaphore, watch};

use self::locations::Locations;
pub(crate) use self::locations::{Location, Presence};

/// The name by which programs ask for the MPI library (MPI 5.0, chapter 20).
const LIBRARY: &str = "libmpi_abi.so.1";

/// The domains of a server.
#[derive(Debug)]
pub struct Domains {
    /// For sockets and links.
    directory: PathBuf,
    /// How long a domain that nobody uses is kept.
    retention: Duration,
    bounds: DomainBounds,
    /// Bounds the connections of the gateway.
    passages: Arc<Semaphore>,
    locations: Locations,
    /// What servers before left there was looked at.
    swept: tokio::sync::OnceCell<()>,
    all: Mutex<HashMap<DomainId, DomainEntry>>,
    /// The socket, once there is one.
    socket: tokio::sync::OnceCell<PathBuf>,
}

/// How much there may be of domains.
#[derive(Clone, Copy, Debug)]
pub struct DomainBounds {
    /// Ranks of one, wherever they are: what a rank tells of itself grows with them.
    pub ranks: u32,
    /// Routes that are kept of the ranks of one that run here, all of them together.
    pub routes: usize,
    /// Connections that the gateway passes on at once.
    pub passages: usize,
}

#[derive(Debug)]
struct DomainEntry {
    owner: Principal,
    /// Of the first rank.
    credential: Option<Credential>,
    /// How many ranks it has, here and elsewhere.
    ranks: Option<u32>,
    members: BTreeMap<Rank, Member>,
    /// What those who joined are told.
    answer: watch::Sender<Option<JoinReply>>,
    used: Instant,
}

/// What ranks are told when all have joined.
#[derive(Clone, Debug)]
struct JoinReply {
    message: ServerMessage,
    /// Descriptors of memory that ranks here share; none if they don't, and once all have got them.
    memory: Arc<Vec<OwnedFd>>,
    /// How many have not got them yet.
    waiting: usize,
}

/// A rank that was started here.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its service.
    pub service: String,
    /// Its job.
    pub job: JobId,
    /// Where it is reached, once it has joined.
    pub address: Option<Address>,
    /// It left in order (`MPI_Finalize`).
    pub left: bool,
    /// What it told last of what it waits for, and when.
    pub status: Option<(Instant, Arc<RankStatus>)>,
    /// It is connected to us: it runs.
    connected: bool,
    /// Where it may listen; none: on loopback.
    hosts: Vec<IpAddr>,
    /// It shares memory with those who do too.
    shares_memory: bool,
    /// It has a connection to tell its status.
    reports: bool,
}

impl Member {
    /// What it does now.
    pub fn known(&self) -> KnownRank {
        let told = self.status.as_ref().map(|(at, status)| (at.elapsed(), &**status));
        let has_ended = self.left || (self.address.is_some() && !self.connected);
        // Not before all has come that it told last, of what it sent.
        KnownRank::new(told, has_ended && !self.reports)
    }
}

/// What is known of a domain.
#[derive(Clone, Debug)]
pub struct DomainView {
    /// Its ranks that were started here.
    pub members: BTreeMap<Rank, Member>,
    /// Where each of its ranks is, for those that were started here, as far as that is known.
    pub addresses: Vec<Option<Address>>,
}

/// What `init` is told of the rank that it starts.
#[derive(Clone, Debug)]
pub struct NewRank {
    /// The domain.
    pub domain: DomainId,
    /// The rank.
    pub rank: Rank,
    /// How many there are.
    pub ranks: u32,
    /// The domain's.
    pub credential: Credential,
    /// What carries messages.
    pub transport: TransportKind,
    /// Where others reach it at a port of its own; none: only through its server's.
    pub addresses: Vec<IpAddr>,
}

fn wrong(parameter: &str, what: impl Into<String>) -> Fault {
    Fault::new(FaultCode::InvalidValue, what).parameter(parameter)
}

/// Looks whether what is told of where ranks are agrees with what is known of those that joined here, and with itself; `gateway` is where others
/// reach a rank of this server.
///
/// # Errors
/// `InvalidValue`, which names the rank and both places.
pub(crate) fn check_addresses(
    members: &BTreeMap<Rank, Member>,
    told: &[Address],
    gateway: impl Fn(Rank) -> Option<Address>,
) -> Result<(), Fault> {
    let mut ranks: HashMap<String, Rank> = HashMap::new();
    for (rank, address) in (0..).zip(told) {
        if let Some(other) = ranks.insert(address.to_string(), rank) {
            let what = format!("ranks {other} and {rank} are told to be both at {address}");
            return Err(wrong("addresses", what));
        }
        let own = members.get(&rank).and_then(|member| member.address.as_ref());
        if let Some(own) = own.filter(|own| *own != address)
            && gateway(rank).as_ref() != Some(address)
        {
            let what =
                format!("rank {rank} is told to be at {address}, and has joined here at {own}");
            return Err(wrong("addresses", what));
        }
    }
    Ok(())
}

fn no_such_domain(domain: DomainId) -> Fault {
    let what = format!(
        "there is no domain {domain} of yours here: places are reserved first, and a server that was started anew knows none of before"
    );
    wrong("domain", what)
}

impl DomainEntry {
    /// What ranks are told, with memory for those here that share some.
    fn answer_of(&self, addresses: Vec<Address>) -> JoinReply {
        let sharing = self.members.iter().filter(|(_, of)| of.shares_memory);
        let mut sharing: Vec<Rank> = sharing.map(|(rank, _)| *rank).collect();
        let count = u32::try_from(sharing.len()).unwrap_or(u32::MAX);
        let memory = if count < 2 { Ok(Vec::new()) } else { Segment::create(count) };
        // Without it they have connections.
        let memory = memory.unwrap_or_else(|error| {
            tracing::info!(%error, ranks = count, "ranks share no memory");
            Vec::new()
        });
        if memory.is_empty() {
            sharing.clear();
        }
        // Who has ended already never gets it.
        let waiting = sharing.iter().filter(|rank| self.members[rank].connected).count();
        let memory = if waiting == 0 { Vec::new() } else { memory };
        let message = ServerMessage::Ranks { addresses, sharing };
        JoinReply { message, memory: Arc::new(memory), waiting }
    }
}

impl Domains {
    /// None yet.
    pub fn new(directory: PathBuf, retention: Duration, bounds: DomainBounds) -> Arc<Self> {
        let (all, socket) = (Mutex::default(), tokio::sync::OnceCell::new());
        let locations = Locations::new(directory.join("locations"));
        let passages = Arc::new(Semaphore::new(bounds.passages.min(Semaphore::MAX_PERMITS)));
        let swept = tokio::sync::OnceCell::new();
        Arc::new(Self { directory, retention, bounds, passages, locations, swept, all, socket })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DomainId, DomainEntry>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether a domain may be somebody's: its ranks may go on from before this server was started.
    ///
    /// # Errors
    /// Another's ranks do.
    pub(crate) async fn check(
        &self,
        domain: DomainId,
        owner: &Principal,
        engine: &Engine,
    ) -> Result<(), Fault> {
        self.swept.get_or_try_init(|| self.locations.remove_dead(engine)).await?;
        if !self.lock().contains_key(&domain)
            && self.locations.is_of_another(domain, owner, engine).await?
        {
            return Err(no_such_domain(domain));
        }
        Ok(())
    }

    /// Looks whether a rank may be started: it may go on from before this server was started, and then there would be two of it.
    ///
    /// # Errors
    /// It does; or the record of its job can't be read.
    pub(crate) async fn check_rank(
        &self,
        domain: DomainId,
        rank: Rank,
        engine: &Engine,
    ) -> Result<(), Fault> {
        let Some(before) = self.locations.read(domain, rank) else { return Ok(()) };
        if let Presence::At(at) = before.find(engine).await? {
            let what = format!(
                "rank {rank} of the domain goes on at {at} since before this server was started anew: end the domain first"
            );
            return Err(wrong("rank", what));
        }
        Ok(())
    }

    /// Somebody wants to have ranks of a domain here.
    ///
    /// # Errors
    /// It is another's.
    pub fn open(&self, domain: DomainId, owner: &Principal) -> Result<(), Fault> {
        let mut all = self.lock();
        let is_used = |entry: &DomainEntry| {
            entry.used.elapsed() < self.retention || entry.members.values().any(|of| of.connected)
        };
        all.retain(|domain, entry| {
            let is_used = is_used(entry);
            if !is_used {
                self.locations.remove(*domain);
            }
            is_used
        });
        let entry = all.entry(domain).or_insert_with(|| DomainEntry {
            owner: owner.clone(),
            credential: None,
            ranks: None,
            members: BTreeMap::new(),
            answer: watch::Sender::default(),
            used: Instant::now(),
        });
        if entry.owner == *owner { Ok(()) } else { Err(no_such_domain(domain)) }
    }

    /// With a domain of this owner.
    fn with<T>(
        &self,
        domain: DomainId,
        owner: &Principal,
        act: impl FnOnce(&mut DomainEntry) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut all = self.lock();
        let entry = all.get_mut(&domain).filter(|entry| entry.owner == *owner);
        let entry = entry.ok_or_else(|| no_such_domain(domain))?;
        entry.used = Instant::now();
        act(entry)
    }

    /// A rank is to be started: what its program is told.
    ///
    /// # Errors
    /// The domain is not here, or has another credential, another number of ranks, or that rank already; ranks can't be listened to.
    pub async fn enter(
        self: &Arc<Self>,
        new: &NewRank,
        owner: &Principal,
        (service, job): (&str, JobId),
    ) -> Result<LaunchEnvironment, Fault> {
        let rendezvous = self.socket.get_or_try_init(|| rendezvous::listen(self)).await;
        let rendezvous = rendezvous.map_err(|error| {
            tracing::error!(%error, directory = %self.directory.display(), "ranks can't be listened to");
            let what = "this server can't listen to ranks; its log has more";
            Fault::new(FaultCode::Internal, what)
        })?;
        let NewRank { domain, rank, ranks, transport, ref credential, ref addresses } = *new;
        let most = self.bounds.ranks;
        if ranks > most {
            let what = format!("a domain of which some ranks are here has at most {most} ranks");
            return Err(wrong("ranks", what).limit("domain_ranks", u64::from(most)));
        }
        self.with(domain, owner, |entry| {
            if entry.credential.get_or_insert_with(|| credential.clone()) != credential {
                let what = "the ranks of a domain have one credential, and this is another one";
                return Err(wrong("credential", what));
            }
            if *entry.ranks.get_or_insert(ranks) != ranks {
                return Err(wrong("ranks", "it is told otherwise to another rank of the domain"));
            }
            if entry.members.contains_key(&rank) {
                let what = format!("rank {rank} of the domain was started here already");
                return Err(wrong("rank", what));
            }
            let service = service.to_owned();
            let hosts = addresses.clone();
            let member = Member {
                service,
                job,
                address: None,
                left: false,
                status: None,
                connected: false,
                reports: false,
                hosts,
                shares_memory: transport == TransportKind::SharedMemory,
            };
            entry.members.insert(rank, member);
            Ok(())
        })?;
        Ok(LaunchEnvironment {
            domain,
            rank,
            ranks,
            rendezvous: rendezvous.clone(),
            credential: credential.clone(),
            addresses: addresses.clone(),
            transport,
        })
    }

    /// The ranks of a domain that were started here.
    ///
    /// # Errors
    /// It is not here, or another's.
    pub fn members(
        &self,
        domain: DomainId,
        owner: &Principal,
    ) -> Result<BTreeMap<Rank, Member>, Fault> {
        self.with(domain, owner, |entry| Ok(entry.members.clone()))
    }

    /// The domains of an owner: how many of their ranks were started here, and how many of these are connected.
    pub fn of(&self, owner: &Principal) -> Vec<(DomainId, usize, usize)> {
        let all = self.lock();
        let own =
            all.iter().filter(|(_, entry)| entry.owner == *owner && !entry.members.is_empty());
        let connected =
            |entry: &DomainEntry| entry.members.values().filter(|of| of.connected).count();
        let own = own.map(|(id, entry)| (*id, entry.members.len(), connected(entry)));
        let mut own: Vec<_> = own.collect();
        drop(all);
        own.sort_by_key(|(id, ..)| *id.as_bytes());
        own
    }

    /// What is known of a domain. Who looks does not use it: it is not kept for that.
    ///
    /// # Errors
    /// It is not here, or another's.
    pub fn look(&self, domain: DomainId, owner: &Principal) -> Result<DomainView, Fault> {
        let all = self.lock();
        let entry = all.get(&domain).filter(|entry| entry.owner == *owner);
        let entry = entry.ok_or_else(|| no_such_domain(domain))?;
        let addresses = match entry.answer.borrow().as_ref() {
            Some(JoinReply { message: ServerMessage::Ranks { addresses, .. }, .. }) => {
                addresses.iter().cloned().map(Some).collect()
            }
            _ => vec![None; entry.ranks.unwrap_or_default() as usize],
        };
        Ok(DomainView { members: entry.members.clone(), addresses })
    }

    /// Tells the ranks that were started here where all are.
    ///
    /// # Errors
    /// It is not here, or another's; not so many addresses as ranks; they were told others before.
    pub fn connect(
        &self,
        domain: DomainId,
        owner: &Principal,
        addresses: Vec<Address>,
    ) -> Result<(), Fault> {
        self.with(domain, owner, |entry| {
            let ranks = entry.ranks.unwrap_or_default();
            if addresses.len() != ranks as usize {
                let what = format!("{} addresses for {ranks} ranks", addresses.len());
                return Err(wrong("addresses", what));
            }
            let before = entry.answer.borrow().clone();
            match before.map(|before| before.message) {
                None => drop(entry.answer.send_replace(Some(entry.answer_of(addresses)))),
                Some(ServerMessage::Ranks { addresses: before, .. }) if before == addresses => {}
                Some(_) => return Err(wrong("addresses", "the ranks were told others before")),
            }
            Ok(())
        })
    }

    /// Forgets a domain.
    pub fn remove(&self, domain: DomainId, owner: &Principal) {
        let mut all = self.lock();
        if all.get(&domain).is_some_and(|entry| entry.owner == *owner) {
            all.remove(&domain);
            self.locations.remove(domain);
        }
    }

    /// Forgets where ranks are that go on from before this server was started.
    ///
    /// # Errors
    /// If the records of their jobs can't be read.
    pub(crate) async fn forget(
        &self,
        domain: DomainId,
        owner: &Principal,
        engine: &Engine,
    ) -> Result<(), Fault> {
        self.locations.remove_of(domain, owner, engine).await
    }

    /// Places for connections of the gateway.
    pub(crate) fn passages(&self) -> Arc<Semaphore> {
        self.passages.clone()
    }

    /// What a gateway knows of a rank; `None` if its domain is not here.
    pub(crate) fn locate(&self, domain: DomainId, rank: Rank) -> Option<Location> {
        let all = self.lock();
        let entry = all.get(&domain);
        let credential = entry.and_then(|entry| entry.credential.clone());
        let member = entry.and_then(|entry| entry.members.get(&rank));
        let at = member.filter(|member| member.connected);
        let at = at.and_then(|member| member.address.as_ref()?.socket());
        let is_member = member.is_some();
        // Whether one that has not joined will.
        let job = member.filter(|member| member.address.is_none()).map(|member| member.job);
        drop(all);
        let known = credential.map(|credential| Location { credential, at, job });
        if is_member {
            return known;
        }
        // One of before, of a domain that is not here or was reserved again.
        self.locations.read(domain, rank).or(known)
    }

    /// A directory in which programs find the MPI library.
    ///
    /// # Errors
    /// It can't be made.
    pub fn libraries(&self, library: &Path) -> io::Result<PathBuf> {
        let directory = self.directory.join("libraries");
        let link = directory.join(LIBRARY);
        if std::fs::read_link(&link).is_ok_and(|to| to == library) {
            return Ok(directory);
        }
        std::fs::create_dir_all(&directory)?;
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match symlink(library, &link) {
            // Another process was faster.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(directory),
        }
    }
}

/// A rank that is to be started: withdrawn unless it is, also if the caller hangs up.
#[derive(Debug)]
pub struct EnteredRank {
    domains: Arc<Domains>,
    domain: DomainId,
    rank: Rank,
    job: JobId,
    /// It is on its way.
    is_kept: bool,
}

impl EnteredRank {
    /// The rank that this job is to be.
    pub fn new(domains: &Arc<Domains>, new: &NewRank, job: JobId) -> Self {
        let NewRank { domain, rank, .. } = *new;
        Self { domains: Arc::clone(domains), domain, rank, job, is_kept: false }
    }

    /// It is on its way.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for EnteredRank {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Some(entry) = self.domains.lock().get_mut(&self.domain) {
            entry.members.retain(|rank, of| *rank != self.rank || of.job != self.job);
        }
    }
}

#[cfg(test)]
mod tests;
