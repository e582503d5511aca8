//! What only this store promises.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fishplate_contract::{JobId, Timestamp, lock};
use rusqlite::{Connection, params};

use super::claims::{FETCHING, RUNNING};
use super::notices::DUE;
use super::room::SPARE_ROOM;
use super::schema::{SCHEMA_VERSION, make_schema};
use super::sql::{LISTED_ENDED, LISTED_UNFINISHED};
use super::store::SqliteStore;
use super::usage::{JOB_BYTES, UNFINISHED};
use crate::store::conformance::{dead, job, request};
use crate::store::quota::DayUsage;
use crate::store::{Boot, KillRequest, NewJob, Store as _, Transaction};

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
    NewJob { plan: plan.to_owned(), disk: 0, max_running: 1, max_queued: 1000, ..job(n, "s") }
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
    make_schema(&path, 1);
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

#[test]
fn of_a_store_of_before_only_the_first_claim_tells_the_boot() {
    // Under a later fence it may have been taken over from another boot.
    for (fence, boot) in [(1, Boot::Current), (2, Boot::Over)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.sqlite");
        make_schema(&path, 4);
        let run = "UPDATE jobs SET state = 'running', holder = ?1, fence = ?2";
        Connection::open(&path).unwrap().execute(run, params![dead(), fence]).unwrap();
        let mut boots = Vec::new();
        let claim = &mut |t: &mut dyn Transaction| {
            boots.extend(t.claim(&request("h"))?.iter().map(|claim| claim.taken_from));
            Ok(())
        };
        SqliteStore::open(&path).unwrap().transact(true, claim).unwrap();
        assert_eq!(boots, [Some(boot)], "fence {fence}");
    }
}

fn make_first_job(store: &SqliteStore) {
    let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory,
                    max_running, submitted, plan) VALUES (?1, 's', 'c', '', 0, '/d', 1, 1, '')";
    lock(&store.writer).connection.execute(insert, [[9u8; 16]]).unwrap();
}

/// What the process of `a_migration_that_is_killed_loses_nothing` is to migrate.
const MIGRATED: &str = "FISHPLATE_TEST_MIGRATED";

#[test]
#[ignore = "a process of a_migration_that_is_killed_loses_nothing"]
fn migrate_in_a_process_of_its_own() {
    SqliteStore::open(Path::new(&std::env::var_os(MIGRATED).unwrap())).unwrap();
}

#[test]
fn a_migration_that_is_killed_loses_nothing() {
    const JOBS: i64 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    make_schema(&path, 1);
    let sql = Connection::open(&path).unwrap();
    // So that it need not be written anew before.
    sql.execute_batch("PRAGMA auto_vacuum = 2; VACUUM").unwrap();
    // Running jobs, each of which the migration writes, and more than stay in memory meanwhile.
    sql.execute(
        "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory, max_running,
             submitted, plan, state, fence, holder)
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
         SELECT randomblob(16), 'old', 'call', '', 0, '/d', 1, 1, printf('%0100d', n), 'running', 1, 'boot/1' FROM n",
        [JOBS],
    )
    .unwrap();
    let found = |sql: &Connection| {
        let version: i32 = sql.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        let count = "SELECT count(*) FROM jobs WHERE state = 'running' AND fence = 1";
        let sound: String = sql.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        (version, sql.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap())
    };
    drop(sql);
    let log = directory.path().join("jobs.sqlite-wal");
    let process = || {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "store::sqlite::tests::migrate_in_a_process_of_its_own"])
            .env(MIGRATED, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut interrupted = 0;
    for least in [1 << 16, 1 << 20, 4 << 20] {
        let mut migrating = process();
        // It has written so much of the migration.
        let is_written = || std::fs::metadata(&log).is_ok_and(|log| log.len() > least);
        while !is_written() && migrating.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        migrating.kill().unwrap();
        migrating.wait().unwrap();
        let (version, jobs) = found(&Connection::open(&path).unwrap());
        assert_eq!(jobs, JOBS);
        assert!(version == 1 || version == SCHEMA_VERSION, "{version}");
        interrupted += usize::from(version == 1);
    }
    assert!(interrupted > 0, "no migration was killed before its end");
    assert!(process().wait().unwrap().success());
    let sql = Connection::open(&path).unwrap();
    assert_eq!(found(&sql), (SCHEMA_VERSION, JOBS));
    let of_boot = "SELECT count(*) FROM jobs WHERE claimed_boot = 'boot'";
    assert_eq!(sql.query_row(of_boot, [], |row| row.get::<_, i64>(0)).unwrap(), JOBS);
}

#[test]
fn a_store_of_a_newer_fishplate_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    make_schema(&path, 5);
    let sql = Connection::open(&path).unwrap();
    sql.pragma_update(None, "user_version", 99).unwrap();
    drop(sql);
    let error = SqliteStore::open(&path).err().unwrap();
    let error = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.contains("schema 99") && error.contains("newer fishplate"), "{error}");
    // A store of ours would have been written anew for that.
    let sql = Connection::open(&path).unwrap();
    assert_eq!(sql.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn what_owners_have_used_before_there_were_quotas_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    make_schema(&path, 7);
    let day = 86_400_000;
    let old = Connection::open(&path).unwrap();
    let insert = "INSERT INTO usage (owner, service, operation, count, submitted, ended, state,
                    cpu_seconds, wall, max_memory, bytes_in, bytes_out)
                  VALUES ('ann', 's', 'call', 1, 0, ?1, 'done', 1.5, 0, 0, 1, 10)";
    for at in [day + 1, day + 2, 2 * day] {
        old.execute(insert, [at]).unwrap();
    }
    let sums = "INSERT INTO usage_sums VALUES (0, 'ann', 's', 'call', 'done', 9, 7.0, 0, 0, 2, 3),
                  (?1, 'ann', 's', 'call', 'failed', 1, 0.5, 0, 0, 0, 5)";
    old.execute(sums, [day]).unwrap();
    drop(old);
    let store = SqliteStore::open(&path).unwrap();
    let mut usage = None;
    let read = &mut |t: &mut dyn Transaction| {
        usage = Some(t.owner_usage("ann", Timestamp(0))?);
        Ok(())
    };
    store.read(read).unwrap();
    let told = |it: &DayUsage| (it.day.0 / day, it.cpu_seconds, it.bytes);
    let days: Vec<_> = usage.unwrap().days.iter().map(told).collect();
    assert_eq!(days, [(0, 7.0, 5), (1, 3.5, 27), (2, 1.5, 11)]);
}

#[test]
fn how_long_jobs_ran_is_known_of_those_of_before_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.sqlite");
    make_schema(&path, 9);
    let old = Connection::open(&path).unwrap();
    let insert = "INSERT INTO jobs (id, service, operation, owner, fingerprint, directory, max_running, submitted, plan,
                    state, started, ended, completion)
                  VALUES (?1, 's', 'c', '', 0, '/d', 1, 1, '', 'failed', ?2, 9000, ?3)";
    let seen = r#"{"state":"failed","ended":8000,"ending":{"started":5000,"ended":8000}}"#;
    let unseen = r#"{"state":"failed","ended":8000,"ending":null}"#;
    for (n, started, completion) in
        [(1_u8, Some(1000), seen), (2, Some(1000), unseen), (3, None, unseen)]
    {
        old.execute(insert, params![[n; 16], started, completion]).unwrap();
    }
    drop(old);
    SqliteStore::open(&path).unwrap();
    let sql = Connection::open(&path).unwrap();
    let mut ran = sql.prepare("SELECT ran FROM jobs WHERE service = 's' ORDER BY number").unwrap();
    let ran = ran.query_map([], |row| row.get::<_, Option<i64>>(0)).unwrap();
    assert_eq!(ran.collect::<Result<Vec<_>, _>>().unwrap(), [Some(3000), Some(7000), None]);
}

#[test]
fn what_is_asked_for_each_job_does_not_look_through_all_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("jobs.sqlite")).unwrap();
    let reader = lock(&store.reader);
    for (sql, by) in [
        (UNFINISHED, "jobs_unfinished (owner=?)"),
        (JOB_BYTES, "COVERING INDEX jobs_occupying (owner=?)"),
        (RUNNING, "jobs_running"),
        (FETCHING, "jobs_fetching"),
        (DUE, "jobs_notices"),
        (LISTED_ENDED, "COVERING INDEX jobs_listed_ended (owner=? AND service=? AND number<?)"),
        (LISTED_UNFINISHED, "jobs_unfinished (owner=?)"),
    ] {
        let mut statement = reader.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let values = rusqlite::params_from_iter(std::iter::repeat_n(0, count));
        let steps = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
        let plan: String = steps.map(Result::unwrap).collect();
        assert!(plan.contains(by), "{sql}: {plan}");
    }
}
