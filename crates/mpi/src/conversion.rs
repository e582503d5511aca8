//! Handles as integers, for Fortran and other languages (MPI 5.0, 19.3.4 and 20.3).

use std::ffi::c_int;

use crate::entry::values;
use crate::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};

macro_rules! conversions {
    ($($handle:ident: $from:ident, $to:ident;)+) => {
        values! { $(
            fn $from(value: c_int) -> $handle { $handle::from_int(value) }
            fn $to(handle: $handle) -> c_int { handle.to_int() }
        )+ }
    };
}

conversions! {
    Comm: Comm_fromint, Comm_toint;
    Errhandler: Errhandler_fromint, Errhandler_toint;
    File: File_fromint, File_toint;
    Group: Group_fromint, Group_toint;
    Info: Info_fromint, Info_toint;
    Message: Message_fromint, Message_toint;
    Op: Op_fromint, Op_toint;
    Request: Request_fromint, Request_toint;
    Session: Session_fromint, Session_toint;
    Datatype: Type_fromint, Type_toint;
    Win: Win_fromint, Win_toint;
}
