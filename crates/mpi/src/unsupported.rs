//! Functions that are not there: they fail with `MPI_ERR_UNSUPPORTED_OPERATION` and their name, so a program that never
//! calls them runs. docs/reference/mpi.md is made from this list.

use crate::constants::MPI_ERR_UNSUPPORTED_OPERATION;
use crate::error::{Error, error};
use crate::handle::{Comm, File};

/// The error of a function that is there only so that programs link.
pub(crate) fn unsupported(name: &str) -> Error {
    error(MPI_ERR_UNSUPPORTED_OPERATION, format!("{name} is not supported"))
}

/// With what it is raised stands before the names: nothing of the call's; a file; or the communicator after the arguments that
/// are named there. Arguments after that are not looked at.
macro_rules! unsupported {
    ($($on:tt: $($name:ident)+;)+) => { $($(unsupported!(@one $on $name);)+)+ };
    (@one (comm $($before:ident)*) $name:ident) => {
        crate::entry::symbols!([stringify!($name)] ($($before: usize,)* comm: Comm) on comm => {
            $(let _ = $before;)*
            Err(unsupported(concat!("MPI_", stringify!($name))))
        });
    };
    (@one none $name:ident) => {
        crate::entry::symbols!([stringify!($name)] () on () => Err(unsupported(concat!("MPI_", stringify!($name)))));
    };
    (@one file $name:ident) => {
        crate::entry::symbols!([stringify!($name)] () on File::NULL => Err(unsupported(concat!("MPI_", stringify!($name)))));
    };
}

unsupported! {
    (comm a):
        Win_create_dynamic;
    (comm a b c):
        Comm_accept Comm_connect Win_allocate Win_allocate_c Win_allocate_shared Win_allocate_shared_c;
    (comm a b c d):
        Win_create Win_create_c;
    (comm a b c d e):
        Comm_spawn;
    (comm a b c d e f):
        Comm_spawn_multiple;
    file:
        File_close File_delete File_get_amode File_get_atomicity File_get_byte_offset File_get_group
        File_get_info File_get_position File_get_position_shared File_get_size File_get_type_extent
        File_get_type_extent_c File_get_view File_iread File_iread_all File_iread_all_c File_iread_at
        File_iread_at_all File_iread_at_all_c File_iread_at_c File_iread_c File_iread_shared File_iread_shared_c
        File_iwrite File_iwrite_all File_iwrite_all_c File_iwrite_at File_iwrite_at_all File_iwrite_at_all_c
        File_iwrite_at_c File_iwrite_c File_iwrite_shared File_iwrite_shared_c File_open File_preallocate
        File_read File_read_all File_read_all_begin File_read_all_begin_c File_read_all_c File_read_all_end
        File_read_at File_read_at_all File_read_at_all_begin File_read_at_all_begin_c File_read_at_all_c
        File_read_at_all_end File_read_at_c File_read_c File_read_ordered File_read_ordered_begin
        File_read_ordered_begin_c File_read_ordered_c File_read_ordered_end File_read_shared File_read_shared_c
        File_seek File_seek_shared File_set_atomicity File_set_info File_set_size File_set_view File_sync
        File_write File_write_all File_write_all_begin File_write_all_begin_c File_write_all_c
        File_write_all_end File_write_at File_write_at_all File_write_at_all_begin File_write_at_all_begin_c
        File_write_at_all_c File_write_at_all_end File_write_at_c File_write_c File_write_ordered
        File_write_ordered_begin File_write_ordered_begin_c File_write_ordered_c File_write_ordered_end
        File_write_shared File_write_shared_c;
    none:
        Accumulate Accumulate_c Close_port Comm_join Compare_and_swap Fetch_and_op Get Get_accumulate
        Get_accumulate_c Get_c
           Publish_name Lookup_name Open_port Put Put_c
        Raccumulate Raccumulate_c Register_datarep Register_datarep_c Rget Rget_accumulate Rget_accumulate_c
        Rget_c Rput Rput_c Unpublish_name Win_attach Win_complete Win_detach Win_fence Win_flush Win_flush_all
        Win_flush_local Win_flush_local_all Win_free Win_get_group Win_get_info Win_get_name Win_lock
        Win_lock_all Win_post Win_set_info Win_set_name Win_shared_query Win_shared_query_c Win_start Win_sync
        Win_test Win_unlock Win_unlock_all Win_wait;
}
