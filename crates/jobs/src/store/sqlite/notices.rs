//! What of jobs is still to be told.

use std::time::Duration;

use fishplate_contract::{JobId, Principal, Timestamp};
use rusqlite::params;

use super::rows::id;
use super::sql::Sql;
use crate::store::notices::{DueNotice, Notice, NoticeClaim, in_turn};
use crate::store::{FencedWrite, StoreError};
use fishplate_programs::output_choices::StoredNotices;

/// The bits of `jobs.notices`.
const START: i64 = 1;
const END: i64 = 2;

/// What may be due, by the index `jobs_notices`: what is claimed, and of each owner so many (`?3`) of what is not and does not rest, so
/// that nobody's are hidden behind another's.
pub(super) const DUE: &str =
    "SELECT id, owner, service, started, ended, notice_holder, notice_until FROM (
       SELECT *, ROW_NUMBER() OVER (PARTITION BY owner, notice_holder = '' ORDER BY notice_until) AS turn
       FROM jobs INDEXED BY jobs_notices
       WHERE notices <> 0 AND (ended IS NOT NULL OR (notices & 1 AND started IS NOT NULL))
         AND (notice_until <= ?2 OR notice_holder <> '')
         AND service IN (SELECT value FROM json_each(?1)))
     WHERE turn <= ?3 OR notice_holder <> ''
     ORDER BY turn, notice_until LIMIT 10000";

pub(super) fn bits(notices: StoredNotices) -> i64 {
    i64::from(notices.start) * START + i64::from(notices.end) * END
}

impl Sql<'_> {
    pub(super) fn select_due_notices(
        &self,
        services: &[String],
        most: usize,
        most_of_owner: usize,
    ) -> Result<Vec<DueNotice>, StoreError> {
        let services = serde_json::to_string(services).unwrap_or_default();
        let of_owner = i64::try_from(most_of_owner).unwrap_or(i64::MAX);
        let found = self.rows(DUE, params![services, self.now.0, of_owner], |row| {
            let ended: Option<i64> = row.get(4)?;
            let since = ended.or(row.get(3)?).unwrap_or_default();
            Ok(DueNotice {
                job: id(row, 0)?,
                owner: Principal::named(row.get::<_, String>(1)?),
                service: row.get(2)?,
                notice: if ended.is_some() { Notice::Ended } else { Notice::Started },
                since: Timestamp(since),
                claim: NoticeClaim { holder: row.get(5)?, until: Timestamp(row.get(6)?) },
            })
        })?;
        Ok(in_turn(found, self.now, most, most_of_owner))
    }

    pub(super) fn take_notice(
        &self,
        due: &DueNotice,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError> {
        self.fenced(
            "UPDATE jobs SET notice_holder = ?2, notice_until = ?3
             WHERE id = ?1 AND notice_holder = ?4 AND notice_until = ?5 AND notices <> 0
               AND (ended IS NOT NULL) = ?6",
            params![
                due.job.as_bytes(),
                holder,
                self.now.after(lease).0,
                due.claim.holder,
                due.claim.until.0,
                due.notice == Notice::Ended,
            ],
        )
    }

    /// Changes a claim of this holder: to another one, or nobody's, until then.
    pub(super) fn hand_notice(
        &self,
        job: JobId,
        (holder, to): (&str, &str),
        time: Duration,
    ) -> Result<FencedWrite, StoreError> {
        self.fenced(
            "UPDATE jobs SET notice_holder = ?3, notice_until = ?4
             WHERE id = ?1 AND notice_holder = ?2 AND notices <> 0",
            params![job.as_bytes(), holder, to, self.now.after(time).0],
        )
    }

    pub(super) fn clear_notice(
        &self,
        job: JobId,
        holder: &str,
        told: Notice,
    ) -> Result<FencedWrite, StoreError> {
        let left = if told == Notice::Started { END } else { 0 };
        self.fenced(
            "UPDATE jobs SET notices = notices & ?3, notice_holder = '', notice_until = 0
             WHERE id = ?1 AND notice_holder = ?2 AND notices <> 0",
            params![job.as_bytes(), holder, left],
        )
    }
}
