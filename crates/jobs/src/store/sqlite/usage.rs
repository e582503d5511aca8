//! What was used, as rows: records, and sums of a day for those that were too many.

use fishplate_contract::{JobId, Principal, Timestamp};
use rusqlite::{Row, params};

use super::rows::{signed, unsigned};
use super::sql::Sql;
use crate::completion::Completion;
use crate::store::quota::{DayUsage, OwnerUsage};
use crate::store::usage::{DAY, JobUsage};
use crate::store::{StoreError, UsageRecord};

/// Columns of a record, in the order of [`record`].
macro_rules! columns {
    () => {
        "job, owner, service, operation, count, submitted, started, ended, state,
         cpu_seconds, wall, max_memory, bytes_in, bytes_out"
    };
}

/// So many records become sums, or go, at once.
const AT_ONCE: u64 = 1000;

/// What an owner's jobs that have not ended use now. Others of the owner may be very many, so it is said by which index.
pub(super) const UNFINISHED: &str = "
    SELECT coalesce(sum(max(0, ?2 - started)), 0), count(started), count(*), coalesce(sum(bytes_in), 0)
    FROM jobs INDEXED BY jobs_unfinished WHERE owner = ?1 AND ended IS NULL";

/// What an owner's jobs occupy.
pub(super) const JOB_BYTES: &str = "SELECT coalesce(sum(disk), 0) FROM jobs WHERE owner = ?1";

impl Sql<'_> {
    /// Notes what a job has used that ends so; of one that is held, if it is under this fence.
    pub(super) fn account_job(
        &self,
        job: JobId,
        fence: Option<u64>,
        end: &Completion,
    ) -> Result<(), StoreError> {
        let used = JobUsage::of(end);
        self.execute(
            concat!(
                "INSERT INTO usage (",
                columns!(),
                ") SELECT id, owner, service, operation, 1, submitted, coalesce(?3, started), ?4, ?5,
                   ?6, ?7, ?8, bytes_in + ?9, ?10
                 FROM jobs WHERE id = ?1 AND (?2 IS NULL OR fence = ?2 AND holder <> ''
                   AND state IN ('running', 'fetching'))"
            ),
            params![
                job.as_bytes(),
                fence.map(u64::cast_signed),
                used.started.map(|at| at.0),
                end.ended,
                end.state,
                used.cpu_seconds,
                signed(used.wall),
                signed(used.max_memory),
                signed(used.bytes_in),
                signed(used.bytes_out),
            ],
        )?;
        Ok(())
    }

    pub(super) fn insert_usage(&self, record: &UsageRecord) -> Result<(), StoreError> {
        self.execute(
            concat!(
                "INSERT INTO usage (",
                columns!(),
                ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"
            ),
            params![
                record.job.as_ref().map(JobId::as_bytes),
                record.owner.as_str(),
                record.service,
                record.operation,
                signed(record.count),
                record.submitted.0,
                record.started.map(|at| at.0),
                record.ended.0,
                record.state,
                record.cpu_seconds,
                signed(record.wall),
                signed(record.max_memory),
                signed(record.bytes_in),
                signed(record.bytes_out),
            ],
        )?;
        Ok(())
    }

    pub(super) fn select_usage(
        &self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<UsageRecord>, StoreError> {
        self.rows(
            concat!(
                "SELECT NULL, owner, service, operation, count, day, NULL, day, state,
                   cpu_seconds, wall, max_memory, bytes_in, bytes_out
                 FROM usage_sums WHERE day >= ?1 AND day < ?2
                 UNION ALL SELECT ",
                columns!(),
                " FROM usage WHERE ended >= ?1 AND ended < ?2"
            ),
            [since.0, until.0],
            record,
        )
    }

    pub(super) fn read_owner_usage(
        &self,
        owner: &str,
        since: Timestamp,
    ) -> Result<OwnerUsage, StoreError> {
        let days = self.rows(
            "SELECT day, cpu_seconds, bytes FROM usage_days WHERE owner = ?1 AND day >= ?2
             ORDER BY day",
            params![owner, since.0],
            |row| {
                Ok(DayUsage {
                    day: Timestamp(row.get(0)?),
                    cpu_seconds: row.get(1)?,
                    bytes: unsigned(row.get(2)?),
                })
            },
        )?;
        let unfinished = self.row(UNFINISHED, params![owner, self.now.0], |row| {
            Ok([0, 1, 2, 3].map(|column| row.get::<_, i64>(column).map_or(0, unsigned)))
        })?;
        let [running_time, running, unfinished, unfinished_bytes] = unfinished.unwrap_or_default();
        let job_bytes = self.count(JOB_BYTES, [owner])?;
        Ok(OwnerUsage {
            days,
            running_time,
            running,
            queued: unfinished - running,
            unfinished_bytes,
            job_bytes,
            data_bytes: 0,
        })
    }

    /// Makes sums of the oldest records beyond `keep`, and forgets what ended before `before`;
    /// tells whether there is more of either.
    pub(super) fn fold(&self, before: Timestamp, keep: u64) -> Result<bool, StoreError> {
        let forgotten = self.execute(
            "DELETE FROM usage WHERE ended < ?1
               AND number IN (SELECT number FROM usage ORDER BY number LIMIT ?2)",
            params![before.0, signed(AT_ONCE)],
        )? as u64;
        for sums in ["usage_sums", "usage_days"] {
            self.execute(&format!("DELETE FROM {sums} WHERE day < ?1"), [before.0 - DAY])?;
        }
        let surplus = self.count("SELECT count(*) FROM usage", [])?.saturating_sub(keep);
        let folded = surplus.min(AT_ONCE);
        if folded > 0 {
            self.execute(
                "INSERT INTO usage_sums (day, owner, service, operation, state, count,
                   cpu_seconds, wall, max_memory, bytes_in, bytes_out)
                 SELECT ended / ?1 * ?1, owner, service, operation, state, sum(count),
                   sum(cpu_seconds), sum(wall), max(max_memory), sum(bytes_in), sum(bytes_out)
                 FROM (SELECT * FROM usage ORDER BY number LIMIT ?2)
                 WHERE true GROUP BY 1, 2, 3, 4, 5
                 ON CONFLICT DO UPDATE SET count = count + excluded.count,
                   cpu_seconds = cpu_seconds + excluded.cpu_seconds, wall = wall + excluded.wall,
                   max_memory = max(max_memory, excluded.max_memory),
                   bytes_in = bytes_in + excluded.bytes_in,
                   bytes_out = bytes_out + excluded.bytes_out",
                params![DAY, signed(folded)],
            )?;
            self.execute(
                "DELETE FROM usage
                 WHERE number IN (SELECT number FROM usage ORDER BY number LIMIT ?1)",
                [signed(folded)],
            )?;
        }
        Ok(surplus > folded || forgotten == AT_ONCE)
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<UsageRecord> {
    let number = |column| row.get::<_, i64>(column).map(unsigned);
    Ok(UsageRecord {
        job: row.get::<_, Option<[u8; 16]>>(0)?.map(JobId::from_bytes),
        owner: Principal::named(row.get::<_, String>(1)?),
        service: row.get(2)?,
        operation: row.get(3)?,
        count: number(4)?,
        submitted: Timestamp(row.get(5)?),
        started: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        ended: Timestamp(row.get(7)?),
        state: row.get(8)?,
        cpu_seconds: row.get(9)?,
        wall: number(10)?,
        max_memory: number(11)?,
        bytes_in: number(12)?,
        bytes_out: number(13)?,
    })
}
