//! What is to be done: an experiment, as its TOML file says it.
//!
//! Words in braces (`{port}`, `{heap}`) are filled when a cell begins: the matrix's value of that name, a free
//! port (`{port}`; `{port:NAME}` for further ones), the cell's own directory (`{directory}`), the folder of the
//! experiment's file (`{here}`). They stand in `[system]`, `[audit]`, checkers, addresses, templates and arguments.
//! `{{port}` is the word itself; a brace that begins no word is a brace.
//!
//! - `read`: a file, and what is wrong with it, with its line
//! - `validate`: what has to be so beyond its syntax
//! - `words`: words in braces
//! - `cells`: the matrix, combination by combination
//! - `inputs`: the files that it names
//! - `limits`: how long and how large what is done and told may be
//! - `sweep`: keys of the file that the matrix sets

mod cells;
mod inputs;
mod limits;
mod read;
mod sweep;
mod validate;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::FailureClass;
use crate::statistics::ageing::Criteria;

pub use limits::Limits;
pub use read::{ExperimentError, Flaw};
pub use sweep::SweepError;
pub use words::{UnknownWord, fill};

/// An experiment: systems in their configurations (cells), each loaded, disturbed and judged.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name in reports.
    pub name: String,
    /// What every random choice is made from: same file, same seed, same requests at the same times.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often each cell is run.
    #[serde(default = "one")]
    pub repetitions: u64,
    /// The server that is judged.
    pub system: System,
    /// The configurations: each combination of a value of each name is a cell. Empty: one cell. A name with a full stop is
    /// the path of a key of this file, such as `"workload.clients"`, and sets it ([`Self::of_cell`]).
    #[serde(default)]
    pub matrix: BTreeMap<String, Vec<String>>,
    /// Combinations that are left out: those that have all of a row's values.
    #[serde(default)]
    pub exclude: Vec<BTreeMap<String, String>>,
    /// What the client agents do.
    pub workload: Workload,
    /// The requests, of which each is drawn by weight.
    #[serde(rename = "operation")]
    pub operations: Vec<Operation>,
    /// What takes the server's resources away meanwhile.
    #[serde(default)]
    pub stress: Vec<Stress>,
    /// What is done to its processes.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// When it counts as failed, and what is done then.
    #[serde(default)]
    pub watchdog: Watchdog,
    /// Whether what the server holds at the end agrees with what its clients saw.
    pub audit: Option<Audit>,
    /// Which growth is a leak.
    #[serde(default)]
    pub verdict: Criteria,
    /// How long and how large what is done and told may be.
    #[serde(default)]
    pub limits: Limits,
    /// The folder of its file, absolute: what `{here}` is, and where relative paths of templates begin.
    #[serde(skip)]
    pub here: PathBuf,
}

fn one() -> u64 {
    1
}

/// The system under test: how it is configured, started, asked and stopped. Without `start` it is one that runs
/// already: it is loaded and probed, neither watched nor restarted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// What it is called in reports; matrix words in braces.
    pub name: String,
    /// A program that makes it ready for this cell (paper: the configuration manager), before each start that is
    /// not a restart.
    #[serde(default)]
    pub configure: Vec<String>,
    /// Its processes, by name, started in this order. `server` is the one that the watchdog watches.
    #[serde(default)]
    pub process: BTreeMap<String, Process>,
    /// Where requests go.
    pub url: String,
    /// How long after its start the probe may fail.
    #[serde(default = "ready_within", with = "duration")]
    pub ready_within: Duration,
    /// How it is asked whether it lives; default: the first operation.
    pub probe: Option<Probe>,
}

fn ready_within() -> Duration {
    Duration::from_secs(60)
}

/// A process of the system under test.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Program and arguments; no shell.
    pub start: Vec<String>,
    /// Variables beside those of the agent.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The signal that asks it to end, by name (`TERM`).
    #[serde(default = "term")]
    pub stop: String,
    /// How long it has for that before it is killed.
    #[serde(default = "stop_within", with = "duration")]
    pub stop_within: Duration,
    /// What the one before has left running, and is killed before it is started again.
    #[serde(default)]
    pub restart_ends: RestartEnds,
}

/// What is killed of a process that has ended, before it is started again.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartEnds {
    /// Its process group: its workers. What has made itself another one stays, as a supervisor does that is meant to outlive
    /// its server.
    #[default]
    Group,
    /// All that it has started.
    Tree,
}

fn term() -> String {
    "TERM".to_owned()
}

fn stop_within() -> Duration {
    Duration::from_secs(10)
}

/// A request of the watchdog's own, on a connection of its own.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Which operation, by name; or
    pub operation: Option<String>,
    /// a GET of this path, that is to be answered by 200.
    pub path: Option<String>,
    /// How often.
    #[serde(default = "second", with = "duration")]
    pub every: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self { operation: None, path: None, every: second() }
    }
}

fn second() -> Duration {
    Duration::from_secs(1)
}

/// What the client agents do, all together.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How many clients, over all agents. With an open loop: the most requests under way.
    pub clients: u32,
    /// When requests are made. Default: a closed loop, each client as soon as it has its answer (the paper's
    /// "burst" with no end, the maximum load).
    #[serde(default)]
    pub arrivals: Arrivals,
    /// A closed loop's pause after each answer.
    #[serde(default)]
    pub think: ThinkTime,
    /// How many requests over all clients; or
    pub requests: Option<u64>,
    /// how long. The first that is reached ends it.
    #[serde(default, with = "duration::option")]
    pub duration: Option<Duration>,
    /// Requests before the clock starts, whose answers are not counted.
    #[serde(default)]
    pub warm_up: u64,
    /// An answer that comes later is no good one.
    #[serde(default = "deadline", with = "duration")]
    pub deadline: Duration,
    /// Whether a client keeps its connection.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// Whether a client keeps cookies: with them it is one session, without each request may be one.
    #[serde(default)]
    pub cookies: bool,
    /// Certificates (PEM) that are trusted for https.
    pub ca: Option<PathBuf>,
    /// `NAME:PASSWORD` for HTTP Basic, or
    pub user: Option<String>,
    /// a file with a bearer token.
    pub token_file: Option<PathBuf>,
}

fn yes() -> bool {
    true
}

fn deadline() -> Duration {
    Duration::from_secs(10)
}

impl Workload {
    /// So many clients in a closed loop that nothing ends, and all else by default.
    pub(crate) fn of(clients: u32) -> Self {
        Self {
            clients,
            arrivals: Arrivals::Closed,
            think: ThinkTime::default(),
            requests: None,
            duration: None,
            warm_up: 0,
            deadline: deadline(),
            keep_alive: yes(),
            cookies: false,
            ca: None,
            user: None,
            token_file: None,
        }
    }
}

/// When requests are made; rates in requests a second over all agents.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// A closed loop: each client has one request under way.
    #[default]
    Closed,
    /// Open: evenly spaced, for hours (a soak).
    Soak {
        /// Requests a second.
        rate: f64,
    },
    /// Open: exponential times between requests.
    Poisson {
        /// Requests a second, the mean.
        rate: f64,
    },
    /// Open: normal times between requests, cut at zero.
    Normal {
        /// Requests a second, the mean.
        rate: f64,
        /// The standard deviation of the time between two, as a part of its mean.
        deviation: f64,
    },
    /// Open: `size` requests at once, every `every`.
    Burst {
        /// Requests in one.
        size: u32,
        /// From one burst to the next.
        #[serde(with = "duration")]
        every: Duration,
    },
    /// Open: a base rate (poisson), and every `every` for `length` a `peak` rate.
    Spike {
        /// Requests a second between spikes.
        rate: f64,
        /// Requests a second in a spike.
        peak: f64,
        /// From one spike to the next.
        #[serde(with = "duration")]
        every: Duration,
        /// How long one is.
        #[serde(with = "duration")]
        length: Duration,
    },
    /// Open: from one rate to another over the whole duration (poisson).
    Ramp {
        /// Requests a second at the beginning.
        from: f64,
        /// Requests a second at the end.
        to: f64,
    },
    /// Open: each rate for the same part of the duration (poisson).
    Step {
        /// Requests a second, step by step.
        rates: Vec<f64>,
    },
}

/// A closed loop's pause between an answer and the next request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThinkTime {
    /// The mean.
    #[serde(default, with = "duration")]
    pub mean: Duration,
    /// Exponential (true) or always the mean.
    #[serde(default)]
    pub exponential: bool,
}

/// A kind of request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its name in reports, and of the WSDL's operation if there is no template.
    pub name: String,
    /// How often it is drawn beside the others.
    #[serde(default = "weight")]
    pub weight: f64,
    /// A file that is the whole body of the request; `{request}` (its number), `{client}`, `{random:LOW..HIGH}`,
    /// `{real:LOW..HIGH}`, `{flag}`, `{text:LENGTH}`, `{base64:LENGTH}`, `{choice:A|B}` and `{line:PATH}` (any line of a
    /// file) are filled for each, `{file:PATH}` once. Without one the request is made from the WSDL.
    pub template: Option<PathBuf>,
    /// The template's `Content-Type`.
    #[serde(default = "text_xml")]
    pub content_type: String,
    /// The `SOAPAction`.
    #[serde(default)]
    pub action: String,
    /// Where its requests go, if not to the system's URL.
    pub url: Option<String>,
    /// From the WSDL: the arguments as for `fishplate call` (`x=1`, `y:FILE`), with the braces of templates; a
    /// required parameter that is not named gets a random value of its type.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// From the WSDL: `xml`, `base64`, `mtom`, `swa`, `dime`; default `xml`.
    pub packaging: Option<String>,
    /// What a right answer is.
    #[serde(default)]
    pub expect: Expect,
    /// The answer is read no faster than this, in bytes a second (a slow reader).
    pub read_rate: Option<u64>,
    /// Only this part of the request is sent, 0 to 1 (a half request): the connection is left open until the server
    /// closes it or the deadline has passed.
    pub send_part: Option<f64>,
}

fn weight() -> f64 {
    1.0
}

fn text_xml() -> String {
    "text/xml; charset=utf-8".to_owned()
}

/// What a right answer is: all that is said here. A fault or another status than `status` is an error, not a wrong
/// answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The HTTP status; default 200.
    pub status: Option<u16>,
    /// The body has this text; `{request}` and `{client}` as in the request.
    pub contains: Option<String>,
    /// The text of the first element of this local name is this; likewise.
    #[serde(default)]
    pub element: BTreeMap<String, String>,
    /// The body's SHA-256, in hexadecimal digits.
    pub sha256: Option<String>,
    /// A program that reads lines of JSON (`request`, `client`, `operation`, `status`, `body` in base64) and writes
    /// `ok` or what is wrong, a line for each.
    #[serde(default)]
    pub checker: Vec<String>,
}

/// What takes a resource of the server's host away for a time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stress {
    /// After the common start.
    #[serde(default, with = "duration")]
    pub at: Duration,
    /// For how long.
    #[serde(with = "duration")]
    pub length: Duration,
    /// Which resource.
    #[serde(flatten)]
    pub resource: Resource,
}

/// A resource that is consumed, and how much of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "resource", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Resource {
    /// Memory of the host, held.
    Memory {
        /// As a size (`1 GiB`).
        size: String,
        /// Whether it grows over the whole length (paper: a ramp-up distribution) or is held from the beginning.
        #[serde(default)]
        ramp: bool,
    },
    /// Threads.
    Threads {
        /// How many.
        count: u32,
    },
    /// Open files.
    Descriptors {
        /// How many.
        count: u32,
    },
    /// Connections to the server that say nothing (or to another port: a database's).
    Connections {
        /// How many.
        count: u32,
        /// `HOST:PORT`; default the server's.
        address: Option<String>,
    },
    /// Processor time.
    Processor {
        /// Busy threads.
        threads: u32,
    },
    /// A file system filled.
    DiskFull {
        /// A directory on it.
        directory: PathBuf,
        /// What is left free, as a size.
        #[serde(default)]
        free: String,
    },
    /// A file system kept busy by writing and syncing.
    DiskSlow {
        /// A directory on it.
        directory: PathBuf,
        /// Writers.
        threads: u32,
    },
    /// Packets lost or late on an interface of a network namespace (as root, with `tc`).
    Network {
        /// The namespace; default the agent's own.
        namespace: Option<String>,
        /// The interface.
        interface: String,
        /// Part of packets lost, 0 to 1.
        #[serde(default)]
        loss: f64,
        /// How late.
        #[serde(default, with = "duration")]
        delay: Duration,
    },
    /// The clock that the server sees, set off. The host's is left alone, so the server has to be started with the
    /// library libfaketime, which reads this file: `environment = { LD_PRELOAD = "/usr/lib/.../libfaketime.so.1",
    /// FAKETIME_TIMESTAMP_FILE = "{directory}/clock", FAKETIME_NO_CACHE = "1", DONT_FAKE_MONOTONIC = "1" }`.
    Clock {
        /// How many seconds, forward or back.
        seconds: i64,
        /// The file, `{directory}/clock` above.
        file: PathBuf,
    },
}

/// What is done to a process, once or again and again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What is done to the process.
    pub action: FaultAction,
    /// Which process of the system.
    #[serde(default = "server")]
    pub process: String,
    /// After the common start.
    #[serde(default, with = "duration")]
    pub at: Duration,
    /// And then again and again; with `jitter`, at random about that.
    #[serde(default, with = "duration::option")]
    pub every: Option<Duration>,
    /// The most that it comes early or late.
    #[serde(default, with = "duration")]
    pub jitter: Duration,
    /// How long a stopped process stays so.
    #[serde(default = "second", with = "duration")]
    pub length: Duration,
}

fn server() -> String {
    "server".to_owned()
}

/// What can be done to a process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultAction {
    /// SIGKILL; the watchdog finds it gone.
    Kill,
    /// SIGSTOP, and SIGCONT after its length.
    Stop,
    /// Asked to end and started again.
    Restart,
}

/// When the system counts as failed, and what is done then.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watchdog {
    /// No answer for so long, of clients or probe: it hangs.
    #[serde(with = "duration")]
    pub hang_after: Duration,
    /// Goodput below this part of the baseline, while load is offered: a zombie.
    pub zombie_below: f64,
    /// Below this part: degraded.
    pub degraded_below: f64,
    /// Faults that are more than this part of what ended: an error.
    pub error_above: f64,
    /// Refusals that are more than this part of what ended: it refuses.
    pub refused_above: f64,
    /// Processor time, in cores, above which a server that gives no answers thrashes; below it is idle.
    pub busy_above: f64,
    /// For how long, before it is said.
    #[serde(with = "duration")]
    pub window: Duration,
    /// So many right answers are expected in a window, or it is longer: of fewer, chance could make none.
    pub least_answers: u32,
    /// The first seconds, of whose goodput the baseline is the median.
    #[serde(with = "duration")]
    pub baseline: Duration,
    /// How often it is restarted; further failures end the cell (it is decided).
    pub restarts: u32,
    /// Classes after which it is restarted beside CRASH, HANG and ZOMBIE; in these it goes on otherwise.
    pub restart_on: Vec<FailureClass>,
    /// Preventive restarts.
    pub rejuvenate: Option<Rejuvenation>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            hang_after: Duration::from_secs(5),
            zombie_below: 0.01,
            degraded_below: 0.2,
            error_above: 0.05,
            refused_above: 0.5,
            busy_above: 0.1,
            window: Duration::from_secs(5),
            least_answers: 25,
            baseline: Duration::from_secs(10),
            restarts: 0,
            restart_on: Vec::new(),
            rejuvenate: None,
        }
    }
}

/// When the system is restarted before it fails.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rejuvenation {
    /// By time.
    #[serde(with = "duration::option")]
    pub every: Option<Duration>,
    /// By throughput: when goodput falls below this part of the baseline.
    pub throughput_below: Option<f64>,
    /// By memory: when the server's memory is above this size.
    pub memory_above: Option<String>,
}

/// Whether what the server holds at the end agrees with what its clients saw.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// A program that gives on standard output one line for each request that the server has done: its ID as
    /// `{request}` had it. Lost: answered to a client and not there. Doubled: there twice.
    #[serde(default)]
    pub ledger: Vec<String>,
    /// Or one that gives a single number, how many were done.
    #[serde(default)]
    pub count: Vec<String>,
}

/// Times as `90s`, `10ms`, `1h30m`.
mod duration {
    use std::time::Duration;

    use fishplate_formats::units;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        units::duration(&text).map_err(D::Error::custom)
    }

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{}ms", time.as_millis()))
    }

    pub(super) mod option {
        use super::{Deserialize, Deserializer, Duration, Error, Serializer, units};

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| units::duration(&text).map_err(D::Error::custom)).transpose()
        }

        pub(in super::super) fn serialize<S: Serializer>(
            time: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => super::serialize(time, to),
                None => to.serialize_none(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        name = "axis"
        repetitions = 3

        [system]
        name = "Axis {version}, {scope} scope"
        configure = ["python3", "{here}/configure.py", "{version}", "{scope}", "{directory}"]
        process.server = { start = ["java", "-Xmx{heap}", "-jar", "tomcat.jar", "{port}"], stop_within = "5s" }
        url = "http://127.0.0.1:{port}/axis/services/Counter"

        [matrix]
        version = ["1.2.1", "1.3"]
        scope = ["session", "request"]
        heap = ["64m"]

        [workload]
        clients = 8
        duration = "1m"
        arrivals = { distribution = "spike", rate = 50.0, peak = 500.0, every = "10s", length = "1s" }

        [[operation]]
        name = "add"
        template = "add.xml"
        expect = { element = { addReturn = "3" } }

        [[stress]]
        resource = "memory"
        size = "1 GiB"
        at = "10s"
        length = "20s"

        [[fault]]
        action = "kill"
        every = "30s"
        jitter = "5s"

        [watchdog]
        hang_after = "2s"
        rejuvenate = { throughput_below = 0.2 }

        [audit]
        ledger = ["cat", "{directory}/ledger"]
    "#;

    #[test]
    fn a_key_that_is_none_is_refused() {
        for (key, wrong) in
            [("length =", "lenght ="), ("size =", "sizes ="), ("clients =", "users =")]
        {
            let error = toml::from_str::<Experiment>(&FULL.replace(key, wrong)).expect_err(wrong);
            assert!(
                error.message().contains("unknown field") || error.message().contains("missing"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_experiment_is_read_and_says_the_same_when_it_is_written() {
        let read: Experiment = toml::from_str(FULL).expect("it is one");
        assert_eq!((read.seed, read.repetitions, read.matrix["scope"].len()), (1, 3, 2));
        assert_eq!(read.system.process["server"].stop_within, Duration::from_secs(5));
        assert_eq!(read.watchdog.hang_after, Duration::from_secs(2));
        assert!(matches!(read.stress[0].resource, Resource::Memory { ramp: false, .. }));
        let json = serde_json::to_string(&read).expect("it can be sent to agents");
        let again: Experiment = serde_json::from_str(&json).expect("as it was");
        assert_eq!(format!("{read:?}"), format!("{again:?}"));
    }
}
