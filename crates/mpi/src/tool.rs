//! The tool interface (MPI 5.0, chapter 15): what programs ask at their start. There are no variables, events or categories.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arguments::{Opaque, Out};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::error_handler::Returned;

/// How often it was initialised and not finalised.
static INITIALIZED: AtomicUsize = AtomicUsize::new(0);

/// An error, unless it is initialised.
fn check() -> Result<()> {
    match INITIALIZED.load(Ordering::Relaxed) {
        0 => Err(error(MPI_T_ERR_NOT_INITIALIZED, "")),
        _ => Ok(()),
    }
}

fn none(count: Out<c_int>) -> Result<()> {
    check()?;
    count.set(0)
}

fn wrong(class: c_int) -> Result<()> {
    check()?;
    Err(error(class, ""))
}

/// The handle of every session: nothing is kept with one of no variables, but it is not the null handle.
const SESSION: usize = 1;
/// `MPI_T_PVAR_ALL_HANDLES`.
const ALL_HANDLES: usize = 1;

fn check_session(session: usize) -> Result<()> {
    check()?;
    if session == SESSION { Ok(()) } else { wrong(MPI_T_ERR_INVALID_SESSION) }
}

/// What is done with a variable, which can only be wrong, or with all of a session, which are none (MPI 5.0, 15.3.7).
fn all_of(session: usize, variable: usize) -> Result<()> {
    check_session(session)?;
    if variable == ALL_HANDLES { Ok(()) } else { wrong(MPI_T_ERR_INVALID_HANDLE) }
}

/// Tools get their errors as codes: no handler is called (MPI 5.0, 15.3.1).
const TOOL: Returned = Returned;

entries! {
    fn T_init_thread(required: c_int, provided: Out<c_int>) on TOOL => {
        INITIALIZED.fetch_add(1, Ordering::Relaxed);
        provided.set(crate::environment::thread_level(required))
    }
    fn T_finalize() on TOOL => {
        check()?;
        INITIALIZED.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    fn T_cvar_get_num(count: Out<c_int>) on TOOL => { none(count) }
    fn T_pvar_get_num(count: Out<c_int>) on TOOL => { none(count) }
    fn T_category_get_num(count: Out<c_int>) on TOOL => { none(count) }
    fn T_category_changed(stamp: Out<c_int>) on TOOL => { none(stamp) }
    fn T_event_get_num(count: Out<c_int>) on TOOL => { none(count) }
    fn T_source_get_num(count: Out<c_int>) on TOOL => { none(count) }
    fn T_cvar_get_index(_name: Opaque, _index: Out<c_int>) on TOOL => { wrong(MPI_T_ERR_INVALID_NAME) }
    fn T_pvar_get_index(_name: Opaque, _class: c_int, _index: Out<c_int>) on TOOL => { wrong(MPI_T_ERR_INVALID_NAME) }
    fn T_category_get_index(_name: Opaque, _index: Out<c_int>) on TOOL => { wrong(MPI_T_ERR_INVALID_NAME) }
    fn T_event_get_index(_name: Opaque, _index: Out<c_int>) on TOOL => { wrong(MPI_T_ERR_INVALID_NAME) }
    fn T_pvar_session_create(session: Out<usize>) on TOOL => {
        check()?;
        session.set(SESSION)
    }
    fn T_pvar_session_free(session: Out<usize>) on TOOL => {
        check_session(session.get()?)?;
        session.set(0)
    }
    fn T_pvar_start(session: usize, variable: usize) on TOOL => { all_of(session, variable) }
    fn T_pvar_stop(session: usize, variable: usize) on TOOL => { all_of(session, variable) }
    fn T_pvar_reset(session: usize, variable: usize) on TOOL => { all_of(session, variable) }
}

/// Functions that take an index or a handle, which can only be wrong; some in a session.
macro_rules! no_such {
    (in_session $($name:ident: $class:ident;)+) => {
        entries! { $(fn $name(session: usize) on TOOL => { check_session(session)?; wrong($class) })+ }
    };
    ($($name:ident: $class:ident;)+) => {
        entries! { $(fn $name() on TOOL => { wrong($class) })+ }
    };
}

no_such! {
    in_session
    T_pvar_handle_alloc: MPI_T_ERR_INVALID_INDEX;
    T_pvar_handle_free: MPI_T_ERR_INVALID_HANDLE;
    T_pvar_read: MPI_T_ERR_INVALID_HANDLE;
    T_pvar_readreset: MPI_T_ERR_INVALID_HANDLE;
    T_pvar_write: MPI_T_ERR_INVALID_HANDLE;
}

no_such! {
    T_cvar_get_info: MPI_T_ERR_INVALID_INDEX;
    T_cvar_handle_alloc: MPI_T_ERR_INVALID_INDEX;
    T_cvar_handle_free: MPI_T_ERR_INVALID_HANDLE;
    T_cvar_read: MPI_T_ERR_INVALID_HANDLE;
    T_cvar_write: MPI_T_ERR_INVALID_HANDLE;
    T_pvar_get_info: MPI_T_ERR_INVALID_INDEX;
    T_category_get_info: MPI_T_ERR_INVALID_INDEX;
    T_category_get_num_events: MPI_T_ERR_INVALID_INDEX;
    T_category_get_cvars: MPI_T_ERR_INVALID_INDEX;
    T_category_get_pvars: MPI_T_ERR_INVALID_INDEX;
    T_category_get_events: MPI_T_ERR_INVALID_INDEX;
    T_category_get_categories: MPI_T_ERR_INVALID_INDEX;
    T_enum_get_info: MPI_T_ERR_INVALID_HANDLE;
    T_enum_get_item: MPI_T_ERR_INVALID_HANDLE;
    T_event_get_info: MPI_T_ERR_INVALID_INDEX;
    T_event_handle_alloc: MPI_T_ERR_INVALID_INDEX;
    T_event_handle_free: MPI_T_ERR_INVALID_HANDLE;
    T_event_handle_get_info: MPI_T_ERR_INVALID_HANDLE;
    T_event_handle_set_info: MPI_T_ERR_INVALID_HANDLE;
    T_event_callback_get_info: MPI_T_ERR_INVALID_HANDLE;
    T_event_callback_set_info: MPI_T_ERR_INVALID_HANDLE;
    T_event_register_callback: MPI_T_ERR_INVALID_HANDLE;
    T_event_set_dropped_handler: MPI_T_ERR_INVALID_HANDLE;
    T_event_read: MPI_T_ERR_INVALID_HANDLE;
    T_event_copy: MPI_T_ERR_INVALID_HANDLE;
    T_event_get_source: MPI_T_ERR_INVALID_HANDLE;
    T_event_get_timestamp: MPI_T_ERR_INVALID_HANDLE;
    T_source_get_info: MPI_T_ERR_INVALID_INDEX;
    T_source_get_timestamp: MPI_T_ERR_INVALID_INDEX;
}
