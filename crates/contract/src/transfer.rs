//! What is told of data that comes or goes by reference.

/// One payload on its way, as a job's status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The parameter.
    pub parameter: String,
    /// The other end: scheme and authority only, because a path may be a grant.
    pub peer: String,
    /// Where it stands.
    pub state: TransferState,
    /// Bytes that are here, or there.
    pub bytes: u64,
    /// How many there will be, if the other end told.
    pub total: Option<u64>,
    /// How it came into the job's workspace, once it did.
    pub placed: Option<PlacementMethod>,
    /// It was at this server before, or came for another job: its bytes were not sent for this one.
    pub cached: bool,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferState {
    /// Not begun.
    Waiting,
    /// Bytes move, or a broken connection is about to be taken up again.
    Running,
    /// All is there and was verified.
    Done,
    /// It was given up; the job's fault says why.
    Failed,
}

impl TransferState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Running, Self::Done, Self::Failed];

    /// Its name on every face.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// How data that this machine holds became a file of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlacementMethod {
    /// It shares its blocks until one of both is written to (`FICLONE`).
    Reflink,
    /// It is the same file, which the program can't write to.
    Link,
    /// It was moved there: nobody else had it.
    Move,
    /// It was copied.
    Copy,
}

impl PlacementMethod {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Reflink, Self::Link, Self::Move, Self::Copy];

    /// Its name on every face.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reflink => "reflink",
            Self::Link => "link",
            Self::Move => "move",
            Self::Copy => "copy",
        }
    }

    /// The way of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placing| placing.name() == name)
    }
}
