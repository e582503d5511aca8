//! What a communicator is.

use std::sync::Arc;

use crate::collective::Algorithms;
use crate::collective::hierarchical::{Hierarchy, Partition};
use crate::group::{Comparison, Group};
use crate::header::{Context, Rank};
use crate::process::Process;
use crate::request::Scope;
use crate::topology::Topology;

/// A group of processes with a context of their own (MPI 4.1, 7.2.4). Dropping it frees it; messages in it that nobody
/// received are lost.
#[derive(Debug)]
pub struct Communicator {
    process: Arc<Process>,
    context: Context,
    group: Group,
    rank: Rank,
    algorithms: Algorithms,
    /// Where its ranks are, if that matters.
    partition: Option<Partition>,
    topology: Option<Topology>,
    made: bool,
}

impl Communicator {
    /// One that the domain begins with: it is never freed.
    pub(crate) fn new(process: Arc<Process>, context: Context, group: Group) -> Self {
        let rank = group.rank_of(process.rank()).unwrap_or_default();
        let algorithms = process.settings().algorithms;
        let partition = process.sites().and_then(|sites| Partition::of(&group, sites));
        Self { process, context, group, rank, algorithms, partition, topology: None, made: false }
    }

    /// One that is made from another.
    pub(crate) fn made(parent: &Self, context: Context, group: Group) -> Self {
        let process = parent.process.clone();
        process.with(|state| state.engine.add_context(context, group.ranks().clone()));
        let mut made = Self::new(process, context, group);
        made.algorithms = parent.algorithms;
        made.made = true;
        made
    }

    /// One by which the ranks of a group, this one among them, reach those of another.
    pub(crate) fn towards(local: &Self, context: Context, remote: Group) -> Self {
        let process = local.process.clone();
        let all = local.group.ranks().iter().chain(remote.ranks().iter()).copied().collect();
        process.with(|state| state.engine.add_context(context, all));
        let (rank, algorithms) = (local.rank, local.algorithms);
        Self {
            process,
            context,
            group: remote,
            rank,
            algorithms,
            partition: None,
            topology: None,
            made: true,
        }
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Its processes.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// What keeps its messages apart from others'.
    pub fn context(&self) -> Context {
        self.context
    }

    /// The process that it belongs to.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// How its collective operations go.
    pub fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    /// How an operation goes whose ranks are at several sites, unless its algorithm is `named`.
    pub(crate) fn hierarchy(&self, named: Option<impl Copy>) -> Option<Hierarchy<'_>> {
        let is_free = named.is_none() && !self.algorithms.flat;
        let partition = self.partition.as_ref().filter(|_| is_free)?;
        Some(Hierarchy { partition, me: self.rank, algorithms: self.algorithms })
    }

    /// Names algorithms for its collective operations, and for communicators made from it. Every rank has to name the same.
    pub fn set_algorithms(&mut self, algorithms: Algorithms) {
        self.algorithms = algorithms;
    }

    /// Who is whose neighbour, if somebody is.
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_ref()
    }

    pub(crate) fn set_topology(&mut self, topology: Topology) {
        self.topology = Some(topology);
    }

    /// How two compare (`MPI_Comm_compare`).
    pub fn compare(&self, other: &Self) -> Comparison {
        match self.group.compare(&other.group) {
            Comparison::Identical if self.context != other.context => Comparison::Congruent,
            comparison => comparison,
        }
    }

    /// Begins non-blocking operations; at its end they are complete.
    pub fn scope<'env, T>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    ) -> T {
        Scope::run(&self.process, body)
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.made {
            self.process.with(|state| state.remove_context(self.context));
        }
    }
}
