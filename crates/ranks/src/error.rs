//! What goes wrong in message passing. Ranks are those of the domain, whatever communicator was used.

use crate::header::{Rank, Tag};

/// A result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation did not complete as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A process has failed (`MPI_ERR_PROC_FAILED`).
    #[error("rank {rank} has failed: it could not be reached any more")]
    Failed {
        /// Its rank in the domain.
        rank: Rank,
    },
    /// A process has left the domain in order, so it neither sends nor receives any more.
    #[error("rank {rank} has left the domain")]
    Left {
        /// Its rank in the domain.
        rank: Rank,
    },
    /// A message was longer than the receive's buffer (`MPI_ERR_TRUNCATE`); what fitted was stored.
    #[error(
        "a message of {length} bytes from rank {from} with tag {tag} is longer than the receive's {capacity} bytes: give a larger buffer, or probe first"
    )]
    Truncated {
        /// Bytes of the message.
        length: u64,
        /// Bytes of the buffer.
        capacity: u64,
        /// Who sent it.
        from: Rank,
        /// Its tag.
        tag: Tag,
    },
    /// A rank that the communicator does not have (`MPI_ERR_RANK`).
    #[error("rank {rank} is not in a communicator of {size}: ranks are 0 to {}", size - 1)]
    InvalidRank {
        /// What was given.
        rank: Rank,
        /// Ranks of the communicator.
        size: u32,
    },
    /// A negative tag (`MPI_ERR_TAG`).
    #[error("tag {tag} is negative: tags are 0 and above")]
    InvalidTag {
        /// What was given.
        tag: Tag,
    },
    /// A buffered send found no room (`MPI_ERR_BUFFER`).
    #[error(
        "a buffered send needs {needed} bytes, and {free} of buffer_size are free: raise it, or send otherwise"
    )]
    BufferFull {
        /// Bytes of the message.
        needed: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// An argument that can't be right (`MPI_ERR_ARG`, `MPI_ERR_COUNT`).
    #[error("{argument}: {problem}")]
    Argument {
        /// Which one.
        argument: &'static str,
        /// What was wrong, and what would be right.
        problem: String,
    },
    /// A frame that breaks the protocol; its sender has failed for this process.
    #[error("rank {from} broke the protocol: {problem}")]
    Protocol {
        /// Who sent it.
        from: Rank,
        /// What was wrong.
        problem: &'static str,
    },
    /// A process could not join its domain.
    #[error("the domain can't be joined: {problem}")]
    Join {
        /// What the system said.
        problem: String,
    },
}
