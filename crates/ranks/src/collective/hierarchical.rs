//! Collective operations of ranks at several sites: within each site first, and each pair of sites is crossed once (each way, at most).
//! At each site one rank, the leader, speaks with the leaders of others (Karonis et al. 2000, MPICH-G2; MPICH's `smp`, Open MPI's
//! `han` between hosts).

use std::sync::Arc;

use crate::buffer::Span;
use crate::collective::accumulator::Accumulator;
use crate::collective::algorithm::{Algorithms, Allreduce, Barrier, Broadcast, Reduce};
use crate::collective::allreduce::allreduce;
use crate::collective::broadcast::{barrier, broadcast, gather_nothing, tree};
use crate::collective::gather::{gather, scatter, serial_gather, serial_scatter};
use crate::collective::reduce::{in_order, reduce};
use crate::collective::schedule::Schedule;
use crate::group::Group;
use crate::header::Rank;
use crate::operation::Operation;

/// The sites of a communicator, of which there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sites {
    /// The ranks of each, in their order; sites in the order of their first ranks.
    members: Arc<[Vec<Rank>]>,
}

impl Sites {
    /// Those of a group, by the sites of the domain's ranks; `None` if all are at one, or nothing is known.
    pub(crate) fn of(group: &Group, sites: &[u32]) -> Option<Self> {
        let mut members: Vec<(u32, Vec<Rank>)> = Vec::new();
        for (rank, process) in (0..).zip(group.ranks().iter()) {
            let site = *sites.get(*process as usize)?;
            match members.iter_mut().find(|(other, _)| *other == site) {
                Some((_, ranks)) => ranks.push(rank),
                None => members.push((site, vec![rank])),
            }
        }
        let is_flat = members.len() < 2;
        let members = members.into_iter().map(|(_, ranks)| ranks).collect();
        (!is_flat).then_some(Self { members })
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
    pub(crate) sites: &'a Sites,
    pub(crate) me: Rank,
    /// How they go within a site, and whether reductions keep the order of ranks.
    pub(crate) algorithms: Algorithms,
}

impl Hierarchy<'_> {
    /// A step within each site, towards its leader or from there: `act` gets this rank's place, the leader's, and how many there are.
    fn at_site(
        self,
        s: &mut Schedule,
        leaders: &[Rank],
        act: impl FnOnce(&mut Schedule, u32, u32, u32),
    ) {
        let (near, me) = self.sites.near(self.me);
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
        let leaders = self.sites.leaders(root);
        let root = place(&leaders, root);
        let others = count(&leaders);
        // All at once: a tree would cross one way after the other.
        self.between_sites(s, &leaders, |s, me| {
            broadcast(s, Broadcast::Serial, me, others, root, data);
        });
        let algorithms = self.algorithms;
        self.at_site(s, &leaders, |s, me, leader, size| {
            let algorithm = algorithms.broadcast(data.length(), size);
            broadcast(s, algorithm, me, size, leader, data);
        });
    }

    /// `value` of all ranks to the result of the root; other ranks' results are lost.
    pub(super) fn reduce(self, s: &mut Schedule, root: Rank, value: &mut Accumulator) {
        let sites = self.sites;
        if self.algorithms.ordered || !(s.is_commutative() || sites.are_in_order()) {
            return self.reduce_in_order(s, root, value);
        }
        let leaders = sites.leaders(root);
        self.at_site(s, &leaders, |s, me, leader, size| {
            reduce(s, Reduce::Binomial, me, leader, value, size);
        });
        let (root, others) = (place(&leaders, root), count(&leaders));
        self.between_sites(s, &leaders, |s, me| {
            reduce(s, Reduce::Serial, me, root, value, others);
        });
    }

    /// The same, by the root alone, one after the other: what sites reduce depends on who is where.
    fn reduce_in_order(self, s: &mut Schedule, root: Rank, value: &Accumulator) {
        let size = self.sites.members.iter().map(Vec::len).sum();
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
        if self.algorithms.ordered || !(s.is_commutative() || self.sites.are_in_order()) {
            self.reduce_in_order(s, 0, &value);
            return self.broadcast(s, 0, value.result());
        }
        let leaders = self.sites.leaders(0);
        self.at_site(s, &leaders, |s, me, leader, size| {
            reduce(s, Reduce::Binomial, me, leader, &mut value, size);
        });
        let (others, result) = (count(&leaders), value.result().clone());
        let algorithms = (Reduce::Serial, self.algorithms.broadcast(result.length(), others));
        self.between_sites(s, &leaders, |s, me| {
            let algorithm = Allreduce::RecursiveDoubling;
            allreduce(s, algorithm, algorithms, operation, me, value, others);
        });
        let algorithms = self.algorithms;
        self.at_site(s, &leaders, |s, me, leader, size| {
            let algorithm = algorithms.broadcast(result.length(), size);
            broadcast(s, algorithm, me, size, leader, &result);
        });
    }

    pub(super) fn barrier(self, s: &mut Schedule) {
        let nothing = s.scratch(0);
        let leaders = self.sites.leaders(0);
        // Leaders are the first of their sites.
        self.at_site(s, &leaders, |s, me, _, size| gather_nothing(s, me, size, &nothing));
        let others = count(&leaders);
        self.between_sites(s, &leaders, |s, me| barrier(s, Barrier::Dissemination, me, others));
        self.at_site(s, &leaders, |s, me, leader, size| {
            tree(s, me, size, leader, |_, _| nothing.clone());
        });
    }

    /// The blocks of each site at its leader, for gathering to the root, or scattering from there: of the site, and of all sites.
    fn packed(self, s: &mut Schedule, leaders: &[Rank], root: Rank, block: usize) -> Packed {
        let mut packed = Packed { own: Vec::new(), sites: Vec::new() };
        if !leaders.contains(&self.me) {
            return packed;
        }
        for (ranks, leader) in self.sites.members.iter().zip(leaders) {
            let length =
                if self.me == root || self.me == *leader { ranks.len() * block } else { 0 };
            let whole = s.scratch(length);
            if self.me == *leader {
                packed.own =
                    (0..ranks.len()).map(|at| whole.part(at * block..(at + 1) * block)).collect();
            }
            packed.sites.push(whole);
        }
        packed
    }

    /// `mine` of each rank to `blocks` at the root.
    pub(super) fn gather(self, s: &mut Schedule, root: Rank, mine: &Span, blocks: &[Span]) {
        let leaders = self.sites.leaders(root);
        let Packed { own, sites } = self.packed(s, &leaders, root, mine.length());
        let algorithms = self.algorithms;
        self.at_site(s, &leaders, |s, me, leader, size| {
            if me == leader {
                s.copy(mine, &own[me as usize]);
            }
            let algorithm = algorithms.gather(mine.length(), size);
            gather(s, algorithm, me, leader, mine, &own, size);
        });
        let at = place(&leaders, root);
        self.between_sites(s, &leaders, |s, me| {
            serial_gather(s, me, at, &sites[me as usize], &sites);
        });
        if self.me == root {
            self.each_block(&sites, mine.length(), |rank, packed| {
                if rank != root {
                    s.copy(packed, &blocks[rank as usize]);
                }
            });
        }
    }

    /// The reverse.
    pub(super) fn scatter(self, s: &mut Schedule, root: Rank, mine: &Span, blocks: &[Span]) {
        let leaders = self.sites.leaders(root);
        let Packed { own, sites } = self.packed(s, &leaders, root, mine.length());
        if self.me == root {
            self.each_block(&sites, mine.length(), |rank, packed| {
                s.copy(&blocks[rank as usize], packed);
            });
        }
        let at = place(&leaders, root);
        self.between_sites(s, &leaders, |s, me| {
            serial_scatter(s, me, at, &sites[me as usize], &sites);
        });
        let (algorithms, is_root) = (self.algorithms, self.me == root);
        self.at_site(s, &leaders, |s, me, leader, size| {
            if me == leader && !is_root {
                s.copy(&own[me as usize], mine);
            }
            let algorithm = algorithms.gather(mine.length(), size);
            scatter(s, algorithm, me, leader, mine, &own, size);
        });
    }

    /// Every rank's block of `all` to every rank; its own is in its place already.
    pub(super) fn allgather(self, s: &mut Schedule, all: &Span, blocks: &[Span]) {
        let (leaders, mine) = (self.sites.leaders(0), &blocks[self.me as usize]);
        let block = mine.length();
        // Every leader needs all blocks, as a root does.
        let Packed { own, sites } = self.packed(s, &leaders, self.me, block);
        let algorithms = self.algorithms;
        self.at_site(s, &leaders, |s, me, leader, size| {
            if me == leader {
                s.copy(mine, &own[me as usize]);
            }
            gather(s, algorithms.gather(block, size), me, leader, mine, &own, size);
        });
        self.between_sites(s, &leaders, |s, me| {
            for (other, site) in (0..).zip(&sites).filter(|(other, _)| *other != me) {
                s.receive(other, site);
                s.send(other, &sites[me as usize]);
            }
            s.wait();
        });
        if leaders.contains(&self.me) {
            self.each_block(&sites, block, |rank, packed| {
                s.copy(packed, &blocks[rank as usize]);
            });
        }
        self.at_site(s, &leaders, |s, me, leader, size| {
            let algorithm = algorithms.broadcast(all.length(), size);
            broadcast(s, algorithm, me, size, leader, all);
        });
    }

    /// Each rank, and its block among those of its site.
    fn each_block(self, sites: &[Span], block: usize, mut act: impl FnMut(Rank, &Span)) {
        for (ranks, packed) in self.sites.members.iter().zip(sites) {
            for (at, rank) in ranks.iter().enumerate() {
                act(*rank, &packed.part(at * block..(at + 1) * block));
            }
        }
    }
}

/// Blocks on their way.
struct Packed {
    /// Of the ranks of this site, at its leader.
    own: Vec<Span>,
    /// Of each site, one behind the other; empty but for this one, unless all are needed.
    sites: Vec<Span>,
}
