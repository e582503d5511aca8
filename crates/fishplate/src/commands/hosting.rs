//! What the commands that host services have in common: `serve`, `cgi`, and the engine that goes
//! on when a CGI script has answered.

use std::fs;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use fishplate_data::Network;
use fishplate_jobs::executor::Executor;
use fishplate_jobs::executor::local::{CgroupUse, LocalExecutor, LocalSettings};
use fishplate_jobs::store::Store;
use fishplate_jobs::store::sqlite::SqliteStore;
use fishplate_programs::descriptor::{self, CheckedService, Description};
use fishplate_programs::plan::StagedFile;
use fishplate_server::assembly::{Backends, StoreCheck};
use fishplate_server::settings::{DataSettings, Limits};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use crate::output::diagnostics::Mistakes;
use crate::output::failure::UsageError;

/// Where state is kept and how much of anything is allowed.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostingArgs {
    /// Directory that holds all state [default: ~/.local/state/fishplate]
    #[arg(long, value_name = "DIR", env = "FISHPLATE_DATA")]
    data: Option<PathBuf>,
    /// Set a limit; `fishplate help limits` lists them
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
    /// Directory of the pool, which servers of one machine may share [default: DATA/pool]
    #[arg(long, value_name = "DIR")]
    pool: Option<PathBuf>,
    /// Take no uploads, whoever asks
    #[arg(long)]
    no_uploads: bool,
    /// Offer no sessions: leave out the service `session`
    #[arg(long)]
    no_sessions: bool,
    /// Fetch data from private networks and from this machine too; the service `domain-manager` calls servers there then
    #[arg(long)]
    allow_private: bool,
    /// Fetch data from this private network too, such as lab=10.1.0.0/16; may stand several times
    #[arg(long, value_name = "NAME=CIDR", value_parser = network)]
    allow_network: Vec<String>,
    /// Take file: references to what is below this directory; may stand several times
    #[arg(long, value_name = "DIR")]
    file_root: Vec<PathBuf>,
    /// Settings of transfers: credentials for FTP and S3, the mail server
    #[arg(long, value_name = "FILE")]
    transfers: Option<PathBuf>,
    /// File that says who may do what (TOML); a change holds at once [default: who is let in may do everything]
    #[arg(long, value_name = "FILE", env = "FISHPLATE_POLICY")]
    policy: Option<PathBuf>,
    /// Let pages of this origin, such as https://portal.example.org, send to this server; may stand
    /// several times
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Where control groups for jobs are made: `auto` (where delegated), `off`, or a directory
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    cgroup: String,
    /// What to log: error, warn, info, debug, or a filter such as fishplate_jobs=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "FISHPLATE_LOG", value_parser = filter)]
    log: String,
    /// How to log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// Whose state.
#[derive(Debug, clap::Args)]
pub(crate) struct StateArgs {
    /// Directory that holds the server's state [default: ~/.local/state/fishplate]
    #[arg(long, value_name = "DIR", env = "FISHPLATE_DATA")]
    pub(crate) data: Option<PathBuf>,
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// A program described by its command line (paper 000, Figure 4).
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// Short name of the service, the last segment of its URL
    #[arg(short = 'n', long = "name", value_name = "NAME")]
    name: Option<String>,
    /// Namespace of the service [default: urn:fishplate:NAME]
    #[arg(short = 'U', long = "namespace", value_name = "URI")]
    namespace: Option<String>,
    /// Full name of the service
    #[arg(short = 'N', long = "title", value_name = "TEXT")]
    title: Option<String>,
    /// File or directory to copy into each job's workspace (with a command line after --)
    #[arg(long, value_name = "FILE")]
    stage: Vec<PathBuf>,
    /// Variable of this environment that the program gets too, such as FOAM_ETC, FOAM_* or *; may stand
    /// several times (with a command line after --)
    #[arg(long, value_name = "NAME")]
    pass_environment: Vec<String>,
}

impl ServiceArgs {
    /// The services described by files and by a command line, and warnings about them. Nothing need be
    /// described if there are `others` to serve.
    ///
    /// # Errors
    /// [`Mistakes`] in any of them; what can't be read.
    pub(crate) fn descriptions(
        &self,
        files: &[PathBuf],
        words: &[String],
        others: bool,
    ) -> anyhow::Result<(Vec<Description>, Mistakes)> {
        let mut checked = descriptor::read(files, others)?;
        match (&self.name, words) {
            (Some(name), [_, ..]) => checked.push(self.one_liner(name, words)?),
            (None, [_, ..]) => return usage("a command line after -- needs a name (-n NAME)"),
            (Some(_), []) => return usage("-n NAME needs a command line after --"),
            (None, []) if files.is_empty() && !others => {
                return usage(
                    "nothing to serve: name service files, give a command line after --, or write a \
                     fishplate.toml",
                );
            }
            (None, []) => {}
        }
        let mistakes = Mistakes::of(&checked);
        if mistakes.has_errors() {
            return Err(mistakes.into());
        }
        let descriptions = checked.into_iter().filter_map(|checked| checked.description);
        Ok((descriptions.collect(), mistakes))
    }

    fn one_liner(&self, name: &str, words: &[String]) -> anyhow::Result<CheckedService> {
        let directory = std::env::current_dir().context("cannot tell the current directory")?;
        let mut checked = descriptor::check_command_line(
            name,
            self.namespace.as_deref(),
            self.title.as_deref(),
            words,
            &directory,
        );
        if let Some(description) = &mut checked.description {
            description.pass_environment.clone_from(&self.pass_environment);
            for file in &self.stage {
                let from = directory.join(file);
                let Some(to) = file.file_name() else {
                    return usage(&format!("--stage {} has no name", file.display()));
                };
                if !from.exists() {
                    let file = file.display();
                    return usage(&format!("--stage {file}: there is no such file"));
                }
                description.staged.push(StagedFile { from, to: to.to_string_lossy().into_owned() });
            }
        }
        Ok(checked)
    }
}

/// A writer that rests after each flush. The log's thread flushes when no line waits, and would be woken for each line of a
/// busy server; so lines gather, and the calls that they are of wake nobody.
struct Paced<W> {
    writer: W,
    rest: Duration,
}

/// Of a server's log; nobody who reads along notices it.
pub(crate) const LOG_REST: Duration = Duration::from_millis(20);

impl<W: Write> Write for Paced<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.writer.write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()?;
        std::thread::sleep(self.rest);
        Ok(())
    }
}

fn usage<T>(message: &str) -> anyhow::Result<T> {
    Err(UsageError(message.to_owned()).into())
}

impl HostingArgs {
    /// Starts the log on standard error, in a thread of its own: a reader that stalls holds no call. While
    /// it does, up to 128,000 lines wait and more are dropped. What has come meanwhile is written at once, and after it the
    /// thread rests for this long ([`Paced`]). What is given writes the rest when it is dropped.
    pub(crate) fn start_log(&self, rest: Duration) -> anyhow::Result<WorkerGuard> {
        // The SDK of MCP tells of each message that it begins and ends to serve, and what its client can do.
        let quiet = if self.log.contains("rmcp") { "" } else { "rmcp=error," };
        let filter = EnvFilter::try_new(format!("{quiet}{}", self.log))?;
        let writer = Paced { writer: BufWriter::new(std::io::stderr()), rest };
        let (writer, guard) = tracing_appender::non_blocking(writer);
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer)
            .with_ansi(std::io::stderr().is_terminal());
        match self.log_format {
            LogFormat::Text => log.with_target(false).init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(guard)
    }

    /// The limits, as set.
    pub(crate) fn limits(&self, public_url: String) -> anyhow::Result<Limits> {
        let mut limits = Limits::new(self.data()?, public_url);
        for setting in &self.limits {
            limits.set(setting).map_err(|error| UsageError(format!("--limit: {error}")))?;
        }
        limits.faces.allow_origins.clone_from(&self.allow_origin);
        let policy = self.policy.as_ref().map(std::path::absolute).transpose();
        limits.faces.policy = policy.context("--policy")?;
        self.set_data(&mut limits.data)?;
        Ok(limits)
    }

    fn set_data(&self, data: &mut DataSettings) -> anyhow::Result<()> {
        let absolute = |path: &PathBuf| std::path::absolute(path);
        data.pool = self.pool.as_ref().map(absolute).transpose().context("--pool")?;
        data.uploads = !self.no_uploads;
        data.sessions = !self.no_sessions;
        (data.allow_private, data.networks) = self.networks()?;
        data.file_roots = self.file_root.iter().map(absolute).collect::<Result<_, _>>()?;
        data.transfers =
            self.transfers.as_ref().map(absolute).transpose().context("--transfers")?;
        Ok(())
    }

    /// Which addresses may be asked beside the public ones: private ones, and those of networks.
    pub(crate) fn networks(&self) -> anyhow::Result<(bool, Vec<Network>)> {
        let network = |text: &String| text.parse().context("--allow-network");
        let networks = self.allow_network.iter().map(network).collect::<Result<_, _>>()?;
        Ok((self.allow_private, networks))
    }

    /// Where jobs are kept and what runs them: chosen here, in [`store`], and in [`executor`].
    pub(crate) fn backends(&self, limits: &Limits, check: StoreCheck) -> anyhow::Result<Backends> {
        let cgroup = match self.cgroup.as_str() {
            "auto" => CgroupUse::Auto,
            "off" => CgroupUse::Off,
            path => CgroupUse::At(path.into()),
        };
        Ok(Backends::local(limits, cgroup, check)?)
    }

    /// [`data_directory`] of these arguments.
    pub(crate) fn data(&self) -> anyhow::Result<PathBuf> {
        let data = data_directory(self.data.as_deref())?;
        match fs::metadata(&data) {
            Ok(found) if !found.is_dir() => {
                usage(&format!("--data {}: it is a file; name a directory", data.display()))
            }
            _ => Ok(data),
        }
    }

    /// The words that give another process of ours the same settings.
    pub(crate) fn as_words(&self) -> anyhow::Result<Vec<String>> {
        let data = self.data()?;
        let data = data.to_str().context("the data directory's name is not UTF-8")?;
        let mut words = vec!["--data".to_owned(), data.to_owned()];
        for limit in &self.limits {
            words.extend(["--limit".to_owned(), limit.clone()]);
        }
        words.extend(["--cgroup".to_owned(), self.cgroup.clone()]);
        let mut path = |word: &str, path: &Path| {
            let path = std::path::absolute(path)?;
            let path = path.to_str().with_context(|| format!("the path of {word} is not UTF-8"))?;
            words.extend([word.to_owned(), path.to_owned()]);
            anyhow::Ok(())
        };
        self.pool.iter().try_for_each(|pool| path("--pool", pool))?;
        self.file_root.iter().try_for_each(|root| path("--file-root", root))?;
        self.transfers.iter().try_for_each(|file| path("--transfers", file))?;
        // It also says what owners may have.
        self.policy.iter().try_for_each(|file| path("--policy", file))?;
        for network in &self.allow_network {
            words.extend(["--allow-network".to_owned(), network.clone()]);
        }
        let switches = [
            ("--allow-private", self.allow_private),
            ("--no-sessions", self.no_sessions),
            ("--no-uploads", self.no_uploads),
        ];
        words.extend(switches.iter().filter(|(_, on)| *on).map(|(word, _)| (*word).to_owned()));
        Ok(words)
    }
}

/// The data directory: the one given, or the user's own, or for a user without a home (a web
/// server's CGI scripts) one below `/var/tmp`.
pub(crate) fn data_directory(told: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(data) = told {
        return std::path::absolute(data).context("--data");
    }
    if let Some(state) = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from)
        && state.is_absolute()
    {
        return Ok(state.join("fishplate"));
    }
    let uid = nix::unistd::geteuid();
    let registered = || nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.dir);
    let own = |home: &PathBuf| home.is_absolute() && is_owned_by(home, uid.as_raw());
    // Under `sudo`, and for web servers, HOME may be somebody else's.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(own);
    match home.or_else(|| registered().filter(own)) {
        Some(home) => Ok(home.join(".local/state/fishplate")),
        None => Ok(PathBuf::from(format!("/var/tmp/fishplate-{uid}"))),
    }
}

/// A data directory that is there, and is this user's: what others make in it, its server can't use.
pub(crate) fn own_data_directory(told: Option<&Path>) -> anyhow::Result<PathBuf> {
    let data = data_directory(told)?;
    let Ok(found) = fs::metadata(&data) else {
        let what = "no server has kept state there; --data tells another place";
        return Err(
            UsageError(format!("there is no data directory {}: {what}", data.display())).into()
        );
    };
    if found.uid() != nix::unistd::geteuid().as_raw() {
        let (data, owner) = (data.display(), found.uid());
        let what = format!("{data} belongs to the user with the ID {owner}: run this as that user");
        return Err(UsageError(what).into());
    }
    Ok(data)
}

/// What to log, checked.
fn filter(text: &str) -> Result<String, String> {
    let what = "it is no level (error, warn, info, debug) and no filter";
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| what.to_owned())
}

/// A private network under a name, checked.
fn network(text: &str) -> Result<String, String> {
    text.parse::<Network>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn is_owned_by(home: &Path, uid: u32) -> bool {
    fs::metadata(home).is_ok_and(|home| home.is_dir() && home.uid() == uid)
}

/// A runtime for a host.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    keep_small_memory();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Has the C library keep what was freed up to a bound: else each transaction of the job store,
/// which takes and frees some pages, is two calls of the system more.
#[cfg(target_env = "gnu")]
fn keep_small_memory() {
    const KEPT: i32 = 8 << 20;
    #[expect(unsafe_code, reason = "the C library has no other way to be told")]
    // SAFETY: mallopt takes two integers and changes nothing but when memory is given back.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT / 8);
    }
}

/// musl's gives back nothing in between.
#[cfg(not(target_env = "gnu"))]
fn keep_small_memory() {}

/// The store of a data directory, made if there is none.
pub(crate) fn store(data: &Path) -> anyhow::Result<Box<dyn Store>> {
    let store = SqliteStore::open_in(data)
        .with_context(|| format!("cannot open the store of {}", data.display()))?;
    Ok(Box::new(store))
}

/// The store of a data directory, if there is one: to look makes none.
pub(crate) fn store_if_any(data: &Path) -> anyhow::Result<Option<Box<dyn Store>>> {
    SqliteStore::is_in(data).then(|| store(data)).transpose()
}

/// Who knows how the jobs of a data directory stand.
pub(crate) fn executor(data: &Path) -> anyhow::Result<Box<dyn Executor>> {
    let executor = LocalExecutor::new(LocalSettings::new(data))
        .with_context(|| format!("cannot look at the jobs of {}", data.display()))?;
    Ok(Box::new(executor))
}
