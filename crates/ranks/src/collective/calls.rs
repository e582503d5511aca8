//! The calls of a communicator. Each gives a [`Collective`], which is run at once or started in a scope; every rank of the
//! communicator has to make the same calls in the same order. Lengths are in elements.

#![expect(unsafe_code, reason = "who starts an operation without a scope keeps its buffers")]

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::buffer::Span;
use crate::collective::accumulator::Accumulator;
use crate::collective::algorithm::{Allgather, Alltoall, Reduce};
use crate::collective::arguments::{Blocks, Contribution};
use crate::collective::builder::{
    ScheduleBuilder, keep_own, same_length, sent_to_all, whole_elements,
};
use crate::collective::schedule::{Running, Schedule};
use crate::collective::{allreduce, alltoall, broadcast, gather, reduce, scan};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::group::Group;
use crate::header::{Rank, RequestId};
use crate::operation::Operation;
use crate::process::{State, Turn};
use crate::request::persistent::{CollectiveTemplate, Persistent};
use crate::request::{Request, Scope};

/// A collective operation that is ready to go.
#[must_use = "a collective operation does nothing until it is run or started"]
pub struct Collective<'a> {
    communicator: &'a Communicator,
    /// Whom the schedule's ranks are.
    group: Group,
    schedule: Result<Schedule>,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Collective<'a> {
    /// Runs it, until this rank's part is done.
    pub fn run(self) -> Result<()> {
        let process = self.communicator.process();
        let request = self.begin(Turn::Blocking)?;
        process.wait(request).map(|_| ())
    }

    /// Starts it.
    pub fn start<'scope>(self, scope: &'scope Scope<'scope, '_>) -> Result<Request<'scope>>
    where
        'a: 'scope,
    {
        let group = self.communicator.group().clone();
        Ok(scope.request(self.begin(Turn::NonBlocking)?, group))
    }

    /// Starts it without a scope; the MPI ABI's way in.
    ///
    /// # Safety
    ///
    /// Its buffers must be left alone until the request is complete or released.
    pub unsafe fn start_raw(self, turn: Turn) -> Result<RequestId> {
        self.begin(turn)
    }

    /// Makes it ready to be started again and again (`MPI_Allreduce_init` and its like).
    ///
    /// # Safety
    ///
    /// Its buffers must live as long as what this gives, and be left alone while that is active.
    pub unsafe fn persistent(self) -> Result<Persistent> {
        let (context, process) = (self.communicator.context(), self.communicator.process());
        let tag = process.with(|state| state.next_collective(context, Turn::NonBlocking));
        let template =
            CollectiveTemplate { schedule: self.schedule?, context, tag, group: self.group };
        Ok(Persistent::of_collective(process.clone(), template))
    }

    fn begin(self, turn: Turn) -> Result<RequestId> {
        let (communicator, schedule, group) = (self.communicator, self.schedule?, self.group);
        Ok(communicator.process().with(|state| {
            let request = state.engine.new_compound();
            let context = communicator.context();
            let tag = state.next_collective(context, turn);
            state.run(Running::new(request, schedule, context.collective(), tag, group));
            request
        }))
    }

    pub(super) fn of(
        communicator: &'a Communicator,
        group: Group,
        schedule: Result<Schedule>,
    ) -> Self {
        Self { communicator, group, schedule, buffers: PhantomData }
    }
}

impl Communicator {
    /// The turn of a collective operation that is started again and again, by the order in which such are made ready, because
    /// ranks may start several in any order (MPI 5.0, 6.13). For [`Collective::start_raw`].
    pub fn reserve_turn(&self) -> Turn {
        let context = self.context();
        let next = |state: &mut State| state.next_collective(context, Turn::NonBlocking);
        Turn::Reserved(self.process().with(next))
    }

    pub(super) fn collective<'a>(
        &'a self,
        name: &'static str,
        builder: ScheduleBuilder<'a>,
        write: impl FnOnce(&mut ScheduleBuilder<'a>) -> Result<()>,
    ) -> Collective<'a> {
        let mut builder = builder;
        let written = write(&mut builder);
        builder.s.name = name;
        Collective::of(self, self.group().clone(), written.map(|()| builder.s))
    }

    /// Until all ranks have come here (`MPI_Barrier`).
    pub fn barrier(&self) -> Collective<'_> {
        self.collective("barrier", ScheduleBuilder::new(self), |builder| {
            let algorithms = self.algorithms();
            match self.hierarchy(algorithms.barrier) {
                Some(hierarchy) => hierarchy.barrier(&mut builder.s),
                None => broadcast::barrier(
                    &mut builder.s,
                    algorithms.barrier(builder.size),
                    builder.me,
                    builder.size,
                ),
            }
            Ok(())
        })
    }

    /// The root's `data` to all (`MPI_Bcast`).
    pub fn broadcast<'a, T: Pod>(&'a self, data: &'a mut [T], root: Rank) -> Collective<'a> {
        self.collective("broadcast", ScheduleBuilder::new(self), |builder| {
            self.group().member(root)?;
            let data = builder.target(data);
            if let Some(hierarchy) = self.hierarchy(self.algorithms().broadcast) {
                hierarchy.broadcast(&mut builder.s, root, &data);
                return Ok(());
            }
            let algorithm = self.algorithms().broadcast();
            broadcast::broadcast(&mut builder.s, algorithm, builder.me, builder.size, root, &data);
            Ok(())
        })
    }

    /// Everybody's `send` to the root's `receive`, in the order of ranks (`MPI_Gather`). Elsewhere `receive` is not used.
    pub fn gather<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        root: Rank,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("gather", ScheduleBuilder::new(self), |builder| {
            self.group().member(root)?;
            let (me, size) = (builder.me, builder.size);
            let (mine, blocks) = if me == root {
                let all = builder.target(receive);
                let blocks = builder.blocks("receive", &all, size_of::<T>())?;
                (builder.value(send, Some(&blocks[root as usize]))?, blocks)
            } else {
                (builder.sent(send)?, Vec::new())
            };
            if let Some(hierarchy) = self.hierarchy(self.algorithms().gather) {
                hierarchy.gather(&mut builder.s, root, &mine, &blocks);
                return Ok(());
            }
            let algorithm = self.algorithms().gather(mine.length(), size);
            gather::gather(&mut builder.s, algorithm, me, root, &mine, &blocks, size);
            Ok(())
        })
    }

    /// The same with blocks of different lengths, which the root knows (`MPI_Gatherv`).
    pub fn gatherv<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        blocks: &Blocks,
        root: Rank,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("gatherv", ScheduleBuilder::new(self), |builder| {
            self.group().member(root)?;
            let (mine, blocks) = if builder.me == root {
                let all = builder.target(receive);
                let blocks = blocks.spans::<T>("blocks", builder.size, &all)?;
                (builder.value(send, Some(&blocks[root as usize]))?, blocks)
            } else {
                (builder.sent(send)?, Vec::new())
            };
            gather::serial_gather(&mut builder.s, builder.me, root, &mine, &blocks);
            Ok(())
        })
    }

    /// The root's `send` in equal blocks to everybody's `receive` (`MPI_Scatter`). Elsewhere `send` is not used. With an empty
    /// `receive` the root keeps its own in place.
    pub fn scatter<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        root: Rank,
    ) -> Collective<'a> {
        self.collective("scatter", ScheduleBuilder::new(self), |builder| {
            self.group().member(root)?;
            let (me, size) = (builder.me, builder.size);
            let mut mine = builder.target(receive);
            let blocks = if me == root {
                let all = builder.data(send);
                builder.blocks("send", &all, size_of::<T>())?
            } else {
                Vec::new()
            };
            if me == root {
                mine = keep_own(builder, &blocks[root as usize], mine, size_of::<T>())?;
            }
            if let Some(hierarchy) = self.hierarchy(self.algorithms().gather) {
                hierarchy.scatter(&mut builder.s, root, &mine, &blocks);
                return Ok(());
            }
            let algorithm = self.algorithms().gather(mine.length(), size);
            gather::scatter(&mut builder.s, algorithm, me, root, &mine, &blocks, size);
            Ok(())
        })
    }

    /// The same with blocks of different lengths, which the root knows (`MPI_Scatterv`).
    pub fn scatterv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        blocks: &Blocks,
        receive: &'a mut [T],
        root: Rank,
    ) -> Collective<'a> {
        self.collective("scatterv", ScheduleBuilder::new(self), |builder| {
            self.group().member(root)?;
            let mut mine = builder.target(receive);
            let mut parts = Vec::new();
            if builder.me == root {
                let all = builder.data(send);
                parts = blocks.spans::<T>("blocks", builder.size, &all)?;
                mine = keep_own(builder, &parts[root as usize], mine, size_of::<T>())?;
            }
            gather::serial_scatter(&mut builder.s, builder.me, root, &mine, &parts);
            Ok(())
        })
    }

    /// Everybody's `send` to everybody's `receive`, in the order of ranks (`MPI_Allgather`).
    pub fn allgather<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("allgather", ScheduleBuilder::new(self), |builder| {
            let all = builder.target(receive);
            let blocks = builder.blocks("receive", &all, size_of::<T>())?;
            builder.value(send, Some(&blocks[builder.me as usize]))?;
            if let Some(hierarchy) = self.hierarchy(self.algorithms().allgather) {
                hierarchy.allgather(&mut builder.s, &all, &blocks);
                return Ok(());
            }
            let algorithm = self.algorithms().allgather(all.length());
            gather::allgather(&mut builder.s, algorithm, builder.me, &all, &blocks, builder.size);
            Ok(())
        })
    }

    /// The same with blocks of different lengths (`MPI_Allgatherv`).
    pub fn allgatherv<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        blocks: &Blocks,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("allgatherv", ScheduleBuilder::new(self), |builder| {
            let all = builder.target(receive);
            let blocks = blocks.spans::<T>("blocks", builder.size, &all)?;
            builder.value(send, Some(&blocks[builder.me as usize]))?;
            if let Some(hierarchy) = self.hierarchy(self.algorithms().allgather) {
                hierarchy.allgatherv(&mut builder.s, &blocks);
                return Ok(());
            }
            gather::allgather(
                &mut builder.s,
                Allgather::Ring,
                builder.me,
                &all,
                &blocks,
                builder.size,
            );
            Ok(())
        })
    }

    /// Block i of everybody's `send` to rank i (`MPI_Alltoall`).
    pub fn alltoall<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("alltoall", ScheduleBuilder::new(self), |builder| {
            let all = builder.target(receive);
            let to = builder.blocks("receive", &all, size_of::<T>())?;
            let data = sent_to_all(builder, send, &all);
            same_length("send", &data, &all, size_of::<T>())?;
            let from = builder.blocks("send", &data, size_of::<T>())?;
            let hierarchy = self.hierarchy(self.algorithms().alltoall);
            if let Some(hierarchy) = hierarchy.filter(|it| it.gathers(all.length())) {
                hierarchy.alltoall(&mut builder.s, &from, &to);
                return Ok(());
            }
            let algorithm = self.algorithms().alltoall(to[0].length(), builder.size);
            alltoall::alltoall(&mut builder.s, algorithm, builder.me, &from, &to, builder.size);
            Ok(())
        })
    }

    /// The same with blocks of different lengths (`MPI_Alltoallv`). In bytes it is what `MPI_Alltoallw` needs once
    /// types are packed. In place, `sent` is not used.
    pub fn alltoallv<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        sent: &Blocks,
        receive: &'a mut [T],
        received: &Blocks,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("alltoallv", ScheduleBuilder::new(self), |builder| {
            let all = builder.target(receive);
            let to = received.spans::<T>("received", builder.size, &all)?;
            let from = match send {
                Contribution::Data(data) => {
                    let data = builder.data(data);
                    sent.spans::<T>("sent", builder.size, &data)?
                }
                // What is between the blocks is not ours to read.
                Contribution::InPlace => to.iter().map(|block| builder.copied(block)).collect(),
            };
            let me = builder.me as usize;
            same_length("sent", &from[me], &to[me], size_of::<T>())?;
            alltoall::alltoall(
                &mut builder.s,
                Alltoall::Scattered,
                builder.me,
                &from,
                &to,
                builder.size,
            );
            Ok(())
        })
    }

    /// The reduction of everybody's `send` to the root's `receive` (`MPI_Reduce`). Elsewhere `receive` is not used.
    pub fn reduce<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        operation: &Operation,
        root: Rank,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("reduce", ScheduleBuilder::reducing(self, operation), |builder| {
            self.group().member(root)?;
            whole_elements::<T>(operation)?;
            let into = (builder.me == root).then(|| builder.target(receive));
            let mut value = builder.accumulator(send, into.as_ref())?;
            if let Some(hierarchy) = self.hierarchy(self.algorithms().reduce) {
                hierarchy.reduce(&mut builder.s, root, &mut value);
                return Ok(());
            }
            let (me, size) = (builder.me, builder.size);
            let algorithm = self.algorithms().reduce(value.result().length(), size);
            reduce::reduce(&mut builder.s, algorithm, me, root, &mut value, size);
            Ok(())
        })
    }

    /// The reduction of everybody's `send` to everybody's `receive` (`MPI_Allreduce`).
    pub fn allreduce<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        operation: &Operation,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("allreduce", ScheduleBuilder::reducing(self, operation), |builder| {
            whole_elements::<T>(operation)?;
            let into = builder.target(receive);
            let value = builder.accumulator(send, Some(&into))?;
            let (me, size, algorithms) = (builder.me, builder.size, self.algorithms());
            if let Some(hierarchy) = self.hierarchy(algorithms.allreduce) {
                hierarchy.allreduce(&mut builder.s, operation, value);
                return Ok(());
            }
            let algorithm = algorithms.allreduce(into.length(), size, operation.is_commutative());
            allreduce::allreduce(
                &mut builder.s,
                algorithm,
                (algorithms.reduce(into.length(), size), algorithms.broadcast()),
                operation,
                me,
                value,
                size,
            );
            Ok(())
        })
    }

    /// The reduction of everybody's `send`, of which rank i gets `counts[i]` elements (`MPI_Reduce_scatter`). In place, they are taken from
    /// `receive` and its beginning gets the result.
    pub fn reduce_scatter<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        counts: &[usize],
        operation: &Operation,
    ) -> Collective<'a> {
        let send = send.into();
        self.collective("reduce_scatter", ScheduleBuilder::reducing(self, operation), |builder| {
            whole_elements::<T>(operation)?;
            let into = builder.target(receive);
            let (me, size) = (builder.me, builder.size);
            let data = sent_to_all(builder, send, &into);
            let blocks = Blocks::packed(counts).spans::<T>("counts", size, &data)?;
            let mine = &blocks[me as usize];
            let result =
                if into.length() >= mine.length() { into.part(0..mine.length()) } else { into };
            same_length("receive", &result, mine, size_of::<T>())?;
            let blocks_of = |all: &Span| Blocks::packed(counts).spans::<T>("counts", size, all);
            if let Some(hierarchy) = self.hierarchy(self.algorithms().reduce) {
                return hierarchy.reduce_scatter(&mut builder.s, data, &result, blocks_of);
            }
            if operation.is_commutative() && !self.algorithms().ordered {
                reduce::pairwise_reduce_scatter(&mut builder.s, me, &blocks, &result, size);
            } else {
                let algorithm =
                    if self.algorithms().ordered { Reduce::Serial } else { Reduce::Binomial };
                let all = builder.s.scratch(data.length());
                let blocks = blocks_of(&all)?;
                let mut value = Accumulator::new(data, all);
                reduce::reduce(&mut builder.s, algorithm, me, 0, &mut value, size);
                if me == 0 {
                    builder.s.copy(&blocks[0], &result);
                }
                gather::serial_scatter(&mut builder.s, me, 0, &result, &blocks);
            }
            Ok(())
        })
    }

    /// The reduction of `send` of the ranks up to this one (`MPI_Scan`).
    pub fn scan<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        operation: &Operation,
    ) -> Collective<'a> {
        self.prefix(send.into(), receive, operation, false)
    }

    /// The reduction of `send` of the ranks before this one (`MPI_Exscan`). Rank 0's `receive` is left as it is, whatever its
    /// length.
    pub fn exscan<'a, T: Pod>(
        &'a self,
        send: impl Into<Contribution<'a, T>>,
        receive: &'a mut [T],
        operation: &Operation,
    ) -> Collective<'a> {
        self.prefix(send.into(), receive, operation, true)
    }

    fn prefix<'a, T: Pod>(
        &'a self,
        send: Contribution<'a, T>,
        receive: &'a mut [T],
        operation: &Operation,
        exclusive: bool,
    ) -> Collective<'a> {
        let name = if exclusive { "exscan" } else { "scan" };
        self.collective(name, ScheduleBuilder::reducing(self, operation), |builder| {
            whole_elements::<T>(operation)?;
            let into = builder.target(receive);
            let value = match send {
                Contribution::Data(_) => builder.value(send, None)?,
                Contribution::InPlace => sent_to_all(builder, send, &into),
            };
            if !(exclusive && builder.me == 0) {
                same_length("send", &value, &into, size_of::<T>())?;
            }
            let hierarchy = self.hierarchy(self.algorithms().scan);
            if let Some(hierarchy) = hierarchy.filter(|it| it.scans(value.length())) {
                hierarchy.scan(&mut builder.s, exclusive, &value, &into);
                return Ok(());
            }
            let algorithm = self.algorithms().scan();
            scan::scan(
                &mut builder.s,
                algorithm,
                exclusive,
                builder.me,
                &value,
                &into,
                builder.size,
            );
            Ok(())
        })
    }
}
