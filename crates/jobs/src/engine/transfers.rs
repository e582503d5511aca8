//! Transfers under way in this process, and what a job's status tells of those that are not.

use fishplate_contract::{JobState, PlacementMethod, Transfer, TransferState};
use fishplate_data::Progress;

use crate::completion::TransferResult;
use crate::store::JobRecord;
use fishplate_programs::plan::{InputContent, Plan, ReferencedInput};

/// One transfer.
#[derive(Debug)]
pub(super) struct JobTransfer {
    pub(super) parameter: String,
    pub(super) peer: String,
    /// Bytes that the caller says there are.
    pub(super) expected: Option<u64>,
    pub(super) out: bool,
    pub(super) progress: Progress,
    /// How it came here.
    pub(super) placed: Option<PlacementMethod>,
}

impl JobTransfer {
    pub(super) fn of_input(fetch: &ReferencedInput) -> Self {
        Self {
            parameter: fetch.parameter.clone(),
            peer: peer(&fetch.url),
            expected: fetch.len,
            out: false,
            progress: Progress::default(),
            placed: None,
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
            placed: None,
        }
    }

    /// It begins; what tells how far it is.
    pub(super) fn begin(&self) -> Progress {
        self.progress.enter(TransferState::Running);
        self.progress.clone()
    }

    /// It came to its end, and stands here in this way.
    pub(super) fn arrived(&mut self, placing: PlacementMethod) {
        self.placed = Some(placing);
        self.progress.enter(TransferState::Done);
    }

    /// Nothing becomes of it, unless it came to its end before.
    pub(super) fn give_up(&self) {
        if self.progress.state() != TransferState::Done {
            self.progress.enter(TransferState::Failed);
        }
    }

    /// What it has come to.
    pub(super) fn moved(&self) -> TransferResult {
        TransferResult {
            parameter: self.parameter.clone(),
            peer: self.peer.clone(),
            state: self.progress.state().name().to_owned(),
            bytes: self.progress.bytes(),
            total: self.progress.total().or(self.expected),
            placed: self.placed.map(|placed| placed.name().to_owned()),
            cached: self.progress.cached(),
            out: self.out,
        }
    }
}

/// What is told of a job's transfers: as they stand here, else as it is recorded.
pub(super) fn told(
    live: Vec<TransferResult>,
    record: &JobRecord,
    plan: Option<&Plan>,
) -> Vec<Transfer> {
    let concluded = record.completion.as_ref().map(|it| it.transfers.clone());
    let moved = concluded.filter(|it| !it.is_empty()).unwrap_or(live);
    let mut transfers: Vec<Transfer> =
        moved.iter().filter(|it| !it.out).map(TransferResult::transfer).collect();
    if transfers.is_empty()
        && let Some(plan) = plan
    {
        transfers.extend(recorded(plan, record.state));
    }
    transfers.extend(moved.iter().filter(|it| it.out).map(TransferResult::transfer));
    transfers
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
            cached: false,
        }),
        InputContent::Fetched(fetched) => Some(Transfer {
            parameter: fetched.parameter.clone(),
            peer: fetched.peer.clone(),
            state: TransferState::Done,
            bytes: fetched.bytes,
            total: Some(fetched.bytes),
            placed: PlacementMethod::from_name(&fetched.placed),
            cached: fetched.cached,
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
