//! Why a store cannot do its work.

/// A store that cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk that holds the job store is full; free some space there")]
    Full,
    /// What is there is no store, or is damaged.
    #[error(
        "the job store is damaged: stop what uses it and restore a backup (fishplate restore), or \
         move jobs.sqlite, jobs.sqlite-wal and jobs.sqlite-shm away; the directories of jobs stay, \
         and `fishplate lost list` shows those without a record"
    )]
    Damaged(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Anything else the storage said.
    #[error("the job store failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The thread that writes has ended.
    #[error("the job store is closed")]
    Closed,
}
