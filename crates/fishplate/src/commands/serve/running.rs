//! A server at work: what signals have it do, and what the service manager hears of it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::FromArgMatches as _;
use fishplate_contract::limits::GROUPS;
use fishplate_server::assembly;
use fishplate_server::current::CurrentHost;
use fishplate_server::http::tls::ServerTls;
use fishplate_server::settings::Limits;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{interval, sleep};

use super::{ServeArgs, guarded};
use crate::commands::grammar;
use crate::configuration::{Resolution, Setting};
use crate::output::diagnostics::Mistakes;

/// Keys that a reload reads again; those of the others take a restart.
const RELOADED: [&str; 16] = [
    "rank_address",
    "services",
    "builtin",
    "user_header",
    "proxy",
    "login",
    "plain_passwords",
    "open_descriptions",
    "jwt_issuer",
    "jwt_audience",
    "jwt_keys",
    "jwt_user",
    "open",
    "policy",
    "allow_host",
    "allow_origin",
];

/// Groups of limits that hold for each request by itself.
const RELOADED_GROUPS: [&str; 5] = ["messages", "calls", "functions", "connections", "logins"];

/// Those among them that bound all requests together.
const TAKES_RESTART: [&str; 8] = [
    "message_memory",
    "functions_running",
    "functions_queued",
    "streams_running",
    "max_connections",
    "connections_per_peer",
    "audit_size",
    "audit_lines",
];

/// A server that serves.
pub(super) struct RunningServer {
    /// The command line that it was started with.
    pub(super) words: Vec<OsString>,
    /// The configuration file that it was started with.
    pub(super) file: Option<String>,
    /// What was in force then.
    pub(super) settings: Vec<Setting>,
    /// The limits that this made.
    pub(super) limits: Limits,
    pub(super) address: IpAddr,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) current: Arc<CurrentHost>,
}

/// The signals that a server is led by.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
enum Demand {
    Stop,
    Reload,
}

impl Signals {
    /// Has none of them end the process from now on.
    pub(super) fn take() -> anyhow::Result<Self> {
        let take = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
            hangup: take(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Demand {
        tokio::select! {
            _ = self.terminate.recv() => Demand::Stop,
            _ = self.interrupt.recv() => Demand::Stop,
            _ = self.hangup.recv() => Demand::Reload,
        }
    }

    async fn stop(&mut self) {
        while matches!(self.next().await, Demand::Reload) {}
    }
}

impl RunningServer {
    /// Serves until it is told to stop, and all that was being answered is answered, or may take no longer.
    pub(super) async fn lead(self, mut serving: JoinHandle<()>, mut signals: Signals) {
        tell(&[NotifyState::Ready]);
        let watchdog = tokio::spawn(watchdog());
        while let Demand::Reload = signals.next().await {
            self.reload();
        }
        let longest = self.current.get().settings.stop_time;
        tracing::info!(
            "stopping: no call is taken any more; those being answered have {longest:?} (stop_time)"
        );
        tell(&[NotifyState::Stopping]);
        self.current.stop();
        tokio::select! {
            _ = &mut serving => tracing::info!("stopped; running jobs go on"),
            () = sleep(longest) => tracing::warn!("stopped before all calls were answered (limit stop_time); running jobs go on"),
            () = signals.stop() => tracing::warn!("stopped at once; running jobs go on"),
        }
        watchdog.abort();
    }

    /// Reads again what may change while calls go on. What can't be used leaves all as it was.
    fn reload(&self) {
        let now = NotifyState::monotonic_usec_now().ok();
        tell(&[Some(NotifyState::Reloading), now].into_iter().flatten().collect::<Vec<_>>());
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => tracing::info!("certificates were read again"),
                Err(error) => tracing::error!("the certificate from before stays in use: {error}"),
            }
        }
        match block_in_place(|| self.successor()) {
            Ok(services) => {
                tracing::info!(services, "configuration, policy and services were read again");
            }
            Err(error) => {
                let mistakes = error.downcast_ref::<Mistakes>();
                for line in mistakes.into_iter().flat_map(Mistakes::lines) {
                    tracing::error!("{line}");
                }
                let reason =
                    if mistakes.is_some() { String::new() } else { format!(": {error:#}") };
                tracing::error!("configuration and services from before stay in use{reason}");
            }
        }
        tell(&[NotifyState::Ready]);
    }

    /// Puts a host in place that is as the files say now; how many services it has.
    fn successor(&self) -> anyhow::Result<usize> {
        let resolution = Resolution::of(&grammar(), &self.words)?;
        // One that is missing for a moment must not make way for another.
        if let Some(before) = &self.file
            && resolution.file_name() != Some(before)
        {
            anyhow::bail!(
                "the configuration {before}, with which the server was started, is not there"
            );
        }
        let arguments = ServeArgs::from_arg_matches(&resolution.matches)?;
        let (descriptions, warnings) = arguments.descriptions(&resolution)?;
        warnings.lines().for_each(|line| tracing::warn!("{line}"));
        let running = &self.limits;
        let mut limits = arguments.limits(running.faces.public_url.clone())?;
        limits.faces.rank_addresses = arguments.rank_addresses(self.address)?;
        // What the process was made with.
        limits.faces.client_certificates = running.faces.client_certificates;
        limits.jobs = running.jobs.clone();
        limits.data = running.data.clone();
        limits.faces.relays.clone_from(&running.faces.relays);
        let exposure = arguments.exposure(self.address, self.tls.is_some());
        guarded(exposure, &limits.faces, arguments.open)?;
        let host =
            assembly::successor(&self.current.get(), limits, descriptions, arguments.functions())?;
        let services = host.services().filter(|entry| !entry.is_built_in()).count();
        self.current.replace(host);
        for setting in resolution.settings().iter().filter(|setting| takes_restart(setting)) {
            let is_same =
                |before: &&Setting| before.name == setting.name && before.values == setting.values;
            if !self.settings.iter().any(|before| is_same(&before)) {
                tracing::warn!("{} has changed; it is in force after a restart", setting.name);
            }
        }
        Ok(services)
    }
}

fn takes_restart(setting: &Setting) -> bool {
    let name = setting.name.as_str();
    if !setting.is_limit {
        return !RELOADED.contains(&name);
    }
    let group = GROUPS.iter().find(|(_, limits)| limits.iter().any(|limit| limit.name == name));
    TAKES_RESTART.contains(&name) || group.is_none_or(|(group, _)| !RELOADED_GROUPS.contains(group))
}

/// Tells the service manager, if there is one (sd_notify(3)).
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// Shows the service manager that the server is not stuck, if it wants to see that.
async fn watchdog() {
    let Some(period) = sd_notify::watchdog_enabled().filter(|period| *period > Duration::ZERO)
    else {
        return;
    };
    let mut turns = interval(period / 2);
    loop {
        turns.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reload_reads_again_is_a_setting() {
        let words = ["fishplate", "serve", "--builtin", "matrix"].map(OsString::from);
        let settings = Resolution::of(&grammar(), &words).unwrap().settings();
        for name in RELOADED.iter().chain(&TAKES_RESTART) {
            assert!(settings.iter().any(|setting| setting.name == *name), "{name}");
        }
        let takes = |name: &str| takes_restart(settings.iter().find(|it| it.name == name).unwrap());
        assert!(takes("listen") && takes("max_running") && takes("max_connections"));
        assert!(!takes("services") && !takes("envelope_size") && !takes("stop_time"));
        for group in RELOADED_GROUPS {
            assert!(GROUPS.iter().any(|(name, _)| *name == group), "{group}");
        }
    }
}
