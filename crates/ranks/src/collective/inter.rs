//! Collective operations between the two groups of an inter-communicator (MPI 4.1, 6.2.2 and 6.2.3). What one group gives
//! the other gets.
//!
//! A schedule's ranks here are those of its own list of processes: in operations with a root, that of the root and of the
//! other group; in all others, the local group and then the remote one.

use bytemuck::Pod;

use crate::buffer::Span;
use crate::collective::accumulator::Accumulator;
use crate::collective::algorithm::{Barrier, Reduce};
use crate::collective::arguments::Blocks;
use crate::collective::builder::{ScheduleBuilder, same_length, whole_elements};
use crate::collective::calls::Collective;
use crate::collective::schedule::Schedule;
use crate::collective::{broadcast, gather, reduce};
use crate::communicator::InterCommunicator;
use crate::error::Result;
use crate::group::Group;
use crate::header::Rank;
use crate::operation::Operation;

/// What this rank is in an operation with a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The root (`MPI_ROOT`).
    This,
    /// In the root's group, but not the root: it has no part (`MPI_PROC_NULL`).
    Null,
    /// In the other group; the root is this rank of the remote one.
    Remote(Rank),
}

/// This rank's part with a root.
enum RootRole {
    Root,
    None,
    Other,
}

impl InterCommunicator {
    fn collective<'a>(
        &'a self,
        name: &'static str,
        group: Group,
        builder: ScheduleBuilder<'a>,
        write: impl FnOnce(&mut ScheduleBuilder<'a>) -> Result<()>,
    ) -> Collective<'a> {
        let mut builder = builder;
        let written = write(&mut builder);
        builder.s.name = name;
        Collective::of(self.remote(), group, written.map(|()| builder.s))
    }

    /// The root, and then all ranks of the other group.
    fn rooted<'a>(
        &'a self,
        name: &'static str,
        root: Root,
        write: impl FnOnce(&mut ScheduleBuilder<'a>, RootRole) -> Result<()>,
    ) -> Collective<'a> {
        let (local, remote) = (self.local().group(), self.remote().group());
        let of = |root: Rank, others: &Group| {
            Group::of(std::iter::once(root).chain(others.ranks().iter().copied()).collect())
        };
        let (group, me, part) = match root {
            Root::This => (of(self.local().process().rank(), remote), 0, RootRole::Root),
            Root::Null => (Group::of([].into()), 0, RootRole::None),
            Root::Remote(root) => match remote.member(root) {
                Ok(root) => (of(root, local), 1 + self.rank(), RootRole::Other),
                Err(error) => return Collective::of(self.remote(), local.clone(), Err(error)),
            },
        };
        let builder = ScheduleBuilder::of(me, group.size(), Schedule::new());
        self.collective(name, group, builder, |builder| write(builder, part))
    }

    /// The local group, then the remote one.
    fn symmetric<'a>(
        &'a self,
        name: &'static str,
        s: Schedule,
        write: impl FnOnce(&mut ScheduleBuilder<'a>) -> Result<()>,
    ) -> Collective<'a> {
        let builder = ScheduleBuilder::of(self.rank(), self.remote_size(), s);
        self.collective(name, self.both(), builder, write)
    }

    fn both(&self) -> Group {
        let (local, remote) = (self.local().group().ranks(), self.remote().group().ranks());
        Group::of(local.iter().chain(remote.iter()).copied().collect())
    }

    /// Until all ranks of both groups have come here (`MPI_Barrier`).
    pub fn barrier(&self) -> Collective<'_> {
        self.symmetric("barrier", Schedule::new(), |builder| {
            let (me, size) = (builder.me, self.size());
            let nothing = builder.s.scratch(0);
            broadcast::barrier(&mut builder.s, Barrier::Dissemination, me, size);
            self.exchange_leaders(&mut builder.s, &nothing, &nothing);
            self.spread(&mut builder.s, &nothing);
            Ok(())
        })
    }

    /// The root's `data` to all ranks of the other group (`MPI_Bcast`). Elsewhere in the root's group it is not used.
    pub fn broadcast<'a, T: Pod>(&'a self, data: &'a mut [T], root: Root) -> Collective<'a> {
        self.rooted("broadcast", root, |builder, part| {
            if !matches!(part, RootRole::None) {
                let data = builder.target(data);
                let algorithm = self.local().algorithms().broadcast();
                broadcast::broadcast(&mut builder.s, algorithm, builder.me, builder.size, 0, &data);
            }
            Ok(())
        })
    }

    /// `send` of all ranks of the other group to the root's `receive` (`MPI_Gather`).
    pub fn gather<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        root: Root,
    ) -> Collective<'a> {
        let equal = self.equal_blocks(receive.len());
        self.gatherv(send, receive, &equal, root)
    }

    /// The same with blocks of different lengths, which the root knows (`MPI_Gatherv`).
    pub fn gatherv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        blocks: &Blocks,
        root: Root,
    ) -> Collective<'a> {
        self.rooted("gatherv", root, |builder, part| {
            let (mine, blocks) = match part {
                RootRole::None => return Ok(()),
                RootRole::Root => {
                    let all = builder.target(receive);
                    (all.part(0..0), self.behind_root::<T>("blocks", blocks, &all)?)
                }
                RootRole::Other => (builder.data(send), Vec::new()),
            };
            gather::serial_gather(&mut builder.s, builder.me, 0, &mine, &blocks);
            Ok(())
        })
    }

    /// The root's `send` in equal blocks to all ranks of the other group (`MPI_Scatter`).
    pub fn scatter<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        root: Root,
    ) -> Collective<'a> {
        let equal = self.equal_blocks(send.len());
        self.scatterv(send, &equal, receive, root)
    }

    /// The same with blocks of different lengths, which the root knows (`MPI_Scatterv`).
    pub fn scatterv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        blocks: &Blocks,
        receive: &'a mut [T],
        root: Root,
    ) -> Collective<'a> {
        self.rooted("scatterv", root, |builder, part| {
            let (mine, blocks) = match part {
                RootRole::None => return Ok(()),
                RootRole::Root => {
                    let all = builder.data(send);
                    (all.part(0..0), self.behind_root::<T>("blocks", blocks, &all)?)
                }
                RootRole::Other => (builder.target(receive), Vec::new()),
            };
            gather::serial_scatter(&mut builder.s, builder.me, 0, &mine, &blocks);
            Ok(())
        })
    }

    /// `send` of all ranks of the other group, in their order (`MPI_Allgather`).
    pub fn allgather<'a, T: Pod>(&'a self, send: &'a [T], receive: &'a mut [T]) -> Collective<'a> {
        let equal = self.equal_blocks(receive.len());
        self.allgatherv(send, receive, &equal)
    }

    /// The same with blocks of different lengths (`MPI_Allgatherv`).
    pub fn allgatherv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        blocks: &Blocks,
    ) -> Collective<'a> {
        self.symmetric("allgatherv", Schedule::new(), |builder| {
            let all = builder.target(receive);
            let to = blocks.spans::<T>("blocks", builder.size, &all)?;
            let data = builder.data(send);
            self.scattered(&mut builder.s, &vec![data; to.len()], &to);
            Ok(())
        })
    }

    /// Block i of `send` to rank i of the other group (`MPI_Alltoall`).
    pub fn alltoall<'a, T: Pod>(&'a self, send: &'a [T], receive: &'a mut [T]) -> Collective<'a> {
        let (sent, received) = (self.equal_blocks(send.len()), self.equal_blocks(receive.len()));
        self.alltoallv(send, &sent, receive, &received)
    }

    /// The same with blocks of different lengths (`MPI_Alltoallv`).
    pub fn alltoallv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        sent: &Blocks,
        receive: &'a mut [T],
        received: &Blocks,
    ) -> Collective<'a> {
        self.symmetric("alltoallv", Schedule::new(), |builder| {
            let (all, data) = (builder.target(receive), builder.data(send));
            let to = received.spans::<T>("received", builder.size, &all)?;
            let from = sent.spans::<T>("sent", builder.size, &data)?;
            self.scattered(&mut builder.s, &from, &to);
            Ok(())
        })
    }

    /// The reduction of `send` of the other group's ranks to the root's `receive` (`MPI_Reduce`).
    pub fn reduce<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        operation: &Operation,
        root: Root,
    ) -> Collective<'a> {
        // Here the root is the last, so that the others have their own ranks.
        let (local, remote) = (self.local().group(), self.remote().group());
        let with_root = |others: &Group, root: Rank| {
            Group::of(others.ranks().iter().copied().chain([root]).collect())
        };
        let group = match root {
            Root::This => with_root(remote, self.local().process().rank()),
            Root::Null => local.clone(),
            Root::Remote(root) => match remote.member(root) {
                Ok(root) => with_root(local, root),
                Err(error) => return Collective::of(self.remote(), local.clone(), Err(error)),
            },
        };
        let builder = ScheduleBuilder::of(self.rank(), self.size(), Schedule::reducing(operation));
        self.collective("reduce", group, builder, |builder| {
            whole_elements::<T>(operation)?;
            match root {
                Root::Null => {}
                Root::This => {
                    let into = builder.target(receive);
                    builder.s.receive(0, &into);
                    builder.s.wait();
                }
                Root::Remote(_) => {
                    let data = builder.data(send);
                    let value = self.reduce_locally(builder, &data);
                    if builder.me == 0 {
                        builder.s.send(builder.size, &value);
                        builder.s.wait();
                    }
                }
            }
            Ok(())
        })
    }

    /// The reduction of `send` of the other group's ranks to every `receive` (`MPI_Allreduce`).
    pub fn allreduce<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        operation: &Operation,
    ) -> Collective<'a> {
        self.symmetric("allreduce", Schedule::reducing(operation), |builder| {
            whole_elements::<T>(operation)?;
            let (into, data) = (builder.target(receive), builder.data(send));
            same_length("send", &data, &into, size_of::<T>())?;
            let value = self.reduce_locally(builder, &data);
            self.exchange_leaders(&mut builder.s, &value, &into);
            self.spread(&mut builder.s, &into);
            Ok(())
        })
    }

    /// The reduction of `send` of the other group's ranks, of which rank i of this group gets `counts[i]` elements
    /// (`MPI_Reduce_scatter`). The counts of either group have the same sum, the length of `send`.
    pub fn reduce_scatter<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        counts: &[usize],
        operation: &Operation,
    ) -> Collective<'a> {
        self.symmetric("reduce_scatter", Schedule::reducing(operation), |builder| {
            whole_elements::<T>(operation)?;
            let (into, data) = (builder.target(receive), builder.data(send));
            let value = self.reduce_locally(builder, &data);
            let theirs = builder.s.scratch(value.length());
            let blocks = Blocks::packed(counts).spans::<T>("counts", self.size(), &theirs)?;
            let mine = &blocks[builder.me as usize];
            same_length("receive", &into, mine, size_of::<T>())?;
            self.exchange_leaders(&mut builder.s, &value, &theirs);
            if builder.me == 0 {
                builder.s.copy(mine, &into);
            }
            gather::serial_scatter(&mut builder.s, builder.me, 0, &into, &blocks);
            Ok(())
        })
    }

    /// So many elements in equal blocks for the ranks of the other group.
    fn equal_blocks(&self, elements: usize) -> Blocks {
        let ranks = self.remote_size() as usize;
        Blocks::packed(&vec![elements / ranks; ranks])
    }

    /// The blocks of the other group's ranks behind an empty one of the root's.
    fn behind_root<T>(
        &self,
        argument: &'static str,
        blocks: &Blocks,
        all: &Span,
    ) -> Result<Vec<Span>> {
        let blocks = blocks.spans::<T>(argument, self.remote_size(), all)?;
        Ok(std::iter::once(all.part(0..0)).chain(blocks).collect())
    }

    /// `from[i]` to rank i of the other group, and from it `to[i]`.
    fn scattered(&self, s: &mut Schedule, from: &[Span], to: &[Span]) {
        (self.size()..).zip(to).for_each(|(rank, to)| s.receive(rank, to));
        (self.size()..).zip(from).for_each(|(rank, from)| s.send(rank, from));
        s.wait();
    }

    /// The local group's reduction, at its rank 0.
    fn reduce_locally(&self, builder: &mut ScheduleBuilder<'_>, data: &Span) -> Span {
        let result = builder.s.scratch(data.length());
        let mut value = Accumulator::new(data.clone(), result.clone());
        let ordered = self.local().algorithms().ordered;
        let algorithm = if ordered { Reduce::Serial } else { Reduce::Binomial };
        reduce::reduce(&mut builder.s, algorithm, self.rank(), 0, &mut value, self.size());
        result
    }

    /// Between the rank 0 of either group.
    fn exchange_leaders(&self, s: &mut Schedule, sent: &Span, received: &Span) {
        if self.rank() == 0 {
            s.exchange(self.size(), sent, self.size(), received);
        }
    }

    /// From rank 0 to all of the local group.
    fn spread(&self, s: &mut Schedule, data: &Span) {
        let algorithm = self.local().algorithms().broadcast();
        broadcast::broadcast(s, algorithm, self.rank(), self.size(), 0, data);
    }
}
