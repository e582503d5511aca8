//! Communicators (MPI 5.0, chapter 7).

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use fishplate_ranks as ranks;
use ranks::Communicator;
use ranks::communicator::InterCommunicator;
use ranks::group::Comparison;

use crate::arguments::{Out, Text, TextOut};
use crate::attribute::Attributes;
use crate::buffer::Buffered;
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::error_handler::{Blamed, Slot, default_slot};
use crate::handle::{COMM_SELF, COMM_WORLD, Comm, Errhandler, Group, Info, Request};
use crate::info::InfoObject;
use crate::request::{Pending, RequestObject};
use crate::status::Status;

/// The hint that names algorithms of collective operations: `broadcast=binomial,allreduce=ring`. All ranks have to give the same.
const ALGORITHMS: &str = "fishplate_algorithms";

/// What a communicator's handle stands for.
#[derive(Debug)]
pub(crate) struct CommObject {
    ranks: Ranks,
    pub(crate) attributes: Attributes,
    pub(crate) error_handler: Slot,
    pub(crate) buffer: Buffered,
    name: Mutex<String>,
    info: InfoObject,
}

/// Whose ranks they are.
#[derive(Debug)]
pub(crate) enum Ranks {
    /// Of one group.
    Intra(Communicator),
    /// Of two.
    Inter(InterCommunicator),
}

impl Ranks {
    /// The local group's communicator.
    pub(crate) fn local(&self) -> &Communicator {
        match self {
            Self::Intra(communicator) => communicator,
            Self::Inter(inter) => inter.local(),
        }
    }
}

/// That by which messages are sent and received: of an inter-communicator the remote group's.
impl Deref for CommObject {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        match &self.ranks {
            Ranks::Intra(communicator) => communicator,
            Ranks::Inter(inter) => inter.remote(),
        }
    }
}

impl CommObject {
    /// `MPI_COMM_WORLD` or `MPI_COMM_SELF`.
    fn predefined(communicator: Communicator, name: &str) -> Result<Self> {
        Ok(Self::new(Ranks::Intra(communicator), default_slot()?, name))
    }

    fn new(ranks: Ranks, error_handler: Slot, name: &str) -> Self {
        Self {
            ranks,
            attributes: Attributes::default(),
            error_handler,
            buffer: Buffered::default(),
            name: Mutex::new(name.to_owned()),
            info: InfoObject::default(),
        }
    }

    /// One that was made from this one.
    fn made(&self, ranks: Ranks) -> Self {
        Self::new(ranks, self.error_handler.inherited(), "")
    }

    /// A duplicate, with attributes and hints.
    fn duplicate(&self, ranks: Ranks, attributes: Attributes) -> Self {
        Self { attributes, info: self.info.copied(), ..self.made(ranks) }
    }

    /// With hints, done as they say. One that can't be followed has no effect and is not kept (MPI 5.0, 7.4.4).
    fn following(mut self, hints: &InfoObject) -> Self {
        let algorithms = hints.value(ALGORITHMS).and_then(|text| text.parse().ok());
        match (&mut self.ranks, algorithms) {
            (Ranks::Intra(communicator), Some(algorithms)) => {
                communicator.set_algorithms(algorithms);
            }
            _ => hints.remove(ALGORITHMS),
        }
        self.info.merge(hints);
        self
    }

    /// Whose ranks they are.
    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// The local group's communicator.
    pub(crate) fn local(&self) -> &Communicator {
        self.ranks.local()
    }

    /// The communicator, if it has one group only.
    pub(crate) fn intra(&self) -> Result<&Communicator> {
        match &self.ranks {
            Ranks::Intra(communicator) => Ok(communicator),
            Ranks::Inter(_) => Err(error(MPI_ERR_COMM, "this is not for inter-communicators")),
        }
    }

    /// The inter-communicator, if it is one.
    fn inter(&self) -> Result<&InterCommunicator> {
        match &self.ranks {
            Ranks::Inter(inter) => Ok(inter),
            Ranks::Intra(_) => Err(error(MPI_ERR_COMM, "this is for inter-communicators only")),
        }
    }

    fn dup(&self) -> Result<Ranks> {
        Ok(match &self.ranks {
            Ranks::Intra(communicator) => Ranks::Intra(communicator.dup()?),
            Ranks::Inter(inter) => Ranks::Inter(inter.dup()?),
        })
    }

    fn split(&self, color: Option<u32>, key: c_int) -> Result<Option<Ranks>> {
        Ok(match &self.ranks {
            Ranks::Intra(communicator) => communicator.split(color, key)?.map(Ranks::Intra),
            Ranks::Inter(inter) => inter.split(color, key)?.map(Ranks::Inter),
        })
    }
}

fn signed(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// Puts a new communicator's handle there, or the null handle.
pub(crate) fn set(place: Out<Comm>, parent: &CommObject, made: Option<Ranks>) -> Result<()> {
    place.set(made.map_or(Comm::NULL, |made| Comm::new(parent.made(made))))
}

fn rank_of(rank: c_int) -> Result<u32> {
    u32::try_from(rank).map_err(|_| error(MPI_ERR_RANK, format!("rank {rank} is negative")))
}

fn color_of(color: c_int) -> Result<Option<u32>> {
    match color {
        MPI_UNDEFINED => Ok(None),
        color => u32::try_from(color).map(Some).map_err(|_| {
            error(
                MPI_ERR_ARG,
                format!("a colour is {color}, and should be MPI_UNDEFINED or 0 or more"),
            )
        }),
    }
}

/// Which of the ranks share this host: the lowest of them.
fn first_on_host(comm: &Communicator) -> Result<u32> {
    let mut hasher = DefaultHasher::new();
    crate::environment::host().hash(&mut hasher);
    let mine = hasher.finish();
    let mut all = vec![0; comm.size() as usize];
    comm.allgather(&[mine], &mut all).run()?;
    Ok((0..).zip(all).find(|(_, host)| *host == mine).map_or(comm.rank(), |(rank, _)| rank))
}

/// A tag for what a program names with a string (MPI 5.0, 7.4.2).
fn tag_of(text: &str) -> i32 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    i32::try_from(hasher.finish() & 0x3fff_ffff).unwrap_or_default()
}

/// What a caller gives as hints.
fn hints(info: Info) -> Result<InfoObject> {
    let hints = InfoObject::default();
    hints.update(info)?;
    Ok(hints)
}

fn duplicate(comm: Comm, info: Info, place: Out<Comm>) -> Result<()> {
    let object = comm.get()?;
    let attributes = object.attributes.copied(comm.to_address())?;
    let hints = hints(info)?;
    place.set(Comm::new(object.duplicate(object.dup()?, attributes).following(&hints)))
}

/// Makes a duplicate of a communicator once its requests are complete.
type Finish = Box<dyn FnOnce(&CommObject) -> Result<Ranks> + Send>;

fn start_duplicate(comm: Comm, info: Info, place: Out<Comm>, request: Out<Request>) -> Result<()> {
    let object = comm.get()?;
    let attributes = object.attributes.copied(comm.to_address())?;
    let hints = hints(info)?;
    let (pending, finish): (_, Finish) = match object.ranks() {
        Ranks::Intra(communicator) => {
            let (request, duplicate) = communicator.idup()?;
            let finish = |parent: &CommObject| Ok(Ranks::Intra(duplicate.finish(parent.intra()?)));
            (Pending::on(&object, request), Box::new(finish))
        }
        Ranks::Inter(inter) => {
            let ([own, other], duplicate) = inter.idup()?;
            let finish = |parent: &CommObject| Ok(Ranks::Inter(duplicate.finish(parent.inter()?)));
            (Pending::on(&object, own).and(other), Box::new(finish))
        }
    };
    let pending = pending.then(move |result| {
        result?;
        let made = object.duplicate(finish(&object)?, attributes);
        place.set(Comm::new(made.following(&hints)))?;
        Ok(Status::EMPTY)
    });
    request.set(RequestObject::start(comm, pending))
}

fn free(place: Out<Comm>) -> Result<()> {
    let handle = place.get()?;
    let object = handle.get()?;
    if handle.is_predefined() {
        return Err(error(MPI_ERR_COMM, "a predefined communicator can't be freed"));
    }
    object.attributes.delete_all(handle.to_address())?;
    place.free().map(|_| ())
}

fn comparison(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

entries! {
    fn Comm_rank(comm: Comm, rank: Out<c_int>) on comm => {
        rank.set(signed(comm.get()?.local().rank()))
    }
    fn Comm_size(comm: Comm, size: Out<c_int>) on comm => {
        size.set(signed(comm.get()?.local().size()))
    }
    fn Comm_group(comm: Comm, group: Out<Group>) on comm => {
        group.set(Group::new(comm.get()?.local().group().clone()))
    }
    fn Comm_compare(left: Comm, right: Comm, result: Out<c_int>) on left => {
        let (left, right) = (left.get()?, right.get()?);
        result.set(comparison(match (left.ranks(), right.ranks()) {
            (Ranks::Intra(left), Ranks::Intra(right)) => left.compare(right),
            (Ranks::Inter(left), Ranks::Inter(right)) => left.compare(right),
            _ => Comparison::Unequal,
        }))
    }
    fn Comm_dup(comm: Comm, place: Out<Comm>) on comm => {
        duplicate(comm, Info::NULL, place)
    }
    fn Comm_dup_with_info(comm: Comm, info: Info, place: Out<Comm>) on comm => {
        duplicate(comm, info, place)
    }
    fn Comm_idup(comm: Comm, place: Out<Comm>, request: Out<Request>) on comm => {
        start_duplicate(comm, Info::NULL, place, request)
    }
    fn Comm_idup_with_info(comm: Comm, info: Info, place: Out<Comm>, request: Out<Request>) on comm => {
        start_duplicate(comm, info, place, request)
    }
    fn Comm_create(comm: Comm, group: Group, place: Out<Comm>) on comm => {
        let (object, group) = (comm.get()?, group.get()?);
        if group.difference(object.local().group()).size() > 0 {
            return Err(error(MPI_ERR_GROUP, "the group has ranks that the communicator has not"));
        }
        // Ranks may give disjoint groups; each is named by its first member.
        let mine = group.rank_of(object.process().rank());
        let first = match object.ranks() {
            Ranks::Intra(_) => group.ranks().first().copied(),
            Ranks::Inter(_) => Some(0),
        };
        let color = mine.and(first);
        let made = object.split(color, mine.map_or(0, signed))?;
        set(place, &object, made)
    }
    fn Comm_create_group(comm: Comm, group: Group, tag: c_int, place: Out<Comm>) on comm => {
        let (object, group) = (comm.get()?, group.get()?);
        if group.rank_of(object.process().rank()).is_none() {
            return place.set(Comm::NULL);
        }
        let made = object.intra()?.create_group(&group, tag)?;
        set(place, &object, Some(Ranks::Intra(made)))
    }
    fn Comm_create_from_group(
        group: Group, tag: Text, info: Info, handler: Errhandler, place: Out<Comm>,
    ) on (handler, Comm::KIND) => {
        place.set(Comm::NULL)?;
        let (group, process) = (group.get()?, crate::environment::process()?);
        let handler = Slot::new(handler, Comm::KIND)?;
        if group.rank_of(process.rank()).is_none() {
            return Ok(());
        }
        let made = process.world().create_group(&group, tag_of(&tag.get()?))?;
        let object = CommObject::new(Ranks::Intra(made), handler, "");
        place.set(Comm::new(object.following(&hints(info)?)))
    }
    fn Comm_split(comm: Comm, color: c_int, key: c_int, place: Out<Comm>) on comm => {
        let object = comm.get()?;
        let made = object.split(color_of(color)?, key)?;
        set(place, &object, made)
    }
    fn Comm_split_type(comm: Comm, kind: c_int, key: c_int, info: Info, place: Out<Comm>) on comm => {
        let object = comm.get()?;
        let hints = hints(info)?;
        let shared = match kind {
            MPI_COMM_TYPE_SHARED => true,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED => {
                hints.value("mpi_hw_resource_type").as_deref() == Some("mpi_shared_memory")
            },
            MPI_COMM_TYPE_HW_UNGUIDED | MPI_UNDEFINED => false,
            _ => return Err(error(MPI_ERR_ARG, format!("{kind} is no MPI_COMM_TYPE_..."))),
        };
        let first = first_on_host(object.local())?;
        let made = object.split(shared.then_some(first), key)?;
        set(place, &object, made)
    }
    fn Comm_free(place: Out<Comm>) on () => {
        free(place)
    }
    fn Comm_disconnect(place: Out<Comm>) on () => {
        free(place)
    }
    fn Comm_get_name(comm: Comm, name: TextOut, length: Out<c_int>) on comm => {
        if comm == Comm::NULL {
            return name.set_with_length("MPI_COMM_NULL", MPI_MAX_OBJECT_NAME, length);
        }
        let object = comm.get()?;
        let text = object.name.lock().unwrap_or_else(PoisonError::into_inner);
        name.set_with_length(&text, MPI_MAX_OBJECT_NAME, length)
    }
    fn Comm_set_name(comm: Comm, name: Text) on comm => {
        *comm.get()?.name.lock().unwrap_or_else(PoisonError::into_inner) = name.get()?;
        Ok(())
    }
    fn Comm_get_info(comm: Comm, info: Out<Info>) on comm => {
        info.set(Info::new(comm.get()?.info.copied()))
    }
    fn Comm_set_info(comm: Comm, info: Info) on comm => {
        let object = comm.get()?;
        info.get()?;
        let hints = hints(info)?;
        // Algorithms are named when a communicator is made: operations of this one may be under way.
        hints.remove(ALGORITHMS);
        object.info.merge(&hints);
        Ok(())
    }
    fn Comm_test_inter(comm: Comm, flag: Out<c_int>) on comm => {
        flag.set_flag(comm.get()?.inter().is_ok())
    }
    fn Comm_remote_size(comm: Comm, size: Out<c_int>) on comm => {
        size.set(signed(comm.get()?.inter()?.remote_size()))
    }
    fn Comm_remote_group(comm: Comm, group: Out<Group>) on comm => {
        group.set(Group::new(comm.get()?.inter()?.remote().group().clone()))
    }
    fn Intercomm_create(
        comm: Comm, leader: c_int, peer: Comm, remote_leader: c_int, tag: c_int, place: Out<Comm>,
    ) on comm => {
        place.set(Comm::NULL)?;
        let object = comm.get()?;
        let local = object.intra()?;
        let leader = rank_of(leader)?;
        let peer = if local.rank() == leader { Some(peer.get()?) } else { None };
        let reached = match &peer {
            Some(peer) => Some((peer.intra()?, rank_of(remote_leader)?)),
            None => None,
        };
        let made = local.create_inter(leader, reached, tag)?;
        set(place, &object, Some(Ranks::Inter(made)))
    }
    fn Intercomm_create_from_groups(
        group: Group, leader: c_int, remote: Group, remote_leader: c_int, tag: Text, info: Info, handler: Errhandler,
        place: Out<Comm>,
    ) on (handler, Comm::KIND) => {
        place.set(Comm::NULL)?;
        let (group, remote) = (group.get()?, remote.get()?);
        let handler = Slot::new(handler, Comm::KIND)?;
        let (world, tag) = (crate::environment::process()?.world(), tag_of(&tag.get()?));
        let member = |group: &ranks::Group, rank: c_int| {
            let found = group.ranks().get(rank_of(rank)? as usize).copied();
            found.ok_or_else(|| error(MPI_ERR_RANK, format!("leader {rank} is not in its group")))
        };
        let (ours, theirs) = (member(&group, leader)?, member(&remote, remote_leader)?);
        let all = if ours < theirs { group.union(&remote) } else { remote.union(&group) };
        let local = world.create_group(&group, tag)?;
        let both = world.create_group(&all, tag)?;
        let peer = all.rank_of(theirs).map(|rank| (&both, rank));
        let made = local.create_inter(rank_of(leader)?, peer, tag)?;
        let object = CommObject::new(Ranks::Inter(made), handler, "");
        place.set(Comm::new(object.following(&hints(info)?)))
    }
    fn Intercomm_merge(comm: Comm, high: c_int, place: Out<Comm>) on comm => {
        let object = comm.get()?;
        let made = object.inter()?.merge(high != 0)?;
        set(place, &object, Some(Ranks::Intra(made)))
    }
    fn Comm_get_parent(parent: Out<Comm>) on () => {
        parent.set(Comm::NULL)
    }
    fn Comm_attach_buffer<C>(comm: Comm, buffer: crate::arguments::Buffer, size: C) on comm => {
        comm.get()?.buffer.attach(buffer, size.count()?)
    }
    fn Comm_detach_buffer<C>(comm: Comm, address: Out<usize>, size: Out<C>) on comm => {
        comm.get()?.buffer.detach(address, size)
    }
    fn Comm_flush_buffer(comm: Comm) on comm => {
        comm.get().map(|_| ())
    }
    fn Comm_iflush_buffer(comm: Comm, request: Out<Request>) on comm => {
        let object = comm.get()?;
        request.set(RequestObject::start(comm, Pending::done(object.process())))
    }
}

/// Communicators that are there from the beginning.
pub(crate) fn define_predefined(process: &Arc<ranks::Process>) -> Result<()> {
    COMM_WORLD.define(Some(Arc::new(CommObject::predefined(process.world(), "MPI_COMM_WORLD")?)));
    COMM_SELF.define(Some(Arc::new(CommObject::predefined(process.alone(), "MPI_COMM_SELF")?)));
    Ok(())
}
