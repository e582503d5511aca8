//! Records in SQLite: one file that survives kills, shared by every process of the machine.
//!
//! Write-ahead logging, so that readers never wait for the writer. `synchronous` is FULL for a
//! durable transaction (it survives a power failure) and NORMAL for another (it survives the
//! process); the switch costs nothing when it is not needed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fishplate_contract::{JobId, JobState, Principal, Timestamp};
use fishplate_data::sqlite;
use nix::fcntl::{FallocateFlags, fallocate};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::memory::dequeued;
use super::{
    Backlog, Claim, ClaimRequest, Fenced, FetchClaim, FetchRequest, Filter, KillRequest, NewJob,
    Record, Store, StoreError, Submission, Totals, Transaction,
};
use crate::conclusion::Conclusion;
use crate::executor::Handle;

/// Bytes of the write-ahead log that are kept when it grew under load.
const LOG_SIZE: u64 = 16 << 20;

/// Version of the schema, in `PRAGMA user_version`.
const SCHEMA_VERSION: i32 = 3;

/// Room that is kept for records to come when others have gone.
const SPARE_ROOM: u64 = 1 << 20;

/// Pages that are given back at once: others who write wait no longer than that takes.
const GIVEN_BACK_AT_ONCE: u64 = 256;

const SCHEMA: &str = "
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE,
  service TEXT NOT NULL,
  operation TEXT NOT NULL,
  owner TEXT NOT NULL,
  key TEXT,
  fingerprint INTEGER NOT NULL,
  directory TEXT NOT NULL,
  max_running INTEGER NOT NULL,
  boot TEXT,
  submitted INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued',
  fence INTEGER NOT NULL DEFAULT 0,
  holder TEXT NOT NULL DEFAULT '',
  lease_until INTEGER NOT NULL DEFAULT 0,
  handle TEXT,
  kill_requested INTEGER NOT NULL DEFAULT 0,
  started INTEGER,
  ended INTEGER,
  disk INTEGER NOT NULL DEFAULT 0,
  conclusion TEXT,
  plan TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX jobs_key ON jobs (owner, service, key) WHERE key IS NOT NULL;
CREATE INDEX jobs_queued ON jobs (service, number) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (service, holder) WHERE state = 'running';
CREATE INDEX jobs_ended ON jobs (ended) WHERE ended IS NOT NULL;
CREATE INDEX jobs_listed ON jobs (owner, service, number);
";

/// What each version of the schema added, from the second on.
const MIGRATIONS: &[&str] = &[
    // 2: the state `fetching`.
    "CREATE INDEX jobs_fetching ON jobs (service, holder) WHERE state = 'fetching';",
    // 3: `disk` counts jobs that have not ended, too, and a plan may stand in a file.
    "",
];

/// A store in one SQLite file.
pub struct SqliteStore {
    /// The write-ahead log.
    log: PathBuf,
    writer: Mutex<Writer>,
    reader: Mutex<Connection>,
}

struct Writer {
    connection: Connection,
    durable: bool,
}

impl SqliteStore {
    /// Opens the store at `path`, making it if there is none.
    ///
    /// # Errors
    /// If the file cannot be opened, is no such store, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let writer = sqlite::open(path, LOG_SIZE)?;
        sqlite::make_shrinkable(&writer, path)?;
        migrate(&writer)?;
        let reader = sqlite::open(path, LOG_SIZE)?;
        reader.pragma_update(None, "query_only", true)?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            log: log.into(),
            writer: Mutex::new(Writer { connection: writer, durable: false }),
            reader: Mutex::new(reader),
        })
    }
}

impl SqliteStore {
    /// Reads all of the store, to see whether it can be trusted. Takes about a second a gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Damaged`].
    pub fn check(&self) -> Result<(), StoreError> {
        let said: String =
            lock(&self.reader).query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if said == "ok" { Ok(()) } else { Err(StoreError::Damaged(said.into())) }
    }
}

fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::Storage(
            format!("the job store has schema {version}; this fishplate knows {SCHEMA_VERSION}")
                .into(),
        ));
    }
    if version == 0 {
        transaction.execute_batch(SCHEMA)?;
    }
    let done = usize::try_from(version).unwrap_or(0).saturating_sub(1);
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration)?;
    }
    if version < SCHEMA_VERSION {
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    transaction.commit()?;
    Ok(())
}

impl Store for SqliteStore {
    fn transact(
        &self,
        durable: bool,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut writer = lock(&self.writer);
        if writer.durable != durable {
            let level = if durable { "FULL" } else { "NORMAL" };
            writer.connection.pragma_update(None, "synchronous", level)?;
            writer.durable = durable;
        }
        // Prepared once each, which `rusqlite::Transaction` does anew every time.
        let step = |sql: &str| writer.connection.prepare_cached(sql)?.execute([]);
        step("BEGIN IMMEDIATE")?;
        let done = work(&mut Sql(&writer.connection))
            .and_then(|()| step("COMMIT").map(|_| ()).map_err(StoreError::from));
        if done.is_err() && !writer.connection.is_autocommit() {
            step("ROLLBACK")?;
        }
        done
    }

    fn read(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let reader = lock(&self.reader);
        work(&mut Sql(&reader))
    }

    /// The log gets its blocks beforehand, beyond its end: nobody else can take them, and to the
    /// database they make no difference. What is moved from the log to the database overwrites
    /// what is there, mostly; what can't be moved rests in the log.
    fn keep_room(&self, bytes: u64) -> io::Result<()> {
        // The last to close the database removes it. It holds no locks, which another open file
        // would free when it is closed.
        let log = match File::options().write(true).open(&self.log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let metadata = log.metadata()?;
        let needed = metadata.len().saturating_add(bytes);
        if metadata.blocks() * 512 >= needed {
            return Ok(());
        }
        let length = i64::try_from(needed).unwrap_or(i64::MAX);
        match fallocate(&log, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length) {
            // Some file systems can't keep room; then it is as it is.
            Err(nix::Error::EOPNOTSUPP | nix::Error::ENOSYS) => Ok(()),
            done => done.map_err(io::Error::from),
        }
    }

    /// In small steps, the log emptied into the database after each: it keeps its length, and with it
    /// the room that is kept for it.
    fn give_back(&self) -> Result<(), StoreError> {
        let mut before = u64::MAX;
        loop {
            let writer = lock(&self.writer);
            let sql = &writer.connection;
            let (free, bytes) = sqlite::free_pages(sql)?;
            // No fewer than before: somebody else takes as many as are given back.
            if bytes <= SPARE_ROOM || free >= before {
                return Ok(());
            }
            before = free;
            sqlite::give_back(sql, GIVEN_BACK_AT_ONCE)?;
            sqlite::empty_log(sql)?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Sql<'c>(&'c Connection);

impl Sql<'_> {
    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
        Ok(self.0.prepare_cached(sql)?.execute(values)?)
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.0.prepare_cached(sql)?;
        let rows = statement.query_map(values, row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn row<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.0.prepare_cached(sql)?.query_row(values, row).optional()?)
    }

    fn count(&self, sql: &str, values: impl rusqlite::Params) -> Result<u64, StoreError> {
        Ok(self.row(sql, values, |row| row.get::<_, i64>(0))?.map_or(0, unsigned))
    }

    fn fenced(&self, sql: &str, values: impl rusqlite::Params) -> Result<Fenced, StoreError> {
        let changed = self.execute(sql, values)?;
        Ok(if changed == 0 { Fenced::Stale } else { Fenced::Accepted })
    }

    fn take_over(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError> {
        let lapsed = self.rows(
            "SELECT number, holder FROM jobs WHERE state = 'running'
               AND (lease_until < ?1 OR holder <> ?2) ORDER BY number",
            params![request.now.0, request.holder],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )?;
        let mut claims = Vec::new();
        for (number, holder) in lapsed {
            let taken = self.row(
                "UPDATE jobs SET holder = ?2, fence = fence + 1, lease_until = ?3
                 WHERE number = ?1 AND (lease_until < ?4 OR ?5)
                 RETURNING id, service, directory, fence, handle, kill_requested, boot, owner",
                params![
                    number,
                    request.holder,
                    request.now.after(request.lease).0,
                    request.now.0,
                    request.dead.contains(&holder),
                ],
                |row| claim(row, Some(holder.clone())),
            )?;
            claims.extend(taken);
        }
        Ok(claims)
    }

    fn start_queued(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError> {
        let running = self.count("SELECT count(*) FROM jobs WHERE state = 'running'", [])?;
        let mut room = u64::from(request.max_running).saturating_sub(running);
        let mut claims = Vec::new();
        if room == 0 {
            return Ok(claims);
        }
        let resting = request.resting.len() as u64;
        for (number, job) in self.next_in_line(room.saturating_add(resting))? {
            if request.resting.contains(&job) {
                continue;
            }
            let taken = self.row(
                "UPDATE jobs SET state = 'running', holder = ?2, fence = fence + 1, lease_until = ?3
                 WHERE number = ?1
                   AND (SELECT count(*) FROM jobs AS other
                        WHERE other.state = 'running' AND other.service = jobs.service) < max_running
                 RETURNING id, service, directory, fence, handle, kill_requested, boot, owner",
                params![number, request.holder, request.now.after(request.lease).0],
                |row| claim(row, None),
            )?;
            let Some(taken) = taken else { continue };
            claims.push(taken);
            room -= 1;
            if room == 0 {
                break;
            }
        }
        Ok(claims)
    }

    /// The oldest queued jobs, service by service, so that a service with a long queue and no room
    /// does not hide another's.
    fn next_in_line(&mut self, most: u64) -> Result<Vec<(i64, JobId)>, StoreError> {
        let mut numbers = Vec::new();
        let mut after = String::new();
        loop {
            let service = self.row(
                "SELECT service FROM jobs WHERE state = 'queued' AND service > ?1
                 ORDER BY service LIMIT 1",
                [&after],
                |row| row.get::<_, String>(0),
            )?;
            let Some(service) = service else { break };
            numbers.extend(self.rows(
                "SELECT number, id FROM jobs WHERE state = 'queued' AND service = ?1
                 ORDER BY number LIMIT ?2",
                params![service, signed(most)],
                |row| Ok((row.get::<_, i64>(0)?, id(row, 1)?)),
            )?);
            after = service;
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
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
        self.execute(
            "INSERT INTO jobs (id, service, operation, owner, key, fingerprint, directory,
               max_running, boot, submitted, plan, state, disk)
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
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
        let held = self.rows(
            "SELECT owner FROM jobs WHERE state = 'fetching' AND holder = ?1",
            [&request.holder],
            |row| row.get::<_, String>(0),
        )?;
        if held.len() >= request.most as usize {
            return Ok(Vec::new());
        }
        let fetching = self.rows(
            "SELECT owner, number, holder, lease_until < ?1 FROM jobs WHERE state = 'fetching'
             ORDER BY number",
            [request.now.0],
            |row| {
                let lapsed = row.get::<_, Option<bool>>(3)?.unwrap_or(false);
                Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, lapsed))
            },
        )?;
        let free =
            |holder: &String, lapsed| lapsed || holder.is_empty() || request.dead.contains(holder);
        let waiting = fetching
            .into_iter()
            .filter(|(_, _, holder, lapsed)| free(holder, *lapsed))
            .map(|(owner, number, ..)| (owner, number))
            .collect();
        let mut claims = Vec::new();
        for number in request.choose(waiting, held) {
            let taken = self.row(
                "UPDATE jobs SET holder = ?2, fence = fence + 1, lease_until = ?3
                 WHERE number = ?1 RETURNING id, owner, directory, fence",
                params![number, request.holder, request.now.after(request.lease).0],
                fetch_claim,
            )?;
            claims.extend(taken);
        }
        Ok(claims)
    }

    fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        plan: &str,
        disk: u64,
    ) -> Result<Fenced, StoreError> {
        self.fenced(
            "UPDATE jobs SET state = 'queued', holder = '', plan = ?3, disk = ?4
             WHERE id = ?1 AND fence = ?2 AND state = 'fetching' AND holder <> ''",
            params![job.as_bytes(), fence.cast_signed(), plan, signed(disk)],
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

    fn renew(&mut self, holder: &str, until: Timestamp) -> Result<usize, StoreError> {
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
    ) -> Result<Fenced, StoreError> {
        self.fenced(
            "UPDATE jobs SET handle = ?3, started = ?4
             WHERE id = ?1 AND fence = ?2 AND state = 'running'",
            params![job.as_bytes(), fence.cast_signed(), handle.0, at.0],
        )
    }

    fn unclaim(&mut self, job: JobId, fence: u64) -> Result<Fenced, StoreError> {
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
        conclusion: &Conclusion,
    ) -> Result<Fenced, StoreError> {
        self.fenced(
            "UPDATE jobs SET state = ?3, ended = ?4, disk = coalesce(?5, disk), conclusion = ?6
             WHERE id = ?1 AND fence = ?2 AND holder <> '' AND state IN ('running', 'fetching')",
            params![
                job.as_bytes(),
                fence.cast_signed(),
                conclusion.state,
                conclusion.kept_from(),
                conclusion.disk().map(signed),
                json(conclusion)?,
            ],
        )
    }

    fn discard(&mut self, job: JobId, fence: u64) -> Result<Fenced, StoreError> {
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
                    "UPDATE jobs SET state = ?2, ended = ?3, conclusion = ?4 WHERE id = ?1",
                    params![job.as_bytes(), end.state, end.ended, json(&end)?],
                )?;
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

    fn find(&mut self, job: JobId) -> Result<Option<Record>, StoreError> {
        self.row(&format!("{RECORD} WHERE id = ?1"), [job.as_bytes()], record)
    }

    fn exists(&mut self, job: JobId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM jobs WHERE id = ?1";
        Ok(self.row(sql, [job.as_bytes()], |_| Ok(()))?.is_some())
    }

    fn plan(&mut self, job: JobId) -> Result<Option<String>, StoreError> {
        self.row("SELECT plan FROM jobs WHERE id = ?1", [job.as_bytes()], |row| row.get(0))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
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
        self.rows(
            &format!(
                "{RECORD} WHERE owner = ?1 AND service = ?2 AND number < ?3
                 AND (?4 IS NULL OR state = ?4) ORDER BY number DESC LIMIT ?5"
            ),
            params![
                filter.owner.as_str(),
                filter.service,
                below,
                filter.state.map(JobState::name),
                i64::try_from(filter.limit).unwrap_or(i64::MAX),
            ],
            record,
        )
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

    fn holders(&mut self) -> Result<Vec<String>, StoreError> {
        self.rows(
            "SELECT holder FROM jobs WHERE state = 'running'
             UNION SELECT holder FROM jobs WHERE state = 'fetching' AND holder <> ''",
            [],
            |row| row.get(0),
        )
    }

    fn backlog(&mut self) -> Result<Backlog, StoreError> {
        Ok(Backlog {
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

    fn totals(&mut self) -> Result<Totals, StoreError> {
        let (ended, disk) = self
            .row(
                "SELECT count(ended), total(disk + octet_length(plan)
                   + coalesce(octet_length(conclusion), 0)) FROM jobs",
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

const RECORD: &str = "SELECT id, service, operation, owner, directory, state, kill_requested,
                      submitted, started, conclusion FROM jobs";

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let conclusion: Option<String> = row.get(9)?;
    Ok(Record {
        id: id(row, 0)?,
        service: row.get(1)?,
        operation: row.get(2)?,
        owner: Principal::named(row.get::<_, String>(3)?),
        directory: PathBuf::from(row.get::<_, String>(4)?),
        state: state(row, 5)?,
        kill_requested: row.get(6)?,
        submitted: Timestamp(row.get(7)?),
        started: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        conclusion: conclusion.map(|text| parse(9, &text)).transpose()?,
    })
}

fn claim(row: &Row<'_>, taken_from: Option<String>) -> rusqlite::Result<Claim> {
    Ok(Claim {
        id: id(row, 0)?,
        service: row.get(1)?,
        owner: Principal::named(row.get::<_, String>(7)?),
        directory: PathBuf::from(row.get::<_, String>(2)?),
        fence: row.get::<_, i64>(3)?.cast_unsigned(),
        handle: row.get::<_, Option<String>>(4)?.map(Handle),
        taken_from,
        kill_requested: row.get(5)?,
        boot: row.get(6)?,
    })
}

fn fetch_claim(row: &Row<'_>) -> rusqlite::Result<FetchClaim> {
    Ok(FetchClaim {
        id: id(row, 0)?,
        owner: Principal::named(row.get::<_, String>(1)?),
        directory: PathBuf::from(row.get::<_, String>(2)?),
        fence: row.get::<_, i64>(3)?.cast_unsigned(),
    })
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    Ok(JobId::from_bytes(row.get(column)?))
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<JobState> {
    let name: String = row.get(column)?;
    JobState::from_name(&name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            format!("{name} is no job state").into(),
        )
    })
}

fn parse<T: serde::de::DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

fn json(conclusion: &Conclusion) -> Result<String, StoreError> {
    serde_json::to_string(conclusion).map_err(|error| StoreError::Storage(Box::new(error)))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            _ if sqlite::is_full(&error) => Self::Full,
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(Box::new(error)),
            _ => Self::Storage(Box::new(error)),
        }
    }
}

/// A store as the first version made it, with one job that waits.
#[cfg(test)]
pub(super) fn make_first_schema(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory,
                    max_running, submitted, plan) VALUES (?1, 'old', 'call', '', 0, '/d', 1, 1, '')";
    connection.execute(insert, [[9u8; 16]]).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_room_beyond_its_end_and_goes_on_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.sqlite");
        let store = SqliteStore::open(&path).unwrap();
        let metadata = || std::fs::metadata(&store.log).unwrap();
        let before = metadata().len();
        store.keep_room(1 << 20).unwrap();
        assert_eq!(metadata().len(), before);
        assert!(metadata().blocks() * 512 >= 1 << 20, "{:?}", metadata());
        let kill = |id: [u8; 16]| {
            let mut found = None;
            let work = &mut |t: &mut dyn Transaction| {
                t.request_kill(JobId::from_bytes(id), Timestamp(1)).map(|it| found = Some(it))
            };
            store.transact(true, work).unwrap();
            found
        };
        assert!(matches!(kill([1; 16]), Some(KillRequest::NoSuchJob)));
        make_first_job(&store);
        let again = SqliteStore::open(&path).unwrap();
        again.keep_room(1 << 20).unwrap();
        assert!(matches!(kill([9; 16]), Some(KillRequest::Dequeued)));
    }

    fn new_job(n: u8, plan: &str) -> NewJob {
        NewJob {
            id: JobId::from_bytes([n; 16]),
            service: "s".to_owned(),
            operation: "c".to_owned(),
            owner: Principal::anonymous(),
            key: None,
            fingerprint: 0,
            plan: plan.to_owned(),
            disk: 0,
            directory: "/d".into(),
            max_running: 1,
            max_queued: 1000,
            fetching: false,
            submitted: Timestamp(0),
            boot: None,
        }
    }

    /// Bytes of the database, its log not among them.
    fn size(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().len()
    }

    #[test]
    fn room_of_jobs_that_are_gone_is_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.sqlite");
        let store = SqliteStore::open(&path).unwrap();
        let another = SqliteStore::open(&path).unwrap();
        let plan = "x".repeat(1 << 20);
        for n in 1..=16 {
            let job = new_job(n, &plan);
            store.transact(true, &mut |t| t.submit(&job).map(drop)).unwrap();
        }
        store.give_back().unwrap();
        assert!(size(&path) >= 16 << 20, "{}", size(&path));
        for n in 1..=16 {
            let job = JobId::from_bytes([n; 16]);
            let remove = &mut |t: &mut dyn Transaction| {
                t.request_kill(job, Timestamp(0))?;
                t.remove(job).map(drop)
            };
            another.transact(true, remove).unwrap();
        }
        store.keep_room(4 << 20).unwrap();
        store.give_back().unwrap();
        assert!(size(&path) <= 2 * SPARE_ROOM, "{}", size(&path));
        // What is kept for a full disk is still there.
        let log = std::fs::metadata(&store.log).unwrap();
        assert!(log.blocks() * 512 >= 4 << 20, "{log:?}");
        another.transact(true, &mut |t| t.submit(&new_job(1, &plan)).map(drop)).unwrap();
    }

    #[test]
    fn a_store_of_before_that_can_not_shrink_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.sqlite");
        make_first_schema(&path);
        let old = Connection::open(&path).unwrap();
        old.pragma_update(None, "journal_mode", "WAL").unwrap();
        let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory,
                        max_running, submitted, plan) VALUES (?1, 's', 'c', '', 0, '/d', 1, 1, ?2)";
        for n in 10..20_u8 {
            old.execute(insert, params![[n; 16], "x".repeat(1 << 20)]).unwrap();
        }
        old.execute("DELETE FROM jobs WHERE service = 's' AND id <> ?1", [[10_u8; 16]]).unwrap();
        drop(old);
        assert!(size(&path) >= 10 << 20);
        let store = SqliteStore::open(&path).unwrap();
        assert!(size(&path) <= 2 << 20, "{}", size(&path));
        let mut plans = Vec::new();
        let read = &mut |t: &mut dyn Transaction| {
            plans.push(t.plan(JobId::from_bytes([9; 16]))?.map(|plan| plan.len()));
            plans.push(t.plan(JobId::from_bytes([10; 16]))?.map(|plan| plan.len()));
            Ok(())
        };
        store.read(read).unwrap();
        assert_eq!(plans, [Some(0), Some(1 << 20)]);
        let mode: i32 =
            lock(&store.reader).query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, 2);
    }

    fn make_first_job(store: &SqliteStore) {
        let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory,
                        max_running, submitted, plan) VALUES (?1, 's', 'c', '', 0, '/d', 1, 1, '')";
        lock(&store.writer).connection.execute(insert, [[9u8; 16]]).unwrap();
    }
}
