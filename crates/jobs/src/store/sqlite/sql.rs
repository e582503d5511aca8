//! The verbs on records, as statements.

use std::time::Duration;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::notices;
use super::rows::{RECORD, id, json, record, signed, state, unsigned};
use crate::completion::Completion;
use crate::executor::Handle;
use crate::store::memory::dequeued;
use crate::store::notices::{DueNotice, Notice};
use crate::store::quota::OwnerUsage;
use crate::store::{
    Claim, ClaimRequest, FencedWrite, FetchClaim, FetchRequest, Filter, JobRecord, KillRequest,
    NewJob, PendingJobs, RunningJobs, StoreError, Submission, Totals, Transaction, UsageRecord,
};

/// A connection, within a transaction; leases lapse by this time.
pub(super) struct Sql<'c> {
    pub(super) connection: &'c Connection,
    pub(super) now: Timestamp,
}

impl Sql<'_> {
    pub(super) fn execute(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        Ok(self.connection.prepare_cached(sql)?.execute(values)?)
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(values, row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn row<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.connection.prepare_cached(sql)?.query_row(values, row).optional()?)
    }

    pub(super) fn count(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<u64, StoreError> {
        Ok(self.row(sql, values, |row| row.get::<_, i64>(0))?.map_or(0, unsigned))
    }

    pub(super) fn fenced(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<FencedWrite, StoreError> {
        let changed = self.execute(sql, values)?;
        Ok(if changed == 0 { FencedWrite::Stale } else { FencedWrite::Accepted })
    }
}

/// An owner's jobs on a service, newest first. `?4` and `?6`: as [`list`] has them, or all.
macro_rules! listed {
    ($from:literal, $where:literal) => {
        concat!(
            "SELECT number FROM ",
            $from,
            " WHERE owner = ?1 AND service = ?2 AND number < ?3
               AND (?4 IS NULL OR instr(?4, ' ' || state || ' '))
               AND (?6 IS NULL OR instr(?6, ' ' || operation || ' '))
               AND submitted BETWEEN ?7 AND ?8 AND ",
            $where,
            " ORDER BY number DESC LIMIT ?5"
        )
    };
}

/// Whatever they are, without looking at more of them than are wanted.
const LISTED: &str = listed!("jobs", "TRUE");

/// Of those that have ended, which ran from `?9` to `?10` milliseconds, if that is said. All that is asked for is in the
/// index: their rows are as long as their plans.
pub(super) const LISTED_ENDED: &str = listed!(
    "jobs INDEXED BY jobs_listed_ended",
    "ended IS NOT NULL AND (?9 IS NULL OR ran BETWEEN ?9 AND ?10)"
);

/// Of those that have not ended, which have run for so long at `?11`. Others of the owner may be very many.
pub(super) const LISTED_UNFINISHED: &str = listed!(
    "jobs INDEXED BY jobs_unfinished",
    "ended IS NULL AND (?9 IS NULL OR started IS NOT NULL AND max(0, ?11 - started) BETWEEN ?9 AND ?10)"
);

/// The statements that find what a filter chooses of a service's jobs, and how many of the values each takes.
fn listing(filter: &Filter) -> Vec<(&'static str, usize)> {
    let Filter { states, since, until, ran, .. } = filter;
    if states.is_empty() && since.is_none() && until.is_none() && ran.is_any() {
        return vec![(LISTED, 8)];
    }
    let has = |ended| states.is_empty() || states.iter().any(|state| state.is_final() == ended);
    let ended = has(true).then_some((LISTED_ENDED, 10));
    ended.into_iter().chain(has(false).then_some((LISTED_UNFINISHED, 11))).collect()
}

/// Names, which have no spaces, with a space on either side; `None` if there are none.
fn list(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!(" {} ", names.join(" ")))
}

impl Transaction for Sql<'_> {
    fn submit(&mut self, job: &NewJob) -> Result<Submission, StoreError> {
        if let Some(key) = &job.key {
            let used = self.row(
                "SELECT id, fingerprint FROM jobs WHERE owner = ?1 AND service = ?2 AND key = ?3",
                params![job.owner.as_str(), job.service, key],
                |row| Ok((id(row, 0)?, row.get::<_, i64>(1)?)),
            )?;
            if let Some((id, fingerprint)) = used {
                let same = fingerprint == job.fingerprint.cast_signed();
                return Ok(if same {
                    Submission::Existing(id)
                } else {
                    Submission::KeyConflict(id)
                });
            }
        }
        let queued = self.count(
            "SELECT (SELECT count(*) FROM jobs WHERE state = 'queued' AND service = ?1)
                  + (SELECT count(*) FROM jobs WHERE state = 'fetching' AND service = ?1)",
            [&job.service],
        )?;
        if queued >= u64::from(job.max_queued) {
            return Ok(Submission::QueueFull);
        }
        if let Some(most) = job.limits.queued {
            let own = self.count(
                "SELECT (SELECT count(*) FROM jobs
                         WHERE state = 'queued' AND service = ?1 AND owner = ?2)
                      + (SELECT count(*) FROM jobs
                         WHERE state = 'fetching' AND service = ?1 AND owner = ?2)",
                [job.service.as_str(), job.owner.as_str()],
            )?;
            if own >= most {
                return Ok(Submission::OwnerQueueFull);
            }
        }
        if job.limits.counts() {
            let usage =
                self.read_owner_usage(job.owner.as_str(), job.limits.period.start(self.now))?;
            if let Some(excess) = job.excess(usage) {
                return Ok(Submission::QuotaExceeded(excess));
            }
        }
        self.execute(
            "INSERT INTO jobs (id, service, operation, owner, key, fingerprint, directory,
               max_running, boot, submitted, plan, state, disk, bytes_in, notices)
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15)",
            params![
                job.id.as_bytes(),
                job.service,
                job.operation,
                job.owner.as_str(),
                job.key,
                job.fingerprint.cast_signed(),
                job.directory.to_string_lossy(),
                job.max_running,
                job.boot,
                job.submitted.0,
                job.plan,
                if job.fetching { "fetching" } else { "queued" },
                signed(job.disk),
                signed(job.bytes_in),
                notices::bits(job.notices),
            ],
        )?;
        Ok(Submission::Accepted)
    }

    fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError> {
        let mut claims = if request.take_over { self.take_over(request)? } else { Vec::new() };
        claims.extend(self.start_queued(request)?);
        Ok(claims)
    }

    fn claim_fetches(&mut self, request: &FetchRequest) -> Result<Vec<FetchClaim>, StoreError> {
        self.start_fetching(request)
    }

    fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        plan: &str,
        disk: u64,
        bytes: u64,
        content: Option<&str>,
    ) -> Result<FencedWrite, StoreError> {
        let (disk, bytes) = (signed(disk), signed(bytes));
        self.fenced(
            "UPDATE jobs SET state = 'queued', holder = '', plan = ?3, disk = ?4,
               bytes_in = bytes_in + ?5, content = ?6
             WHERE id = ?1 AND fence = ?2 AND state = 'fetching' AND holder <> ''",
            params![job.as_bytes(), fence.cast_signed(), plan, disk, bytes, content],
        )
    }

    fn equal(
        &mut self,
        service: &str,
        content: &str,
        most: usize,
    ) -> Result<Vec<JobRecord>, StoreError> {
        self.rows(
            &format!(
                "{RECORD} WHERE service = ?1 AND content = ?2 AND state = 'done'
                 ORDER BY number DESC LIMIT ?3"
            ),
            params![service, content, i64::try_from(most).unwrap_or(i64::MAX)],
            record,
        )
    }

    fn adopt(&mut self, job: &NewJob, fence: u64) -> Result<Submission, StoreError> {
        let submission = self.submit(job)?;
        if submission == Submission::Accepted {
            self.execute(
                "UPDATE jobs SET state = iif(state = 'queued', 'running', state), fence = ?2
                 WHERE id = ?1",
                params![job.id.as_bytes(), fence.cast_signed()],
            )?;
        }
        Ok(submission)
    }

    fn fetching(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE state = 'fetching' AND holder = ?1";
        self.rows(sql, [holder], |row| id(row, 0))
    }

    fn unfinished(&mut self) -> Result<Vec<JobId>, StoreError> {
        // Each state has an index of its own.
        let sql = "SELECT id, number FROM jobs WHERE state = 'fetching' \
                   UNION ALL SELECT id, number FROM jobs WHERE state = 'queued' \
                   UNION ALL SELECT id, number FROM jobs WHERE state = 'running' ORDER BY number";
        self.rows(sql, [], |row| id(row, 0))
    }

    fn renew(&mut self, holder: &str, lease: Duration) -> Result<usize, StoreError> {
        let until = self.now.after(lease);
        let running = self.execute(
            "UPDATE jobs SET lease_until = ?2 WHERE state = 'running' AND holder = ?1",
            params![holder, until.0],
        )?;
        let fetching = self.execute(
            "UPDATE jobs SET lease_until = ?2 WHERE state = 'fetching' AND holder = ?1",
            params![holder, until.0],
        )?;
        Ok(running + fetching)
    }

    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        handle: &Handle,
        at: Timestamp,
    ) -> Result<FencedWrite, StoreError> {
        self.fenced(
            "UPDATE jobs SET handle = ?3, started = ?4
             WHERE id = ?1 AND fence = ?2 AND state = 'running'",
            params![job.as_bytes(), fence.cast_signed(), handle.0, at.0],
        )
    }

    fn unclaim(&mut self, job: JobId, fence: u64) -> Result<FencedWrite, StoreError> {
        self.fenced(
            "UPDATE jobs SET state = 'queued', holder = ''
             WHERE id = ?1 AND fence = ?2 AND state = 'running'",
            params![job.as_bytes(), fence.cast_signed()],
        )
    }

    fn conclude(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError> {
        self.account_job(job, Some(fence), completion)?;
        self.fenced(
            "UPDATE jobs SET state = ?3, ended = ?4, disk = coalesce(?5, disk), completion = ?6,
               ran = max(0, ?7 - coalesce(?8, started))
             WHERE id = ?1 AND fence = ?2 AND holder <> '' AND state IN ('running', 'fetching')",
            params![
                job.as_bytes(),
                fence.cast_signed(),
                completion.state,
                completion.kept_from(),
                completion.disk().map(signed),
                json(completion)?,
                completion.ended,
                completion.began().map(|at| at.0),
            ],
        )
    }

    fn discard(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError> {
        self.account_job(job, Some(fence), completion)?;
        self.fenced(
            "DELETE FROM jobs WHERE id = ?1 AND fence = ?2 AND holder <> ''
               AND state IN ('running', 'fetching')",
            params![job.as_bytes(), fence.cast_signed()],
        )
    }

    fn request_kill(&mut self, job: JobId, at: Timestamp) -> Result<KillRequest, StoreError> {
        let found =
            self.row("SELECT state, handle FROM jobs WHERE id = ?1", [job.as_bytes()], |row| {
                Ok((state(row, 0)?, row.get::<_, Option<String>>(1)?))
            })?;
        let Some((state, handle)) = found else { return Ok(KillRequest::NoSuchJob) };
        Ok(match state {
            JobState::Queued | JobState::Fetching => {
                let end = dequeued(state, at);
                self.execute(
                    "UPDATE jobs SET state = ?2, ended = ?3, completion = ?4 WHERE id = ?1",
                    params![job.as_bytes(), end.state, end.ended, json(&end)?],
                )?;
                self.account_job(job, None, &end)?;
                KillRequest::Dequeued
            }
            JobState::Running => {
                self.execute("UPDATE jobs SET kill_requested = 1 WHERE id = ?1", [job.as_bytes()])?;
                KillRequest::Requested(handle.map(Handle))
            }
            state => KillRequest::Ended(state),
        })
    }

    fn kill_requests(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError> {
        self.rows(
            "SELECT id FROM jobs WHERE state = 'running' AND kill_requested AND holder = ?1",
            [holder],
            |row| id(row, 0),
        )
    }

    fn find(&mut self, job: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.row(&format!("{RECORD} WHERE id = ?1"), [job.as_bytes()], record)
    }

    fn exists(&mut self, job: JobId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM jobs WHERE id = ?1";
        Ok(self.row(sql, [job.as_bytes()], |_| Ok(()))?.is_some())
    }

    fn plan(&mut self, job: JobId) -> Result<Option<String>, StoreError> {
        self.row("SELECT plan FROM jobs WHERE id = ?1", [job.as_bytes()], |row| row.get(0))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<JobRecord>, StoreError> {
        let below = match filter.after {
            None => i64::MAX,
            Some(after) => {
                let number =
                    self.row("SELECT number FROM jobs WHERE id = ?1", [after.as_bytes()], |row| {
                        row.get(0)
                    })?;
                let Some(number) = number else { return Ok(Vec::new()) };
                number
            }
        };
        let states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let mut numbers: Vec<i64> = Vec::new();
        for service in &filter.services {
            let of = filter.operations.iter().filter(|(of, _)| of == service);
            let operations: Vec<&str> = of.map(|(_, operation)| operation.as_str()).collect();
            if operations.is_empty() && !filter.operations.is_empty() {
                continue;
            }
            let (states, operations) = (list(&states), list(&operations));
            let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
            let since = filter.since.map_or(i64::MIN, |since| since.0);
            let until = filter.until.map_or(i64::MAX, |until| until.0);
            let (owner, (least, most)) = (filter.owner.as_str(), filter.ran.millis().unzip());
            let values: [&dyn ToSql; 11] = [
                &owner,
                service,
                &below,
                &states,
                &limit,
                &operations,
                &since,
                &until,
                &least,
                &most,
                &self.now.0,
            ];
            for (sql, count) in listing(filter) {
                numbers.extend(self.rows(sql, &values[..count], |row| row.get::<_, i64>(0))?);
            }
        }
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers.dedup();
        numbers.truncate(filter.limit);
        let sql = format!("{RECORD} WHERE number = ?1");
        let found = numbers.into_iter().map(|number| self.row(&sql, [number], record));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn remove(&mut self, job: JobId) -> Result<bool, StoreError> {
        let removed =
            self.execute("DELETE FROM jobs WHERE id = ?1 AND ended IS NOT NULL", [job.as_bytes()])?;
        Ok(removed > 0)
    }

    fn expired(&mut self, before: Timestamp, keep: u64) -> Result<Vec<JobId>, StoreError> {
        let ended = self.count("SELECT count(*) FROM jobs WHERE ended IS NOT NULL", [])?;
        let surplus = ended.saturating_sub(keep);
        let mut expired = self.rows(
            "SELECT id FROM jobs WHERE ended < ?1 ORDER BY ended LIMIT 1000",
            [before.0],
            |row| id(row, 0),
        )?;
        let oldest = self.rows(
            "SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY ended LIMIT ?1",
            [signed(surplus.min(1000))],
            |row| id(row, 0),
        )?;
        for job in oldest {
            if !expired.contains(&job) && expired.len() < 1000 {
                expired.push(job);
            }
        }
        Ok(expired)
    }

    fn due_notices(
        &mut self,
        services: &[String],
        most: usize,
        most_of_owner: usize,
    ) -> Result<Vec<DueNotice>, StoreError> {
        self.select_due_notices(services, most, most_of_owner)
    }

    fn claim_notice(
        &mut self,
        due: &DueNotice,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError> {
        self.take_notice(due, holder, lease)
    }

    fn renew_notice(
        &mut self,
        job: JobId,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError> {
        self.hand_notice(job, (holder, holder), lease)
    }

    fn release_notice(
        &mut self,
        job: JobId,
        holder: &str,
        rest: Duration,
    ) -> Result<FencedWrite, StoreError> {
        self.hand_notice(job, (holder, ""), rest)
    }

    fn settle_notice(
        &mut self,
        job: JobId,
        holder: &str,
        told: Notice,
    ) -> Result<FencedWrite, StoreError> {
        self.clear_notice(job, holder, told)
    }

    fn holders(&mut self) -> Result<Vec<String>, StoreError> {
        self.rows(
            "SELECT holder FROM jobs WHERE state = 'running'
             UNION SELECT holder FROM jobs WHERE state = 'fetching' AND holder <> ''",
            [],
            |row| row.get(0),
        )
    }

    fn running(&mut self) -> Result<Vec<RunningJobs>, StoreError> {
        self.rows(
            "SELECT service, owner, count(*) FROM jobs WHERE state = 'running'
             GROUP BY service, owner",
            [],
            |row| {
                let (service, owner) = (row.get(0)?, Principal::named(row.get::<_, String>(1)?));
                Ok(RunningJobs { service, owner, count: unsigned(row.get(2)?) })
            },
        )
    }

    fn backlog(&mut self) -> Result<PendingJobs, StoreError> {
        Ok(PendingJobs {
            fetching: self.count("SELECT count(*) FROM jobs WHERE state = 'fetching'", [])?,
            queued: self.count("SELECT count(*) FROM jobs WHERE state = 'queued'", [])?,
            running: self.count("SELECT count(*) FROM jobs WHERE state = 'running'", [])?,
        })
    }

    fn newest(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.row("SELECT submitted FROM jobs ORDER BY number DESC LIMIT 1", [], |row| {
            row.get(0).map(Timestamp)
        })
    }

    fn account(&mut self, record: &UsageRecord) -> Result<(), StoreError> {
        self.insert_usage(record)
    }

    fn usage(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<UsageRecord>, StoreError> {
        self.select_usage(since, until)
    }

    fn owner_usage(&mut self, owner: &str, since: Timestamp) -> Result<OwnerUsage, StoreError> {
        self.read_owner_usage(owner, since)
    }

    fn fold_usage(&mut self, before: Timestamp, keep: u64) -> Result<bool, StoreError> {
        self.fold(before, keep)
    }

    fn forget_owners(&mut self, before: Timestamp) -> Result<(), StoreError> {
        self.execute(
            "DELETE FROM owners WHERE served < ?1 AND owner NOT IN (
               SELECT owner FROM jobs WHERE state = 'fetching'
               UNION ALL SELECT owner FROM jobs WHERE state = 'queued'
               UNION ALL SELECT owner FROM jobs WHERE state = 'running')",
            [before.0],
        )?;
        Ok(())
    }

    fn totals(&mut self) -> Result<Totals, StoreError> {
        let (ended, disk) = self
            .row(
                "SELECT count(ended), total(disk + octet_length(plan)
                   + coalesce(octet_length(completion), 0)) FROM jobs",
                [],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?)),
            )?
            .unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of byte counts"
        )]
        let disk = disk as u64;
        Ok(Totals { ended: unsigned(ended), disk })
    }
}
