//! Data by reference, as the engine needs it done: brought into a workspace before the start, and
//! out of it after the end. The engine knows no URL, no pool and no session; a [`Stager`] does.
//!
//! A future that is dropped stops what it does; asked for the same again, by this process or by
//! another, it goes on from what is there.

#[doc(hidden)]
pub mod fake;

use std::path::PathBuf;

use fishplate_contract::{DataRef, Fault, JobId, PlacementMethod, Principal, SessionId, Timestamp};
use fishplate_data::Progress;

use crate::executor::BoxFuture;

/// What moves data by reference for the engine.
pub trait Stager: Send + Sync {
    /// Brings what a reference means to a file that is not there yet, in a directory that is.
    ///
    /// The fault is one of the transfer: `NoSuchData`, `AddressForbidden`, `DataMismatch`,
    /// `TransferFailed`, `QuotaExceeded`, `StorageFull`, `NoSuchSession`. The engine names the
    /// parameter and the job in it.
    fn fetch<'a>(
        &'a self,
        order: &'a FetchOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<PlacementMethod, Fault>>;

    /// Forgets what has come of a fetch that was stopped for good, unless somebody else fetches the
    /// same.
    fn discard<'a>(&'a self, from: &'a DataRef, owner: &'a Principal) -> BoxFuture<'a, ()>;

    /// Whether a delivery to an address may be tried at all: asked before the job is accepted, so
    /// that nothing is computed for nothing. The other end is not asked.
    ///
    /// # Errors
    /// `AddressForbidden`, `NotSupported`, `InvalidValue`: what [`Stager::deliver`] would say.
    fn accepts(&self, to: &str) -> Result<(), Fault>;

    /// Brings an output to its destination; what is there then is the reference that callers get.
    fn deliver<'a>(
        &'a self,
        order: &'a DeliverOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<DataRef, Fault>>;

    /// Bytes of data that an owner holds here beside jobs; nothing where no data is kept. If they are more than `most`,
    /// what of it nobody needs goes before.
    ///
    /// # Errors
    /// If that can't be told.
    fn data_bytes<'a>(
        &'a self,
        _owner: &'a Principal,
        _most: u64,
    ) -> BoxFuture<'a, Result<u64, Fault>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Gives an output an address of this server, in the pool or in a session. The file stays
    /// where it is, and may be removed afterwards: what has the address is another name, or a
    /// copy.
    fn register<'a>(
        &'a self,
        order: &'a RegisterOrder,
    ) -> BoxFuture<'a, Result<RegisteredOutput, Fault>>;
}

/// An input to be fetched.
#[derive(Clone, Debug)]
pub struct FetchOrder {
    /// The job that wants it.
    pub job: JobId,
    /// Whose job it is.
    pub owner: Principal,
    /// The session that the job runs in: `session:NAME` is a file of it.
    pub session: Option<SessionId>,
    /// The parameter.
    pub parameter: String,
    /// What it refers to.
    pub from: DataRef,
    /// The file to be made. It is not there.
    pub target: PathBuf,
    /// The program will write to it, so nobody else may have it ([`PlacementMethod::Link`] is forbidden).
    pub private: bool,
    /// A smaller file is copied rather than linked: that is cheaper than to guard it.
    pub link_size: u64,
}

/// An output to be delivered.
#[derive(Clone, Debug)]
pub struct DeliverOrder {
    /// The job that made it.
    pub job: JobId,
    /// Whose job it is.
    pub owner: Principal,
    /// The file.
    pub file: OutputFile,
    /// Where it goes.
    pub to: String,
    /// A sentence for people, where people read it (a mail's subject).
    pub subject: String,
}

/// An output that is to have an address.
#[derive(Clone, Debug)]
pub struct RegisterOrder {
    /// The job that made it.
    pub job: JobId,
    /// Whose job it is.
    pub owner: Principal,
    /// The file.
    pub file: OutputFile,
    /// The session to put it into, under the file's name; else it is put into the pool.
    pub session: Option<SessionId>,
    /// The address that the same output got before: given again, if it still stands.
    pub earlier: Option<DataRef>,
}

/// A file of an ended job.
#[derive(Clone, Debug)]
pub struct OutputFile {
    /// The output's parameter.
    pub parameter: String,
    /// Where it is. Nobody writes to it any more.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// A file name for it, without a directory: safe in a URL's path and in a session.
    pub name: String,
    /// Its media type; empty if not told.
    pub media_type: String,
}

/// What an output's address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredOutput {
    /// The address, with the length, and the digest if it is known.
    pub reference: DataRef,
    /// Until when it stands; `None`: until somebody ends it.
    pub expires: Option<Timestamp>,
}
