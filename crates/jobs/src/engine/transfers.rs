//! Transfers under way in this process, and what a job's status tells of those that are not.

use std::sync::{Arc, Mutex};

use fishplate_contract::{JobId, JobState, Placing, Transfer, TransferState};
use fishplate_data::Progress;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Shared, lock};
use crate::conclusion::Moved;
use crate::plan::{Fetch, InputContent, Plan};
use crate::store::Record;

/// What moves for one job.
#[derive(Debug)]
pub(super) struct Underway {
    fence: u64,
    moves: Vec<Arc<Move>>,
    stop: Stop,
}

impl Underway {
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.stop, Stop::Tell(_))
    }
}

/// How the transfers of a job are stopped.
#[derive(Debug)]
enum Stop {
    /// Its inputs are being fetched: the task goes, and nothing is left to be told.
    Abort(AbortHandle),
    /// Its outputs are being sent: whoever sends them is told, and concludes.
    Tell(watch::Sender<bool>),
}

/// One transfer.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) parameter: String,
    pub(super) peer: String,
    /// Bytes that the caller says there are.
    pub(super) expected: Option<u64>,
    pub(super) out: bool,
    pub(super) progress: Progress,
    pub(super) placed: Mutex<Option<Placing>>,
}

impl Move {
    pub(super) fn of_input(fetch: &Fetch) -> Self {
        Self {
            parameter: fetch.parameter.clone(),
            peer: peer(&fetch.url),
            expected: fetch.len,
            out: false,
            progress: Progress::default(),
            placed: Mutex::default(),
        }
    }

    /// An output of so many bytes that goes to this URL.
    pub(super) fn of_output(parameter: &str, to: &str, len: u64) -> Self {
        Self {
            parameter: parameter.to_owned(),
            peer: peer(to),
            expected: Some(len),
            out: true,
            progress: Progress::default(),
            placed: Mutex::default(),
        }
    }

    pub(super) fn moved(&self) -> Moved {
        let placed = *lock(&self.placed);
        Moved {
            parameter: self.parameter.clone(),
            peer: self.peer.clone(),
            state: self.progress.state().name().to_owned(),
            bytes: self.progress.bytes(),
            total: self.progress.total().or(self.expected),
            placed: placed.map(|placed| placed.name().to_owned()),
            out: self.out,
        }
    }
}

impl Shared {
    /// Remembers that the inputs of a job are fetched by this task.
    pub(super) fn fetches(&self, job: JobId, fence: u64, moves: Vec<Arc<Move>>, task: AbortHandle) {
        lock(&self.underway).insert(job, Underway { fence, moves, stop: Stop::Abort(task) });
    }

    /// Remembers that outputs of a job are sent; what it gives turns true if they shall not be.
    pub(super) fn sends(
        &self,
        job: JobId,
        fence: u64,
        moves: Vec<Arc<Move>>,
    ) -> watch::Receiver<bool> {
        let (tell, told) = watch::channel(false);
        lock(&self.underway).insert(job, Underway { fence, moves, stop: Stop::Tell(tell) });
        told
    }

    /// The transfers of this claim are over.
    pub(super) fn moved(&self, job: JobId, fence: u64) {
        let mut underway = lock(&self.underway);
        if underway.get(&job).is_some_and(|it| it.fence == fence) {
            underway.remove(&job);
        }
    }

    /// Stops what moves for a job in this process.
    pub(super) fn stop_transfers(&self, job: JobId) {
        let mut underway = lock(&self.underway);
        match underway.get(&job).map(|it| &it.stop) {
            Some(Stop::Abort(task)) => {
                task.abort();
                underway.remove(&job);
            }
            Some(Stop::Tell(tell)) => {
                let _ = tell.send(true);
            }
            None => {}
        }
    }

    /// Jobs that this process fetches data for.
    pub(super) fn fetching_here(&self) -> Vec<(JobId, u64)> {
        let underway = lock(&self.underway);
        let fetching = underway.iter().filter(|(_, it)| matches!(it.stop, Stop::Abort(_)));
        fetching.map(|(job, it)| (*job, it.fence)).collect()
    }

    /// Whether it still is under this fence that data is fetched for a job.
    pub(super) fn fetches_under(&self, job: JobId, fence: u64) -> bool {
        lock(&self.underway).get(&job).is_some_and(|it| it.fence == fence)
    }

    /// What is told of a job's transfers: as they stand here, else as it is recorded.
    pub(super) fn transfers(&self, record: &Record, plan: Option<&Plan>) -> Vec<Transfer> {
        let concluded = record.conclusion.as_ref().map(|it| it.transfers.as_slice());
        let concluded = concluded.unwrap_or_default();
        let live: Vec<Moved> = match lock(&self.underway).get(&record.id) {
            Some(underway) if concluded.is_empty() => {
                underway.moves.iter().map(|it| it.moved()).collect()
            }
            _ => concluded.to_vec(),
        };
        let mut transfers: Vec<Transfer> =
            live.iter().filter(|it| !it.out).map(Moved::transfer).collect();
        if transfers.is_empty()
            && let Some(plan) = plan
        {
            transfers.extend(recorded(plan, record.state));
        }
        transfers.extend(live.iter().filter(|it| it.out).map(Moved::transfer));
        transfers
    }
}

/// What a plan tells of its inputs.
fn recorded(plan: &Plan, state: JobState) -> impl Iterator<Item = Transfer> {
    let not_yet = if state.is_final() { TransferState::Failed } else { TransferState::Waiting };
    plan.inputs.iter().filter_map(move |input| match &input.content {
        InputContent::Fetch(fetch) => Some(Transfer {
            parameter: fetch.parameter.clone(),
            peer: peer(&fetch.url),
            state: not_yet,
            bytes: 0,
            total: fetch.len,
            placed: None,
        }),
        InputContent::Fetched(fetched) => Some(Transfer {
            parameter: fetched.parameter.clone(),
            peer: fetched.peer.clone(),
            state: TransferState::Done,
            bytes: fetched.bytes,
            total: Some(fetched.bytes),
            placed: Placing::from_name(&fetched.placed),
        }),
        _ => None,
    })
}

/// Scheme and authority of a URL: all that others may be told, because a path may be a grant, and
/// what stands before the host may be a password.
pub(super) fn peer(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return String::new() };
    let Some(rest) = rest.strip_prefix("//") else { return format!("{scheme}:") };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_tells_neither_path_nor_password() {
        for (url, expected) in [
            ("http://a.example:80/data/secret/x", "http://a.example:80"),
            ("ftp://ann:secret@b.example/x", "ftp://b.example"),
            ("s3://bucket?secret", "s3://bucket"),
            ("session:mesh", "session:"),
            ("mailto:ann@example.org", "mailto:"),
            ("nonsense", ""),
        ] {
            assert_eq!(peer(url), expected);
        }
    }
}
