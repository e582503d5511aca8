//! Records in SQLite: one file that survives kills, shared by every process of the machine.
//!
//! Write-ahead logging, so that readers never wait for the writer. `synchronous` is FULL for a
//! durable transaction (it survives a power failure) and NORMAL for another (it survives the
//! process); the switch costs nothing when it is not needed.
//!
//! Write-ahead logging needs memory that all users share, so they are all on one machine: that a holder's
//! process is gone, or of an earlier boot, proves that it is dead.

mod claims;
mod copy;
mod notices;
mod room;
mod rows;
mod schema;
mod sql;
mod store;
#[cfg(test)]
mod tests;
mod usage;

pub use copy::StoreCopy;
#[cfg(test)]
pub(super) use schema::make_schema;
pub use store::SqliteStore;
