//! Collective operations (MPI 4.1, chapter 6): each algorithm writes a schedule of sends, receives and local steps, which
//! blocking and non-blocking calls run alike.
//!
//! - [`arguments`]: in place, and blocks of different lengths
//! - [`calls`]: what a program calls
//! - [`algorithm`]: algorithms by name, and which is taken when none is named
//! - [`inter`]: what a program calls between two groups
//! - [`neighborhood`]: what it calls among neighbours of a topology
//! - `builder`: what calls need while they write a schedule; `schedule`: steps, and how they are run; `accumulator`: what reductions reduce into
//! - `hierarchical`: how they go between sites; the rest is about ranks that are all alike
//! - `broadcast` (and barrier), `gather` (and scatter, all-gather), `alltoall`, `reduce` (and all-reduce, reduce-scatter), `scan`

pub mod algorithm;
pub mod arguments;
pub mod calls;
pub mod inter;
pub mod neighborhood;
pub(crate) mod schedule;

mod accumulator;
mod allreduce;
mod alltoall;
pub(crate) mod broadcast;
mod builder;
mod gather;
pub(crate) mod hierarchical;
mod reduce;
mod scan;

pub use algorithm::Algorithms;
pub use arguments::{Blocks, Contribution, IN_PLACE};
pub use calls::Collective;
pub use inter::Root;
