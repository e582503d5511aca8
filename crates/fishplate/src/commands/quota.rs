//! `fishplate quota URL`: what the caller may have, and has used.

use anyhow::Result;
use fishplate_client::quota;
use fishplate_formats::units::{rounded, rounded_time};
use serde_json::Value;

use super::client::{ConnectionArgs, run_interruptible};
use super::target::default_server;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;
use crate::output::text::harmless;

/// Tell what you may have of a server and have used: processor time, traffic, disk, jobs that run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate quota
  fishplate quota http://somewhere.com --json

For the operator, of all users: `fishplate accounts --quotas`.")]
pub(crate) struct Args {
    /// URL of a server, or of one of its services [default: FISHPLATE_URL, else http://127.0.0.1:8080]
    url: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl Args {
    /// The server that is meant.
    pub(crate) fn url(&self) -> String {
        self.url.clone().unwrap_or_else(default_server)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let url = args.url();
        let settings = args.connection.settings()?;
        let Some(told) = quota::of_caller(&url, &settings).await? else {
            let what = format!("the server at {url} tells nothing of quotas; is it an older one?");
            return Err(UsageError(what).into());
        };
        if output.json {
            output.value(&told)?;
        } else {
            table(&told, output)?;
        }
        Ok(Exit::Success)
    })
}

/// A table of what a server has told.
fn table(told: &Value, output: Output) -> Result<()> {
    output.line(&format!("{:10}  {:>10}  {:>10}", "quota", "used", "of"))?;
    for quota in told["quotas"].as_array().into_iter().flatten() {
        let name = quota["quota"].as_str().unwrap_or_default();
        let [used, most] = ["used", "limit"].map(|key| amount(quota, key));
        let mut line = format!("{name:10}  {used:>10}  {most:>10}");
        if matches!(name, "cpu_time" | "traffic") {
            line += &format!("  in {} days", told["days"]);
        }
        if let Some(day) = quota["roomAgain"].as_str() {
            line += &format!("; room again on {day}");
        }
        output.line(&harmless(&line))?;
    }
    Ok(())
}

/// An amount of a quota, for people; `-`: there is no bound.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and what is told is rounded"
)]
pub(super) fn amount(quota: &Value, key: &str) -> String {
    let Some(amount) = quota[key].as_f64() else { return "-".to_owned() };
    match quota["quota"].as_str().unwrap_or_default() {
        "cpu_time" => rounded_time((amount * 1000.0) as u64),
        "traffic" | "disk" => rounded(amount as u64),
        _ => amount.to_string(),
    }
}
