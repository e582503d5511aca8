//! Collective communication (MPI 5.0, chapter 6): each operation is written once, on bytes, for the blocking, the non-blocking
//! and the persistent call.

use std::sync::Arc;

use fishplate_ranks::collective::inter::Root;
use fishplate_ranks::collective::{Blocks, Collective, Contribution};
use fishplate_ranks::process::Turn;
use fishplate_ranks::{Communicator, Operation, Rank};

use crate::arguments::{Buffer, Integer, List};
use crate::buffer::{Bytes, Data, Landing, Parts, not_in_place};
use crate::communicator::{CommObject, Ranks};
use crate::constants::*;
use crate::entry::operations;
use crate::error::{Error, Result, error};
use crate::handle::{Comm, Datatype, Op};
use crate::request::Pending;
use crate::status::Status;

/// Begins a collective operation on bytes that are kept until it is over, and then put where they belong.
fn begin(
    turn: Turn,
    comm: &Arc<CommObject>,
    sent: Option<Bytes>,
    received: Option<Landing>,
    operation: impl for<'a> FnOnce(&'a Ranks, Contribution<'a, u8>, &'a mut [u8]) -> Collective<'a>,
) -> Result<Pending> {
    if let (Some(sent), Some(landing)) = (&sent, &received)
        && landing.begins_with(sent)
    {
        return Err(aliased());
    }
    let contribution =
        sent.as_ref().map_or(Contribution::InPlace, |bytes| Contribution::Data(bytes.lend()));
    let target = received.as_ref().map_or(&mut [][..], |landing| landing.bytes.lend_mut());
    // SAFETY: the program leaves its buffers alone until the operation is over, and what is ours the pending operation keeps.
    let request = unsafe { operation(comm.ranks(), contribution, target).start_raw(turn) }?;
    Ok(Pending::on(comm, request).then(move |result| {
        result?;
        if let Some(landing) = received {
            landing.finish_all();
        }
        drop(sent);
        Ok(Status::EMPTY)
    }))
}

/// Why a buffer can't be sent from and received into at once.
pub(crate) fn aliased() -> Error {
    error(MPI_ERR_BUFFER, "what is sent and what is received is one buffer: give MPI_IN_PLACE")
}

/// The root of an operation, and what this rank has to do with it.
#[derive(Clone, Copy)]
struct Rooted {
    /// In one group.
    intra: Rank,
    /// Between two.
    inter: Root,
    /// This rank is the root.
    here: bool,
    /// This rank gives to the root, or gets from it; the root does so itself in one group only.
    other: bool,
}

impl Rooted {
    fn new(root: i32, comm: &CommObject) -> Result<Self> {
        let member = |comm: &Communicator| {
            let size = comm.size();
            u32::try_from(root).ok().filter(|root| *root < size).ok_or_else(|| {
                error(MPI_ERR_ROOT, format!("root {root} is not from 0 to {}", i64::from(size) - 1))
            })
        };
        let inter = |inter: Root| Self {
            intra: 0,
            inter,
            here: inter == Root::This,
            other: matches!(inter, Root::Remote(_)),
        };
        Ok(match (comm.ranks(), root) {
            (Ranks::Intra(comm), _) => {
                let intra = member(comm)?;
                Self { intra, inter: Root::Null, here: comm.rank() == intra, other: true }
            }
            (Ranks::Inter(_), MPI_ROOT) => inter(Root::This),
            (Ranks::Inter(_), MPI_PROC_NULL) => inter(Root::Null),
            (Ranks::Inter(_), _) => inter(Root::Remote(member(comm)?)),
        })
    }
}

/// What a rank contributes; `None` in place.
fn contribution(
    buffer: Buffer,
    count: impl Integer,
    datatype: Datatype,
    times: u32,
) -> Result<Option<Data>> {
    if buffer.is_in_place() {
        return Ok(None);
    }
    Data::repeated(buffer, count, datatype, times as usize).map(Some)
}

fn bytes(data: &Option<Data>) -> Option<Bytes> {
    data.as_ref().map(Data::outgoing)
}

/// Counts and displacements of every rank.
fn parts<C: Integer>(
    buffer: Buffer,
    counts: List<C>,
    displacements: List<C>,
    datatype: Datatype,
    ranks: u32,
) -> Result<Parts> {
    let ranks = ranks as usize;
    Parts::new(buffer, &counts.counts(ranks)?, &displacements.integers(ranks)?, datatype)
}

fn parts_with_types<C: Integer, D: Integer>(
    buffer: Buffer,
    counts: List<C>,
    displacements: List<D>,
    datatypes: List<Datatype>,
    ranks: u32,
) -> Result<Parts> {
    let ranks = ranks as usize;
    let (counts, displacements) = (counts.counts(ranks)?, displacements.integers(ranks)?);
    Parts::with_types(buffer, &counts, &displacements, &datatypes.to_vec(ranks)?)
}

/// An all-to-all of parts; `None` is sent in place.
fn exchange(
    turn: Turn,
    comm: &Arc<CommObject>,
    sent: Option<&Parts>,
    received: &Parts,
) -> Result<Pending> {
    let (sent, sent_blocks) = match sent {
        Some(parts) => {
            let (bytes, blocks) = parts.outgoing();
            (Some(bytes), blocks)
        }
        None => (None, Blocks { counts: Vec::new(), displacements: Vec::new() }),
    };
    let (landing, blocks) = received.clone().incoming(sent.is_none());
    begin(turn, comm, sent, Some(landing), move |ranks, send, receive| match ranks {
        Ranks::Intra(comm) => comm.alltoallv(send, &sent_blocks, receive, &blocks),
        Ranks::Inter(comm) => comm.alltoallv(given(send), &sent_blocks, receive, &blocks),
    })
}

/// A reduction: what is sent, where it goes (`None`: nowhere), and how.
struct Reduction {
    comm: Arc<CommObject>,
    sent: Option<Data>,
    received: Option<Data>,
    operation: Operation,
}

impl Reduction {
    fn new(
        send: Option<Buffer>,
        receive: Option<Buffer>,
        count: impl Integer,
        datatype: Datatype,
        op: Op,
        comm: Comm,
    ) -> Result<Self> {
        let comm = comm.get()?;
        let sent = match send {
            Some(send) => contribution(send, count, datatype, 1)?,
            None => Some(Data::none()),
        };
        let received = match receive {
            Some(receive) => {
                not_in_place(receive)?;
                Some(Data::new(receive, count, datatype)?)
            }
            None => None,
        };
        Ok(Self { comm, sent, received, operation: crate::operation::on(op, datatype)? })
    }

    /// That of a rank that has no part in it; its arguments mean nothing.
    fn of_nothing(comm: Arc<CommObject>) -> Self {
        let operation = Operation::of_bytes(1, true, |_, _| {});
        Self { comm, sent: Some(Data::none()), received: None, operation }
    }

    fn begin(
        &self,
        turn: Turn,
        call: impl for<'a> FnOnce(
            &'a Ranks,
            Contribution<'a, u8>,
            &'a mut [u8],
            &Operation,
        ) -> Collective<'a>,
    ) -> Result<Pending> {
        let landing = self.received.clone().map(|data| data.incoming(true));
        begin(turn, &self.comm, bytes(&self.sent), landing, |ranks, send, receive| {
            call(ranks, send, receive, &self.operation)
        })
    }
}

operations! {
    fn "Barrier", "Ibarrier", "Barrier_init" [info] (; comm) => {
        let comm = comm.get()?;
        Ok(move |turn| begin(turn, &comm, None, None, |ranks, _, _| match ranks {
            Ranks::Intra(comm) => comm.barrier(),
            Ranks::Inter(comm) => comm.barrier(),
        }))
    }
    fn "Bcast", "Ibcast", "Bcast_init" [info] <C>(buffer: Buffer, count: C, datatype: Datatype, root: i32; comm) => {
        let comm = comm.get()?;
        let root = Rooted::new(root, &comm)?;
        not_in_place(buffer)?;
        let data = if root.here || root.other { Data::new(buffer, count, datatype)? } else { Data::none() };
        Ok(move |turn| begin(turn, &comm, None, Some(data.clone().incoming(root.here)), |ranks, _, all| match ranks {
            Ranks::Intra(comm) => comm.broadcast(all, root.intra),
            Ranks::Inter(comm) => comm.broadcast(all, root.inter),
        }))
    }
    fn "Gather", "Igather", "Gather_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype,
        root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = Rooted::new(root, &comm)?;
        let sent = if root.other { contribution(send, send_count, send_type, 1)? } else { Some(Data::none()) };
        let received = if root.here {
            not_in_place(receive)?;
            Some(Data::repeated(receive, receive_count, receive_type, comm.size() as usize)?)
        } else {
            None
        };
        Ok(move |turn| {
            let landing = received.clone().map(|data| data.incoming(sent.is_none()));
            begin(turn, &comm, bytes(&sent), landing, |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.gather(send, receive, root.intra),
                Ranks::Inter(comm) => comm.gather(given(send), receive, root.inter),
            })
        })
    }
    fn "Gatherv", "Igatherv", "Gatherv_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, counts: List<C>, displacements: List<C>,
        receive_type: Datatype, root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = Rooted::new(root, &comm)?;
        let sent = if root.other { contribution(send, send_count, send_type, 1)? } else { Some(Data::none()) };
        let received = if root.here {
            parts(receive, counts, displacements, receive_type, comm.size())?
        } else {
            Parts::none()
        };
        Ok(move |turn| {
            let (landing, blocks) = received.clone().incoming(sent.is_none());
            begin(turn, &comm, bytes(&sent), Some(landing), |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.gatherv(send, receive, &blocks, root.intra),
                Ranks::Inter(comm) => comm.gatherv(given(send), receive, &blocks, root.inter),
            })
        })
    }
    fn "Scatter", "Iscatter", "Scatter_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype,
        root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = Rooted::new(root, &comm)?;
        let sent = if root.here {
            Data::repeated(send, send_count, send_type, comm.size() as usize)?
        } else {
            Data::none()
        };
        let received =
            if root.other { contribution(receive, receive_count, receive_type, 1)? } else { Some(Data::none()) };
        Ok(move |turn| {
            let landing = received.clone().map(|data| data.incoming(false));
            begin(turn, &comm, Some(sent.outgoing()), landing, |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.scatter(given(send), receive, root.intra),
                Ranks::Inter(comm) => comm.scatter(given(send), receive, root.inter),
            })
        })
    }
    fn "Scatterv", "Iscatterv", "Scatterv_init" [info] <C>(
        send: Buffer, counts: List<C>, displacements: List<C>, send_type: Datatype, receive: Buffer, receive_count: C,
        receive_type: Datatype, root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = Rooted::new(root, &comm)?;
        let sent = if root.here {
            parts(send, counts, displacements, send_type, comm.size())?
        } else {
            Parts::none()
        };
        let received =
            if root.other { contribution(receive, receive_count, receive_type, 1)? } else { Some(Data::none()) };
        Ok(move |turn| {
            let (sent, blocks) = sent.outgoing();
            let landing = received.clone().map(|data| data.incoming(false));
            begin(turn, &comm, Some(sent), landing, |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.scatterv(given(send), &blocks, receive, root.intra),
                Ranks::Inter(comm) => comm.scatterv(given(send), &blocks, receive, root.inter),
            })
        })
    }
    fn "Allgather", "Iallgather", "Allgather_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = contribution(send, send_count, send_type, 1)?;
        let received = Data::repeated(receive, receive_count, receive_type, comm.size() as usize)?;
        Ok(move |turn| {
            let landing = received.clone().incoming(sent.is_none());
            begin(turn, &comm, bytes(&sent), Some(landing), |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.allgather(send, receive),
                Ranks::Inter(comm) => comm.allgather(given(send), receive),
            })
        })
    }
    fn "Allgatherv", "Iallgatherv", "Allgatherv_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, counts: List<C>, displacements: List<C>,
        receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = contribution(send, send_count, send_type, 1)?;
        let received = parts(receive, counts, displacements, receive_type, comm.size())?;
        Ok(move |turn| {
            let (landing, blocks) = received.clone().incoming(sent.is_none());
            begin(turn, &comm, bytes(&sent), Some(landing), |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.allgatherv(send, receive, &blocks),
                Ranks::Inter(comm) => comm.allgatherv(given(send), receive, &blocks),
            })
        })
    }
    fn "Alltoall", "Ialltoall", "Alltoall_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = contribution(send, send_count, send_type, comm.size())?;
        let received = Data::repeated(receive, receive_count, receive_type, comm.size() as usize)?;
        Ok(move |turn| {
            let landing = received.clone().incoming(sent.is_none());
            begin(turn, &comm, bytes(&sent), Some(landing), |ranks, send, receive| match ranks {
                Ranks::Intra(comm) => comm.alltoall(send, receive),
                Ranks::Inter(comm) => comm.alltoall(given(send), receive),
            })
        })
    }
    fn "Alltoallv", "Ialltoallv", "Alltoallv_init" [info] <C>(
        send: Buffer, send_counts: List<C>, send_displacements: List<C>, send_type: Datatype, receive: Buffer,
        counts: List<C>, displacements: List<C>, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = if send.is_in_place() {
            None
        } else {
            Some(parts(send, send_counts, send_displacements, send_type, comm.size())?)
        };
        let received = parts(receive, counts, displacements, receive_type, comm.size())?;
        Ok(move |turn| exchange(turn, &comm, sent.as_ref(), &received))
    }
    fn "Alltoallw", "Ialltoallw", "Alltoallw_init" [info] <C>(
        send: Buffer, send_counts: List<C>, send_displacements: List<C>, send_types: List<Datatype>, receive: Buffer,
        counts: List<C>, displacements: List<C>, receive_types: List<Datatype>; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = if send.is_in_place() {
            None
        } else {
            Some(parts_with_types(send, send_counts, send_displacements, send_types, comm.size())?)
        };
        let received = parts_with_types(receive, counts, displacements, receive_types, comm.size())?;
        Ok(move |turn| exchange(turn, &comm, sent.as_ref(), &received))
    }
    fn "Reduce", "Ireduce", "Reduce_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op, root: i32; comm
    ) => {
        let object = comm.get()?;
        let root = Rooted::new(root, &object)?;
        let (send, receive) = (root.other.then_some(send), root.here.then_some(receive));
        let reduction = if send.is_some() || receive.is_some() {
            Reduction::new(send, receive, count, datatype, op, comm)?
        } else {
            Reduction::of_nothing(object)
        };
        Ok(move |turn| reduction.begin(turn, |ranks, send, receive, op| match ranks {
            Ranks::Intra(comm) => comm.reduce(send, receive, op, root.intra),
            Ranks::Inter(comm) => comm.reduce(given(send), receive, op, root.inter),
        }))
    }
    fn "Allreduce", "Iallreduce", "Allreduce_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let reduction = Reduction::new(Some(send), Some(receive), count, datatype, op, comm)?;
        Ok(move |turn| reduction.begin(turn, |ranks, send, receive, op| match ranks {
            Ranks::Intra(comm) => comm.allreduce(send, receive, op),
            Ranks::Inter(comm) => comm.allreduce(given(send), receive, op),
        }))
    }
    fn "Scan", "Iscan", "Scan_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let object = comm.get()?;
        object.intra()?;
        let reduction = Reduction::new(Some(send), Some(receive), count, datatype, op, comm)?;
        Ok(move |turn| reduction.begin(turn, |ranks, send, receive, op| ranks.local().scan(send, receive, op)))
    }
    fn "Exscan", "Iexscan", "Exscan_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let object = comm.get()?;
        // At rank 0 the receive buffer means nothing, unless what is sent is in it.
        let received = (object.intra()?.rank() > 0 || send.is_in_place()).then_some(receive);
        let reduction = Reduction::new(Some(send), received, count, datatype, op, comm)?;
        Ok(move |turn| reduction.begin(turn, |ranks, send, receive, op| ranks.local().exscan(send, receive, op)))
    }
    fn "Reduce_scatter", "Ireduce_scatter", "Reduce_scatter_init" [info] <C>(
        send: Buffer, receive: Buffer, counts: List<C>, datatype: Datatype, op: Op; comm
    ) => {
        let counts = counts.counts(comm.get()?.local().size() as usize)?;
        let scatter = ReduceScatter::new(send, receive, counts, datatype, op, comm)?;
        Ok(move |turn| scatter.begin(turn))
    }
    fn "Reduce_scatter_block", "Ireduce_scatter_block", "Reduce_scatter_block_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let counts = vec![count.count()?; comm.get()?.local().size() as usize];
        let scatter = ReduceScatter::new(send, receive, counts, datatype, op, comm)?;
        Ok(move |turn| scatter.begin(turn))
    }
}

/// How many sources and destinations a rank has, in a communicator with a topology.
fn degrees(comm: &CommObject) -> Result<[u32; 2]> {
    let comm = comm.intra()?;
    let topology = comm
        .topology()
        .ok_or_else(|| error(MPI_ERR_TOPOLOGY, "the communicator has no topology"))?;
    let count = |ranks: Vec<Option<Rank>>| u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    Ok([count(topology.sources(comm.rank())), count(topology.destinations(comm.rank()))])
}

/// Parts to destinations, and from sources.
fn exchange_with_neighbors(
    turn: Turn,
    comm: &Arc<CommObject>,
    sent: &Parts,
    received: &Parts,
) -> Result<Pending> {
    let (bytes, sent_blocks) = sent.outgoing();
    let (landing, blocks) = received.clone().incoming(false);
    begin(turn, comm, Some(bytes), Some(landing), |ranks, send, receive| {
        ranks.local().neighbor_alltoallv(given(send), &sent_blocks, receive, &blocks)
    })
}

operations! {
    fn "Neighbor_allgather", "Ineighbor_allgather", "Neighbor_allgather_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        let [sources, _] = degrees(&comm)?;
        let sent = Data::new(send, send_count, send_type)?;
        let received = Data::repeated(receive, receive_count, receive_type, sources as usize)?;
        Ok(move |turn| {
            let landing = received.clone().incoming(false);
            begin(turn, &comm, Some(sent.outgoing()), Some(landing), |ranks, send, receive| {
                ranks.local().neighbor_allgather(given(send), receive)
            })
        })
    }
    fn "Neighbor_allgatherv", "Ineighbor_allgatherv", "Neighbor_allgatherv_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, counts: List<C>, displacements: List<C>,
        receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        let [sources, _] = degrees(&comm)?;
        let sent = Data::new(send, send_count, send_type)?;
        let received = parts(receive, counts, displacements, receive_type, sources)?;
        Ok(move |turn| {
            let (landing, blocks) = received.clone().incoming(false);
            begin(turn, &comm, Some(sent.outgoing()), Some(landing), |ranks, send, receive| {
                ranks.local().neighbor_allgatherv(given(send), receive, &blocks)
            })
        })
    }
    fn "Neighbor_alltoall", "Ineighbor_alltoall", "Neighbor_alltoall_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        let [sources, destinations] = degrees(&comm)?;
        let sent = Data::repeated(send, send_count, send_type, destinations as usize)?;
        let received = Data::repeated(receive, receive_count, receive_type, sources as usize)?;
        Ok(move |turn| {
            let landing = received.clone().incoming(false);
            begin(turn, &comm, Some(sent.outgoing()), Some(landing), |ranks, send, receive| {
                ranks.local().neighbor_alltoall(given(send), receive)
            })
        })
    }
    fn "Neighbor_alltoallv", "Ineighbor_alltoallv", "Neighbor_alltoallv_init" [info] <C>(
        send: Buffer, send_counts: List<C>, send_displacements: List<C>, send_type: Datatype, receive: Buffer,
        counts: List<C>, displacements: List<C>, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        let [sources, destinations] = degrees(&comm)?;
        let sent = parts(send, send_counts, send_displacements, send_type, destinations)?;
        let received = parts(receive, counts, displacements, receive_type, sources)?;
        Ok(move |turn| exchange_with_neighbors(turn, &comm, &sent, &received))
    }
    fn "Neighbor_alltoallw", "Ineighbor_alltoallw", "Neighbor_alltoallw_init" [info] <C>(
        send: Buffer, send_counts: List<C>, send_displacements: List<i64>, send_types: List<Datatype>, receive: Buffer,
        counts: List<C>, displacements: List<i64>, receive_types: List<Datatype>; comm
    ) => {
        let comm = comm.get()?;
        let [sources, destinations] = degrees(&comm)?;
        let sent = parts_with_types(send, send_counts, send_displacements, send_types, destinations)?;
        let received = parts_with_types(receive, counts, displacements, receive_types, sources)?;
        Ok(move |turn| exchange_with_neighbors(turn, &comm, &sent, &received))
    }
}

fn given(contribution: Contribution<'_, u8>) -> &[u8] {
    match contribution {
        Contribution::Data(data) => data,
        Contribution::InPlace => &[],
    }
}

/// A reduction of which each rank gets a block.
struct ReduceScatter {
    reduction: Reduction,
    /// In bytes.
    counts: Vec<usize>,
}

impl ReduceScatter {
    fn new(
        send: Buffer,
        receive: Buffer,
        counts: Vec<usize>,
        datatype: Datatype,
        op: Op,
        comm: Comm,
    ) -> Result<Self> {
        let total =
            |counts: &[usize]| i64::try_from(counts.iter().sum::<usize>()).unwrap_or(i64::MAX);
        let (object, size) = (comm.get()?, datatype.get()?.layout.size);
        let mut reduction =
            Reduction::new(Some(send), Some(receive), total(&counts), datatype, op, comm)?;
        if reduction.sent.is_some() {
            let own = total(&counts[object.local().rank() as usize..][..1]);
            reduction.received = Some(Data::new(receive, own, datatype)?);
        }
        let counts = counts.into_iter().map(|count| count * size).collect();
        Ok(Self { reduction, counts })
    }

    fn begin(&self, turn: Turn) -> Result<Pending> {
        self.reduction.begin(turn, |ranks, send, receive, op| match ranks {
            Ranks::Intra(comm) => comm.reduce_scatter(send, receive, &self.counts, op),
            Ranks::Inter(comm) => comm.reduce_scatter(given(send), receive, &self.counts, op),
        })
    }
}
