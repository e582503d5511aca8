//! Collective operations among the neighbours of a topology (MPI 4.1, 8.6): with each source and each destination, in the order
//! in which the topology names them.

use bytemuck::Pod;

use crate::buffer::Span;
use crate::collective::arguments::Blocks;
use crate::collective::builder::ScheduleBuilder;
use crate::collective::calls::Collective;
use crate::communicator::Communicator;
use crate::error::{Error, Result};

impl Communicator {
    /// `send` to each destination, and from each source its own (`MPI_Neighbor_allgather`).
    pub fn neighbor_allgather<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
    ) -> Collective<'a> {
        let blocks = equal_blocks(receive.len(), self.degrees()[0]);
        self.neighbor_allgatherv(send, receive, &blocks)
    }

    /// The same with blocks of different lengths (`MPI_Neighbor_allgatherv`).
    pub fn neighbor_allgatherv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
        blocks: &Blocks,
    ) -> Collective<'a> {
        let [sources, destinations] = self.degrees();
        self.collective("neighbor_allgatherv", ScheduleBuilder::new(self), |builder| {
            let (all, data) = (builder.target(receive), builder.data(send));
            let to = blocks.spans::<T>("blocks", narrow(sources), &all)?;
            self.exchange_neighbors(builder, &vec![data; destinations], &to)
        })
    }

    /// Block i of `send` to destination i, and from each source its own (`MPI_Neighbor_alltoall`).
    pub fn neighbor_alltoall<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        receive: &'a mut [T],
    ) -> Collective<'a> {
        let [sources, destinations] = self.degrees();
        let sent = equal_blocks(send.len(), destinations);
        let received = equal_blocks(receive.len(), sources);
        self.neighbor_alltoallv(send, &sent, receive, &received)
    }

    /// The same with blocks of different lengths (`MPI_Neighbor_alltoallv`; in bytes, what `MPI_Neighbor_alltoallw` needs once types
    /// are packed).
    pub fn neighbor_alltoallv<'a, T: Pod>(
        &'a self,
        send: &'a [T],
        sent: &Blocks,
        receive: &'a mut [T],
        received: &Blocks,
    ) -> Collective<'a> {
        let [sources, destinations] = self.degrees();
        self.collective("neighbor_alltoallv", ScheduleBuilder::new(self), |builder| {
            let (all, data) = (builder.target(receive), builder.data(send));
            let to = received.spans::<T>("received", narrow(sources), &all)?;
            let from = sent.spans::<T>("sent", narrow(destinations), &data)?;
            self.exchange_neighbors(builder, &from, &to)
        })
    }

    fn exchange_neighbors(
        &self,
        builder: &mut ScheduleBuilder<'_>,
        from: &[Span],
        to: &[Span],
    ) -> Result<()> {
        let topology = self.topology().ok_or_else(|| Error::Argument {
            argument: "communicator",
            problem: "it has no topology, so nobody is a neighbour".to_owned(),
        })?;
        for (source, to) in topology.sources(self.rank()).into_iter().zip(to) {
            if let Some(source) = source {
                builder.s.receive(source, to);
            }
        }
        let destinations = topology.destinations(self.rank());
        for at in topology.send_order(destinations.len()) {
            if let Some(destination) = destinations[at] {
                builder.s.send(destination, &from[at]);
            }
        }
        builder.s.wait();
        Ok(())
    }

    /// How many sources and destinations there are.
    fn degrees(&self) -> [usize; 2] {
        let Some(topology) = self.topology() else { return [0, 0] };
        [topology.sources(self.rank()).len(), topology.destinations(self.rank()).len()]
    }
}

fn equal_blocks(elements: usize, count: usize) -> Blocks {
    Blocks::packed(&vec![elements.checked_div(count).unwrap_or_default(); count])
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
