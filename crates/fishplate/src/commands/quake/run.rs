//! `fishplate quake run`: an experiment, cell after cell.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use fishplate_quake::agent::token::Token;
use fishplate_quake::experiment::Experiment;
use fishplate_quake::management::fleet::FleetSettings;
use fishplate_quake::management::{self, RunSettings};
use fishplate_quake::record::RunDirectory;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::live::Picture;
use super::report;
use super::settings::{Setting, with_settings};
use crate::commands::client::duration;
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Where agents of this host dial.
const LOOPBACK: &str = "127.0.0.1:0";
/// The least that `--lost-after` may be.
const SHORTEST_SILENCE: Duration = Duration::from_secs(3);

/// Run an experiment, and say of each system whether it can be trusted
///
/// Each cell (a configuration of the system, once) is configured, started, loaded, disturbed, watched and judged. What was seen
/// goes into a directory with report.html, results.csv and results.json. Cells that are complete there
/// are not run again: after Ctrl-C, or a power cut, the same command goes on. If the experiment, or a file that it names, is no
/// longer what that directory was begun with, another one is needed.
///
/// It ends with 0 if all cells are complete and no system failed by itself or uses something up, and with 10 if one did.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate quake run axis.toml
  fishplate quake run axis.toml --report results --cell scope=session,version=1.3
  fishplate quake run axis.toml --set workload.duration=20s --set repetitions=1
  fishplate quake run axis.toml --agents 2
  fishplate quake run mine.toml --listen 10.0.0.1:7400 --token-file quake.token --remote-agents 2 --remote-system")]
pub(super) struct RunArgs {
    /// The experiment
    experiment: PathBuf,
    /// Where it is recorded and reported [default: the experiment's name, with .quake]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// This cell only; again for others
    #[arg(long = "cell", value_name = "NAME")]
    cells: Vec<String>,
    /// Change the experiment, for a short trial, say; the directory has it as it was run
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
    /// Client agents on this host, each a process that makes requests with one processor [default: 1, or none with --remote-agents]
    #[arg(long, value_name = "N")]
    agents: Option<u32>,
    /// Client agents on other hosts to wait for: `fishplate quake agent`
    #[arg(long, value_name = "N", default_value_t = 0, requires_all = ["listen", "token_file"])]
    remote_agents: u32,
    /// Wait for an agent on the host of the system, too: `fishplate quake agent --system`
    #[arg(long, requires_all = ["listen", "token_file"])]
    remote_system: bool,
    /// Where agents of other hosts dial [default: this host only]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The token that agents have to have; the file is made if it is not there
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long agents may take to join
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    join_within: Duration,
    /// How long the other end of an agent's connection may say nothing before it counts as lost
    #[arg(long, value_name = "TIME", value_parser = lost_after, default_value = "30s")]
    lost_after: Duration,
}

/// Runs the command.
pub(super) fn run(args: RunArgs, output: Output) -> Result<ExitCode> {
    let text = fs::read_to_string(&args.experiment)
        .with_context(|| format!("cannot read {}", args.experiment.display()))?;
    let text = with_settings(&text, &args.settings)?;
    let experiment = Experiment::read_text(&text, &args.experiment)?;
    let path = args.report.clone();
    let path = path.unwrap_or_else(|| format!("{}.quake", file_name(&experiment.name)).into());
    let path = std::path::absolute(path)?;
    let directory = RunDirectory::create(&path, &text)?;
    let inputs = experiment.inputs().context("cannot read a file that the experiment names")?;
    directory.keep_inputs(&inputs)?;
    let local_clients = args.agents.unwrap_or(u32::from(args.remote_agents == 0));
    if local_clients + args.remote_agents == 0 {
        let reason =
            "--agents 0: somebody has to make requests; leave it out, or have --remote-agents";
        return Err(UsageError(reason.to_owned()).into());
    }
    let fleet = FleetSettings {
        local_clients,
        remote_clients: args.remote_agents,
        remote_system: args.remote_system,
        listen: args.listen.unwrap_or_else(|| LOOPBACK.parse().expect("it is an address")),
        token: args.token_file.as_deref().map_or_else(|| Ok(Token::random()?), token)?,
        join_within: args.join_within,
        lost_after: args.lost_after,
        program: super::program("agent")?,
        log: path.join("agents.log"),
    };
    let settings = RunSettings { directory, cells: args.cells, fleet };
    let end = until_stopped(|stop| async move {
        Ok(management::run(&experiment, settings, &mut Picture::new(), stop).await?)
    })?;
    let is_bad = report::show(&path, output)?;
    if end.interrupted {
        return Ok(Exit::Interrupted.into());
    }
    if let Some((cell, why)) = end.failed.first() {
        let count = end.failed.len();
        bail!("{count} cells could not be run, the first of them {}: {why}", cell.name());
    }
    Ok(if is_bad { Exit::Untrusted } else { Exit::Success }.into())
}

/// Each side speaks every second: what is hardly longer is no silence.
fn lost_after(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < SHORTEST_SILENCE {
        return Err(format!("agents speak every second: give {SHORTEST_SILENCE:?} or more"));
    }
    Ok(time)
}

/// Runs something that ends in order at a first SIGINT or SIGTERM, and at once at a second.
fn until_stopped<T, F: Future<Output = Result<T>>>(
    work: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let mut signals = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        let [interrupt, terminate] = &mut signals;
        let work = work(stopped);
        tokio::pin!(work);
        for _ in 0..2 {
            tokio::select! {
                ended = &mut work => return ended,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop.send_replace(true);
        }
        Err(anyhow!("stopped before the system could be ended in order: it was killed"))
    })
}

/// A name that can be one of a file.
fn file_name(name: &str) -> String {
    let may = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(may).collect();
    name.trim_start_matches('.').to_owned()
}

/// The token in a file that only its owner can read; a new one, if there is no file.
fn token(path: &Path) -> Result<Token> {
    let mut options = fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let token = Token::random()?;
            writeln!(file, "{}", token.reveal())?;
            Ok(token)
        }
        Err(_) => Ok(Token::read(path)?),
    }
}
