//! `fishplate accounts`: who used what.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use fishplate_contract::{JobState, Timestamp};
use fishplate_formats::units::rounded;
use fishplate_jobs::store::sqlite::SqliteStore;
use fishplate_jobs::store::{Store as _, UsageRecord};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::json;

use super::hosting::{StateArgs, own_data_directory};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;
use crate::output::text::harmless;
use crate::output::usage_record;

/// Tell who used what: jobs, time, memory, bytes
///
/// For the operator, on the server's machine, while it runs or not. Each job and each call is counted when it ends,
/// and stays counted when it is removed (limits usage_retention, usage_records); so are uploads, and what was read of
/// grants.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate accounts --since 2026-11-01 --data /var/lib/fishplate
  fishplate accounts --by service --since 2026-10-01 --until 2026-11-01 --csv
  fishplate accounts --since 2026-11-01 --ur > november.xml")]
pub(crate) struct Args {
    /// What to sum up for
    #[arg(long, value_name = "WHAT", default_value = "user")]
    by: Key,
    /// From this day on (UTC)
    #[arg(long, value_name = "DATE")]
    since: Option<Date>,
    /// Before this day (UTC)
    #[arg(long, value_name = "DATE")]
    until: Option<Date>,
    /// As CSV (RFC 4180)
    #[arg(long)]
    csv: bool,
    /// All records, as Usage Records of the Open Grid Forum (GFD.98, XML)
    #[arg(long, conflicts_with = "csv")]
    ur: bool,
    #[command(flatten)]
    which: StateArgs,
}

/// What is summed up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Key {
    User,
    Service,
}

/// A sum.
struct Account {
    /// Jobs that ended otherwise than `done`.
    failed: u64,
    used: UsageRecord,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    if output.json && (args.csv || args.ur) {
        let what = "--json, --csv and --ur are three forms: give one of them";
        return Err(UsageError(what.to_owned()).into());
    }
    let records = records(args)?;
    if args.ur {
        output.raw(&usage_record::xml(&records))?;
        return Ok(Exit::Success);
    }
    let accounts = accounts(&records, args.by);
    let name = match args.by {
        Key::User => "user",
        Key::Service => "service",
    };
    if output.json {
        let told = accounts.iter().map(|(key, Account { failed, used })| {
            json!({
                name: key,
                "jobs": used.count,
                "failed": failed,
                "wallSeconds": seconds(used),
                "cpuSeconds": used.cpu_seconds,
                "maxMemory": used.max_memory,
                "bytesIn": used.bytes_in,
                "bytesOut": used.bytes_out,
            })
        });
        let told: Vec<_> = told.collect();
        let day = |date: Option<Date>| date.map(|date| date.to_string());
        output.value(&json!({
            "since": day(args.since), "until": day(args.until), "accounts": told,
        }))?;
    } else if args.csv {
        let header = "jobs,failed,wallSeconds,cpuSeconds,maxMemory,bytesIn,bytesOut";
        output.line(&format!("{name},{header}"))?;
        for (key, Account { failed, used }) in &accounts {
            let (key, wall) = (quoted(key), seconds(used));
            let UsageRecord { count, cpu_seconds, max_memory, bytes_in, bytes_out, .. } = used;
            output.line(&format!(
                "{key},{count},{failed},{wall},{cpu_seconds},{max_memory},{bytes_in},{bytes_out}"
            ))?;
        }
    } else {
        table(&accounts, name, output)?;
    }
    Ok(Exit::Success)
}

fn records(args: &Args) -> Result<Vec<UsageRecord>> {
    let data = own_data_directory(args.which.data.as_deref())?;
    if !SqliteStore::is_in(&data) {
        return Ok(Vec::new());
    }
    let store = SqliteStore::open_in(&data)
        .with_context(|| format!("cannot open the store of {}", data.display()))?;
    let since = args.since.map_or(Ok(Timestamp(0)), begin)?;
    let until = args.until.map_or(Ok(Timestamp(i64::MAX)), begin)?;
    let mut records = Vec::new();
    store.read(&mut |t| {
        records = t.usage(since, until)?;
        Ok(())
    })?;
    Ok(records)
}

/// When a day begins, in UTC, as sums of days do.
fn begin(date: Date) -> Result<Timestamp> {
    Ok(Timestamp(date.to_zoned(TimeZone::UTC)?.timestamp().as_millisecond()))
}

fn accounts(records: &[UsageRecord], by: Key) -> BTreeMap<&str, Account> {
    let mut accounts: BTreeMap<&str, Account> = BTreeMap::new();
    for record in records {
        let key = match by {
            Key::User => record.owner.as_str(),
            Key::Service => record.service.as_str(),
        };
        let failed = if record.state == JobState::Done.name() { 0 } else { record.count };
        accounts
            .entry(key)
            .and_modify(|account| {
                account.failed += failed;
                account.used.add(record);
            })
            .or_insert_with(|| Account { failed, used: record.clone() });
    }
    accounts
}

#[expect(clippy::cast_precision_loss, reason = "a sum of milliseconds is below 2^53")]
fn seconds(used: &UsageRecord) -> f64 {
    used.wall as f64 / 1000.0
}

fn table(accounts: &BTreeMap<&str, Account>, name: &str, output: Output) -> Result<()> {
    let width = accounts.keys().map(|key| key.chars().count()).max().unwrap_or(0).max(11);
    output.line(&format!(
        "{name:width$}  {:>9}  {:>7}  {:>12}  {:>12}  {:>10}  {:>10}  {:>10}",
        "jobs", "failed", "wall s", "cpu s", "memory", "in", "out"
    ))?;
    for (key, Account { failed, used }) in accounts {
        let key = if key.is_empty() { "(anonymous)" } else { key };
        let line = format!(
            "{key:width$}  {:>9}  {failed:>7}  {:>12.1}  {:>12.2}  {:>10}  {:>10}  {:>10}",
            used.count,
            seconds(used),
            used.cpu_seconds,
            rounded(used.max_memory),
            rounded(used.bytes_in),
            rounded(used.bytes_out),
        );
        output.line(&harmless(&line))?;
    }
    Ok(())
}

/// A field of CSV.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_field_whatever_stands_in_it() {
        assert_eq!(quoted("ada"), "ada");
        assert_eq!(quoted("Lovelace, \"Ada\""), "\"Lovelace, \"\"Ada\"\"\"");
    }
}
