//! The tables, and how those of earlier versions become them.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// Version of the schema, in `PRAGMA user_version`.
pub(super) const SCHEMA_VERSION: i32 = 11;

/// A store that was just made is of version 1, and each migration leads to the next.
const _: () = assert!(MIGRATIONS.len() == 10);

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
    // 4: the column is named as the type in it.
    "ALTER TABLE jobs RENAME COLUMN conclusion TO completion;",
    // 5: the boot in which a job was claimed from the queue. Under a later fence than the first it may
    // have been taken over: no boot, which is none that goes on.
    "ALTER TABLE jobs ADD COLUMN claimed_boot TEXT NOT NULL DEFAULT '';
     UPDATE jobs SET claimed_boot = substr(holder, 1, instr(holder, '/') - 1)
       WHERE state = 'running' AND fence = 1;",
    // 6: what was used. `count` is 1, or that of a sum; `wall` is in milliseconds.
    "ALTER TABLE jobs ADD COLUMN bytes_in INTEGER NOT NULL DEFAULT 0;
     CREATE TABLE usage (
       number INTEGER PRIMARY KEY,
       job BLOB,
       owner TEXT NOT NULL,
       service TEXT NOT NULL,
       operation TEXT NOT NULL,
       count INTEGER NOT NULL,
       submitted INTEGER NOT NULL,
       started INTEGER,
       ended INTEGER NOT NULL,
       state TEXT NOT NULL,
       cpu_seconds REAL NOT NULL,
       wall INTEGER NOT NULL,
       max_memory INTEGER NOT NULL,
       bytes_in INTEGER NOT NULL,
       bytes_out INTEGER NOT NULL
     ) STRICT;
     CREATE TABLE usage_sums (
       day INTEGER NOT NULL,
       owner TEXT NOT NULL,
       service TEXT NOT NULL,
       operation TEXT NOT NULL,
       state TEXT NOT NULL,
       count INTEGER NOT NULL,
       cpu_seconds REAL NOT NULL,
       wall INTEGER NOT NULL,
       max_memory INTEGER NOT NULL,
       bytes_in INTEGER NOT NULL,
       bytes_out INTEGER NOT NULL,
       PRIMARY KEY (day, owner, service, operation, state)
     ) STRICT, WITHOUT ROWID;",
    // 7: whose turn it is. `served`: when an owner was given a place last while others waited.
    "DROP INDEX jobs_queued;
     CREATE INDEX jobs_queued ON jobs (service, owner, number) WHERE state = 'queued';
     CREATE TABLE owners (owner TEXT PRIMARY KEY, served INTEGER NOT NULL) STRICT, WITHOUT ROWID;",
    // 8: quotas. Sums of what each owner has used, a row a day, which the trigger keeps: no record is written
    // without them. `bytes`: in and out.
    "CREATE TABLE usage_days (
       owner TEXT NOT NULL,
       day INTEGER NOT NULL,
       cpu_seconds REAL NOT NULL,
       bytes INTEGER NOT NULL,
       PRIMARY KEY (owner, day)
     ) STRICT, WITHOUT ROWID;
     INSERT INTO usage_days
       SELECT owner, day, sum(cpu_seconds), sum(bytes_in + bytes_out) FROM (
         SELECT owner, ended / 86400000 * 86400000 AS day, cpu_seconds, bytes_in, bytes_out FROM usage
         UNION ALL SELECT owner, day, cpu_seconds, bytes_in, bytes_out FROM usage_sums)
       GROUP BY owner, day;
     CREATE TRIGGER usage_counted AFTER INSERT ON usage BEGIN
       INSERT INTO usage_days VALUES (new.owner, new.ended / 86400000 * 86400000, new.cpu_seconds,
         new.bytes_in + new.bytes_out)
       ON CONFLICT (owner, day) DO UPDATE SET cpu_seconds = cpu_seconds + excluded.cpu_seconds,
         bytes = bytes + excluded.bytes;
     END;
     CREATE INDEX usage_days_day ON usage_days (day);
     CREATE INDEX jobs_unfinished ON jobs (owner, started, bytes_in) WHERE ended IS NULL;
     CREATE INDEX jobs_occupying ON jobs (owner, disk);",
    // 9: what is to be told of a job (bits: its start, its end), who tells it, and until when nobody else does.
    "ALTER TABLE jobs ADD COLUMN notices INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE jobs ADD COLUMN notice_holder TEXT NOT NULL DEFAULT '';
     ALTER TABLE jobs ADD COLUMN notice_until INTEGER NOT NULL DEFAULT 0;
     CREATE INDEX jobs_notices ON jobs (notice_until)
       WHERE notices <> 0 AND (ended IS NOT NULL OR (notices & 1 AND started IS NOT NULL));",
    // 10: a digest of all that a job's results depend on, of jobs whose caller takes those of an equal one.
    "ALTER TABLE jobs ADD COLUMN content TEXT;
     CREATE INDEX jobs_content ON jobs (service, content, number) WHERE content IS NOT NULL;",
    // 11: how long an ended job ran, in milliseconds; and an index of all by which a list chooses of those that have ended.
    // A job is put into it once, at its end.
    "ALTER TABLE jobs ADD COLUMN ran INTEGER;
     UPDATE jobs SET ran = max(0, completion ->> '$.ended' - coalesce(completion ->> '$.ending.started', started))
       WHERE json_valid(completion);
     CREATE INDEX jobs_listed_ended ON jobs (owner, service, number, state, operation, submitted, ran, ended)
       WHERE ended IS NOT NULL;",
];

/// The version of a store; 0 of one that was just made.
///
/// # Errors
/// If a newer program has written it.
pub(super) fn version(connection: &Connection) -> Result<i32, StoreError> {
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::Storage(
            format!(
                "a newer fishplate has written it (schema {version}, and this one knows {SCHEMA_VERSION}): start that \
                 one, or restore a backup from before the upgrade"
            )
            .into(),
        ));
    }
    Ok(version)
}

/// Makes the tables, or those of an earlier version what they are now: all of it or, killed in the middle, nothing.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version = version(&transaction)?;
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

/// A store of this version of the schema, with one job that waits.
#[cfg(test)]
pub(in crate::store) fn make_schema(path: &std::path::Path, version: u16) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch(&MIGRATIONS[..usize::from(version) - 1].concat()).unwrap();
    connection.pragma_update(None, "user_version", version).unwrap();
    let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory,
                    max_running, submitted, plan) VALUES (?1, 'old', 'call', '', 0, '/d', 1, 1, '')";
    connection.execute(insert, [[9u8; 16]]).unwrap();
}
