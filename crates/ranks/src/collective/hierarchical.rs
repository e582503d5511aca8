//! Collective operations of ranks at several sites: within each site first, and each pair of sites is crossed once (each way, at most).
//! At each site one rank, the leader, speaks with the leaders of others (Karonis et al. 2000, MPICH-G2; MPICH's `smp`, Open MPI's
//! `han` between hosts).

use std::sync::Arc;

use crate::buffer::Span;
use crate::collective::accumulator::Accumulator;
use crate::collective::algorithm::{
    Algorithms, Allreduce, Barrier, Broadcast, Gather, Reduce, Scan,
};
use crate::collective::allreduce::allreduce;
use crate::collective::alltoall::alltoall;
use crate::collective::broadcast::{barrier, broadcast, gather_nothing, tree};
use crate::collective::gather::{gather, scatter, serial_gather, serial_scatter};
use crate::collective::reduce::{in_order, reduce};
use crate::collective::scan::scan;
use crate::collective::schedule::Schedule;
use crate::error::Result;
use crate::group::Group;
use crate::header::Rank;
use crate::operation::Operation;
use crate::settings::Sites;

/// Bytes that a rank has for all others together, or a leader gets of each, up to which they go through leaders.
const GATHER_LIMIT: usize = 1 << 20;

/// The ranks of a communicator by their sites, of which there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The ranks of each, in their order; sites in the order of their first ranks.
    members: Arc<[Vec<Rank>]>,
    /// They are hosts of one network: how many messages there are counts there, and how long they are, and not who crosses.
    is_near: bool,
}

impl Partition {
    /// That of a group, by the sites of the domain's ranks; `None` if all are at one, or nothing is known.
    pub(crate) fn of(group: &Group, sites: &Sites) -> Option<Self> {
        let mut members: Vec<(u32, Vec<Rank>)> = Vec::new();
        for (rank, process) in (0..).zip(group.ranks().iter()) {
            let site = *sites.of_ranks.get(*process as usize)?;
            match members.iter_mut().find(|(other, _)| *other == site) {
                Some((_, ranks)) => ranks.push(rank),
                None => members.push((site, vec![rank])),
            }
        }
        let is_flat = members.len() < 2;
        let members = members.into_iter().map(|(_, ranks)| ranks).collect();
        (!is_flat).then_some(Self { members, is_near: sites.are_near })
    }

    /// The ranks at the site of one of them, and the place of that one there.
    fn near(&self, me: Rank) -> (&[Rank], u32) {
        let near = self.members.iter().find(|ranks| ranks.contains(&me));
        let near = near.map(Vec::as_slice).unwrap_or_default();
        (near, place(near, me))
    }

    /// Who speaks for each site: its first rank, or the root.
    fn leaders(&self, root: Rank) -> Vec<Rank> {
        let leader = |ranks: &Vec<Rank>| if ranks.contains(&root) { root } else { ranks[0] };
        self.members.iter().map(leader).collect()
    }

    /// Ranks at all of them.
    fn size(&self) -> usize {
        self.members.iter().map(Vec::len).sum()
    }

    /// Whether the ranks of each site follow each other, so that what is reduced at sites is reduced in the order of ranks.
    fn are_in_order(&self) -> bool {
        self.members.iter().flatten().is_sorted()
    }
}

fn place(ranks: &[Rank], rank: Rank) -> u32 {
    (0..).zip(ranks).find(|(_, other)| **other == rank).map_or(0, |(place, _)| place)
}

fn count(ranks: &[Rank]) -> u32 {
    u32::try_from(ranks.len()).unwrap_or(u32::MAX)
}

/// What every one of them needs.
#[derive(Clone, Copy)]
pub(crate) struct Hierarchy<'a> {
    pub(crate) partition: &'a Partition,
    pub(crate) me: Rank,
    /// How they go within a site, and whether reductions keep the order of ranks.
    pub(crate) algorithms: Algorithms,
}

impl Hierarchy<'_> {
    /// How they go between leaders: far apart, so that each crosses once and all do at the same time.
    fn between(self) -> Algorithms {
        if self.partition.is_near {
            return self.algorithms;
        }
        Algorithms {
            broadcast: Some(Broadcast::Serial),
            barrier: Some(Barrier::Dissemination),
            reduce: Some(Reduce::Serial),
            allreduce: Some(Allreduce::RecursiveDoubling),
            ..self.algorithms
        }
    }

    /// A step within each site, towards its leader or from there: `act` gets this rank's place, the leader's, and how many there are.
    fn at_site(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        act: impl FnOnce(&mut Schedule, u32, u32, u32),
    ) {
        let (near, me) = self.partition.near(self.me);
        let leader = leaders.iter().find(|leader| near.contains(leader));
        let leader = leader.map_or(0, |leader| place(near, *leader));
        s.among(near, |s| act(s, me, leader, count(near)));
    }

    /// A step between leaders, of which this rank may be none: `act` gets its place.
    fn between_sites(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        act: impl FnOnce(&mut Schedule, u32),
    ) {
        if leaders.contains(&self.me) {
            s.among(leaders, |s| act(s, place(leaders, self.me)));
        }
    }

    pub(super) fn broadcast(self, s: &mut Schedule, root: Rank, data: &Span) {
        let leaders = self.partition.leaders(root);
        let root = place(&leaders, root);
        let others = count(&leaders);
        let algorithm = self.between().broadcast_between_hosts(data.length(), others);
        self.between_sites(s, &leaders, |s, me| {
            // The root's own site does not wait until the farthest has it.
            let defers = me == root && algorithm != Broadcast::ScatterAllgather;
            s.deferring(defers, |s| broadcast(s, algorithm, me, others, root, data));
        });
        self.broadcast_at_site(s, &leaders, data);
    }

    /// `value` of all ranks to the result of the root; other ranks' results are lost.
    pub(super) fn reduce(self, s: &mut Schedule, root: Rank, value: &mut Accumulator) {
        if !self.reduces_at_sites(s) {
            return self.reduce_in_order(s, root, value);
        }
        let leaders = self.partition.leaders(root);
        self.at_site(s, &leaders, |s, me, leader, size| {
            reduce(s, Reduce::Binomial, me, leader, value, size);
        });
        let (root, others) = (place(&leaders, root), count(&leaders));
        let algorithm = self.between().reduce(value.result().length(), others);
        self.between_sites(s, &leaders, |s, me| reduce(s, algorithm, me, root, value, others));
    }

    /// Whether the values of a site may be reduced before they are with those of others.
    fn reduces_at_sites(self, s: &Schedule) -> bool {
        !self.algorithms.ordered && (s.is_commutative() || self.partition.are_in_order())
    }

    /// The same, by the root alone, one after the other: what sites reduce depends on who is where.
    fn reduce_in_order(self, s: &mut Schedule, root: Rank, value: &Accumulator) {
        let size = self.partition.size();
        let values: Vec<Span> = if self.me == root {
            (0..size).map(|_| s.scratch(value.result().length())).collect()
        } else {
            Vec::new()
        };
        if self.me == root {
            s.copy(value.value(), &values[root as usize]);
        }
        self.gather(s, root, value.value(), &values);
        if self.me == root {
            in_order(s, &values, value.result());
        }
    }

    pub(super) fn allreduce(self, s: &mut Schedule, operation: &Operation, mut value: Accumulator) {
        if !self.reduces_at_sites(s) {
            self.reduce_in_order(s, 0, &value);
            return self.broadcast(s, 0, value.result());
        }
        let leaders = self.partition.leaders(0);
        self.at_site(s, &leaders, |s, me, leader, size| {
            reduce(s, Reduce::Binomial, me, leader, &mut value, size);
        });
        let (others, result) = (count(&leaders), value.result().clone());
        let (between, length) = (self.between(), result.length());
        let algorithms =
            (between.reduce(length, others), between.broadcast_between_hosts(length, others));
        let algorithm = between.allreduce(length, others, operation.is_commutative());
        self.between_sites(s, &leaders, |s, me| {
            allreduce(s, algorithm, algorithms, operation, me, value, others);
        });
        self.broadcast_at_site(s, &leaders, &result);
    }

    pub(super) fn barrier(self, s: &mut Schedule) {
        s.send_empty();
        let nothing = s.scratch(0);
        let leaders = self.partition.leaders(0);
        // Leaders are the first of their sites.
        self.at_site(s, &leaders, |s, me, _, size| gather_nothing(s, me, size, &nothing));
        let others = count(&leaders);
        let algorithm = self.between().barrier(others);
        self.between_sites(s, &leaders, |s, me| barrier(s, algorithm, me, others));
        self.at_site(s, &leaders, |s, me, leader, size| {
            tree(s, me, size, leader, |_, _| nothing.clone());
        });
    }

    /// The blocks of each site at its leader, for gathering to the root, or scattering from there: of the site, and of all sites.
    fn packed(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        root: Rank,
        block: impl Fn(Rank) -> usize,
    ) -> Packed {
        let mut packed = Packed { own: Vec::new(), sites: Vec::new() };
        if !leaders.contains(&self.me) {
            return packed;
        }
        for (ranks, leader) in self.partition.members.iter().zip(leaders) {
            let is_wanted = self.me == root || self.me == *leader;
            let length = ranks.iter().map(|rank| if is_wanted { block(*rank) } else { 0 }).sum();
            let whole = s.scratch(length);
            if self.me == *leader {
                packed.own = parts(&whole, ranks, &block);
            }
            packed.sites.push(whole);
        }
        packed
    }

    /// `mine` of each rank, of as many bytes, to `blocks` at the root.
    pub(super) fn gather(self, s: &mut Schedule, root: Rank, mine: &Span, blocks: &[Span]) {
        let leaders = self.partition.leaders(root);
        let block = |_| mine.length();
        let Packed { own, sites } = self.packed(s, &leaders, root, block);
        self.gather_at_site(s, &leaders, mine, &own, self.algorithms.gather);
        let at = place(&leaders, root);
        self.between_sites(s, &leaders, |s, me| {
            serial_gather(s, me, at, &sites[me as usize], &sites);
        });
        if self.me == root {
            self.each_block(&sites, block, |rank, packed| {
                if rank != root {
                    s.copy(packed, &blocks[rank as usize]);
                }
            });
        }
    }

    /// `mine` of each rank of a site to `own` at its leader; blocks may differ if it goes serially.
    fn gather_at_site(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        mine: &Span,
        own: &[Span],
        named: Option<Gather>,
    ) {
        let algorithms = Algorithms { gather: named, ..self.algorithms };
        self.at_site(s, leaders, |s, me, leader, size| {
            if me == leader {
                s.copy(mine, &own[me as usize]);
            }
            gather(s, algorithms.gather(mine.length(), size), me, leader, mine, own, size);
        });
    }

    /// The reverse of [`Hierarchy::gather`].
    pub(super) fn scatter(self, s: &mut Schedule, root: Rank, mine: &Span, blocks: &[Span]) {
        let algorithm = |size| self.algorithms.gather(mine.length(), size);
        self.scatter_blocks(s, root, mine, blocks, |_| mine.length(), algorithm);
    }

    /// The same of blocks of these lengths, which may differ if it goes serially within sites.
    fn scatter_blocks(
        self,
        s: &mut Schedule,
        root: Rank,
        mine: &Span,
        blocks: &[Span],
        block: impl Fn(Rank) -> usize,
        algorithm: impl Fn(u32) -> Gather,
    ) {
        let leaders = self.partition.leaders(root);
        let Packed { own, sites } = self.packed(s, &leaders, root, &block);
        if self.me == root {
            self.each_block(&sites, block, |rank, packed| {
                s.copy(&blocks[rank as usize], packed);
            });
        }
        let at = place(&leaders, root);
        self.between_sites(s, &leaders, |s, me| {
            // The root's own site does not wait until the farthest has its blocks.
            s.deferring(me == at, |s| serial_scatter(s, me, at, &sites[me as usize], &sites));
        });
        let is_root = self.me == root;
        self.at_site(s, &leaders, |s, me, leader, size| {
            if me == leader && !is_root {
                s.copy(&own[me as usize], mine);
            }
            scatter(s, algorithm(size), me, leader, mine, &own, size);
        });
    }

    /// Every rank's block of `all` to every rank; its own is in its place already.
    pub(super) fn allgather(self, s: &mut Schedule, all: &Span, blocks: &[Span]) {
        let block = |_| all.length() / blocks.len();
        let named = self.algorithms.gather;
        let leaders = self.partition.leaders(0);
        if let Some(sites) = self.gather_everywhere(s, &leaders, blocks, block, named) {
            self.each_block(&sites, block, |rank, packed| {
                s.copy(packed, &blocks[rank as usize]);
            });
        }
        self.broadcast_at_site(s, &leaders, all);
    }

    /// The same of blocks of different lengths, with gaps between them, which are left as they are.
    pub(super) fn allgatherv(self, s: &mut Schedule, blocks: &[Span]) {
        let block = |rank: Rank| blocks[rank as usize].length();
        let leaders = self.partition.leaders(0);
        let length = |ranks: &Vec<Rank>| ranks.iter().map(|rank| block(*rank)).sum::<usize>();
        let whole = s.scratch(self.partition.members.iter().map(length).sum());
        let mut start = 0;
        let sites: Vec<Span> = (self.partition.members.iter())
            .map(|ranks| {
                start += length(ranks);
                whole.part(start - length(ranks)..start)
            })
            .collect();
        if let Some(gathered) =
            self.gather_everywhere(s, &leaders, blocks, block, Some(Gather::Serial))
        {
            gathered.iter().zip(&sites).for_each(|(from, to)| s.copy(from, to));
        }
        self.broadcast_at_site(s, &leaders, &whole);
        self.each_block(&sites, block, |rank, packed| s.copy(packed, &blocks[rank as usize]));
    }

    /// All blocks of all sites at every leader; `None` at other ranks.
    fn gather_everywhere(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        blocks: &[Span],
        block: impl Fn(Rank) -> usize,
        named: Option<Gather>,
    ) -> Option<Vec<Span>> {
        // Every leader needs all blocks, as a root does.
        let Packed { own, sites } = self.packed(s, leaders, self.me, block);
        self.gather_at_site(s, leaders, &blocks[self.me as usize], &own, named);
        self.between_sites(s, leaders, |s, me| exchange(s, me, &sites, |_| &sites[me as usize]));
        leaders.contains(&self.me).then_some(sites)
    }

    fn broadcast_at_site(self, s: &mut Schedule, leaders: &[Rank], data: &Span) {
        let algorithms = self.algorithms;
        self.at_site(s, leaders, |s, me, leader, size| {
            broadcast(s, algorithms.broadcast(), me, size, leader, data);
        });
    }

    /// The reduction of `data` of all ranks, of which each gets its block as `mine`: sites reduce all of it, and leaders give each other what
    /// is of the other's site.
    pub(super) fn reduce_scatter(
        self,
        s: &mut Schedule,
        data: Span,
        mine: &Span,
        blocks: impl Fn(&Span) -> Result<Vec<Span>>,
    ) -> Result<()> {
        let all = s.scratch(data.length());
        let blocks = blocks(&all)?;
        let mut value = Accumulator::new(data, all);
        let block = |rank: Rank| blocks[rank as usize].length();
        if !self.reduces_at_sites(s) {
            self.reduce_in_order(s, 0, &value);
            if self.me == 0 {
                s.copy(&blocks[0], mine);
            }
            self.scatter_blocks(s, 0, mine, &blocks, block, |_| Gather::Serial);
            return Ok(());
        }
        let leaders = self.partition.leaders(0);
        self.at_site(s, &leaders, |s, me, leader, size| {
            reduce(s, Reduce::Binomial, me, leader, &mut value, size);
        });
        let mut own = Vec::new();
        if leaders.contains(&self.me) {
            let Packed { sites, .. } = self.packed(s, &leaders, self.me, block);
            self.each_block(&sites, block, |rank, packed| {
                s.copy(&blocks[rank as usize], packed);
            });
            let at = place(&leaders, self.me) as usize;
            let (ranks, kept) = (&self.partition.members[at], sites[at].clone());
            // What each site has for this one, in the order of sites.
            let values: Vec<Span> = (0..sites.len())
                .map(|site| if site == at { kept.clone() } else { s.scratch(kept.length()) })
                .collect();
            self.between_sites(s, &leaders, |s, me| {
                exchange(s, me, &values, |other| &sites[other as usize]);
            });
            in_order(s, &values, &kept);
            own = parts(&kept, ranks, &block);
        }
        self.at_site(s, &leaders, |s, me, leader, _| {
            if me == leader {
                s.copy(&own[me as usize], mine);
            }
            serial_scatter(s, me, leader, mine, &own);
        });
        Ok(())
    }

    /// Whether what ranks of a site have for all others goes through their leader, for each so many bytes: between sites that are far apart,
    /// if it is not so long that leaders would hold too much and what each connection carries counts more than the way.
    pub(super) fn gathers(self, bytes: usize) -> bool {
        !self.partition.is_near && bytes <= GATHER_LIMIT
    }

    /// Whether values of so many bytes are scanned by site.
    pub(super) fn scans(self, bytes: usize) -> bool {
        let all = bytes.saturating_mul(self.partition.size());
        self.gathers(if self.scans_at_sites() { 0 } else { all })
    }

    fn scans_at_sites(self) -> bool {
        !self.algorithms.ordered && self.partition.are_in_order()
    }

    /// Block i of `from` of every rank to rank i, and from it `to[i]`; all are of one length. What goes from one site to another is one
    /// message between their leaders.
    pub(super) fn alltoall(self, s: &mut Schedule, from: &[Span], to: &[Span]) {
        let leaders = self.partition.leaders(0);
        let (near, at) = self.partition.near(self.me);
        let own = |blocks: &[Span]| {
            near.iter().map(|rank| blocks[*rank as usize].clone()).collect::<Vec<_>>()
        };
        let (sent, received) = (own(from), own(to));
        s.among(near, |s| {
            let algorithm = self.algorithms.alltoall(from[0].length(), count(near));
            alltoall(s, algorithm, at, &sent, &received, count(near));
        });
        let elsewhere = |ranks: &&Vec<Rank>| !ranks.contains(&self.me);
        let far: Vec<Rank> =
            self.partition.members.iter().filter(elsewhere).flatten().copied().collect();
        let length = from[0].length();
        let block = |_: Rank| length;
        let (mine, theirs) = (s.scratch(far.len() * length), s.scratch(far.len() * length));
        for (rank, part) in far.iter().zip(parts(&mine, &far, &block)) {
            s.copy(&from[*rank as usize], &part);
        }
        // At the leader: what each rank of this site has for all others, and gets from them.
        let rows = |s: &mut Schedule| -> Vec<Span> {
            let count = if leaders.contains(&self.me) { near.len() } else { 0 };
            (0..count).map(|_| s.scratch(far.len() * length)).collect()
        };
        let (packed, unpacked) = (rows(s), rows(s));
        self.gather_at_site(s, &leaders, &mine, &packed, Some(Gather::Serial));
        if leaders.contains(&self.me) {
            let here = place(&leaders, self.me) as usize;
            let sites: Vec<(Span, Span)> = (0..)
                .zip(self.partition.members.iter())
                .map(|(site, ranks)| {
                    let bytes = if site == here { 0 } else { ranks.len() * near.len() * length };
                    (s.scratch(bytes), s.scratch(bytes))
                })
                .collect();
            let mut begun = 0;
            let others = || {
                sites
                    .iter()
                    .zip(self.partition.members.iter())
                    .filter(|(_, ranks)| elsewhere(ranks))
            };
            for ((out, _), ranks) in others() {
                let columns = begun * length..(begun + ranks.len()) * length;
                begun += ranks.len();
                for (row, part) in packed.iter().zip(parts(out, near, &|_| columns.len())) {
                    s.copy(&row.part(columns.clone()), &part);
                }
            }
            let incoming: Vec<Span> = sites.iter().map(|(_, into)| into.clone()).collect();
            self.between_sites(s, &leaders, |s, me| {
                exchange(s, me, &incoming, |other| &sites[other as usize].0);
            });
            let mut at = 0;
            for ((_, into), ranks) in others() {
                for row in parts(into, ranks, &|_| near.len() * length) {
                    for (part, to) in parts(&row, near, &block).iter().zip(&unpacked) {
                        s.copy(part, &to.part(at * length..(at + 1) * length));
                    }
                    at += 1;
                }
            }
        }
        self.at_site(s, &leaders, |s, me, leader, _| {
            if me == leader {
                s.copy(&unpacked[me as usize], &theirs);
            }
            serial_scatter(s, me, leader, &theirs, &unpacked);
        });
        for (rank, part) in far.iter().zip(parts(&theirs, &far, &block)) {
            s.copy(&part, &to[*rank as usize]);
        }
    }

    /// [`scan`] within each site, then over the totals of sites; if sites do not follow each other, or the order of
    /// ranks is to be kept, everybody gets all values.
    pub(super) fn scan(self, s: &mut Schedule, exclusive: bool, value: &Span, result: &Span) {
        if !self.scans_at_sites() {
            let ranks: Vec<Rank> = (0..).take(self.partition.size()).collect();
            let all = s.scratch(ranks.len() * value.length());
            let blocks = parts(&all, &ranks, &|_| value.length());
            s.copy(value, &blocks[self.me as usize]);
            self.allgather(s, &all, &blocks);
            let end = self.me as usize + usize::from(!exclusive);
            if end > 0 {
                in_order(s, &blocks[..end], result);
            }
            return;
        }
        // The last of each site knows its total.
        let last = |ranks: &Vec<Rank>| ranks.last().copied();
        let leaders: Vec<Rank> = self.partition.members.iter().filter_map(last).collect();
        let (near, me) = self.partition.near(self.me);
        let (size, length) = (count(near), value.length());
        let (total, before) = (s.scratch(length), s.scratch(length));
        let algorithm = self.algorithms.scan();
        s.among(near, |s| {
            scan(s, algorithm, false, me, value, &total, size);
            if !exclusive {
                s.copy(&total, result);
                return;
            }
            if me > 0 {
                s.receive(me - 1, result);
            }
            if me + 1 < size {
                s.send(me + 1, &total);
            }
            s.wait();
        });
        self.between_sites(s, &leaders, |s, me| {
            scan(s, Scan::RecursiveDoubling, true, me, &total, &before, count(&leaders));
        });
        if near.contains(&0) {
            return;
        }
        self.broadcast_at_site(s, &leaders, &before);
        if exclusive && me == 0 {
            s.copy(&before, result);
        } else {
            s.reduce(&before, result);
        }
    }

    /// Each rank, and its block among those of its site.
    fn each_block(
        self,
        sites: &[Span],
        block: impl Fn(Rank) -> usize,
        mut act: impl FnMut(Rank, &Span),
    ) {
        for (ranks, packed) in self.partition.members.iter().zip(sites) {
            for (rank, part) in ranks.iter().zip(parts(packed, ranks, &block)) {
                act(*rank, &part);
            }
        }
    }
}

/// The blocks of ranks that stand one behind the other.
fn parts(whole: &Span, ranks: &[Rank], block: &impl Fn(Rank) -> usize) -> Vec<Span> {
    let mut end = 0;
    let part = |rank: &Rank| {
        let start = end;
        end += block(*rank);
        whole.part(start..end)
    };
    ranks.iter().map(part).collect()
}

/// What every other one has for this one, and the reverse, all at once.
fn exchange<'a>(s: &mut Schedule, me: Rank, received: &[Span], sent: impl Fn(Rank) -> &'a Span) {
    for (other, span) in (0..).zip(received).filter(|(other, _)| *other != me) {
        s.receive(other, span);
        s.send(other, sent(other));
    }
    s.wait();
}

/// Blocks on their way.
struct Packed {
    /// Of the ranks of this site, at its leader.
    own: Vec<Span>,
    /// Of each site, one behind the other; empty but for this one, unless all are needed.
    sites: Vec<Span>,
}
