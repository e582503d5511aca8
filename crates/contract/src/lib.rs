//! The nouns every room of Fishplate shares. No IO, no async, no wire format.
//!
//! Reading order:
//!
//! - [`service`]: what a service offers: operations, parameters, data types
//! - [`array`](mod@array): arrays of numbers, their types and shapes; [`number`]: their lexical forms
//! - [`lexical`]: which texts a data type takes (XSD part 2), and what a parameter refuses
//! - [`payload`]: data by handle: inline, spooled, a reference, or a [`stream`]; [`digest`]: what verifies it
//! - [`call`]: one call, its options and its outcome
//! - [`caller`]: whoever can call a service, near or far
//! - [`dimensions`]: lengths of arrays that have to agree
//! - [`interface`]: the verbs a service exposes on every face, with their signatures
//! - [`fault`]: what went wrong, who is to blame, and what to do; [`limits`]: every limit and its default
//! - [`job`]: identity, states and reports of jobs; [`transfer`]: data that comes or goes by
//!   reference; [`session`]: spaces that jobs share
//! - [`clock`]: time, so that tests can hold it still; [`lock`](mod@lock): a mutex whose holder may have panicked

pub mod array;
pub mod call;
pub mod caller;
pub mod clock;
pub mod digest;
pub mod dimensions;
pub mod fault;
mod id;
pub mod interface;
pub mod job;
pub mod lexical;
pub mod limits;
pub mod lock;
pub mod number;
pub mod payload;
pub mod service;
pub mod session;
pub mod stream;
pub mod transfer;

pub use array::{Array, ArrayType, Dimension, ElementType};
pub use call::{
    Argument, Call, CallOptions, Notices, Outcome, OutputChoice, OutputForm, Principal, Value,
};
pub use caller::{CallError, CallFuture, Caller, ProgressCallback, Results, SubmittedJob};
pub use clock::{Clock, SystemClock, Timestamp};
pub use digest::Digest;
pub use fault::{Blame, Fault, FaultCode, LimitHit};
pub use interface::{Interface, Verb, VerbDefinition};
pub use job::{
    JobFilter, JobId, JobPage, JobReport, JobState, KillResult, LogPage, LogStream, Usage,
};
pub use limits::{Limit, LimitDefault, LimitSetting, LimitUnit};
pub use lock::lock;
pub use payload::{DataRef, FileHandle, Payload, SharedFile};
pub use service::{DataType, Operation, Parameter, Service, Signature};
pub use session::SessionId;
pub use stream::{ByteStream, Chunks};
pub use transfer::{PlacementMethod, Transfer, TransferState};
