//! What the client's commands have in common: how they reach a service, and how they stop.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use fishplate_client::listing::{self, Listing};
use fishplate_client::{
    Credential, Credentials, Error, Meter, Retry, Service, Settings, SoapVersion, is_same_address,
};
use fishplate_contract::{JobId, SessionId};
use fishplate_data::transfer::TransferError;
use tokio::signal::unix::{SignalKind, signal};

use super::secret;
use super::target::has_jobs;
use crate::exit::Exit;
use crate::output::failure::{RecoveryHint, UsageError};

/// The variable that holds the password of `--user`.
const PASSWORD_VARIABLE: &str = "FISHPLATE_PASSWORD";

/// How to reach a service.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connection {
    /// URL of the service, with or without ?wsdl
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) options: ConnectionOptions,
}

/// How messages to a service go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConnectionOptions {
    /// Call this address instead of the one in the service's description (through a tunnel, say)
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    address: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectionArgs,
    /// SOAP version
    #[arg(long, value_enum, default_value_t = Soap::V11, help_heading = "Connection")]
    soap: Soap,
    /// How data travel, both ways [default: mtom for large data if the server is ours, else xml]
    #[arg(long, value_parser = packagings(), help_heading = "Connection")]
    packaging: Option<String>,
}

/// How to reach any server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NetworkArgs {
    /// Give up after this time: 90, 90s, 5m, 2h [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Connection")]
    pub(crate) timeout: Option<Duration>,
    /// Time for a connection to come about
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "10s",
        help_heading = "Connection"
    )]
    connect_timeout: Duration,
    /// Tries before a broken connection is given up; for data at most 3 if there never was one
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Connection",
          value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// PEM file of the certificates to trust, instead of the system's (for references: beside them)
    #[arg(
        long,
        visible_alias = "ca",
        value_name = "FILE",
        env = "FISHPLATE_CA_FILE",
        help_heading = "Connection"
    )]
    cacert: Option<PathBuf>,
}

/// How to reach any server, and who calls.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// Log in as this user. The password is in FISHPLATE_PASSWORD, or is asked for
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    user: Option<String>,
    /// Log in with the token in this file [default: what `fishplate login` has kept for the server, FISHPLATE_TOKEN,
    /// or .netrc]
    #[arg(long, value_name = "FILE", conflicts_with = "user", help_heading = "Connection")]
    token_file: Option<PathBuf>,
}

/// A user, with the password that goes with the name.
fn with_password(user: &str) -> Result<Credential> {
    if user.contains(':') {
        let what =
            "--user takes the name alone: others see a password that stands on the command line";
        return Err(UsageError(what.to_owned()).into());
    }
    let typed = || {
        let otherwise = format!("set {PASSWORD_VARIABLE}, or use a token");
        secret::typed(&format!("Password of {user}: "), &otherwise)
    };
    let password = std::env::var(PASSWORD_VARIABLE).or_else(|_| typed())?;
    Ok(Credential::Password { user: user.to_owned(), password })
}

impl ConnectionArgs {
    /// As the client takes it.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let given = match (&self.user, &self.token_file) {
            (Some(user), _) => Some(with_password(user)?),
            (None, Some(path)) => Some(Credential::token_file(path)?),
            (None, None) => None,
        };
        let credentials = Credentials::of_user().with(given);
        Ok(Settings { credentials, ..self.network.settings() })
    }
}

impl NetworkArgs {
    /// As the client takes it; nobody in particular calls.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            ca_file: self.cacert.clone(),
            retry: Retry { attempts: self.attempts, ..Retry::default() },
            ..Settings::default()
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Soap {
    #[value(name = "1.1")]
    V11,
    #[value(name = "1.2")]
    V12,
}

fn packagings() -> PossibleValuesParser {
    let named = Settings::PACKAGINGS.map(|(name, about, ..)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(named)
}

impl Connection {
    /// The service.
    pub(crate) async fn connect(&self) -> Result<Service> {
        self.options.connect(&self.url).await
    }
}

impl ConnectionOptions {
    /// As the client takes it.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let settings = self.reach.settings()?;
        let packaged = self.packaging.as_ref().and_then(|name| settings.clone().packaged(name));
        let settings = packaged.unwrap_or(settings);
        Ok(Settings {
            soap: match self.soap {
                Soap::V11 => SoapVersion::V11,
                Soap::V12 => SoapVersion::V12,
            },
            address: self.address.clone(),
            ..settings
        })
    }

    /// The service at this address.
    pub(crate) async fn connect(&self, url: &str) -> Result<Service> {
        Ok(connect(url, &self.settings()?).await?)
    }

    /// The service at this address, or if it is a server's, those of its services that have jobs.
    pub(crate) async fn services(&self, url: &str) -> Result<Vec<Service>> {
        let settings = self.settings()?;
        let (server, known) = match connect(url, &settings).await {
            Err(Error::NoService { url, server, known }) if is_same_address(&url, &server) => {
                (server, known)
            }
            connected => return Ok(vec![connected?]),
        };
        let mut services = Vec::new();
        for name in known {
            let url = format!("{}/{name}", server.trim_end_matches('/'));
            let service = connect(&url, &settings).await?;
            if has_jobs(&service) {
                services.push(service);
            }
        }
        Ok(services)
    }
}

async fn connect(url: &str, settings: &Settings) -> Result<Service, Error> {
    let connected = Service::connect_with(url, settings.clone()).await;
    let Err(error @ (Error::Http { status: 404, .. } | Error::NotWsdl { .. })) = connected else {
        return connected;
    };
    match listing::list(url, settings).await {
        Ok(Some(Listing { server, services: known })) => {
            Err(Error::NoService { url: url.to_owned(), server, known })
        }
        Ok(None) | Err(_) => Err(error),
    }
}

/// The operation that is meant: as told, or the only one.
pub(crate) fn operation_of(service: &Service, told: Option<&str>) -> Result<String> {
    if let Some(name) = told {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = service.operations().collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(UsageError("the service has no operation that can be called".to_owned()).into()),
        _ => {
            let message = format!(
                "the service has several operations: choose with --operation {}",
                names.join("|")
            );
            Err(UsageError(message).into())
        }
    }
}

/// A job, as `ID` or `job=ID`.
pub(crate) fn job(text: &str) -> Result<JobId, String> {
    let id = text.strip_prefix("job=").unwrap_or(text).trim();
    id.parse().map_err(|error| format!("{error}"))
}

/// A session, as `ID` or `session=ID`.
pub(crate) fn session(text: &str) -> Result<SessionId, String> {
    let id = text.strip_prefix("session=").unwrap_or(text).trim();
    id.parse().map_err(|error| format!("{error}"))
}

/// A time: seconds, or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("write a number with s, m, h or d, such as 90s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "write a time such as 90s".to_owned())?;
    let duration =
        Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("it must be more than nothing".to_owned()) } else { Ok(duration) }
}

/// A command was stopped by a signal.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Interruption {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// What it was doing.
    message: &'static str,
    /// How to find what goes on at the server.
    pub(crate) hints: Vec<String>,
}

/// Tells how to go on after an error that another run may not meet, if there is anything to go on
/// with.
pub(crate) fn going_on(error: Error, hints: &[String], meter: &Meter) -> anyhow::Error {
    let begun = meter.moved() > 0 || meter.received() > 0;
    let passes = match error {
        Error::Unreachable { .. } | Error::Transfer(TransferError::Unreachable { .. }) => begun,
        Error::ConnectionLost { .. }
        | Error::TimedOut { .. }
        | Error::Http { status: 502..=504, .. }
        | Error::Transfer(TransferError::Broken { .. } | TransferError::Busy { .. }) => true,
        _ => false,
    };
    let error = anyhow::Error::from(error);
    if passes && !hints.is_empty() { error.context(RecoveryHint(hints.to_vec())) } else { error }
}

/// Runs a client's command. A signal stops it so that its temporary files are removed; the hints
/// then tell how to go on.
pub(crate) fn run_interruptible<T>(
    hints: &[String],
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let stopped = |exit, message| Err(Interruption { exit, message, hints: hints.to_vec() }.into());
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = work => ended,
            _ = interrupt.recv() => stopped(Exit::Interrupted, "interrupted"),
            _ = terminate.recv() => stopped(Exit::Terminated, "terminated"),
        }
    });
    // Threads that read and write files end by themselves, unless one hangs on a pipe.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, expected) in
            [("90", 90_000), ("90s", 90_000), ("1.5m", 90_000), ("2h", 7_200_000), ("250ms", 250)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for text in ["", "s", "-1", "1w", "1 s", "0", "1e400", "999999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_job_stands_alone_or_as_an_argument() {
        let id = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(job(id).unwrap().to_string(), id);
        assert_eq!(job(&format!("job={id}")).unwrap().to_string(), id);
        assert_eq!(job("7").unwrap_err(), "a job ID is 32 lower-case hexadecimal digits");
    }
}
