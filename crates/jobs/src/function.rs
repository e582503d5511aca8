//! Functions of this process as services, beside programs: the same descriptions, checks and
//! faults. A call runs in the server and leaves no record; a job of a function is a process of its
//! own ([`worker`]) like that of any program, and so survives the server.
//!
//! ```ignore
//! let arithmetic = Functions::new("arithmetic", "urn:example:arithmetic")
//!     .title("Arithmetic")
//!     .function("add", ["x", "y"], ["sum"], |x: i32, y: i32| {
//!         x.checked_add(y).ok_or_else(|| overflow(x, y))
//!     })
//!     .quick();
//! ```
//!
//! A function may read a file while it arrives, and give one while it makes it; either waits for the other:
//!
//! ```ignore
//! .with(Entry::with_context("double", ["data"], ["twice"], |context: &Context, mut data: PayloadReader| {
//!     context.stream(move |to| {
//!         while let Some(chunk) = data.chunk()? {
//!             to.push(chunk.clone())?;
//!             to.push(chunk)?;
//!         }
//!         Ok(())
//!     })
//! }))
//! ```
//!
//! Reading order:
//!
//! - [`Function`], [`Functions`]: a function, and a service of functions
//! - [`context`]: what a running function can ask and tell
//! - [`value`]: Rust types as parameters; [`array`](mod@array): those that are arrays
//! - [`signature`]: closures as functions
//! - [`payload`]: a payload's bytes as a stream
//! - `accept`: a call's arguments checked, as for programs
//! - [`plan`]: a call as a job; [`worker`]: the process that such a job is
//! - [`builtin`]: functions that come with Fishplate

mod accept;
pub mod array;
pub mod builtin;
pub mod context;
pub mod payload;
pub mod plan;
mod service;
pub mod signature;
pub mod value;
pub mod worker;

use std::fmt::Debug;

use fishplate_contract::{Argument, Outcome};

pub use array::{ArrayOf, Matrix, PackedArray};
pub use context::{Context, ScratchFile};
pub use fishplate_data::stream::Writer;
pub use payload::PayloadReader;
pub use service::{FunctionEntry, Functions};
pub use signature::{ArgumentValues, Callable, CallableWithContext};
pub use value::{FromValue, IntoOutputs, IntoValue};

/// Something that answers a call in this process. The arguments were checked: each is one of the
/// operation's inputs, of its type and within its bounds, and none that must be there is missing.
///
/// It runs on a thread that may wait. If it panics, that call is answered with an `Internal` fault.
pub trait Function: Send + Sync + Debug {
    /// Answers a call: the operation's outputs in its order, or a fault.
    ///
    /// # Errors
    /// Any fault that the caller should see.
    fn call(&self, arguments: Vec<Argument>, context: &Context) -> Outcome;
}
