//! Data by reference (paper 000, section 4.5): where it rests, how it moves, who may have it.
//!
//! Reading order:
//!
//! - [`pool`]: files named by their digest, and whose they are; [`lease`]: one that is in use
//! - [`grant`]: who may read one
//! - [`placement`]: bringing one into a directory
//! - [`backup`]: bringing all of it elsewhere
//! - [`stream`]: data that is still being made
//! - [`session`]: directories of files that jobs share
//! - [`http`](mod@http): the one HTTP client
//! - [`progress`]: how far a transfer is
//! - [`sqlite`]: databases that processes share
//! - [`settings`]: what the operator says of them
//! - [`transfer`]: the trait of transports, and one file a transport
//! - [`policy`]: which addresses may be asked
//! - [`resolve`]: from a reference to data that is here

pub mod backup;
pub mod grant;
pub mod http;
pub mod lease;
pub mod placement;
pub mod policy;
pub mod pool;
pub mod progress;
pub mod resolve;
pub mod session;
pub mod settings;
#[cfg(test)]
#[path = "../../../tests/skipped.rs"]
mod skipped;
pub mod sqlite;
pub mod stream;
pub mod transfer;

pub use grant::{Grant, GrantId, GrantRequest, GrantedData};
pub use lease::Lease;
pub use placement::{PlacementPurpose, place};
pub use policy::{Network, Policy, PolicySettings};
pub use pool::{
    HeldObject, Incoming, OwnerQuota, Pool, PoolError, PoolSettings, RegistrationMode, Shortage,
};
pub use progress::Progress;
pub use resolve::Resolver;
pub use session::Sessions;
