//! Places on every server, then every rank, then the addresses of all to all; and what becomes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fishplate_contract::{Argument, FaultCode, JobId, JobReport, JobState, LogStream};
use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::server::{DomainServer, Member, RankState};
use super::{DomainError, failed};
use crate::arguments::{ArgumentWord, load};
use crate::error::Error;
use crate::service::Service;
use crate::settings::Settings;

/// First and longest pause between two looks at a rank, and at who has joined.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The pause before places that were taken are asked for again, if the server tells none.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Some ranks that run the program of one service.
#[derive(Clone, Debug)]
pub struct Instances {
    /// The service.
    pub url: String,
    /// Which operation, if it has several.
    pub operation: Option<String>,
    /// How many ranks.
    pub ranks: u32,
    /// What each of them is given.
    pub inputs: Vec<ArgumentWord>,
}

/// A domain as it shall be run. Ranks are numbered through the instances.
#[derive(Clone, Debug)]
pub struct DomainPlan {
    /// Its ID, 32 hexadecimal digits.
    pub id: String,
    /// Its credential, 64 hexadecimal digits.
    pub credential: String,
    /// What carries messages: `tcp` or `soap`; `None`: what servers have by default.
    pub transport: Option<String>,
    /// Ranks of different servers reach each other at ports of their own; else through their servers.
    pub direct: bool,
    /// Its ranks.
    pub instances: Vec<Instances>,
    /// How long places are asked for where they are taken.
    pub wait: Duration,
    /// A rank that fails does not end the others.
    pub keep_going: bool,
}

/// Runs a domain. Whatever comes of it, [`Manager::end`] belongs to its end.
pub struct Manager {
    plan: DomainPlan,
    parts: Vec<InstanceGroup>,
    servers: BTreeMap<String, DomainServer>,
    ranks: u32,
}

/// Instances, with what was found at their URL.
struct InstanceGroup {
    url: String,
    service: Service,
    server: String,
    operation: String,
    first: u32,
    ranks: u32,
    arguments: Vec<Argument>,
}

/// A rank whose job was accepted.
#[derive(Clone, Debug)]
struct StartedRank {
    rank: u32,
    part: usize,
    job: JobId,
}

/// Where a rank is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reached {
    /// The server that told it.
    server: String,
    /// From ranks of its own server, and from all if it has a port of its own.
    address: String,
    /// From others.
    gateway: Option<String>,
}

/// Notes which ranks have joined at a server.
///
/// # Errors
/// One of them is told to be elsewhere too: messages for it would go to one, and answers come from the other.
fn note(
    reached: &mut BTreeMap<u32, Reached>,
    server: &str,
    members: Vec<Member>,
) -> Result<(), DomainError> {
    for Member { rank, address, gateway, .. } in members {
        let Some(address) = address else { continue };
        let found = Reached { server: server.to_owned(), address, gateway };
        let known = reached.entry(rank).or_insert_with(|| found.clone());
        if *known != found {
            let place = |at: &Reached| format!("{} at {}", at.address, at.server);
            let (one, other) = (place(known), place(&found));
            return Err(DomainError::Contradiction { rank, one, other });
        }
    }
    Ok(())
}

/// How far a domain is.
#[derive(Debug, Default)]
struct Progress {
    joined: BTreeSet<u32>,
    /// Ranks whose jobs have ended.
    ended: BTreeSet<u32>,
    /// All are being ended.
    ending: bool,
}

/// What a rank wrote.
#[derive(Clone, Debug)]
pub struct RankOutput {
    /// The rank.
    pub rank: u32,
    /// Which of its two streams it was written to.
    pub stream: LogStream,
    /// The text, as it came: lines may be cut.
    pub text: String,
}

/// What is told while a domain runs.
#[derive(Clone, Debug)]
pub enum DomainEvent {
    /// All ranks have joined; where each is reached by who is not on its server.
    Joined(Vec<String>),
    /// A rank wrote something.
    Output(RankOutput),
}

/// A rank that has ended.
#[derive(Clone, Debug)]
pub struct EndedRank {
    /// The rank.
    pub rank: u32,
    /// Its service.
    pub url: String,
    /// The operation that it ran.
    pub operation: String,
    /// How its job ended.
    pub report: JobReport,
    /// It joined the domain and did not leave it in order, though its job is done.
    pub stayed: bool,
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EndedRank {
    /// Its job did not end well, or others may wait for it.
    pub fn has_failed(&self) -> bool {
        self.report.state != JobState::Done || self.stayed
    }
}

impl Manager {
    /// Finds all services; nothing is begun.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn find(plan: DomainPlan, settings: &Settings) -> Result<Self, DomainError> {
        let count = plan.instances.iter().map(|of| u64::from(of.ranks)).sum::<u64>();
        let ranks = i32::try_from(count).ok().filter(|ranks| *ranks > 0);
        let ranks = ranks.ok_or(DomainError::Count(count))?.unsigned_abs();
        let (mut parts, mut servers, mut first) = (Vec::new(), BTreeMap::new(), 0);
        for of in &plan.instances {
            let url = &of.url;
            let unusable = || failed(url, "the service can't be used");
            let service = Service::connect_with(url, settings.clone()).await;
            let service = service.map_err(unusable())?;
            if !service.has_ranks() {
                return Err(DomainError::NoRanks { url: url.clone() });
            }
            let server = DomainServer::find(url, settings.clone()).await.map_err(unusable())?;
            let server = server.ok_or_else(|| DomainError::NoRanks { url: url.clone() })?;
            let mut names = service.operations();
            let operation = match (&of.operation, names.next(), names.next()) {
                (Some(name), ..) => name.clone(),
                (None, Some(name), None) => name.to_owned(),
                _ => String::new(),
            };
            drop(names);
            let described = service.operation(&operation).map_err(unusable())?;
            let arguments = load(described, of.inputs.clone(), None).await.map_err(unusable())?;
            let at = server.url();
            servers.entry(at.clone()).or_insert(server);
            let (url, ranks) = (url.clone(), of.ranks);
            parts.push(InstanceGroup {
                url,
                service,
                server: at,
                operation,
                first,
                ranks,
                arguments,
            });
            first += of.ranks;
        }
        Ok(Self { plan, parts, servers, ranks })
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many servers they are on.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Starts all ranks or none, tells what they write, and waits for their end. The first that fails is the first of what is
    /// given, and ends the others unless they shall go on; all others follow by rank.
    ///
    /// # Errors
    /// See [`DomainError`].
    pub async fn run(
        &self,
        tell: &mpsc::Sender<DomainEvent>,
    ) -> Result<Vec<EndedRank>, DomainError> {
        self.reserve().await?;
        let started = self.start().await?;
        let progress = Mutex::default();
        tokio::select! {
            ended = self.follow(&started, &progress, tell) => ended,
            error = self.connect(&progress, tell) => Err(error),
        }
    }

    /// What ranks do by now; nothing of servers that can't be asked.
    pub async fn state(&self) -> Vec<RankState> {
        let told = self.servers.values().map(|server| server.state(&self.plan.id));
        join_all(told).await.into_iter().flatten().flatten().collect()
    }

    /// Gives back all places and ends all ranks that run; what could not be asked for that.
    pub async fn end(&self) -> Vec<DomainError> {
        let ends = self.servers.iter().map(async |(url, server)| {
            server.end(&self.plan.id).await.map_err(failed(url, "ranks may go on there"))
        });
        join_all(ends).await.into_iter().filter_map(Result::err).collect()
    }

    /// Has places for all ranks.
    async fn reserve(&self) -> Result<(), DomainError> {
        let until = Instant::now() + self.plan.wait;
        loop {
            let Err(error) = self.reserve_all().await else { return Ok(()) };
            let retry = match error.cause() {
                Some(Error::Fault(fault)) if fault.code == FaultCode::QueueFull => {
                    fault.retry_after.unwrap_or(ASK_AGAIN)
                }
                _ => return Err(error),
            };
            if Instant::now() + retry > until {
                return Err(error);
            }
            // Who waits holds nothing.
            if let Some(error) = self.end().await.into_iter().next() {
                return Err(error);
            }
            sleep(retry).await;
        }
    }

    async fn reserve_all(&self) -> Result<(), DomainError> {
        let mut wanted: BTreeMap<(&str, &str), (u32, &str)> = BTreeMap::new();
        for part in &self.parts {
            let name = part.service.description().name.as_str();
            wanted.entry((&part.server, name)).or_insert((0, &part.url)).0 += part.ranks;
        }
        for ((server, service), (ranks, url)) in wanted {
            let reserved = self.servers[server].reserve(&self.plan.id, service, ranks).await;
            let what = format!("{ranks} places can't be reserved");
            reserved.map_err(failed(url, what))?;
        }
        Ok(())
    }

    async fn start(&self) -> Result<Vec<StartedRank>, DomainError> {
        let all = self.parts.iter().enumerate().flat_map(|(at, part)| {
            (part.first..part.first + part.ranks).map(move |rank| (at, part, rank))
        });
        let starts = all.map(async |(at, part, rank)| {
            let of_rank = [
                ("domain", self.plan.id.clone()),
                ("rank", rank.to_string()),
                ("ranks", self.ranks.to_string()),
                ("credential", self.plan.credential.clone()),
                ("direct", self.plan.direct.to_string()),
            ];
            let transport = self.plan.transport.clone().map(|name| ("transport", name));
            let of_rank = of_rank.into_iter().chain(transport);
            let of_rank = of_rank.map(|(name, text)| Argument::text(name, text));
            let arguments = of_rank.chain(part.arguments.clone()).collect();
            let started = part.service.init(&part.operation, arguments).await;
            let job =
                started.map_err(failed(&part.url, format!("rank {rank} can't be started")))?;
            Ok(StartedRank { rank, part: at, job })
        });
        try_join_all(starts).await
    }

    /// Tells all servers where all ranks are, once all have joined, and goes on looking who has; gives errors only.
    async fn connect(
        &self,
        progress: &Mutex<Progress>,
        tell: &mpsc::Sender<DomainEvent>,
    ) -> DomainError {
        let mut pause = FIRST_LOOK;
        let mut addresses = BTreeMap::new();
        while addresses.len() < self.ranks as usize {
            let looked = self.look(&mut addresses).await;
            {
                let mut progress = lock(progress);
                if progress.ending {
                    break;
                }
                progress.joined.extend(addresses.keys().copied());
                let mut absent = progress.ended.difference(&progress.joined);
                if let (Some(&rank), false) = (absent.next(), addresses.is_empty()) {
                    return DomainError::Incomplete { rank };
                }
            }
            if let Err(error) = looked {
                return error;
            }
            sleep(pause).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
        if let Err(error) = self.tell_addresses(&addresses).await
            && !lock(progress).ending
        {
            return error;
        }
        if addresses.len() == self.ranks as usize {
            let reached = |at: Reached| at.gateway.unwrap_or(at.address);
            let reached = addresses.into_values().map(reached).collect();
            let _ = tell.send(DomainEvent::Joined(reached)).await;
        }
        std::future::pending().await
    }

    /// Looks who has joined.
    async fn look(&self, addresses: &mut BTreeMap<u32, Reached>) -> Result<(), DomainError> {
        for (url, server) in &self.servers {
            let looked = server.members(&self.plan.id).await;
            let members = looked.map_err(failed(url, "it can't be asked for its ranks"))?;
            note(addresses, url, members)?;
        }
        Ok(())
    }

    async fn tell_addresses(&self, reached: &BTreeMap<u32, Reached>) -> Result<(), DomainError> {
        if reached.len() < self.ranks as usize {
            return Ok(());
        }
        for (url, server) in &self.servers {
            let from_there = |(rank, Reached { address, gateway, .. }): (&u32, &Reached)| {
                let is_near = self.part_of(*rank).is_some_and(|part| part.server == *url);
                let gateway = gateway.as_ref().filter(|_| !is_near && !self.plan.direct);
                gateway.unwrap_or(address).clone()
            };
            let addresses: Vec<String> = reached.iter().map(from_there).collect();
            let told = server.connect(&self.plan.id, &addresses).await;
            told.map_err(failed(url, "its ranks can't be told of the others"))?;
        }
        Ok(())
    }

    async fn follow(
        &self,
        started: &[StartedRank],
        progress: &Mutex<Progress>,
        tell: &mpsc::Sender<DomainEvent>,
    ) -> Result<Vec<EndedRank>, DomainError> {
        let mut running: FuturesUnordered<_> =
            started.iter().map(|of| self.follow_rank(of, tell)).collect();
        let (mut first, mut ended) = (None, Vec::new());
        while let Some(end) = running.next().await {
            let mut end = end?;
            if end.report.state == JobState::Done {
                end.stayed = self.has_stayed(&end).await;
            }
            lock(progress).ended.insert(end.rank);
            if end.has_failed() && first.is_none() {
                first = Some(end);
                if !self.plan.keep_going {
                    lock(progress).ending = true;
                    // What can't be ended, the caller is told when all is.
                    self.end().await;
                }
            } else {
                ended.push(end);
            }
        }
        ended.sort_by_key(|end| end.rank);
        Ok(first.into_iter().chain(ended).collect())
    }

    /// Whether a rank that joined has ended without leaving. A server that was started anew does not know it any more.
    async fn has_stayed(&self, end: &EndedRank) -> bool {
        let Some(part) = self.part_of(end.rank) else { return false };
        let members = self.servers[&part.server].members(&self.plan.id).await.unwrap_or_default();
        members.iter().any(|of| of.rank == end.rank && of.address.is_some() && !of.left)
    }

    /// Tells what a rank writes until its job has ended.
    async fn follow_rank(
        &self,
        started: &StartedRank,
        tell: &mpsc::Sender<DomainEvent>,
    ) -> Result<EndedRank, DomainError> {
        let StartedRank { rank, part, job } = *started;
        let part = &self.parts[part];
        let lost = || failed(&part.url, format!("rank {rank} (job {job}) can't be followed"));
        let mut streams = [(LogStream::Stdout, 0, false), (LogStream::Stderr, 0, false)];
        let mut pause = FIRST_LOOK;
        while streams.iter().any(|(.., ended)| !ended) {
            let mut is_new = false;
            for (stream, offset, ended) in streams.iter_mut().filter(|(.., ended)| !ended) {
                let page = part.service.log(job, *stream, *offset).await.map_err(lost())?;
                (*offset, *ended) = (page.next, page.end);
                if !page.text.is_empty() {
                    is_new = true;
                    // Whom nobody listens to any more goes on.
                    let written = RankOutput { rank, stream: *stream, text: page.text };
                    let _ = tell.send(DomainEvent::Output(written)).await;
                }
            }
            if is_new {
                pause = FIRST_LOOK;
            } else if streams.iter().any(|(.., ended)| !ended) {
                sleep(pause).await;
                pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            }
        }
        let report = part.service.wait(job, |_| ()).await.map_err(lost())?;
        let (url, operation) = (part.url.clone(), part.operation.clone());
        Ok(EndedRank { rank, url, operation, report, stayed: false })
    }

    /// The service of a rank.
    pub fn service_of(&self, rank: u32) -> Option<&Service> {
        self.part_of(rank).map(|part| &part.service)
    }

    fn part_of(&self, rank: u32) -> Option<&InstanceGroup> {
        self.parts.iter().find(|part| (part.first..part.first + part.ranks).contains(&rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_told_to_be_at_two_places_is_named_with_both() {
        let joined = |rank, address: Option<&str>| Member {
            rank,
            service: "ring".to_owned(),
            job: JobId::from_bytes([1; 16]),
            address: address.map(str::to_owned),
            gateway: None,
            left: false,
        };
        let mut reached = BTreeMap::new();
        note(&mut reached, "https://a.example", vec![joined(0, Some("127.0.0.1:4000"))]).unwrap();
        // Asked again, and by others of other ranks, and of this one before it has joined there.
        note(&mut reached, "https://a.example", vec![joined(0, Some("127.0.0.1:4000"))]).unwrap();
        let others = vec![joined(0, None), joined(1, Some("127.0.0.1:4000"))];
        note(&mut reached, "https://b.example", others).unwrap();
        assert_eq!(reached.len(), 2);
        for (server, address) in
            [("https://b.example", "127.0.0.1:4000"), ("https://a.example", "127.0.0.1:5000")]
        {
            let told = note(&mut reached, server, vec![joined(0, Some(address))]).unwrap_err();
            let places =
                format!("127.0.0.1:4000 at https://a.example, and {address} at {server}; somebody");
            assert!(told.to_string().contains(&places), "{told}");
            assert!(told.to_string().starts_with("rank 0 is told"), "{told}");
        }
    }
}
