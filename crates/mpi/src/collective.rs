//! Collective communication (MPI 5.0, chapter 6): each operation is written once, on bytes, for the blocking, the non-blocking
//! and the persistent call.

use std::sync::Arc;

use fishplate_ranks::collective::{Blocks, Collective, Contribution};
use fishplate_ranks::{Communicator, Operation, Rank};

use crate::arguments::{Buffer, Integer, List};
use crate::buffer::{Bytes, Data, Landing, Parts, not_in_place};
use crate::communicator::CommObject;
use crate::constants::*;
use crate::entry::operations;
use crate::error::{Result, error};
use crate::handle::{Comm, Datatype, Op};
use crate::request::Pending;
use crate::status::Status;

/// Begins a collective operation on bytes that are kept until it is over, and then put where they belong.
fn begin(
    comm: &Arc<CommObject>,
    sent: Option<Bytes>,
    received: Option<Landing>,
    operation: impl for<'a> FnOnce(
        &'a Communicator,
        Contribution<'a, u8>,
        &'a mut [u8],
    ) -> Collective<'a>,
) -> Result<Pending> {
    let contribution =
        sent.as_ref().map_or(Contribution::InPlace, |bytes| Contribution::Data(bytes.lend()));
    let target = received.as_ref().map_or(&mut [][..], |landing| landing.bytes.lend_mut());
    // SAFETY: the program leaves its buffers alone until the operation is over, and what is ours the pending operation keeps.
    let request = unsafe { operation(comm, contribution, target).start_raw() }?;
    let (comm, process) = (comm.clone(), comm.process().clone());
    Ok(Pending::new(&process, request).then(move |result| {
        result?;
        if let Some(landing) = received {
            landing.finish_all();
        }
        drop((sent, comm));
        Ok(Status::EMPTY)
    }))
}

fn root_of(root: i32, comm: &CommObject) -> Result<Rank> {
    u32::try_from(root).ok().filter(|root| *root < comm.size()).ok_or_else(|| {
        error(MPI_ERR_ROOT, format!("root {root} is not from 0 to {}", i64::from(comm.size()) - 1))
    })
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
fn exchange(comm: &Arc<CommObject>, sent: Option<&Parts>, received: &Parts) -> Result<Pending> {
    let (sent, sent_blocks) = match sent {
        Some(parts) => {
            let (bytes, blocks) = parts.outgoing();
            (Some(bytes), blocks)
        }
        None => (None, Blocks { counts: Vec::new(), displacements: Vec::new() }),
    };
    let (landing, blocks) = received.clone().incoming(sent.is_none());
    begin(comm, sent, Some(landing), move |comm, send, receive| {
        comm.alltoallv(send, &sent_blocks, receive, &blocks)
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
        send: Buffer,
        receive: Option<Buffer>,
        count: impl Integer,
        datatype: Datatype,
        op: Op,
        comm: Comm,
    ) -> Result<Self> {
        let comm = comm.get()?;
        let sent = contribution(send, count, datatype, 1)?;
        let received = match receive {
            Some(receive) => {
                not_in_place(receive)?;
                Some(Data::new(receive, count, datatype)?)
            }
            None => None,
        };
        Ok(Self { comm, sent, received, operation: crate::operation::on(op, datatype)? })
    }

    fn begin(
        &self,
        call: impl for<'a> FnOnce(
            &'a Communicator,
            Contribution<'a, u8>,
            &'a mut [u8],
            &Operation,
        ) -> Collective<'a>,
    ) -> Result<Pending> {
        let landing = self.received.clone().map(|data| data.incoming(true));
        begin(&self.comm, bytes(&self.sent), landing, |comm, send, receive| {
            call(comm, send, receive, &self.operation)
        })
    }
}

operations! {
    fn "Barrier", "Ibarrier", "Barrier_init" [info] (; comm) => {
        let comm = comm.get()?;
        Ok(move || begin(&comm, None, None, |comm, _, _| comm.barrier()))
    }
    fn "Bcast", "Ibcast", "Bcast_init" [info] <C>(buffer: Buffer, count: C, datatype: Datatype, root: i32; comm) => {
        let comm = comm.get()?;
        let root = root_of(root, &comm)?;
        not_in_place(buffer)?;
        let data = Data::new(buffer, count, datatype)?;
        Ok(move || begin(&comm, None, Some(data.clone().incoming(comm.rank() == root)), |comm, _, all| {
            comm.broadcast(all, root)
        }))
    }
    fn "Gather", "Igather", "Gather_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype,
        root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = root_of(root, &comm)?;
        let sent = contribution(send, send_count, send_type, 1)?;
        let received = if comm.rank() == root {
            not_in_place(receive)?;
            Some(Data::repeated(receive, receive_count, receive_type, comm.size() as usize)?)
        } else {
            None
        };
        Ok(move || {
            let landing = received.clone().map(|data| data.incoming(sent.is_none()));
            begin(&comm, bytes(&sent), landing, |comm, send, receive| comm.gather(send, receive, root))
        })
    }
    fn "Gatherv", "Igatherv", "Gatherv_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, counts: List<C>, displacements: List<C>,
        receive_type: Datatype, root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = root_of(root, &comm)?;
        let sent = contribution(send, send_count, send_type, 1)?;
        let received = if comm.rank() == root {
            parts(receive, counts, displacements, receive_type, comm.size())?
        } else {
            Parts::none()
        };
        Ok(move || {
            let (landing, blocks) = received.clone().incoming(sent.is_none());
            begin(&comm, bytes(&sent), Some(landing), |comm, send, receive| comm.gatherv(send, receive, &blocks, root))
        })
    }
    fn "Scatter", "Iscatter", "Scatter_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype,
        root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = root_of(root, &comm)?;
        let sent = if comm.rank() == root {
            Data::repeated(send, send_count, send_type, comm.size() as usize)?
        } else {
            Data::none()
        };
        let received = contribution(receive, receive_count, receive_type, 1)?;
        Ok(move || {
            let landing = received.clone().map(|data| data.incoming(false));
            begin(&comm, Some(sent.outgoing()), landing, |comm, send, receive| {
                comm.scatter(given(send), receive, root)
            })
        })
    }
    fn "Scatterv", "Iscatterv", "Scatterv_init" [info] <C>(
        send: Buffer, counts: List<C>, displacements: List<C>, send_type: Datatype, receive: Buffer, receive_count: C,
        receive_type: Datatype, root: i32; comm
    ) => {
        let comm = comm.get()?;
        let root = root_of(root, &comm)?;
        let sent = if comm.rank() == root {
            parts(send, counts, displacements, send_type, comm.size())?
        } else {
            Parts::none()
        };
        let received = contribution(receive, receive_count, receive_type, 1)?;
        Ok(move || {
            let (sent, blocks) = sent.outgoing();
            let landing = received.clone().map(|data| data.incoming(false));
            begin(&comm, Some(sent), landing, |comm, send, receive| {
                comm.scatterv(given(send), &blocks, receive, root)
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
        Ok(move || {
            let landing = received.clone().incoming(sent.is_none());
            begin(&comm, bytes(&sent), Some(landing), |comm, send, receive| comm.allgather(send, receive))
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
        Ok(move || {
            let (landing, blocks) = received.clone().incoming(sent.is_none());
            begin(&comm, bytes(&sent), Some(landing), |comm, send, receive| comm.allgatherv(send, receive, &blocks))
        })
    }
    fn "Alltoall", "Ialltoall", "Alltoall_init" [info] <C>(
        send: Buffer, send_count: C, send_type: Datatype, receive: Buffer, receive_count: C, receive_type: Datatype; comm
    ) => {
        let comm = comm.get()?;
        not_in_place(receive)?;
        let sent = contribution(send, send_count, send_type, comm.size())?;
        let received = Data::repeated(receive, receive_count, receive_type, comm.size() as usize)?;
        Ok(move || {
            let landing = received.clone().incoming(sent.is_none());
            begin(&comm, bytes(&sent), Some(landing), |comm, send, receive| comm.alltoall(send, receive))
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
        Ok(move || exchange(&comm, sent.as_ref(), &received))
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
        Ok(move || exchange(&comm, sent.as_ref(), &received))
    }
    fn "Reduce", "Ireduce", "Reduce_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op, root: i32; comm
    ) => {
        let object = comm.get()?;
        let root = root_of(root, &object)?;
        let receive = (object.rank() == root).then_some(receive);
        let reduction = Reduction::new(send, receive, count, datatype, op, comm)?;
        Ok(move || reduction.begin(|comm, send, receive, op| comm.reduce(send, receive, op, root)))
    }
    fn "Allreduce", "Iallreduce", "Allreduce_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let reduction = Reduction::new(send, Some(receive), count, datatype, op, comm)?;
        Ok(move || reduction.begin(|comm, send, receive, op| comm.allreduce(send, receive, op)))
    }
    fn "Scan", "Iscan", "Scan_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let reduction = Reduction::new(send, Some(receive), count, datatype, op, comm)?;
        Ok(move || reduction.begin(|comm, send, receive, op| comm.scan(send, receive, op)))
    }
    fn "Exscan", "Iexscan", "Exscan_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let reduction = Reduction::new(send, Some(receive), count, datatype, op, comm)?;
        Ok(move || reduction.begin(|comm, send, receive, op| comm.exscan(send, receive, op)))
    }
    fn "Reduce_scatter", "Ireduce_scatter", "Reduce_scatter_init" [info] <C>(
        send: Buffer, receive: Buffer, counts: List<C>, datatype: Datatype, op: Op; comm
    ) => {
        let counts = counts.counts(comm.get()?.size() as usize)?;
        let scatter = ReduceScatter::new(send, receive, counts, datatype, op, comm)?;
        Ok(move || scatter.begin())
    }
    fn "Reduce_scatter_block", "Ireduce_scatter_block", "Reduce_scatter_block_init" [info] <C>(
        send: Buffer, receive: Buffer, count: C, datatype: Datatype, op: Op; comm
    ) => {
        let counts = vec![count.count()?; comm.get()?.size() as usize];
        let scatter = ReduceScatter::new(send, receive, counts, datatype, op, comm)?;
        Ok(move || scatter.begin())
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
            Reduction::new(send, Some(receive), total(&counts), datatype, op, comm)?;
        if reduction.sent.is_some() {
            let own = total(&counts[object.rank() as usize..][..1]);
            reduction.received = Some(Data::new(receive, own, datatype)?);
        }
        let counts = counts.into_iter().map(|count| count * size).collect();
        Ok(Self { reduction, counts })
    }

    fn begin(&self) -> Result<Pending> {
        self.reduction
            .begin(|comm, send, receive, op| comm.reduce_scatter(send, receive, &self.counts, op))
    }
}
