//! A domain on servers from its start to its end: what its ranks write, signals, results, the exit code.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fishplate_client::arguments::RequestedOutput;
use fishplate_client::deliver::{FetchSettings, deliver};
use fishplate_client::domain::{
    DomainError, DomainEvent, DomainPlan, EndedRank, Instances, Manager, RankOutput,
};
use fishplate_client::find::{FoundService, SearchResult, ServiceQuery, find};
use fishplate_client::{LogStream, Options, Settings};
use fishplate_launch::{Cause, EndpointsFile, Sink};
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::status::Deadlock;
use fishplate_ranks::{Credential, DomainId};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::file::{DomainPart, ServiceChoice};
use super::{HowArgs, status};
use crate::exit::Exit;
use crate::output::failure::UsageError;
use crate::output::{Output, ranks};

/// Outputs that wait to be written.
const WAITING: usize = 64;

/// A domain that is to be run.
#[derive(Debug)]
pub(crate) struct DomainRun {
    /// Its ID.
    pub(crate) id: DomainId,
    /// What its ranks and its SOAP clients show.
    pub(crate) credential: Credential,
    /// Its ranks.
    pub(crate) parts: Vec<DomainPart>,
    /// How servers are reached.
    pub(crate) settings: Settings,
    /// What carries messages.
    pub(crate) transport: TransportKind,
    /// Each line of output begins with its rank.
    pub(crate) label: bool,
    /// A rank that fails does not end the others.
    pub(crate) keep_going: bool,
    /// What has not ended by then is ended.
    pub(crate) time: Option<Duration>,
    /// How many bytes of what ranks write are shown, which their own logs have anyway; none: all.
    pub(crate) shown: Option<u64>,
    /// What else was told.
    pub(crate) how: HowArgs,
}

/// The pause between two looks for a deadlock.
const DEADLOCK_PAUSE: Duration = Duration::from_secs(2);

/// Why it is over.
enum EndReason {
    Ranks(Vec<EndedRank>),
    Stopped(Cause),
}

/// Runs it.
pub(crate) fn run(run: DomainRun, output: Output) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(run_domain(run, output))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(outcome)
}

async fn run_domain(mut run: DomainRun, output: Output) -> Result<Outcome> {
    let mut signals = Signals::new()?;
    let instances = tokio::select! {
        found = find_services(std::mem::take(&mut run.parts), &run.settings) => found?,
        signal = signals.next() => return Ok(Outcome::interrupted(signal)),
    };
    let plan = DomainPlan {
        id: run.id.to_string(),
        credential: run.credential.reveal(),
        // Servers from before memory was shared know no name for it.
        transport: Some(run.transport)
            .filter(|kind| *kind != TransportKind::default())
            .map(|kind| kind.name().to_owned()),
        instances,
        wait: run.how.wait.unwrap_or_default(),
        direct: run.how.direct,
        keep_going: run.keep_going,
    };
    let id = plan.id.clone();
    let endpoints = run.how.endpoints.as_deref();
    let mut endpoints = endpoints.map(EndpointsFile::new).transpose().context(NO_ENDPOINTS)?;
    let manager = tokio::select! {
        manager = Manager::find(plan, &run.settings) => manager.map_err(usage)?,
        signal = signals.next() => return Ok(Outcome::interrupted(signal)),
    };
    let between = match (manager.servers(), run.how.direct) {
        (1, _) => "",
        (_, false) => ", which pass messages on",
        (_, true) => ", ranks reach each other directly",
    };
    output.note(&format!(
        "domain {id}: ranks: {}, servers: {}{between}",
        manager.ranks(),
        manager.servers()
    ));
    let mut writer = Writer::new(manager.ranks(), run.label, output.json)?;
    writer.room = run.shown;
    let (tell, mut told) = mpsc::channel(WAITING);
    let mut deadlock = None;
    let ended = {
        let running = manager.run(&tell);
        tokio::pin!(running);
        let late = async {
            match run.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        let stuck = find_deadlock(&manager);
        tokio::pin!(stuck);
        loop {
            tokio::select! {
                biased;
                signal = signals.next() => break Ok(EndReason::Stopped(Cause::Interrupted { signal })),
                Some(event) = told.recv() => match event {
                    DomainEvent::Joined(addresses) => {
                        let file = endpoints.take();
                        let told = file.map(|file| tell_endpoints(file, &run, &addresses));
                        if let Some(Err(error)) = told {
                            break Err(error);
                        }
                    }
                    DomainEvent::Output(written) => {
                        if !writer.write(&written) {
                            break Ok(EndReason::Stopped(Cause::OutputClosed));
                        }
                    }
                },
                ended = &mut running => break ended.map(EndReason::Ranks).map_err(usage),
                found = &mut stuck, if deadlock.is_none() => {
                    output.note(&found.to_string());
                    deadlock = Some(found);
                }
                () = &mut late => break Ok(EndReason::Stopped(Cause::Timeout)),
            }
        }
    };
    while let Ok(event) = told.try_recv() {
        if let DomainEvent::Output(written) = event {
            writer.write(&written);
        }
    }
    writer.finish();
    let left = tokio::select! {
        left = manager.end() => left,
        // Who asks twice waits no longer.
        _ = signals.next() => Vec::new(),
    };
    for error in &left {
        output.note(&sentence(error));
    }
    let ended = ended?;
    let outcome = Outcome::of(&ended);
    if let (EndReason::Ranks(ranks), Some(directory)) = (&ended, &run.how.results) {
        for rank in ranks.iter().filter(|rank| !rank.has_failed()) {
            let directory = directory.join(rank.rank.to_string());
            tokio::select! {
                got = get_results(&manager, rank, &directory) => got?,
                signal = signals.next() => return Ok(Outcome::interrupted(signal)),
            }
        }
    }
    if output.json {
        let mut told = outcome.to_json(&id, &ended);
        told["deadlock"] = ranks::deadlock_as_json(deadlock.as_ref());
        output.value(&told)?;
    } else if let Some(why) = &outcome.why {
        output.note(why);
    }
    Ok(outcome)
}

const NO_ENDPOINTS: &str = "the file of endpoints can't be written";

/// Tells SOAP clients where the ranks are.
fn tell_endpoints(file: EndpointsFile, run: &DomainRun, addresses: &[String]) -> Result<()> {
    let addresses = addresses.iter().map(|of| of.parse()).collect::<Result<Vec<Address>, _>>()?;
    file.write(run.id, &run.credential, &addresses).context(NO_ENDPOINTS)
}

/// The services that are meant: those that are described by their interface are looked for.
async fn find_services(parts: Vec<DomainPart>, settings: &Settings) -> Result<Vec<Instances>> {
    let mut instances = Vec::new();
    for DomainPart { service, operation, ranks, inputs } in parts {
        let url = match service {
            ServiceChoice::Url(url) => url,
            ServiceChoice::Interface { wanted, servers } => {
                let meant = ServiceQuery::named(&wanted, settings).await?;
                let found = find(&meant, &servers, settings).await?;
                let is_rank = |of: &&FoundService| of.service.has_ranks();
                let chosen = found.matches().find(is_rank).map(|of| of.service.address());
                chosen.ok_or_else(|| no_service(&wanted, &servers, &found))?
            }
        };
        instances.push(Instances { url, operation, ranks, inputs });
    }
    Ok(instances)
}

fn no_service(wanted: &str, servers: &[String], found: &SearchResult) -> UsageError {
    let mut what = format!(
        "no service of {} has the interface {wanted} and can be a rank",
        servers.join(", ")
    );
    for of in &found.services {
        let why = match of.differences.iter().find(|difference| difference.breaks) {
            Some(difference) => difference.to_string(),
            None => "its service file has no [ranks]".to_owned(),
        };
        what.push_str(&format!("; {}: {why}", of.service.address()));
    }
    for away in &found.away {
        what.push_str(&format!("; {away}"));
    }
    UsageError(what)
}

/// Looks now and then whether ranks wait for each other; gives the first deadlock.
async fn find_deadlock(manager: &Manager) -> Deadlock {
    loop {
        tokio::time::sleep(DEADLOCK_PAUSE).await;
        if let Some(found) = Deadlock::find(&status::known(&manager.state().await)) {
            return found;
        }
    }
}

/// Mistakes of whoever uses it, apart from those of servers.
fn usage(error: DomainError) -> anyhow::Error {
    match error {
        DomainError::Server { url, what, source } => {
            anyhow::Error::from(*source).context(format!("{url}: {what}"))
        }
        other => UsageError(other.to_string()).into(),
    }
}

/// An error with its causes.
fn sentence(error: &DomainError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(why) = cause {
        text.push_str(&format!(": {why}"));
        cause = why.source();
    }
    text
}

/// How it ended, for whoever ran it.
pub(crate) struct Outcome {
    /// The exit code of a command that ran it.
    pub(crate) code: u8,
    why: Option<String>,
    /// The rank that failed first.
    pub(crate) failed: Option<u32>,
}

impl Outcome {
    fn of(end: &EndReason) -> Self {
        let told = |cause: &Cause| Self {
            code: cause.exit_code(),
            // Whoever closed the output or ended the command knows.
            why: matches!(cause, Cause::Timeout).then(|| cause.to_string()),
            failed: None,
        };
        let ranks = match end {
            EndReason::Stopped(cause) => return told(cause),
            EndReason::Ranks(ranks) => ranks,
        };
        let Some(first) = ranks.first().filter(|rank| rank.has_failed()) else {
            return Self { code: 0, why: None, failed: None };
        };
        let EndedRank { rank, url, report, .. } = first;
        let cause = cause(first);
        let what = match &cause {
            Some(cause) => cause.to_string(),
            None => format!("rank {rank} is {}", report.state.name()),
        };
        let mut why = format!("{what}: {url}, job {}", report.id);
        if cause.is_none() && !report.message.is_empty() {
            why.push_str(&format!(": {}", report.message));
        }
        let code = cause.map_or(Exit::Program.code(), Cause::exit_code);
        Self { code, why: Some(why), failed: Some(*rank) }
    }

    fn interrupted(signal: Signal) -> Self {
        Self::of(&EndReason::Stopped(Cause::Interrupted { signal }))
    }

    fn to_json(&self, id: &str, end: &EndReason) -> Value {
        let rank = |of: &EndedRank| {
            json!({
                "rank": of.rank,
                "service": of.url,
                "job": of.report.id.to_string(),
                "state": of.report.state.name(),
                "exitCode": of.report.exit_code,
                "signal": of.report.signal,
                "message": of.report.message,
            })
        };
        let mut ranks: Vec<&EndedRank> = match end {
            EndReason::Ranks(ranks) => ranks.iter().collect(),
            EndReason::Stopped(_) => Vec::new(),
        };
        ranks.sort_by_key(|of| of.rank);
        json!({
            "domain": id,
            "exitCode": self.code,
            "cause": self.why,
            "failedRank": self.failed,
            "ranks": ranks.into_iter().map(rank).collect::<Vec<_>>(),
        })
    }
}

/// The same of a rank here, if it ended as processes do.
fn cause(ended: &EndedRank) -> Option<Cause> {
    let (rank, report) = (ended.rank, &ended.report);
    let signal = report.signal.as_deref().and_then(|name| name.parse::<Signal>().ok());
    match (signal, report.exit_code) {
        _ if ended.stayed => Some(Cause::NotLeft { rank }),
        (Some(signal), _) => Some(Cause::Signal { rank, signal }),
        (None, Some(code)) if code != 0 => Some(Cause::Exit { rank, code }),
        _ => None,
    }
}

/// Puts all outputs of a rank into a directory.
async fn get_results(manager: &Manager, rank: &EndedRank, directory: &Path) -> Result<()> {
    let Some(service) = manager.service_of(rank.rank) else { return Ok(()) };
    let outputs = service.operation(&rank.operation)?.definition.signature.outputs.clone();
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let wanted: Vec<RequestedOutput> = outputs
        .iter()
        .map(|output| RequestedOutput {
            name: output.name.clone(),
            to: Some(directory.join(&output.name)),
            ..RequestedOutput::default()
        })
        .collect();
    let reply = service.results(&rank.operation, rank.report.id, &Options::default()).await?;
    let settings = service.settings().clone();
    let fetch = FetchSettings { settings, meter: std::sync::Arc::default() };
    deliver(reply.outputs, &outputs, &wanted, &fetch).await?;
    Ok(())
}

/// What ends the command.
struct Signals([(tokio::signal::unix::Signal, Signal); 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self([
            (signal(SignalKind::interrupt())?, Signal::SIGINT),
            (signal(SignalKind::terminate())?, Signal::SIGTERM),
            (signal(SignalKind::hangup())?, Signal::SIGHUP),
        ]))
    }

    async fn next(&mut self) -> Signal {
        let [(one, first), (two, second), (three, third)] = &mut self.0;
        tokio::select! {
            _ = one.recv() => *first,
            _ = two.recv() => *second,
            _ = three.recv() => *third,
        }
    }
}

/// Standard output and standard error, or standard error alone.
struct Writer {
    sinks: Vec<Sink>,
    /// Bytes that are still shown; none: all.
    room: Option<u64>,
}

impl Writer {
    fn new(ranks: u32, label: bool, to_stderr: bool) -> std::io::Result<Self> {
        use std::os::fd::AsFd as _;
        let labels = || {
            (0..2 * ranks).map(|at| if label { format!("[{}] ", at / 2) } else { String::new() })
        };
        let stdout = std::io::stdout().as_fd().try_clone_to_owned()?;
        let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
        let all = [(!to_stderr).then_some(stdout), Some(stderr)];
        let sinks = all.into_iter().flatten().map(|to| Sink::new(to, labels())).collect();
        Ok(Self { sinks, room: None })
    }

    /// Takes so many bytes of the room; says it once, when there are not so many.
    fn has_room(&mut self, bytes: u64) -> bool {
        let Some(room) = &mut self.room else { return true };
        let left = room.checked_sub(bytes);
        if left.is_none() && *room > 0 {
            Output { json: true }.note("what ranks write from here on is in their own logs only");
        }
        *room = left.unwrap_or_default();
        left.is_some()
    }

    /// Writes what a rank wrote; whether somebody reads it.
    fn write(&mut self, written: &RankOutput) -> bool {
        if !self.has_room(written.text.len() as u64) {
            return true;
        }
        let stream = usize::from(written.stream == LogStream::Stderr);
        let at = 2 * written.rank as usize + stream;
        let sink = stream.min(self.sinks.len() - 1);
        let sink = &mut self.sinks[sink];
        sink.take(at, written.text.as_bytes(), Instant::now());
        flush(sink)
    }

    fn finish(&mut self) {
        for sink in &mut self.sinks {
            sink.release_all();
            flush(sink);
        }
    }
}

fn flush(sink: &mut Sink) -> bool {
    while sink.is_pending() {
        if !sink.write() {
            return false;
        }
    }
    true
}
