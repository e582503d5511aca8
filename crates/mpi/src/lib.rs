//! The MPI standard ABI (MPI 5.0, chapter 20) over [`fishplate_ranks`]: `libmpi_abi.so.1`, with which programs that were
//! compiled against the standard's `mpi.h` run unmodified.
//!
//! Reading order:
//!
//! - [`entry`]: how a function of the standard becomes two symbols, or twelve
//! - [`arguments`]: what C hands over; the one place that follows its pointers
//! - [`handle`]: handles and their objects; [`constants`]: the values of `mpi.h`
//! - [`error`](mod@error), [`error_handler`]: what goes wrong, and who is told
//! - [`environment`]: `MPI_Init` to `MPI_Finalize`; [`session`]
//! - [`communicator`], [`group`], [`attribute`], [`info`]
//! - [`datatype`], [`buffer`]: what messages are made of, and how it becomes bytes
//! - [`operation`]: what reductions do
//! - [`request`], [`point_to_point`], [`collective`], [`status`]
//! - [`conversion`]: handles as integers
//! - [`topology`]: grids and graphs of ranks
//! - [`tool`]: `MPI_T`; [`unsupported`]: the functions that say that they are not there
//!
//! Why it is so: docs/decisions/0017.

#![expect(unsafe_code, reason = "C calls us, and we call it back")]
#![expect(clippy::too_many_arguments, reason = "as many as the standard's functions have")]

mod arguments;
mod attribute;
mod buffer;
mod collective;
mod communicator;
mod constants;
mod conversion;
mod datatype;
mod entry;
mod environment;
mod error;
mod error_handler;
mod group;
mod handle;
mod info;
mod operation;
mod point_to_point;
mod request;
mod session;
mod status;
mod tool;
mod topology;
mod unsupported;
