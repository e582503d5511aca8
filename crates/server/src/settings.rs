//! What an administrator may set. The limits among it, with their defaults, are rows of
//! [`fishplate_contract::limits`].

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Limit, lexical};
use fishplate_data::Network;
use fishplate_data::PoolSettings;
use fishplate_data::session::SessionSettings;
use fishplate_data::transfer::TransferSettings;
use fishplate_formats::units;
use fishplate_wire::WireLimits;

use crate::authentication::jwt::JwtSettings;
use ipnet::IpNet;

/// Settings of the faces; those of jobs are [`fishplate_jobs::engine::Settings`].
#[derive(Clone, Debug, PartialEq)]
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
    /// Whose JSON Web Tokens log in.
    pub jwt: Option<JwtSettings>,
    /// Clients log in with certificates, which the listener has asked for and checked.
    pub client_certificates: bool,
    /// The file that says who may do what; `None`: everybody who is let in may do everything.
    pub policy: Option<PathBuf>,
    /// Names of this server beside those of its listener and its public URL; `*`: any.
    pub allow_hosts: Vec<String>,
    /// Origins whose pages may send to this server beside its own; `*`: any.
    pub allow_origins: Vec<String>,
    /// Addresses of this machine at which ranks are reached, in the order in which others try them; none: only ranks of
    /// this machine reach each other.
    pub rank_addresses: Vec<IpAddr>,
    /// Authorities in PEM that this server and its ranks trust beside the system's, where they reach other servers.
    pub rank_ca: Option<PathBuf>,
    /// Servers through which this one is reached.
    pub relays: Vec<Relay>,
    /// The library of the MPI ABI, to which programs of ranks are led.
    pub mpi_library: Option<PathBuf>,
    /// Limits on messages.
    pub wire: WireLimits,
    /// Bytes of memory that all messages being read may hold together; more wait for their turn.
    pub message_memory: u64,
    /// Characters of an idempotency key.
    pub key_length: usize,
    /// Bytes of a request in JSON.
    pub json_size: u64,
    /// How long a subscriber is tried who can't be reached.
    pub callback_time: Duration,
    /// Subscribers of one owner's jobs that are told at once.
    pub owner_callbacks: usize,
    /// Browsers that watch jobs at once.
    pub job_viewers: usize,
    /// Bytes of inputs that are kept with a job, to be changed and given again.
    pub inputs_kept: usize,
    /// Bytes of an output that are looked at to show it on a page.
    pub preview_size: u64,
    /// Bytes of a picture or a mesh that a page has the browser fetch.
    pub preview_fetch: u64,
    /// Bytes of a message of an assistant.
    pub mcp_size: u64,
    /// Bytes of a file that stand in an answer to an assistant.
    pub mcp_inline_size: u64,
    /// Bytes of an image or a sound in an answer to an assistant, and of what it reads as a resource.
    pub mcp_read_size: u64,
    /// How long a call of an assistant waits for its job.
    pub mcp_wait: Duration,
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
    /// Connections to ranks that pass through the server at once.
    pub gateway_connections: usize,
    /// Ranks of a domain of which some are here.
    pub domain_ranks: u32,
    /// Routes that are kept of the ranks of a domain that run here, all of them together.
    pub domain_routes: usize,
    /// Connections to each relay that are kept ready.
    pub relay_idle: usize,
    /// Connections to each relay at once.
    pub relay_connections: usize,
    /// Longest pause between two attempts to reach a relay.
    pub relay_pause: Duration,
    /// How long a relay may take to accept a connection.
    pub relay_timeout: Duration,
    /// Connections of a site that wait here.
    pub site_idle: usize,
    /// Requests and connections that pass to one site at once.
    pub site_connections: usize,
    /// How long somebody waits for one of them.
    pub site_wait: Duration,
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
    /// How far the clock of who makes JSON Web Tokens or UsernameTokens may be from ours.
    pub login_clock_skew: Duration,
    /// UsernameTokens with a password as it is may come over plain HTTP from other machines.
    pub plain_passwords: bool,
    /// Whoever asks may read the descriptions of services.
    pub open_descriptions: bool,
    /// How old a UsernameToken may be.
    pub login_age: Duration,
    /// Nonces of UsernameTokens that are remembered.
    pub login_nonces: usize,
    /// Bytes of a message that are read to find out who sent it.
    pub login_size: u64,
    /// Wrong passwords in a row, for one user from one address, that are looked at at once.
    pub login_failures: u32,
    /// The same from one address, for whatever users.
    pub login_failures_per_peer: u32,
    /// How long the next one waits then; it doubles up to 64 times as much.
    pub login_delay: Duration,
    /// Passwords that are hashed at once; more wait.
    pub login_checks: usize,
    /// How long one waits to be hashed.
    pub login_wait: Duration,
    /// Bytes of the audit log; what is more is put into another file, the one before is removed.
    pub audit_size: u64,
    /// Refusals that are told apart in the audit log, a minute.
    pub audit_lines: usize,
    /// How much of a refused body is still read so that its sender sees the answer.
    pub drain_size: u64,
    /// How long a refused body is still read.
    pub drain_time: Duration,
    /// How long calls that are being answered may go on once the server is told to stop.
    pub stop_time: Duration,
}

impl Settings {
    /// Whether callers are known in the same ways, and passwords slowed down alike.
    pub(crate) fn has_logins_of(&self, other: &Self) -> bool {
        let ways = |it: &Self| {
            let jwt = (it.jwt.clone(), it.login_clock_skew);
            let of_messages = (it.plain_passwords, it.login_age, it.login_nonces);
            let proxies = (it.user_header.clone(), it.proxies.clone());
            (proxies, it.login, jwt, it.client_certificates, of_messages)
        };
        let bounds = |it: &Self| {
            let failures = (it.login_failures, it.login_failures_per_peer, it.login_delay);
            (it.credentials_size, it.login_memory, failures, it.login_checks, it.login_wait)
        };
        ways(self) == ways(other) && bounds(self) == bounds(other)
    }

    /// The defaults under this public URL.
    pub fn new(public_url: impl Into<String>) -> Self {
        let mut public_url = public_url.into();
        while public_url.ends_with('/') {
            public_url.pop();
        }
        Self {
            public_url,
            user_header: None,
            proxies: Vec::new(),
            login: false,
            jwt: None,
            client_certificates: false,
            policy: None,
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            rank_addresses: Vec::new(),
            rank_ca: None,
            relays: Vec::new(),
            mpi_library: None,
            wire: WireLimits::default(),
            message_memory: DEFAULTS.message_memory,
            json_size: DEFAULTS.json_size,
            callback_time: DEFAULTS.callback_time,
            owner_callbacks: DEFAULTS.owner_callbacks,
            preview_size: DEFAULTS.preview_size,
            preview_fetch: DEFAULTS.preview_fetch,
            mcp_size: DEFAULTS.mcp_size,
            mcp_inline_size: DEFAULTS.mcp_inline_size,
            mcp_read_size: DEFAULTS.mcp_read_size,
            mcp_wait: DEFAULTS.mcp_wait,
            key_length: DEFAULTS.key_length,
            job_viewers: DEFAULTS.job_viewers,
            inputs_kept: DEFAULTS.inputs_kept,
            functions_running: DEFAULTS.functions_running.here() as usize,
            functions_queued: DEFAULTS.functions_queued,
            function_time: DEFAULTS.function_time,
            streams_running: DEFAULTS.streams_running,
            stream_time: DEFAULTS.stream_time,
            function_memory: DEFAULTS.function_memory,
            max_connections: DEFAULTS.max_connections,
            connections_per_peer: DEFAULTS.connections_per_peer,
            gateway_connections: DEFAULTS.gateway_connections,
            domain_ranks: DEFAULTS.domain_ranks,
            domain_routes: DEFAULTS.domain_routes,
            relay_idle: DEFAULTS.relay_idle,
            relay_connections: DEFAULTS.relay_connections,
            relay_pause: DEFAULTS.relay_pause,
            relay_timeout: DEFAULTS.relay_timeout,
            site_idle: DEFAULTS.site_idle,
            site_connections: DEFAULTS.site_connections,
            site_wait: DEFAULTS.site_wait,
            header_timeout: DEFAULTS.header_timeout,
            body_stall: DEFAULTS.body_stall,
            body_rate: DEFAULTS.body_rate,
            answer_stall: DEFAULTS.answer_stall,
            credentials_size: DEFAULTS.credentials_size,
            login_memory: DEFAULTS.login_memory,
            login_clock_skew: DEFAULTS.login_clock_skew,
            plain_passwords: false,
            open_descriptions: false,
            login_age: DEFAULTS.login_age,
            login_nonces: DEFAULTS.login_nonces,
            login_size: DEFAULTS.login_size,
            login_failures: DEFAULTS.login_failures,
            login_failures_per_peer: DEFAULTS.login_failures_per_peer,
            login_delay: DEFAULTS.login_delay,
            login_checks: DEFAULTS.login_checks.here() as usize,
            login_wait: DEFAULTS.login_wait,
            audit_size: DEFAULTS.audit_size,
            audit_lines: DEFAULTS.audit_lines,
            drain_size: DEFAULTS.drain_size,
            drain_time: DEFAULTS.drain_time,
            stop_time: DEFAULTS.stop_time,
        }
    }
}

/// A server through which this one is reached, because nobody can dial it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Where this server is reached there: `PUBLIC/sites/NAME`.
    pub url: String,
    /// The file of the token that registers it there; `None`: nothing is shown.
    pub token: Option<PathBuf>,
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
            pool_quota: DEFAULTS.pool_quota,
            grant_life: DEFAULTS.grant_life,
            incoming_life: DEFAULTS.incoming_life,
            uploads_open: DEFAULTS.uploads_open,
            digest_wait: DEFAULTS.digest_wait,
            pool_idle: DEFAULTS.pool_idle,
            transfer: TransferSettings::default(),
            session_quota: DEFAULTS.session_quota,
            session_files: DEFAULTS.session_files,
            sessions_open: DEFAULTS.sessions_open,
            sessions_per_owner: DEFAULTS.sessions_per_owner,
            session_idle: DEFAULTS.session_idle,
        }
    }
}

impl DataSettings {
    /// Those of the pool in this directory.
    pub fn pool_settings(&self, directory: PathBuf, disk_reserve: u64) -> PoolSettings {
        PoolSettings {
            quota: self.pool_quota,
            disk_reserve,
            grant_life: self.grant_life,
            incoming_life: self.incoming_life,
            idle: self.pool_idle,
            ..PoolSettings::new(directory)
        }
    }

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

/// Names that limits had once, and those that they have.
const RENAMED: [(&str, &str); 1] = [("pool_owner_quota", "owner_disk")];

/// A limit that was set wrongly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is none of that name.
    #[error("there is no limit {0:?}, but those that `fishplate help limits` lists{near}",
        near = .1.map_or_else(String::new, |near| format!(": did you mean {near}?")))]
    Unknown(String, Option<&'static str>),
    /// It is not NAME=VALUE.
    #[error("a limit is set as NAME=VALUE, such as max_queued=500; {0:?} is not")]
    NotSet(String),
    /// It is set elsewhere, or nowhere.
    #[error("limit {0} is {1}")]
    Elsewhere(&'static str, &'static str),
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
        let (name, text) =
            setting.split_once('=').ok_or_else(|| LimitError::NotSet(setting.to_owned()))?;
        let limit = Limit::all().find(|limit| limit.name == name).ok_or_else(|| {
            let renamed = RENAMED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new);
            let near =
                renamed.or_else(|| lexical::closest(name, Limit::all().map(|limit| limit.name)));
            LimitError::Unknown(name.to_owned(), near)
        })?;
        let Some(field) = self.field(name) else {
            return Err(LimitError::Elsewhere(limit.name, limit.setting.place()));
        };
        let value = units::read_limit(limit.unit, text)
            .map_err(|takes| LimitError::NotAValue(limit.name, takes, text.to_owned()))?;
        if value == 0 && limit.above_zero {
            return Err(LimitError::Zero(limit.name));
        }
        field.set(value);
        Ok(())
    }

    /// Where a limit that `--limit` sets is.
    fn field(&mut self, name: &str) -> Option<&mut dyn LimitField> {
        let Self { faces, jobs, data } = self;
        let (wire, transfer) = (&mut faces.wire, &mut data.transfer);
        Some(match name {
            "max_running" => &mut jobs.max_running,
            "max_queued" => &mut jobs.max_queued,
            "owner_running" => &mut jobs.owner.running,
            "owner_queued" => &mut jobs.owner.queued,
            "owner_cpu_time" => &mut jobs.owner.cpu_time,
            "owner_traffic" => &mut jobs.owner.traffic,
            "owner_disk" => &mut jobs.owner.disk,
            "quota_period" => &mut jobs.quota_period,
            "plan_memory" => &mut jobs.plan_memory,
            "retention" => &mut jobs.retention,
            "keep_jobs" => &mut jobs.keep_jobs,
            "usage_retention" => &mut jobs.usage_retention,
            "usage_records" => &mut jobs.usage_records,
            "disk_quota" => &mut jobs.disk_quota,
            "disk_reserve" => &mut jobs.disk_reserve,
            "lease" => &mut jobs.lease,
            "reservation_lease" => &mut jobs.reservation_lease,
            "max_fetching" => &mut jobs.max_fetching,
            "owner_fetching" => &mut jobs.owner_fetching,
            "link_size" => &mut jobs.link_size,
            "message_memory" => &mut faces.message_memory,
            "json_size" => &mut faces.json_size,
            "preview_size" => &mut faces.preview_size,
            "preview_fetch" => &mut faces.preview_fetch,
            "mcp_size" => &mut faces.mcp_size,
            "mcp_inline_size" => &mut faces.mcp_inline_size,
            "mcp_read_size" => &mut faces.mcp_read_size,
            "mcp_wait" => &mut faces.mcp_wait,
            "key_length" => &mut faces.key_length,
            "callback_time" => &mut faces.callback_time,
            "owner_callbacks" => &mut faces.owner_callbacks,
            "job_viewers" => &mut faces.job_viewers,
            "inputs_kept" => &mut faces.inputs_kept,
            "functions_running" => &mut faces.functions_running,
            "functions_queued" => &mut faces.functions_queued,
            "function_time" => &mut faces.function_time,
            "streams_running" => &mut faces.streams_running,
            "stream_time" => &mut faces.stream_time,
            "function_memory" => &mut faces.function_memory,
            "max_connections" => &mut faces.max_connections,
            "connections_per_peer" => &mut faces.connections_per_peer,
            "gateway_connections" => &mut faces.gateway_connections,
            "domain_ranks" => &mut faces.domain_ranks,
            "domain_routes" => &mut faces.domain_routes,
            "relay_idle" => &mut faces.relay_idle,
            "relay_connections" => &mut faces.relay_connections,
            "relay_pause" => &mut faces.relay_pause,
            "relay_timeout" => &mut faces.relay_timeout,
            "site_idle" => &mut faces.site_idle,
            "site_connections" => &mut faces.site_connections,
            "site_wait" => &mut faces.site_wait,
            "header_timeout" => &mut faces.header_timeout,
            "body_stall" => &mut faces.body_stall,
            "body_rate" => &mut faces.body_rate,
            "answer_stall" => &mut faces.answer_stall,
            "credentials_size" => &mut faces.credentials_size,
            "login_memory" => &mut faces.login_memory,
            "login_clock_skew" => &mut faces.login_clock_skew,
            "login_age" => &mut faces.login_age,
            "login_nonces" => &mut faces.login_nonces,
            "login_size" => &mut faces.login_size,
            "login_failures" => &mut faces.login_failures,
            "login_failures_per_peer" => &mut faces.login_failures_per_peer,
            "login_delay" => &mut faces.login_delay,
            "login_checks" => &mut faces.login_checks,
            "login_wait" => &mut faces.login_wait,
            "audit_size" => &mut faces.audit_size,
            "audit_lines" => &mut faces.audit_lines,
            "drain_size" => &mut faces.drain_size,
            "drain_time" => &mut faces.drain_time,
            "stop_time" => &mut faces.stop_time,
            "message_size" => &mut wire.message_size,
            "envelope_size" => &mut wire.envelope_size,
            "text_size" => &mut wire.text_size,
            "tag_size" => &mut wire.tag_size,
            "xml_depth" => &mut wire.xml_depth,
            "attributes" => &mut wire.attributes,
            "namespaces" => &mut wire.namespaces,
            "children" => &mut wire.children,
            "header_elements" => &mut wire.header_elements,
            "parts" => &mut wire.parts,
            "part_headers" => &mut wire.part_headers,
            "header_length" => &mut wire.header_length,
            "inline_size" => &mut wire.inline_size,
            "inline_total" => &mut wire.inline_total,
            "pool_quota" => &mut data.pool_quota,
            "grant_life" => &mut data.grant_life,
            "incoming_life" => &mut data.incoming_life,
            "uploads_open" => &mut data.uploads_open,
            "digest_wait" => &mut data.digest_wait,
            "reference_size" => &mut jobs.reference_size,
            "session_quota" => &mut data.session_quota,
            "session_files" => &mut data.session_files,
            "sessions_open" => &mut data.sessions_open,
            "sessions_per_owner" => &mut data.sessions_per_owner,
            "session_idle" => &mut data.session_idle,
            "pool_idle" => &mut data.pool_idle,
            "transfer_size" => &mut transfer.size,
            "transfer_attempts" => &mut transfer.attempts,
            "transfer_stall" => &mut transfer.stall,
            "transfer_rate" => &mut transfer.rate,
            "transfer_time" => &mut transfer.time,
            "transfer_connect" => &mut transfer.connect,
            "transfer_redirects" => &mut transfer.redirects,
            "transfer_interim" => &mut transfer.interim,
            "transfer_connections" => &mut transfer.connections,
            "transfers_running" => &mut transfer.running,
            "transfers_per_owner" => &mut transfer.per_owner,
            "transfers_per_peer" => &mut transfer.per_peer,
            "directory_entries" => &mut jobs.directories.entries,
            "directory_size" => &mut jobs.directories.size,
            _ => return None,
        })
    }
}

/// A field that holds a limit, set in the unit of [`fishplate_contract::LimitUnit`].
trait LimitField {
    fn set(&mut self, value: u64);
    #[cfg(test)]
    fn get(&self) -> fishplate_contract::LimitDefault;
}

macro_rules! limit_fields {
    ($($type:ty: $value:ident => $set:expr;)+) => {$(
        impl LimitField for $type {
            fn set(&mut self, $value: u64) {
                *self = $set;
            }

            #[cfg(test)]
            fn get(&self) -> fishplate_contract::LimitDefault {
                (*self).into()
            }
        }
    )+};
}

limit_fields! {
    u32: value => Self::try_from(value).unwrap_or(Self::MAX);
    u64: value => value;
    usize: value => Self::try_from(value).unwrap_or(Self::MAX);
    Option<u64>: value => Some(value);
    Duration: value => Self::from_millis(value);
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{LimitDefault, LimitSetting, LimitUnit};

    use super::*;

    fn limits() -> Limits {
        Limits::new("/data".into(), "http://localhost")
    }

    #[test]
    fn every_limit_has_its_default_and_is_set() {
        for limit in Limit::all() {
            let (mut limits, name) = (limits(), limit.name);
            let Some(field) = limits.field(name) else {
                assert_ne!(limit.setting, LimitSetting::Server, "{name}");
                continue;
            };
            assert_eq!(limit.setting, LimitSetting::Server, "{name}");
            let default = match limit.default() {
                LimitDefault::Cores(multiple) => LimitDefault::Value(multiple.here().into()),
                default => default,
            };
            assert_eq!(field.get(), default, "{name}");
            let (text, value) = match limit.unit {
                LimitUnit::Count => ("17", 17),
                LimitUnit::Bytes | LimitUnit::Rate => ("3MiB", 3 << 20),
                LimitUnit::Time => ("90s", 90_000),
            };
            limits.set(&format!("{name}={text}")).unwrap();
            assert_eq!(limits.field(name).unwrap().get(), LimitDefault::Value(value), "{name}");
            let zero = limits.set(&format!("{name}={}", text.replace(['1', '7', '3', '9'], "0")));
            assert_eq!(zero.is_err(), limit.above_zero, "{name}");
        }
    }

    #[test]
    fn a_limit_set_wrongly_says_what_would_be_right() {
        let error = |text: &str| limits().set(text).unwrap_err().to_string();
        assert_eq!(
            error("max_queued=many"),
            "limit max_queued takes a whole number; \"many\" is not"
        );
        assert!(error("max_queue=5").ends_with(": did you mean max_queued?"));
        assert!(error("pool_owner_quota=1GiB").ends_with(": did you mean owner_disk?"));
        assert_eq!(error("kill_grace=1s"), "limit kill_grace is set in the service file");
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
