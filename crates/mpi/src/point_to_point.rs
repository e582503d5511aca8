//! Point-to-point communication (MPI 5.0, chapters 3 and 4): sends of every mode, receives, probes, partitioned messages.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fishplate_ranks as ranks;
use ranks::buffer::{ReceiveBuffer, SendBuffer};
use ranks::communicator::partitioned;
use ranks::header::{Destination, Mode, RequestId, Source, TagSelector};
use ranks::process::Turn;

use crate::arguments::{Buffer, Integer, List, Out};
use crate::buffer::{Attachment, Bytes, Data, Landing};
use crate::communicator::CommObject;
use crate::constants::*;
use crate::entry::{entries, operations};
use crate::error::{Result, error};
use crate::handle::{Comm, Datatype, Info, MESSAGE_NO_PROC, Message, Request, Session};
use crate::request::{Pending, Plan, RequestObject};
use crate::status::Status;

/// `MPI_TAG_UB`.
pub(crate) const TAG_UB: c_int = partitioned::TAG_BOUND - 1;

/// An error, if a message does not fit the buffer that was attached to the communicator, or else any of the process and its sessions.
fn buffered(comm: &CommObject, length: usize) -> Result<()> {
    let attached = |wanted: &dyn Fn(&Attachment) -> bool| {
        let of_session = || Session::first(|session| session.buffer.get().filter(wanted));
        crate::environment::BUFFER.get().filter(wanted).or_else(of_session)
    };
    let found = comm
        .buffer
        .get()
        .or_else(|| attached(&|one| one.check(length).is_ok()))
        .or_else(|| attached(&|_| true));
    let found = found.ok_or_else(|| {
        error(MPI_ERR_BUFFER, "a buffered send needs a buffer: call MPI_Buffer_attach")
    })?;
    found.check(length)
}

fn tag_of(tag: c_int) -> Result<c_int> {
    if (0..=TAG_UB).contains(&tag) {
        return Ok(tag);
    }
    Err(error(MPI_ERR_TAG, format!("tag {tag} is not from 0 to {TAG_UB}")))
}

fn rank_of(rank: c_int, comm: &CommObject) -> Result<u32> {
    let size = comm.size();
    u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        error(MPI_ERR_RANK, format!("rank {rank} is not from 0 to {}", i64::from(size) - 1))
    })
}

fn destination(rank: c_int, comm: &CommObject) -> Result<Destination> {
    match rank {
        MPI_PROC_NULL => Ok(Destination::Null),
        rank => Ok(Destination::Rank(rank_of(rank, comm)?)),
    }
}

fn source(rank: c_int, comm: &CommObject) -> Result<Source> {
    match rank {
        MPI_PROC_NULL => Ok(Source::Null),
        MPI_ANY_SOURCE => Ok(Source::Any),
        rank => Ok(Source::Rank(rank_of(rank, comm)?)),
    }
}

fn selector(tag: c_int) -> Result<TagSelector> {
    match tag {
        MPI_ANY_TAG => Ok(TagSelector::Any),
        tag => Ok(TagSelector::Tag(tag_of(tag)?)),
    }
}

/// Data for or of a rank; of `MPI_PROC_NULL` there is none, and nobody looks at what stands for it, as in MPICH.
fn data_for(rank: c_int, buffer: Buffer, count: impl Integer, datatype: Datatype) -> Result<Data> {
    if rank == MPI_PROC_NULL { Ok(Data::none()) } else { Data::new(buffer, count, datatype) }
}

/// Memory that its owner keeps until the request is complete.
fn lent(bytes: &Bytes) -> SendBuffer {
    let bytes = bytes.lend();
    // SAFETY: the caller's until the operation is over, as the standard obliges it, or ours, which the pending operation keeps.
    unsafe { SendBuffer::from_raw(bytes.as_ptr(), bytes.len()) }
}

/// The same to be received into.
fn lent_mut(landing: &Landing) -> ReceiveBuffer {
    let bytes = landing.bytes.lend_mut();
    // SAFETY: as above.
    unsafe { ReceiveBuffer::from_raw(bytes.as_mut_ptr(), bytes.len()) }
}

#[derive(Clone)]
struct SendPlan {
    comm: Arc<CommObject>,
    mode: Mode,
    data: Data,
    to: Destination,
    tag: c_int,
}

impl SendPlan {
    fn new(
        mode: Mode,
        buffer: Buffer,
        count: impl Integer,
        datatype: Datatype,
        to: c_int,
        tag: c_int,
        comm: Comm,
    ) -> Result<Self> {
        let comm = comm.get()?;
        let data = data_for(to, buffer, count, datatype)?;
        let (to, tag) = (destination(to, &comm)?, tag_of(tag)?);
        Ok(Self { comm, mode, data, to, tag })
    }

    /// The request, and what has to live until it is complete.
    fn start(&self) -> Result<(RequestId, Bytes)> {
        let bytes = self.data.outgoing();
        if self.mode == Mode::Buffered {
            buffered(&self.comm, bytes.lend().len())?;
        }
        let request = self.comm.start_send(self.mode, lent(&bytes), self.to, self.tag)?;
        Ok((request, bytes))
    }

    /// The same of a message of parts, which are all ready.
    fn start_partitioned(&self) -> Result<(RequestId, Bytes)> {
        let bytes = self.data.outgoing();
        let request = self.comm.start_partitioned_send(lent(&bytes), self.to, self.tag)?;
        Ok((request, bytes))
    }

    fn begin(&self) -> Result<Pending> {
        let (request, bytes) = self.start()?;
        Ok(Pending::on(&self.comm, request).keeping(bytes))
    }
}

#[derive(Clone)]
struct ReceivePlan {
    comm: Arc<CommObject>,
    data: Data,
    from: Source,
    tag: TagSelector,
}

impl ReceivePlan {
    fn new(
        buffer: Buffer,
        count: impl Integer,
        datatype: Datatype,
        from: c_int,
        tag: c_int,
        comm: Comm,
    ) -> Result<Self> {
        let comm = comm.get()?;
        let data = data_for(from, buffer, count, datatype)?;
        let (from, tag) = (source(from, &comm)?, selector(tag)?);
        Ok(Self { comm, data, from, tag })
    }

    fn begin(&self) -> Result<Pending> {
        let landing = self.data.clone().incoming(false);
        let request = self.comm.start_receive(lent_mut(&landing), self.from, self.tag)?;
        Ok(received(&self.comm, request, landing, self.from == Source::Null))
    }
}

fn received(
    comm: &Arc<CommObject>,
    request: RequestId,
    landing: Landing,
    from_nobody: bool,
) -> Pending {
    let pending = Pending::on(comm, request);
    if from_nobody {
        return pending.then(|result| result.map(|_| Status::PROC_NULL).map_err(Into::into));
    }
    let landing = landing.bytes.is_owned().then_some(landing);
    pending.receive(landing)
}

/// A send and a receive at once.
fn exchange(send: SendPlan, receive: ReceivePlan) -> impl Plan {
    move |_| {
        let pending = receive.begin()?;
        let (request, bytes) = send.start()?;
        Ok(pending.and(request).keeping(bytes))
    }
}

fn exchange_replacing(send: SendPlan, receive: ReceivePlan) -> impl Plan {
    move |_| {
        // What is sent is out of the buffer before something comes into it.
        let bytes = send.data.outgoing().copied();
        let pending = receive.begin()?;
        let request = send.comm.start_send(send.mode, lent(&bytes), send.to, send.tag)?;
        Ok(pending.and(request).keeping(bytes))
    }
}

macro_rules! sends {
    ($($name:literal, $nonblocking:literal, $persistent:literal => $mode:ident;)+) => {
        operations! { $(
            fn $name, $nonblocking, $persistent [] <C>(
                buffer: Buffer, count: C, datatype: Datatype, to: c_int, tag: c_int; comm
            ) => {
                let plan = SendPlan::new(Mode::$mode, buffer, count, datatype, to, tag, comm)?;
                Ok(move |_| plan.begin())
            }
        )+ }
    };
}

sends! {
    "Send", "Isend", "Send_init" => Standard;
    "Ssend", "Issend", "Ssend_init" => Synchronous;
    "Bsend", "Ibsend", "Bsend_init" => Buffered;
    "Rsend", "Irsend", "Rsend_init" => Ready;
}

/// A message that a matched probe took.
pub(crate) struct MatchedMessage {
    handle: Comm,
    comm: Arc<CommObject>,
    message: Mutex<Option<ranks::Message>>,
}

/// A receive of it; the handle ends. What goes wrong is raised with the communicator of the message.
fn matched_receive(
    buffer: Buffer,
    count: impl Integer,
    datatype: Datatype,
    place: Out<Message>,
) -> Result<(Comm, Pending)> {
    let data = Data::new(buffer, count, datatype);
    let handle = place.get()?;
    if handle == MESSAGE_NO_PROC {
        data?;
        place.set(Message::NULL)?;
        let pending =
            Pending::done(&crate::environment::process()?).then(|_| Ok(Status::PROC_NULL));
        return Ok((crate::handle::COMM_SELF, pending));
    }
    let matched = handle.get()?;
    let landing = data.map_err(|error| error.on(matched.handle))?.incoming(false);
    place.free()?;
    let message = matched.message.lock().unwrap_or_else(PoisonError::into_inner).take();
    let message =
        message.ok_or_else(|| error(MPI_ERR_REQUEST, "the message was received before"))?;
    let request = message.start_receive(lent_mut(&landing));
    Ok((matched.handle, received(&matched.comm, request, landing, false)))
}

fn status_of(found: ranks::Status, from: Source) -> Status {
    if from == Source::Null { Status::PROC_NULL } else { Status::of(found) }
}

fn set_message(
    handle: Comm,
    comm: Arc<CommObject>,
    from: Source,
    message: ranks::Message,
    place: Out<Message>,
) -> Result<()> {
    if from == Source::Null {
        return place.set(MESSAGE_NO_PROC);
    }
    place.set(Message::new(MatchedMessage { handle, comm, message: Mutex::new(Some(message)) }))
}

entries! {
    fn Recv<C>(
        buffer: Buffer, count: C, datatype: Datatype, from: c_int, tag: c_int, comm: Comm, status: Out<Status>,
    ) on comm => {
        let received = ReceivePlan::new(buffer, count, datatype, from, tag, comm)?.begin()?.wait()?;
        status.put(&received);
        Ok(())
    }
    fn Irecv<C>(
        buffer: Buffer, count: C, datatype: Datatype, from: c_int, tag: c_int, comm: Comm, request: Out<Request>,
    ) on comm => {
        let plan = ReceivePlan::new(buffer, count, datatype, from, tag, comm)?;
        crate::request::start(comm, move |_| plan.begin(), request)
    }
    fn Recv_init<C>(
        buffer: Buffer, count: C, datatype: Datatype, from: c_int, tag: c_int, comm: Comm, request: Out<Request>,
    ) on comm => {
        let plan = ReceivePlan::new(buffer, count, datatype, from, tag, comm)?;
        crate::request::prepare(comm, move |_| plan.begin(), request)
    }
    fn Sendrecv<C>(
        send: Buffer, send_count: C, send_type: Datatype, to: c_int, send_tag: c_int, receive: Buffer, receive_count: C,
        receive_type: Datatype, from: c_int, receive_tag: c_int, comm: Comm, status: Out<Status>,
    ) on comm => {
        let send = SendPlan::new(Mode::Standard, send, send_count, send_type, to, send_tag, comm)?;
        let receive = ReceivePlan::new(receive, receive_count, receive_type, from, receive_tag, comm)?;
        status.put(&exchange(send, receive)(Turn::Blocking)?.wait()?);
        Ok(())
    }
    fn Isendrecv<C>(
        send: Buffer, send_count: C, send_type: Datatype, to: c_int, send_tag: c_int, receive: Buffer, receive_count: C,
        receive_type: Datatype, from: c_int, receive_tag: c_int, comm: Comm, request: Out<Request>,
    ) on comm => {
        let send = SendPlan::new(Mode::Standard, send, send_count, send_type, to, send_tag, comm)?;
        let receive = ReceivePlan::new(receive, receive_count, receive_type, from, receive_tag, comm)?;
        crate::request::start(comm, exchange(send, receive), request)
    }
    fn Sendrecv_replace<C>(
        buffer: Buffer, count: C, datatype: Datatype, to: c_int, send_tag: c_int, from: c_int, receive_tag: c_int,
        comm: Comm, status: Out<Status>,
    ) on comm => {
        let send = SendPlan::new(Mode::Standard, buffer, count, datatype, to, send_tag, comm)?;
        let receive = ReceivePlan::new(buffer, count, datatype, from, receive_tag, comm)?;
        status.put(&exchange_replacing(send, receive)(Turn::Blocking)?.wait()?);
        Ok(())
    }
    fn Isendrecv_replace<C>(
        buffer: Buffer, count: C, datatype: Datatype, to: c_int, send_tag: c_int, from: c_int, receive_tag: c_int,
        comm: Comm, request: Out<Request>,
    ) on comm => {
        let send = SendPlan::new(Mode::Standard, buffer, count, datatype, to, send_tag, comm)?;
        let receive = ReceivePlan::new(buffer, count, datatype, from, receive_tag, comm)?;
        crate::request::start(comm, exchange_replacing(send, receive), request)
    }
    fn Probe(from: c_int, tag: c_int, comm: Comm, status: Out<Status>) on comm => {
        let comm = comm.get()?;
        let from = source(from, &comm)?;
        status.put(&status_of(comm.probe(from, selector(tag)?)?, from));
        Ok(())
    }
    fn Iprobe(from: c_int, tag: c_int, comm: Comm, flag: Out<c_int>, status: Out<Status>) on comm => {
        let comm = comm.get()?;
        let from = source(from, &comm)?;
        let found = comm.iprobe(from, selector(tag)?)?;
        flag.set_flag(found.is_some())?;
        if let Some(found) = found {
            status.put(&status_of(found, from));
        }
        Ok(())
    }
    fn Mprobe(from: c_int, tag: c_int, comm: Comm, message: Out<Message>, status: Out<Status>) on comm => {
        let object = comm.get()?;
        let from = source(from, &object)?;
        let (found, seen) = object.mprobe(from, selector(tag)?)?;
        status.put(&status_of(seen, from));
        set_message(comm, object, from, found, message)
    }
    fn Improbe(
        from: c_int, tag: c_int, comm: Comm, flag: Out<c_int>, message: Out<Message>, status: Out<Status>,
    ) on comm => {
        let object = comm.get()?;
        let from = source(from, &object)?;
        let found = object.improbe(from, selector(tag)?)?;
        flag.set_flag(found.is_some())?;
        match found {
            None => message.set(Message::NULL),
            Some((found, seen)) => {
                status.put(&status_of(seen, from));
                set_message(comm, object, from, found, message)
            }
        }
    }
    fn Mrecv<C>(
        buffer: Buffer, count: C, datatype: Datatype, message: Out<Message>, status: Out<Status>,
    ) on () => {
        let (comm, pending) = matched_receive(buffer, count, datatype, message)?;
        status.put(&pending.wait().map_err(|error| error.on(comm))?);
        Ok(())
    }
    fn Imrecv<C>(
        buffer: Buffer, count: C, datatype: Datatype, message: Out<Message>, request: Out<Request>,
    ) on () => {
        let (comm, pending) = matched_receive(buffer, count, datatype, message)?;
        request.set(RequestObject::start(comm, pending))
    }
}

/// A message of parts, which goes when all are ready (MPI 5.0, chapter 4).
pub(crate) struct Partitioned {
    partitions: usize,
    /// Of a send that has been started and has not gone yet.
    gathering: Mutex<Option<Gathering>>,
    side: Side,
}

/// Parts that are made ready one by one.
struct Gathering {
    is_ready: Vec<bool>,
    missing: usize,
    /// What completes when none is missing.
    all_ready: RequestId,
}

enum Side {
    Send(SendPlan),
    Receive(PartsFrom),
}

/// Where a message of parts comes from.
struct PartsFrom {
    comm: Arc<CommObject>,
    data: Data,
    from: Source,
    tag: c_int,
}

impl Partitioned {
    /// Begins it.
    pub(crate) fn begin(&self) -> Result<Pending> {
        match &self.side {
            Side::Receive(plan) => {
                let landing = plan.data.clone().incoming(false);
                let (buffer, tag) = (lent_mut(&landing), plan.tag);
                let request = plan.comm.start_partitioned_receive(buffer, plan.from, tag)?;
                Ok(received(&plan.comm, request, landing, plan.from == Source::Null))
            }
            Side::Send(plan) if self.partitions == 0 => {
                let (request, bytes) = plan.start_partitioned()?;
                Ok(Pending::on(&plan.comm, request).keeping(bytes))
            }
            Side::Send(plan) => {
                let all_ready = plan.comm.process().start_generalized();
                let missing = self.partitions;
                let gathering = Gathering { is_ready: vec![false; missing], missing, all_ready };
                *self.gathering() = Some(gathering);
                Ok(Pending::on(&plan.comm, all_ready))
            }
        }
    }

    fn gathering(&self) -> MutexGuard<'_, Option<Gathering>> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, partition: c_int) -> Result<usize> {
        let found = usize::try_from(partition).ok().filter(|at| *at < self.partitions);
        found.ok_or_else(|| {
            let problem = format!("partition {partition} is not one of {}", self.partitions);
            error(MPI_ERR_ARG, problem)
        })
    }

    /// One more is ready; the request that completes with the last of them, which goes to the caller.
    fn make_ready(&self, partition: c_int) -> Result<Option<RequestId>> {
        let at = self.check(partition)?;
        let mut all = self.gathering();
        let gathering = all.as_mut().ok_or_else(|| {
            error(MPI_ERR_REQUEST, "the send is not active, or has all partitions: start it first")
        })?;
        if std::mem::replace(&mut gathering.is_ready[at], true) {
            return Err(error(MPI_ERR_ARG, format!("partition {partition} is ready already")));
        }
        gathering.missing -= 1;
        Ok(all.take_if(|gathering| gathering.missing == 0).map(|gathering| gathering.all_ready))
    }
}

/// Partitions of a send are ready; with the last one it goes.
fn make_ready(request: Request, partitions: impl IntoIterator<Item = c_int>) -> Result<()> {
    let object = request.get()?;
    let parts = object.parts()?;
    let Side::Send(plan) = &parts.side else {
        return Err(error(MPI_ERR_REQUEST, "the partitions of a receive are not made ready"));
    };
    for partition in partitions {
        if let Some(all_ready) = parts.make_ready(partition)? {
            let started = plan.start_partitioned().map(|(send, bytes)| object.add(send, bytes));
            // Whether it goes or not, who waits for it does not wait for more partitions.
            plan.comm.process().complete_generalized(all_ready);
            started?;
        }
    }
    Ok(())
}

fn partitioned(
    buffer: Buffer,
    partitions: c_int,
    count: impl Integer,
    datatype: Datatype,
    comm: Comm,
    request: Out<Request>,
    side: impl FnOnce(Data) -> Result<Side>,
) -> Result<()> {
    let partitions = partitions.count()?;
    let side = side(Data::repeated(buffer, count, datatype, partitions)?)?;
    let parts = Partitioned { partitions, gathering: Mutex::new(None), side };
    request.set(RequestObject::partitioned(comm, parts))
}

entries! {
    fn Psend_init<C>(
        buffer: Buffer, partitions: c_int, count: C, datatype: Datatype, to: c_int, tag: c_int, comm: Comm, _info: Info,
        request: Out<Request>,
    ) on comm => {
        let object = comm.get()?;
        let (to, tag) = (destination(to, &object)?, tag_of(tag)?);
        partitioned(buffer, partitions, count, datatype, comm, request, |data| {
            Ok(Side::Send(SendPlan { comm: object, mode: Mode::Standard, data, to, tag }))
        })
    }
    fn Precv_init<C>(
        buffer: Buffer, partitions: c_int, count: C, datatype: Datatype, from: c_int, tag: c_int, comm: Comm, _info: Info,
        request: Out<Request>,
    ) on comm => {
        let object = comm.get()?;
        let (from, tag) = (source(from, &object)?, tag_of(tag)?);
        partitioned(buffer, partitions, count, datatype, comm, request, |data| {
            Ok(Side::Receive(PartsFrom { comm: object, data, from, tag }))
        })
    }
    fn Pready(partition: c_int, request: Request) on () => {
        make_ready(request, [partition])
    }
    fn Pready_range(first: c_int, last: c_int, request: Request) on () => {
        make_ready(request, first..=last)
    }
    fn Pready_list(count: c_int, partitions: List<c_int>, request: Request) on () => {
        make_ready(request, partitions.to_vec(count.count()?)?)
    }
    fn Parrived(request: Request, partition: c_int, flag: Out<c_int>) on () => {
        if request == Request::NULL {
            return flag.set_flag(true);
        }
        let object = request.get()?;
        let parts = object.parts()?;
        if matches!(parts.side, Side::Send(_)) {
            return Err(error(MPI_ERR_REQUEST, "the partitions of a send don't arrive"));
        }
        parts.check(partition)?;
        let process = crate::environment::process()?;
        flag.set_flag(process.test_requests(|is_complete| object.is_over(is_complete)))
    }
}
