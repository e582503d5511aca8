//! `fishplate accounts`: who used what.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use fishplate_contract::{Clock as _, JobState, Principal, SystemClock, Timestamp};
use fishplate_data::Pool;
use fishplate_formats::units::rounded;
use fishplate_jobs::store::UsageRecord;
use fishplate_jobs::store::quota::OwnerQuotas;
use fishplate_server::faces::quota;
use fishplate_server::policy;
use fishplate_server::policy::quotas::PolicyQuotas;
use fishplate_server::settings::Limits;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::hosting::{self, StateArgs, own_data_directory};
use super::quota::amount;
use super::serve;
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
  fishplate accounts --since 2026-11-01 --ur > november.xml
  fishplate accounts --quotas --config /etc/fishplate/fishplate.toml")]
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
    /// What each user has used beside what they may have, of the days for which quotas are
    #[arg(long, conflicts_with_all = ["since", "until", "csv", "ur"])]
    quotas: bool,
    #[command(flatten)]
    settings: QuotaSettings,
    /// All records, as Usage Records of the Open Grid Forum (GFD.98, XML)
    #[arg(long, conflicts_with = "csv")]
    ur: bool,
    #[command(flatten)]
    which: StateArgs,
}

/// Where the server has its quotas from.
#[derive(Debug, clap::Args)]
struct QuotaSettings {
    /// The server's configuration [default: as `serve` finds it]
    #[arg(long, value_name = "FILE", env = "FISHPLATE_CONFIG")]
    config: Option<PathBuf>,
    /// The server's policy, if the configuration does not name it
    #[arg(long, value_name = "FILE", env = "FISHPLATE_POLICY")]
    policy: Option<PathBuf>,
    /// A limit of the server, if the configuration does not say it
    #[arg(long = "limit", value_name = "NAME=VALUE", requires = "quotas")]
    limits: Vec<String>,
}

impl QuotaSettings {
    /// The settings of a server that is started with these.
    fn limits(&self, data: &Path) -> Result<Limits> {
        let mut words = ["fishplate", "serve", "--data"].map(OsString::from).to_vec();
        words.push(data.into());
        let files = [("--config", &self.config), ("--policy", &self.policy)];
        for (flag, file) in files {
            words.extend(file.iter().flat_map(|file| [flag.into(), file.clone().into_os_string()]));
        }
        words.extend(self.limits.iter().flat_map(|limit| ["--limit".into(), limit.into()]));
        serve::limits(&words)
    }
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
    if args.quotas {
        return quotas(args, output);
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
    let Some(store) = hosting::store_if_any(&data)? else { return Ok(Vec::new()) };
    let since = args.since.map_or(Ok(Timestamp(0)), begin)?;
    let until = args.until.map_or(Ok(Timestamp(i64::MAX)), begin)?;
    let mut records = Vec::new();
    store.read(&mut |t| {
        records = t.usage(since, until)?;
        Ok(())
    })?;
    Ok(records)
}

/// What each user has used of what they may have.
fn quotas(args: &Args, output: Output) -> Result<Exit> {
    let data = own_data_directory(args.which.data.as_deref())?;
    let limits = args.settings.limits(&data)?;
    let defaults = limits.jobs.owner_limits();
    let quotas: Box<dyn OwnerQuotas> = match &limits.faces.policy {
        Some(path) => Box::new(PolicyQuotas::new(Arc::new(policy::file::read(path)?), defaults)),
        None => Box::new(defaults),
    };
    let pool = limits.data.pool.clone().unwrap_or_else(|| data.join("pool"));
    let pool = pool.is_dir().then(|| {
        Pool::open(limits.data.pool_settings(pool, limits.jobs.disk_reserve), Arc::new(SystemClock))
    });
    let pool = pool.transpose()?;
    let since = defaults.period.start(SystemClock.now());
    let mut used = BTreeMap::new();
    if let Some(store) = hosting::store_if_any(&data)? {
        store.read(&mut |t| {
            for record in t.usage(since, Timestamp(i64::MAX))? {
                let owner = record.owner.as_str();
                if !used.contains_key(owner) {
                    used.insert(owner.to_owned(), t.owner_usage(owner, since)?);
                }
            }
            Ok(())
        })?;
    }
    let mut told = Vec::new();
    for (owner, mut usage) in used {
        if let Some(pool) = &pool {
            usage.data_bytes = pool.charged(&Principal::named(&owner))?;
        }
        told.push(quota::json(&owner, &quotas.of(&owner), &usage));
    }
    if output.json {
        output.value(&json!({ "accounts": told }))?;
        return Ok(Exit::Success);
    }
    let cells = |account: &Value| -> Vec<String> {
        let of = |quota: &Value| format!("{} / {}", amount(quota, "used"), amount(quota, "limit"));
        account["quotas"].as_array().into_iter().flatten().map(of).collect()
    };
    let names = |account: &Value| -> Vec<String> {
        let name = |quota: &Value| quota["quota"].as_str().unwrap_or_default().to_owned();
        account["quotas"].as_array().into_iter().flatten().map(name).collect()
    };
    let line = |user: &str, cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:>23}")).collect();
        output.line(&harmless(&format!("{user:11}  {}", cells.join("  "))))
    };
    for (at, account) in told.iter().enumerate() {
        if at == 0 {
            line("user", &names(account))?;
        }
        let user = account["user"].as_str().filter(|user| !user.is_empty());
        line(user.unwrap_or("(anonymous)"), &cells(account))?;
    }
    Ok(Exit::Success)
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
