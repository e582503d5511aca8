//! What of jobs is still to be told to whom it was promised, and which process tells it. It stands with the job's record until it was
//! told, so it is told at least once, whoever is killed meanwhile.

use std::collections::HashMap;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};

use crate::process;
use fishplate_programs::output_choices::StoredNotices;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The job's program was started.
    Started,
    /// The job has ended.
    Ended,
}

/// What is to be told of a job now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// The job.
    pub job: JobId,
    /// Its service.
    pub service: String,
    /// Its owner.
    pub owner: Principal,
    /// What is to be told.
    pub notice: Notice,
    /// Since when.
    pub since: Timestamp,
    /// As its claim was seen.
    pub(super) claim: NoticeClaim,
}

/// Who tells it, and until when nobody else does; nobody's: until when it rests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NoticeClaim {
    pub(super) holder: String,
    pub(super) until: Timestamp,
}

impl NoticeClaim {
    /// Whether it may be claimed.
    pub(super) fn is_free(&self, now: Timestamp) -> bool {
        self.until <= now || (!self.holder.is_empty() && process::is_dead(&self.holder))
    }
}

/// Of what may be due, what is told next: what nobody tells, each owner's oldest before anybody's second. What is being told of an owner
/// counts as his.
pub(super) fn in_turn(
    mut due: Vec<DueNotice>,
    now: Timestamp,
    most: usize,
    most_of_owner: usize,
) -> Vec<DueNotice> {
    let mut taken: HashMap<String, usize> = HashMap::new();
    for told in &due {
        if !told.claim.is_free(now) && !told.claim.holder.is_empty() {
            *taken.entry(told.owner.as_str().to_owned()).or_default() += 1;
        }
    }
    due.retain(|due| due.claim.is_free(now));
    due.sort_by_key(|due| due.claim.until);
    let turn = |due: DueNotice| {
        let turn = taken.entry(due.owner.as_str().to_owned()).or_default();
        *turn += 1;
        (*turn, due)
    };
    let mut turns: Vec<(usize, DueNotice)> = due.into_iter().map(turn).collect();
    turns.retain(|(turn, _)| *turn <= most_of_owner);
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, due)| due).take(most).collect()
}

/// What is due to be told of a job that is in this state.
pub(super) fn due(wanted: StoredNotices, state: JobState, is_started: bool) -> Option<Notice> {
    match wanted {
        wanted if wanted.is_none() => None,
        _ if state.is_final() => Some(Notice::Ended),
        StoredNotices { start: true, .. } if is_started => Some(Notice::Started),
        _ => None,
    }
}

/// What is left when this was told.
pub(super) fn without(wanted: StoredNotices, told: Notice) -> StoredNotices {
    match told {
        Notice::Started => StoredNotices { start: false, ..wanted },
        Notice::Ended => StoredNotices::default(),
    }
}
