//! What an administrator may set. Every limit is a row of [`LIMITS`]: its name, its default, its
//! meaning and how it is set; `docs/reference/limits.md` has them for readers.

use std::path::PathBuf;
use std::time::Duration;

use fishplate_data::Network;
use fishplate_data::PoolSettings;
use fishplate_data::session::SessionSettings;
use fishplate_data::transfer::TransferSettings;
use fishplate_formats::units;
use fishplate_wire::WireLimits;
use ipnet::IpNet;

/// Settings of the faces; those of jobs are [`fishplate_jobs::engine::Settings`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides every address we publish: scheme, host and path in front of the services' names.
    /// No slash at its end.
    pub public_url: String,
    /// The header in which a trusted proxy in front of us names the caller; `None`: everybody is
    /// anonymous.
    pub user_header: Option<String>,
    /// Networks in which those proxies are, from which alone that header is taken; none: anywhere.
    pub proxies: Vec<IpNet>,
    /// Users and tokens of the data directory log in; nobody unknown is let in.
    pub login: bool,
    /// Clients log in with certificates, which the listener has asked for and checked.
    pub client_certificates: bool,
    /// Names of this server beside those of its listener and its public URL; `*`: any.
    pub allow_hosts: Vec<String>,
    /// Origins whose pages may send to this server beside its own; `*`: any.
    pub allow_origins: Vec<String>,
    /// Limits on messages.
    pub wire: WireLimits,
    /// Bytes of memory that all messages being read may hold together; more wait for their turn.
    pub message_memory: u64,
    /// Characters of an idempotency key.
    pub key_length: usize,
    /// Functions of this process that run at once; calls beyond it wait.
    pub functions_running: usize,
    /// Calls of functions that wait; one more is refused.
    pub functions_queued: usize,
    /// How long a call of a function may take, unless the function says otherwise.
    pub function_time: Duration,
    /// Functions that read a file while it arrives, or make one while it is sent, at once; calls beyond
    /// it wait.
    pub streams_running: usize,
    /// How long a call of such a function may take, from its place to the end of its output, unless the
    /// function says otherwise.
    pub stream_time: Duration,
    /// Bytes of payloads that a message to a function may hold in memory; what is more is spooled.
    pub function_memory: usize,
    /// Connections at once; the one that has idled longest makes room for another.
    pub max_connections: usize,
    /// Connections of one peer's address at once.
    pub connections_per_peer: usize,
    /// How long a connection may take to send a request's header, and may idle between requests.
    pub header_timeout: Duration,
    /// How long a body may stall.
    pub body_stall: Duration,
    /// Bytes a second that a body must bring on average, once `body_stall` has passed.
    pub body_rate: u64,
    /// How long the reader of an answer may take nothing of it.
    pub answer_stall: Duration,
    /// Bytes of what a request says of who calls (`Authorization`).
    pub credentials_size: usize,
    /// How long a password that was right is remembered.
    pub login_memory: Duration,
    /// Wrong passwords in a row, for one user from one address, that are looked at at once.
    pub login_failures: u32,
    /// How long the next one waits then; it doubles up to 64 times as much.
    pub login_delay: Duration,
    /// Passwords that are hashed at once; more wait.
    pub login_checks: usize,
    /// How much of a refused body is still read so that its sender sees the answer.
    pub drain_size: u64,
    /// How long a refused body is still read.
    pub drain_time: Duration,
}

impl Settings {
    /// The defaults under this public URL.
    pub fn new(public_url: impl Into<String>) -> Self {
        let mut public_url = public_url.into();
        while public_url.ends_with('/') {
            public_url.pop();
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            public_url,
            user_header: None,
            proxies: Vec::new(),
            login: false,
            client_certificates: false,
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            wire: WireLimits::default(),
            message_memory: 1 << 30,
            key_length: 256,
            functions_running: (2 * cores).max(4),
            functions_queued: 1000,
            function_time: Duration::from_secs(300),
            streams_running: 64,
            stream_time: Duration::from_secs(3600),
            function_memory: 256 << 20,
            max_connections: 8192,
            connections_per_peer: 1024,
            header_timeout: Duration::from_secs(75),
            body_stall: Duration::from_secs(30),
            body_rate: 1024,
            answer_stall: Duration::from_secs(60),
            credentials_size: 16 << 10,
            login_memory: Duration::from_secs(300),
            login_failures: 5,
            login_delay: Duration::from_secs(1),
            login_checks: cores,
            drain_size: 64 << 20,
            drain_time: Duration::from_secs(10),
        }
    }
}

/// Settings of data by reference.
#[derive(Clone, Debug)]
pub struct DataSettings {
    /// The pool's directory; else one of the data directory's own. Several servers may share one.
    pub pool: Option<PathBuf>,
    /// Data may be uploaded by whoever may call.
    pub uploads: bool,
    /// The built-in service `session` is there.
    pub sessions: bool,
    /// Data may be fetched from private networks and from this machine.
    pub allow_private: bool,
    /// Private networks from which data may be fetched all the same.
    pub networks: Vec<Network>,
    /// Directories below which `file:` references may be.
    pub file_roots: Vec<PathBuf>,
    /// A file with settings of transfers: credentials, the mail server.
    pub transfers: Option<PathBuf>,
    /// What all owners together may have in the pool.
    pub pool_quota: Option<u64>,
    /// What one owner may have in the pool.
    pub pool_owner_quota: Option<u64>,
    /// How long whoever has a reference may fetch its data.
    pub grant_life: Duration,
    /// How long half of a file waits for the rest.
    pub incoming_life: Duration,
    /// Uploads of one owner that are under way at once.
    pub uploads_open: usize,
    /// How long a HEAD waits for a digest that is being computed.
    pub digest_wait: Duration,
    /// How long data stays in the pool that nobody granted, pinned or used.
    pub pool_idle: Duration,
    /// Bounds of transfers.
    pub transfer: TransferSettings,
    /// What the files of one session may occupy.
    pub session_quota: Option<u64>,
    /// How many files one session may have.
    pub session_files: usize,
    /// Sessions that all owners have together.
    pub sessions_open: usize,
    /// Sessions that one owner has.
    pub sessions_per_owner: usize,
    /// How long a session may idle, unless its owner asks for less.
    pub session_idle: Duration,
}

impl Default for DataSettings {
    fn default() -> Self {
        Self {
            pool: None,
            uploads: true,
            sessions: true,
            allow_private: false,
            networks: Vec::new(),
            file_roots: Vec::new(),
            transfers: None,
            pool_quota: None,
            pool_owner_quota: None,
            grant_life: Duration::from_secs(7 * 24 * 3600),
            incoming_life: Duration::from_secs(24 * 3600),
            uploads_open: 1000,
            digest_wait: Duration::from_secs(60),
            pool_idle: Duration::from_secs(24 * 3600),
            transfer: TransferSettings::default(),
            session_quota: Some(100 << 30),
            session_files: 10_000,
            sessions_open: 100_000,
            sessions_per_owner: 10_000,
            session_idle: Duration::from_secs(24 * 3600),
        }
    }
}

impl DataSettings {
    /// Those of the pool in this directory.
    pub fn pool_settings(&self, directory: PathBuf, disk_reserve: u64) -> PoolSettings {
        PoolSettings {
            quota: self.pool_quota,
            owner_quota: self.pool_owner_quota,
            disk_reserve,
            grant_life: self.grant_life,
            incoming_life: self.incoming_life,
            idle: self.pool_idle,
            ..PoolSettings::new(directory)
        }
    }
}

impl DataSettings {
    /// Those of the sessions in this directory.
    pub fn session_settings(&self, directory: PathBuf, disk_reserve: u64) -> SessionSettings {
        SessionSettings {
            quota: self.session_quota,
            files: self.session_files,
            open: self.sessions_open,
            per_owner: self.sessions_per_owner,
            idle: self.session_idle,
            disk_reserve,
            ..SessionSettings::new(directory)
        }
    }
}

/// All that `--limit NAME=VALUE` reaches.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The faces.
    pub faces: Settings,
    /// The jobs.
    pub jobs: fishplate_jobs::engine::Settings,
    /// Data by reference.
    pub data: DataSettings,
}

/// A limit that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Its name, as faults tell it.
    pub name: &'static str,
    /// What it bounds.
    pub meaning: &'static str,
    kind: LimitUnit,
    field: LimitAccessor,
}

/// In what a limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitUnit {
    Count,
    Bytes,
    Time,
}

/// Where a limit is. A reader and a writer, so that one table serves both.
#[derive(Clone, Copy, Debug)]
struct LimitAccessor {
    get: fn(&Limits) -> Option<u64>,
    set: fn(&mut Limits, u64),
}

/// A limit that was set wrongly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is none of that name.
    #[error("there is no limit {0:?}; there is {1}")]
    Unknown(String, String),
    /// It is not NAME=VALUE.
    #[error("a limit is set as NAME=VALUE, such as max_queued=500; {0:?} is not")]
    NotSet(String),
    /// Nothing would work with it.
    #[error("limit {0} must be more than zero")]
    Zero(&'static str),
    /// The value is not one.
    #[error("limit {0} takes {1}; {2:?} is not")]
    NotAValue(&'static str, &'static str, String),
}

impl Limits {
    /// The defaults for this data directory under this public URL.
    pub fn new(data: PathBuf, public_url: impl Into<String>) -> Self {
        Self {
            faces: Settings::new(public_url),
            jobs: fishplate_jobs::engine::Settings::new(data),
            data: DataSettings::default(),
        }
    }

    /// Sets a limit from `NAME=VALUE`.
    ///
    /// # Errors
    /// [`LimitError`], which says what would be right.
    pub fn set(&mut self, setting: &str) -> Result<(), LimitError> {
        let (name, value) =
            setting.split_once('=').ok_or_else(|| LimitError::NotSet(setting.to_owned()))?;
        let limit = LIMITS.iter().find(|limit| limit.name == name).ok_or_else(|| {
            let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
            LimitError::Unknown(name.to_owned(), names.join(", "))
        })?;
        let value = limit.value(value)?;
        if value == 0 && NEVER_ZERO.contains(&limit.name) {
            return Err(LimitError::Zero(limit.name));
        }
        (limit.field.set)(self, value);
        Ok(())
    }
}

/// Limits at zero of which a server would do nothing at all.
const NEVER_ZERO: &[&str] = &[
    "functions_running",
    "function_time",
    "streams_running",
    "stream_time",
    "max_running",
    "lease",
    "max_connections",
    "connections_per_peer",
    "header_timeout",
    "body_stall",
    "answer_stall",
    "login_failures",
    "login_checks",
    "message_memory",
    "key_length",
    "envelope_size",
    "tag_size",
    "xml_depth",
    "children",
    "parts",
    "message_size",
    "grant_life",
    "incoming_life",
    "session_idle",
    "max_fetching",
    "owner_fetching",
    "transfer_attempts",
    "transfer_stall",
    "transfer_time",
    "transfer_connect",
    "transfer_connections",
    "transfers_running",
    "transfers_per_owner",
    "transfers_per_peer",
    "directory_entries",
    "directory_size",
];

impl Limit {
    /// Its value in these settings, for people.
    pub fn shown(&self, limits: &Limits) -> String {
        let Some(value) = (self.field.get)(limits) else { return "none".to_owned() };
        match self.kind {
            LimitUnit::Count => value.to_string(),
            LimitUnit::Bytes => units::exact(value),
            LimitUnit::Time => shown_time(value),
        }
    }

    fn value(&self, text: &str) -> Result<u64, LimitError> {
        let (value, takes) = match self.kind {
            LimitUnit::Count => (text.parse().ok(), "a whole number"),
            LimitUnit::Bytes => (units::size(text).ok(), "a size such as 64MiB"),
            LimitUnit::Time => (
                units::duration(text).ok().and_then(|time| u64::try_from(time.as_millis()).ok()),
                "a duration such as 30s or 2h",
            ),
        };
        value.ok_or_else(|| LimitError::NotAValue(self.name, takes, text.to_owned()))
    }
}

fn shown_time(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", millis / unit),
        None => format!("{millis} ms"),
    }
}

macro_rules! limits {
    ($($name:ident $kind:ident $field:ident $(. $more:ident)*, $meaning:literal;)+) => {
        /// Every limit of a server.
        pub const LIMITS: &[Limit] = &[$(Limit {
            name: stringify!($name),
            meaning: $meaning,
            kind: LimitUnit::$kind,
            field: LimitAccessor {
                get: |limits| limits.$field$(.$more)*.as_limit(),
                set: |limits, value| limits.$field$(.$more)*.set_limit(value),
            },
        },)+];
    };
}

/// A field that holds a limit.
trait LimitValue {
    fn as_limit(&self) -> Option<u64>;
    fn set_limit(&mut self, value: u64);
}

macro_rules! limit_values {
    ($($number:ty)+) => {$(
        impl LimitValue for $number {
            fn as_limit(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }

            fn set_limit(&mut self, value: u64) {
                *self = Self::try_from(value).unwrap_or(Self::MAX);
            }
        }
    )+};
}

limit_values!(u32 u64 usize);

impl LimitValue for Duration {
    fn as_limit(&self) -> Option<u64> {
        u64::try_from(self.as_millis()).ok()
    }

    fn set_limit(&mut self, value: u64) {
        *self = Self::from_millis(value);
    }
}

impl LimitValue for Option<u64> {
    fn as_limit(&self) -> Option<u64> {
        *self
    }

    fn set_limit(&mut self, value: u64) {
        *self = Some(value);
    }
}

limits! {
    max_running Count jobs.max_running, "Jobs that run at once in the data directory.";
    max_queued Count jobs.max_queued, "Jobs of a service that wait; one more is refused.";
    plan_memory Bytes jobs.plan_memory, "Memory that the plans of waiting jobs hold; those of more are read from the disk when it is their turn.";
    retention Time jobs.retention, "How long an ended job is kept.";
    keep_jobs Count jobs.keep_jobs, "Ended jobs that are kept; the oldest go first.";
    disk_quota Bytes jobs.disk_quota, "What jobs may occupy, those that wait and run among them, before new ones are refused.";
    disk_reserve Bytes jobs.disk_reserve, "What must stay free on the disk, and as large a part of the files (inodes) that it can hold; new jobs are refused below it, and running ones stopped if it is bytes that are missing.";
    lease Time jobs.lease, "How long a claim on a job lasts if its holder does not renew it.";
    max_fetching Count jobs.max_fetching, "Jobs that one process fetches data for at once.";
    owner_fetching Count jobs.owner_fetching, "Jobs of one owner that one process fetches data for at once.";
    link_size Bytes jobs.link_size, "Inputs by reference from this size on are linked into the workspace; smaller ones are copied.";
    message_memory Bytes faces.message_memory, "Memory that messages hold together while they are read, and outputs that are no files until they are sent.";
    key_length Count faces.key_length, "Characters of an idempotency key.";
    functions_running Count faces.functions_running, "Functions of the server that run at once; calls beyond it wait.";
    functions_queued Count faces.functions_queued, "Calls of functions that wait; one more is refused.";
    function_time Time faces.function_time, "How long a call of a function may take, unless the function says otherwise.";
    streams_running Count faces.streams_running, "Functions of the server that read a file while it arrives, or make one while it is sent, at once; calls beyond it wait.";
    stream_time Time faces.stream_time, "How long a call of such a function may take, whoever is slow, unless the function says otherwise.";
    function_memory Bytes faces.function_memory, "Payloads of a message to a function that are kept in memory; the rest is spooled. Arrays that a function takes into memory may have as much together.";
    max_connections Count faces.max_connections, "Connections at once; the one that has idled longest makes room for another.";
    connections_per_peer Count faces.connections_per_peer, "Connections of one address at once; its own that has idled longest makes room, and if none idles, one more is refused. A proxy has one address.";
    header_timeout Time faces.header_timeout, "How long a request's header may take, and a connection may idle.";
    body_stall Time faces.body_stall, "How long a body may stall.";
    body_rate Bytes faces.body_rate, "What a body must bring a second on average, once body_stall has passed.";
    answer_stall Time faces.answer_stall, "How long the reader of an answer may take nothing of it.";
    credentials_size Bytes faces.credentials_size, "What a request says of who calls.";
    login_memory Time faces.login_memory, "How long a password that was right is remembered, so that it need not be hashed for each call.";
    login_failures Count faces.login_failures, "Wrong passwords in a row, for one user from one address, that are looked at at once.";
    login_delay Time faces.login_delay, "How long the next one waits then; it doubles up to 64 times as much.";
    login_checks Count faces.login_checks, "Passwords that are hashed at once; more wait.";
    drain_size Bytes faces.drain_size, "How much of a refused body is still read so that its sender sees the answer.";
    drain_time Time faces.drain_time, "How long a refused body is still read.";
    message_size Bytes faces.wire.message_size, "A whole message, attachments included.";
    envelope_size Bytes faces.wire.envelope_size, "The XML of a message outside decoded payloads.";
    text_size Bytes faces.wire.text_size, "A text value.";
    tag_size Bytes faces.wire.tag_size, "One tag.";
    xml_depth Count faces.wire.xml_depth, "Elements within each other.";
    attributes Count faces.wire.attributes, "Attributes of an element, namespace declarations included.";
    namespaces Count faces.wire.namespaces, "Namespace declarations in scope at once.";
    children Count faces.wire.children, "Child elements of an element.";
    header_elements Count faces.wire.header_elements, "Elements that are kept of a message's header blocks.";
    parts Count faces.wire.parts, "Parts of a multipart message.";
    part_headers Count faces.wire.part_headers, "Header fields of a part.";
    header_length Bytes faces.wire.header_length, "A header field of a part, or a text in a reference.";
    inline_size Bytes faces.wire.inline_size, "A payload that is kept in memory; a larger one is spooled to disk.";
    inline_total Bytes faces.wire.inline_total, "All payloads of a message that are kept in memory.";
    pool_quota Bytes data.pool_quota, "What all data in the pool may occupy.";
    pool_owner_quota Bytes data.pool_owner_quota, "What one owner's data in the pool may occupy.";
    grant_life Time data.grant_life, "How long whoever has a reference to data of this server may fetch it.";
    incoming_life Time data.incoming_life, "How long half a file waits for the rest.";
    uploads_open Count data.uploads_open, "Resumable uploads of one owner that are under way at once.";
    digest_wait Time data.digest_wait, "How long a HEAD that wants the digest waits while it is being computed.";
    reference_size Bytes jobs.reference_size, "Outputs from this size on are references where the caller leaves it to the server.";
    session_quota Bytes data.session_quota, "What the files of one session may occupy.";
    session_files Count data.session_files, "Files of one session.";
    sessions_open Count data.sessions_open, "Sessions that are open at once.";
    sessions_per_owner Count data.sessions_per_owner, "Sessions of one owner that are open at once; callers without a name are one owner.";
    session_idle Time data.session_idle, "How long a session may idle.";
    pool_idle Time data.pool_idle, "How long data stays in the pool that nobody granted, pinned or used.";
    transfer_size Bytes data.transfer.size, "One payload that is fetched.";
    transfer_attempts Count data.transfer.attempts, "Attempts in a row that bring nothing, until a transfer is given up.";
    transfer_stall Time data.transfer.stall, "How long the other end of a transfer may bring, or take, nothing; then it is tried again.";
    transfer_rate Bytes data.transfer.rate, "What a fetch must bring a second on average, over transfer_stall.";
    transfer_time Time data.transfer.time, "How long a transfer may take, all its attempts together.";
    transfer_connect Time data.transfer.connect, "How long a transfer's connection may take to be made.";
    transfer_redirects Count data.transfer.redirects, "Redirects that a transfer follows.";
    transfer_interim Count data.transfer.interim, "Interim answers (1xx) to one request of a transfer.";
    transfer_connections Count data.transfer.connections, "Connections over which one large payload comes.";
    transfers_running Count data.transfer.running, "Fetches that run at once; more wait.";
    transfers_per_owner Count data.transfer.per_owner, "Fetches of one caller that run at once; more wait.";
    transfers_per_peer Count data.transfer.per_peer, "Fetches from one server that run at once; more wait.";
    directory_entries Count jobs.directories.entries, "Files and directories in a directory that a caller sends.";
    directory_size Bytes jobs.directories.size, "All files of a directory that a caller sends.";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits::new("/data".into(), "http://localhost")
    }

    #[test]
    fn every_limit_can_be_set_and_is_shown_as_it_was_set() {
        for limit in LIMITS {
            let mut limits = limits();
            let (text, shown) = match limit.kind {
                LimitUnit::Count => ("17", "17"),
                LimitUnit::Bytes => ("3MiB", "3 MiB"),
                LimitUnit::Time => ("90s", "90 s"),
            };
            limits.set(&format!("{}={text}", limit.name)).unwrap();
            assert_eq!(limit.shown(&limits), shown, "{}", limit.name);
        }
    }

    #[test]
    fn a_limit_set_wrongly_says_what_would_be_right() {
        let error = |text: &str| limits().set(text).unwrap_err().to_string();
        assert_eq!(
            error("max_queued=many"),
            "limit max_queued takes a whole number; \"many\" is not"
        );
        assert!(error("max_queue=5").starts_with("there is no limit \"max_queue\"; there is max_"));
        assert!(error("max_queued").contains("NAME=VALUE"));
        assert_eq!(error("lease=0s"), "limit lease must be more than zero");
    }

    /// Names of limits that a source file of ours puts into faults, its tests left out.
    fn named(source: &str) -> impl Iterator<Item = &str> {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        [".limit(", "limit: ", "rule: "].into_iter().flat_map(move |before| {
            source
                .split(before)
                .skip(1)
                .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        })
    }

    #[test]
    fn each_limit_that_a_fault_names_is_documented() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let documented = crates.parent().unwrap().join("docs/reference/limits.md");
        let documented = std::fs::read_to_string(documented).unwrap();
        let mut rest: Vec<_> = ["contract", "data", "jobs", "server"]
            .iter()
            .map(|room| crates.join(room).join("src"))
            .collect();
        let mut count = 0;
        while let Some(directory) = rest.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                if path.is_dir() {
                    if name != "tests" {
                        rest.push(path);
                    }
                } else if name != "tests.rs" {
                    for name in named(&std::fs::read_to_string(&path).unwrap()) {
                        count += 1;
                        let shown = path.display();
                        assert!(documented.contains(&format!("`{name}`")), "{name} in {shown}");
                    }
                }
            }
        }
        assert!(count >= 17, "{count} were found");
    }
}
