//! The workflow manager (paper 001, section 3): ranks on several servers, started together or not at all.
//!
//! - [`server`]: what is asked of the service `domain` of each server
//! - [`workflow_manager`]: places, starts, addresses, and the end

pub mod server;
pub mod workflow_manager;

pub use server::{DomainServer, Member, RankState};
pub use workflow_manager::{DomainEvent, DomainPlan, EndedRank, Instances, Manager, RankOutput};

use crate::error::Error;

/// Why a domain can't be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// The service's program can't be a rank.
    #[error("the program of {url} is no rank: its server needs `[ranks]` in the service file")]
    NoRanks {
        /// The service.
        url: String,
    },
    /// A server can't do its part.
    #[error("{url}: {what}")]
    Server {
        /// The service, or its server.
        url: String,
        /// What it was to do.
        what: String,
        /// Why it can't.
        source: Box<Error>,
    },
    /// A program of several passes no messages, and the others wait for it.
    #[error("rank {rank} has ended without joining (MPI_Init), so the domain is never complete")]
    Incomplete {
        /// The rank.
        rank: u32,
    },
    /// A rank is at two places.
    #[error(
        "rank {rank} is told to be at two places: {one}, and {other}; somebody else has started ranks of the same domain"
    )]
    Contradiction {
        /// The rank.
        rank: u32,
        /// Where it was told to be first, and by whom.
        one: String,
        /// Where it was told to be then.
        other: String,
    },
    /// There is no such number of ranks.
    #[error("{0} ranks are none or too many: 1 to 2147483647 can be")]
    Count(u64),
}

impl DomainError {
    /// What the server said.
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Self::Server { source, .. } => Some(source),
            Self::NoRanks { .. }
            | Self::Incomplete { .. }
            | Self::Contradiction { .. }
            | Self::Count(_) => None,
        }
    }
}

fn failed(url: &str, what: impl Into<String>) -> impl FnOnce(Error) -> DomainError {
    let (url, what) = (url.to_owned(), what.into());
    move |source| DomainError::Server { url, what, source: Box::new(source) }
}
