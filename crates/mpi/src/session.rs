//! Sessions (MPI 5.0, 11.3), and the sets of processes that they know: the world and the process itself.

use std::ffi::c_int;

use crate::arguments::{Buffer, Out, Text, TextOut};
use crate::buffer::Buffered;
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::error_handler::{Blamed, Slot};
use crate::handle::{COMM_SELF, Errhandler, Group, Info, Request, Session};
use crate::info::InfoObject;
use crate::request::{Pending, RequestObject};

/// What a session's handle stands for.
#[derive(Debug)]
pub(crate) struct SessionObject {
    pub(crate) error_handler: Slot,
    pub(crate) buffer: Buffered,
    info: InfoObject,
}

const WORLD: &str = "mpi://WORLD";
const ALONE: &str = "mpi://SELF";
/// The hint that asks for a level of threads, and its values (MPI 5.0, 11.3.1).
const LEVEL: &str = "thread_level";
const LEVELS: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

fn group_of(name: &str) -> Result<fishplate_ranks::Group> {
    let process = crate::environment::process()?;
    // They are URIs, of whose scheme and host the case does not matter (RFC 3986, 6.2.2.1).
    match name {
        _ if name.eq_ignore_ascii_case(WORLD) => Ok(process.world().group().clone()),
        _ if name.eq_ignore_ascii_case(ALONE) => Ok(process.alone().group().clone()),
        _ => Err(error(
            MPI_ERR_ARG,
            format!("there is no process set {name}, but {WORLD} and {ALONE}"),
        )),
    }
}

entries! {
    fn Session_init(info: Info, handler: Errhandler, place: Out<Session>) on (handler, Session::KIND) => {
        let session = SessionObject {
            error_handler: Slot::new(handler, Session::KIND)?,
            buffer: Buffered::default(),
            info: InfoObject::default(),
        };
        session.info.update(info)?;
        let level = session.info.value(LEVEL).unwrap_or_default();
        if !level.is_empty() && !LEVELS.contains(&level.as_str()) {
            let problem = format!("{LEVEL} is {level}, and should be one of {}", LEVELS.join(", "));
            return Err(error(MPI_ERR_INFO_VALUE, problem));
        }
        session.info.update(crate::info::of([(LEVEL, LEVELS[3])]))?;
        crate::environment::open_session()?;
        place.set(Session::new(session))
    }
    fn Session_finalize(place: Out<Session>) on () => {
        place.free()?;
        crate::environment::close_session();
        Ok(())
    }
    fn Session_get_info(session: Session, info: Out<Info>) on session => {
        info.set(Info::new(session.get()?.info.copied()))
    }
    fn Session_get_num_psets(session: Session, _info: Info, count: Out<c_int>) on session => {
        session.get()?;
        count.set(2)
    }
    fn Session_get_nth_pset(session: Session, _info: Info, at: c_int, length: Out<c_int>, name: TextOut) on session => {
        session.get()?;
        let text = match at {
            0 => WORLD,
            1 => ALONE,
            _ => return Err(error(MPI_ERR_ARG, format!("there is no process set {at}: there are 2, counted from 0"))),
        };
        let capacity = usize::try_from(length.get()?).unwrap_or_default();
        if capacity > 0 {
            name.set(text, capacity)?;
        }
        length.set_count(text.len() + 1)
    }
    fn Session_get_pset_info(session: Session, name: Text, info: Out<Info>) on session => {
        session.get()?;
        let name = name.get()?;
        let size = group_of(&name)?.size();
        info.set(crate::info::of([("mpi_size".to_owned(), size.to_string()), ("size".to_owned(), size.to_string())]))
    }
    fn Group_from_session_pset(session: Session, name: Text, group: Out<Group>) on session => {
        session.get()?;
        group.set(Group::new(group_of(&name.get()?)?))
    }
    fn Session_attach_buffer<C>(session: Session, buffer: Buffer, size: C) on session => {
        session.get()?.buffer.attach(buffer, size.count()?)
    }
    fn Session_detach_buffer<C>(session: Session, address: Out<usize>, size: Out<C>) on session => {
        session.get()?.buffer.detach(address, size)
    }
    fn Session_flush_buffer(session: Session) on session => {
        session.get().map(|_| ())
    }
    fn Session_iflush_buffer(session: Session, request: Out<Request>) on session => {
        session.get()?;
        request.set(RequestObject::start(COMM_SELF, Pending::done(&crate::environment::process()?)))
    }
}
