//! From rows to records and back.

use std::path::PathBuf;

use fishplate_contract::{JobId, JobState, Principal, Timestamp};
use fishplate_data::sqlite;
use rusqlite::Row;

use crate::completion::Completion;
use crate::executor::Handle;
use crate::store::{Boot, Claim, FetchClaim, JobRecord, StoreError};

pub(super) const RECORD: &str =
    "SELECT id, service, operation, owner, directory, state, kill_requested,
                      submitted, started, completion FROM jobs";

pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<JobRecord> {
    let completion: Option<String> = row.get(9)?;
    Ok(JobRecord {
        id: id(row, 0)?,
        service: row.get(1)?,
        operation: row.get(2)?,
        owner: Principal::named(row.get::<_, String>(3)?),
        directory: PathBuf::from(row.get::<_, String>(4)?),
        state: state(row, 5)?,
        kill_requested: row.get(6)?,
        submitted: Timestamp(row.get(7)?),
        started: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        completion: completion.map(|text| parse(9, &text)).transpose()?,
    })
}

pub(super) fn claim(row: &Row<'_>, taken_over: bool) -> rusqlite::Result<Claim> {
    let boot =
        |column| row.get::<_, Option<String>>(column).map(|id| id.as_deref().map(Boot::of_id));
    Ok(Claim {
        id: id(row, 0)?,
        service: row.get(1)?,
        owner: Principal::named(row.get::<_, String>(7)?),
        directory: PathBuf::from(row.get::<_, String>(2)?),
        fence: row.get::<_, i64>(3)?.cast_unsigned(),
        handle: row.get::<_, Option<String>>(4)?.map(Handle),
        taken_from: if taken_over { boot(8)? } else { None },
        kill_requested: row.get(5)?,
        boot: boot(6)?,
    })
}

pub(super) fn fetch_claim(row: &Row<'_>) -> rusqlite::Result<FetchClaim> {
    Ok(FetchClaim {
        id: id(row, 0)?,
        owner: Principal::named(row.get::<_, String>(1)?),
        directory: PathBuf::from(row.get::<_, String>(2)?),
        fence: row.get::<_, i64>(3)?.cast_unsigned(),
    })
}

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    Ok(JobId::from_bytes(row.get(column)?))
}

pub(super) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<JobState> {
    let name: String = row.get(column)?;
    JobState::from_name(&name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            format!("{name} is no job state").into(),
        )
    })
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(
    column: usize,
    text: &str,
) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

pub(super) fn json(completion: &Completion) -> Result<String, StoreError> {
    serde_json::to_string(completion).map_err(|error| StoreError::Storage(Box::new(error)))
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
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
