//! Every limit: its name, its default, its unit and what it bounds.
//!
//! The one place: the rooms take their defaults from [`DEFAULTS`], a server's `--limit NAME=VALUE` its units
//! from [`GROUPS`], and so do `fishplate help limits` and `docs/reference/limits.md`
//! (`cargo xtask generate`).

use std::time::Duration;

/// A bound with a name.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Its name, as settings and faults have it.
    pub name: &'static str,
    /// What its value counts.
    pub unit: LimitUnit,
    /// Where it is set.
    pub setting: LimitSetting,
    /// At zero nothing would work.
    pub above_zero: bool,
    /// What it bounds, and what becomes of the rest: lines of Markdown, of which the first is enough.
    pub meaning: &'static [&'static str],
    default: fn() -> LimitDefault,
}

/// In what a limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// In pieces of what the limit is about.
    Count,
    /// In bytes; told as KiB, MiB and so on.
    Bytes,
    /// In bytes a second.
    Rate,
    /// In milliseconds.
    Time,
}

/// The variable of a rank's environment that sets its limits ([`LimitSetting::Launch`]): `eager_limit=65536,peer_timeout=500`, in bytes and
/// milliseconds.
pub const RANK_LIMITS: &str = "FISHPLATE_LIMITS";

/// Where a limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSetting {
    /// `--limit NAME=VALUE` of a server.
    Server,
    /// A service file's `[limits]`.
    ServiceFile,
    /// The mail relay's settings.
    Relay,
    /// `--limit NAME=VALUE` of `fishplate run`, a service file's `[ranks.limits]`, or [`RANK_LIMITS`] of a rank's environment.
    Launch,
    /// Nowhere: nobody can change it.
    Fixed,
}

impl LimitSetting {
    /// The same, for people.
    pub fn place(self) -> &'static str {
        match self {
            Self::Server => "set with --limit",
            Self::ServiceFile => "set in the service file",
            Self::Relay => "set with the relay",
            Self::Launch => "set with --limit of run or in the service file",
            Self::Fixed => "fixed",
        }
    }
}

/// A default, in its limit's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitDefault {
    /// No limit.
    None,
    /// The same on every machine.
    Value(u64),
    /// As many as this machine's cores make it.
    Cores(CoreMultiple),
}

/// A default that grows with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreMultiple {
    /// How many a core.
    pub per_core: u32,
    /// How many on a machine with few.
    pub least: u32,
}

impl CoreMultiple {
    /// Its value on this machine.
    pub fn here(self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        u32::try_from(cores)
            .map_or(u32::MAX, |cores| cores.saturating_mul(self.per_core))
            .max(self.least)
    }
}

impl Limit {
    /// Its default.
    pub fn default(&self) -> LimitDefault {
        (self.default)()
    }

    /// Every limit.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        GROUPS.iter().flat_map(|(_, limits)| *limits)
    }
}

macro_rules! defaults {
    ($($type:ty: $value:ident => $default:expr;)+) => {$(
        impl From<$type> for LimitDefault {
            fn from($value: $type) -> Self {
                $default
            }
        }
    )+};
}

defaults! {
    u32: value => Self::Value(value.into());
    u64: value => Self::Value(value);
    usize: value => u64::try_from(value).map_or(Self::None, Self::Value);
    Duration: value => u64::try_from(value.as_millis()).map_or(Self::None, Self::Value);
    CoreMultiple: value => Self::Cores(value);
}

impl<T: Into<Self>> From<Option<T>> for LimitDefault {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

macro_rules! limits {
    ($($group:literal { $(
        $(#[doc = $meaning:literal])+
        $name:ident: $type:ty = $default:expr, $unit:ident $($setting:ident)? $(> $zero:literal)?;
    )+ })+) => {
        /// The limits' defaults, in the types of the fields that hold them.
        #[derive(Debug)]
        pub struct Defaults { $($( $(#[doc = $meaning])+ pub $name: $type, )+)+ }

        /// The limits' defaults.
        pub const DEFAULTS: Defaults = Defaults { $($( $name: $default, )+)+ };

        /// All limits, by the sections of the reference.
        pub const GROUPS: &[(&str, &[Limit])] = &[$(($group, &[$(Limit {
            name: stringify!($name),
            unit: LimitUnit::$unit,
            setting: setting!($($setting)?),
            above_zero: false $(|| $zero == 0)?,
            meaning: &[$($meaning),+],
            default: || DEFAULTS.$name.into(),
        },)+]),)+];
    };
}

macro_rules! setting {
    () => {
        LimitSetting::Server
    };
    ($setting:ident) => {
        LimitSetting::$setting
    };
}

const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(7 * 24);

// Name, type of the default, default, unit, where it is set if not by `--limit`, and whether it must be
// above zero.
limits! {
    "messages" {
        /// bytes of a whole message, attachments included
        message_size: Option<u64> = None, Bytes > 0;
        /// bytes of the XML outside files and arrays
        envelope_size: u64 = 16 << 20, Bytes > 0;
        /// bytes of a request in JSON, files and arrays in it included, or of all texts of a form;
        /// what is larger goes by reference (`PUBLIC/data`)
        json_size: u64 = 16 << 20, Bytes > 0;
        /// bytes of a message of an assistant (MCP), files and arrays in it included;
        /// what is larger goes by reference (`PUBLIC/data`)
        mcp_size: u64 = 4 << 20, Bytes > 0;
        /// bytes of a file or an array that stand in an answer to an assistant;
        /// what is larger goes by reference
        mcp_inline_size: u64 = 16 << 10, Bytes;
        /// bytes of an image or a sound in an answer to an assistant, and of an output that it reads as a resource
        mcp_read_size: u64 = 1 << 20, Bytes;
        /// how long a call of an assistant waits for its job;
        /// then it is answered with the job, which goes on
        mcp_wait: Duration = Duration::from_secs(50), Time > 0;
        /// elements within each other
        xml_depth: usize = 64, Count > 0;
        /// attributes of an element, namespace declarations included
        attributes: usize = 64, Count;
        /// namespace declarations in scope at once
        namespaces: usize = 256, Count;
        /// child elements of an element;
        /// numbers and rows of an array do not count
        children: usize = 10_000, Count > 0;
        /// elements that are kept of a message's header blocks
        header_elements: usize = 1000, Count;
        /// bytes of a value that is no file
        text_size: usize = 16 << 20, Bytes;
        /// bytes of one tag
        tag_size: usize = 64 << 10, Bytes > 0;
        /// parts of a multipart message, the root included, and fields of a form
        parts: usize = 1000, Count > 0;
        /// header fields of a part
        part_headers: usize = 50, Count;
        /// bytes of one header field of a part, and of each text in a reference
        header_length: usize = 4 << 10, Bytes;
        /// bytes of a file that stay in memory;
        /// a larger one is spooled
        inline_size: usize = 64 << 10, Bytes;
        /// bytes of all files of a message that stay in memory;
        /// the rest is spooled
        inline_total: usize = 4 << 20, Bytes;
        /// bytes of memory that messages hold together:
        /// their XML and the payloads in memory or not yet written to the spool while they are read, their
        /// arguments until the function ended or the job was accepted, outputs that are no files until they
        /// were sent.
        /// A message beyond 64 KiB reserves what it holds in steps, twice what it had, at most 16 MiB
        /// more than it holds. If there is no more for a second, its payloads are spooled; XML and
        /// outputs wait at most `body_stall` (`TimedOut`), but one message that is read and one answer
        /// go on all the same, so that those who hold some never wait for each other: that much more is
        /// held at most. Not counted: what is below 64 KiB, buffers of connections (up to 256 KiB each while
        /// large messages come and go), arrays read from the spool for a function
        /// (`function_memory`), what a function takes for itself
        message_memory: u64 = 1 << 30, Bytes > 0;
    }

    "calls" {
        /// characters of an idempotency key
        /// (`InvalidValue`)
        key_length: usize = 256, Count > 0;
        /// jobs that one answer of `jobs` tells of
        /// (`ValueOutOfRange`)
        jobs_page: usize = 1000, Count Fixed;
    }

    "callbacks" {
        /// how long after a job's start or end it is still tried to tell its subscriber (OGC API - Processes), who can't be reached;
        /// each pause is as long as all of that lasts already, 1 s to 5 minutes
        callback_time: Duration = DAY, Time;
        /// subscribers of one owner's jobs that are told at once, of 32 that a server tells; others wait for their turn
        owner_callbacks: usize = 8, Count > 0;
    }

    "functions" {
        /// functions that run at once;
        /// calls beyond it wait (a function declared quick needs no place)
        functions_running: CoreMultiple = CoreMultiple { per_core: 2, least: 4 }, Count > 0;
        /// calls that wait;
        /// one more is `QueueFull`, with `retryAfter`
        functions_queued: usize = 1000, Count;
        /// how long a call may take
        /// (`LimitExceeded`); a function may say otherwise (`wall_time`); one that waits for a caller
        /// who sends or reads meanwhile has `stream_time`
        function_time: Duration = Duration::from_secs(300), Time > 0;
        /// functions that read a file while it arrives, or make one while it is sent, at once,
        /// beside `functions_running`: a slow caller takes no place of those.
        /// Calls beyond it wait, at most `functions_queued`
        streams_running: usize = 64, Count > 0;
        /// how long a call of such a function may take,
        /// from its place to the end of its output, whoever is slow (`LimitExceeded`, or the answer breaks
        /// off); a function may say otherwise (`wall_time`).
        /// Beside it `body_rate`, `body_stall` and `answer_stall` hold
        stream_time: Duration = Duration::from_secs(3600), Time > 0;
        /// bytes of payloads of a message to a function that stay in memory,
        /// instead of `inline_size` and `inline_total`; the rest is spooled. Also the bytes of all arrays of a call that the function takes as
        /// vectors (`MessageTooLarge`)
        function_memory: usize = 256 << 20, Bytes;
    }

    "pages" {
        /// browsers that watch jobs at once, all jobs together;
        /// one more is refused with 503 (`Unavailable`), and asks again
        job_viewers: usize = 4096, Count;
        /// bytes of inputs that are kept with a job, so that it can be run again with some of them changed;
        /// a text that is longer is not kept
        inputs_kept: usize = 16 << 10, Bytes;
        /// bytes of an output that are looked at to show it on a page:
        /// of a larger array some numbers are read, of a larger archive the first members
        preview_size: u64 = 16 << 20, Bytes > 0;
        /// bytes of a picture or a mesh that a page has the browser fetch to show it;
        /// a larger one is there to download
        preview_fetch: u64 = 64 << 20, Bytes;
    }

    "connections" {
        /// connections at once;
        /// the one that has idled longest makes room for another, and if none idles, more wait to be
        /// accepted
        max_connections: usize = 8192, Count > 0;
        /// connections of one address at once
        /// (of a network of 64 bits in IPv6); its own that has idled longest makes room, and if none
        /// idles, one more is refused with 503. A proxy has one address for all of its callers:
        /// [operating](../guides/operating.md)
        connections_per_peer: usize = 1024, Count > 0;
        /// connections to ranks that pass through the server at once, each of two descriptors and at most 512 KiB
        /// of memory; one more is refused with 503 (`QueueFull`), and its rank dials again
        gateway_connections: usize = 4096, Count > 0;
        /// ranks of a domain of which some run here, all others included
        /// (`InvalidValue`); for each rank here its traffic is kept, at most 107 bytes for each of the domain's, and routes
        domain_ranks: u32 = 4096, Count > 0;
        /// ways by which ranks of a domain that run here reach others, with the addresses that they passed over, as they tell them;
        /// each rank has the same part of it. What is more is left out, first of those that came about at once, and how many these are is told
        domain_routes: usize = 65536, Count;
        /// connections to each relay (`serve --relay`) that are kept ready for those who want to reach this server
        relay_idle: usize = 8, Count > 0;
        /// connections to each relay at once, that wait or are in use (those of ranks stay); when all are, the relay
        /// has others wait. They count for no address (`connections_per_peer`)
        relay_connections: usize = 4096, Count > 0;
        /// longest pause between two attempts to reach a relay; the first is 100 ms, and each is twice the one before
        relay_pause: Duration = Duration::from_secs(3), Time > 0;
        /// how long a relay may take to accept a connection, with TLS and what is shown there
        relay_timeout: Duration = Duration::from_secs(10), Time > 0;
        /// connections of a site that wait here until somebody wants to reach it; one more is refused with 503 (`QueueFull`)
        site_idle: usize = 64, Count > 0;
        /// requests and connections that pass to one site at once, each of two descriptors and at most 512 KiB of memory; one more
        /// is refused with 503 (`QueueFull`). Of one client they are at most `connections_per_peer`, which should be less; those
        /// of the site's server count for no address
        site_connections: usize = 4096, Count > 0;
        /// how long somebody who wants to reach a site waits here until a connection of it is free; then 503
        /// (`Unavailable`)
        site_wait: Duration = Duration::from_secs(10), Time > 0;
        /// time to send a request's header, for TLS to come about, and idle time between requests
        header_timeout: Duration = Duration::from_secs(75), Time > 0;
        /// how long a body may bring nothing
        /// (`TimedOut`)
        body_stall: Duration = Duration::from_secs(30), Time > 0;
        /// what a body must bring a second on average after `body_stall`
        /// (`TimedOut`)
        body_rate: u64 = 1024, Rate;
        /// how long the reader of an answer may take nothing of it,
        /// and send nothing of a message that it is still sending;
        /// then the connection is closed
        answer_stall: Duration = Duration::from_secs(60), Time > 0;
        /// how much of a refused body is still read, so that its sender sees the answer
        drain_size: u64 = 64 << 20, Bytes;
        /// how long a refused body is still read,
        /// and once more as long a connection that ends, until its other end closes it
        drain_time: Duration = Duration::from_secs(10), Time;
        /// how long calls that are being answered may go on once the server is told to stop;
        /// what has not been answered then is broken off. Jobs go on in any case, and a second signal
        /// ends the server at once
        stop_time: Duration = Duration::from_secs(30), Time;
    }

    "logins" {
        /// bytes of what a request says of who calls
        /// (`Authorization`): more is refused unread (`Unauthenticated`)
        credentials_size: usize = 16 << 10, Bytes;
        /// how long a password that was right is remembered (as a digest, in memory) for the address that it came from,
        /// so that it need not be hashed for each call;
        /// a changed or removed one is refused at once all the same. At most 10,000 are
        login_memory: Duration = Duration::from_secs(300), Time;
        /// how far the clock of an issuer of JSON Web Tokens, or of who makes UsernameTokens, may be from this server's
        login_clock_skew: Duration = Duration::from_secs(60), Time;
        /// how old a UsernameToken (WS-Security) may be, when it tells: as long it can't be used again
        login_age: Duration = Duration::from_secs(300), Time;
        /// nonces of UsernameTokens that are remembered (60 bytes each);
        /// then `QueueFull`, with `retryAfter`, until some are too old to be used
        login_nonces: usize = 250_000, Count > 0;
        /// bytes of a message that are read to find out who sent it, where
        /// only its header can tell: more is refused (`Unauthenticated`)
        login_size: u64 = 128 << 10, Bytes > 0;
        /// wrong passwords in a row, for one user from one address, that are looked at at once
        /// (`Unauthenticated`, with `retryAfter`). They are forgotten 15 minutes after the last one, or
        /// with a right one
        login_failures: u32 = 5, Count > 0;
        /// the same from one address, for whatever users;
        /// in IPv6, a network of 64 bits is one. This machine's own addresses are not counted
        login_failures_per_peer: u32 = 100, Count > 0;
        /// how long the next one waits then: it doubles with each wrong one, up to 64 times as much.
        /// Users whose password is remembered for their address do not wait
        login_delay: Duration = Duration::from_secs(1), Time;
        /// passwords that are hashed at once (20 MiB of memory each); more wait
        login_checks: CoreMultiple = CoreMultiple { per_core: 1, least: 1 }, Count > 0;
        /// how long one waits to be hashed;
        /// then `QueueFull`, with `retryAfter`
        login_wait: Duration = Duration::from_secs(10), Time;
        /// bytes of `DATA/audit.log`; then it becomes `audit.log.1`, and the one before that is removed
        audit_size: u64 = 16 << 20, Bytes > 0;
        /// refusals that are told apart in the audit log, a minute;
        /// those beyond are counted together
        audit_lines: usize = 100, Count > 0;
    }

    "transfers" {
        /// bytes of one fetched payload
        /// (`QuotaExceeded`); the quotas of the pool hold in any case
        transfer_size: Option<u64> = None, Bytes;
        /// bytes of one output that is delivered by mail
        /// (`AddressForbidden`)
        mail_size: u64 = 10 << 20, Bytes Relay;
        /// fetches and deliveries that run at once;
        /// more wait. Each fetch holds at most some 25 MiB of memory if the disk or the processor can't
        /// keep up, and 8 MiB more for each of its connections beyond the first. One that waits to be
        /// tried again is not counted
        transfers_running: u32 = 32, Count > 0;
        /// as many of them are one caller's;
        /// more of that caller's wait
        transfers_per_owner: u32 = 16, Count > 0;
        /// as many of them are from or to one server
        /// (scheme, host and port); more wait
        transfers_per_peer: u32 = 8, Count > 0;
        /// connections over which one payload of 64 MiB and more is fetched,
        /// if the other end can send parts of one version.
        /// More than one is for links that lose packets or bound each connection: at 1 Gbit/s and 20 ms
        /// one fills the link (1 GiB in 8.8 s, as curl), and 2 or 4 take a tenth longer
        transfer_connections: u32 = 1, Count > 0;
        /// attempts in a row that bring nothing, or less than `transfer_rate`;
        /// then it is given up (`TransferFailed`). Between them are 0, 0.25, 0.5, 1, 2, 4, 8, 15, 15
        /// seconds, or what the other end asks for, at most 2 minutes. 3 attempts, a second apart, if
        /// there never was a connection and nobody listens at the address (it is refused), or its name
        /// can't be resolved
        transfer_attempts: u32 = 10, Count > 0;
        /// how long the other end may bring, or take, nothing;
        /// then the connection counts as broken
        transfer_stall: Duration = Duration::from_secs(30), Time > 0;
        /// what the other end must bring, or take, on average over each `transfer_stall`;
        /// else the connection counts as broken. The time in which our own disk is busy does not count
        transfer_rate: u64 = 1024, Rate;
        /// how long a connection may take, name and TLS included
        transfer_connect: Duration = Duration::from_secs(10), Time > 0;
        /// how long a transfer may take, all its attempts together
        /// (`TransferFailed`)
        transfer_time: Duration = DAY, Time > 0;
        /// redirects that are followed, one after the other
        /// (`AddressForbidden`)
        transfer_redirects: u32 = 5, Count;
        /// interim answers (status 1xx) to one request;
        /// a server that sends more is given up (`TransferFailed`)
        transfer_interim: u32 = 100, Count;
    }

    "pool" {
        /// bytes of all data in the pool, broken uploads and fetches included;
        /// what nobody needs is evicted first, then these (`QuotaExceeded`)
        pool_quota: Option<u64> = None, Bytes;
        /// how long data stays that nobody granted, pinned or used
        pool_idle: Duration = DAY, Time;
        /// how long a reference to data of this server is good,
        /// at the most and if nobody asks for less (`NoSuchData`)
        grant_life: Duration = WEEK, Time > 0;
        /// how long a broken upload or fetch can be taken up again, if nothing needs its room before
        incoming_life: Duration = DAY, Time > 0;
        /// resumable uploads of one owner that are under way at once
        /// (`QuotaExceeded`)
        uploads_open: usize = 1000, Count;
        /// how long a HEAD with `Want-Repr-Digest` waits while the digest is being computed;
        /// then it is answered without
        digest_wait: Duration = Duration::from_secs(60), Time;
        /// bytes of the files of one session
        /// (`QuotaExceeded`)
        session_quota: Option<u64> = Some(100 << 30), Bytes;
        /// files of one session
        /// (`QuotaExceeded`)
        session_files: usize = 10_000, Count;
        /// sessions at once
        /// (`QuotaExceeded`)
        sessions_open: usize = 100_000, Count;
        /// those of one owner
        /// (`QuotaExceeded`); where nobody is asked who they are, all callers are one
        sessions_per_owner: usize = 10_000, Count;
        /// how long a session lives unused, at the most and if nobody asks for less
        /// (`NoSuchSession`); one with a job that has not ended is in use
        session_idle: Duration = DAY, Time > 0;
    }

    "jobs" {
        /// jobs that run at once, of the whole data directory
        max_running: CoreMultiple = CoreMultiple { per_core: 2, least: 4 }, Count > 0;
        /// jobs of one service that wait,
        /// those whose data is being fetched among them;
        /// one more is `QueueFull`, with `retryAfter`
        max_queued: u32 = 1000, Count;
        /// those of them that are one owner's, so that others find the queue not full;
        /// one more is `QueueFull`
        owner_queued: Option<u64> = None, Count > 0;
        /// jobs of one owner that run at once; more wait. Without it, too, places go to who has the fewest
        owner_running: Option<u64> = None, Count > 0;
        /// processor time, within `quota_period`, of jobs of one owner:
        /// of those that have ended, and the time since their start of those that run. Who has used it
        /// up can begin no more jobs (`QuotaExceeded`, with `retryAfter`), and those that wait go on
        /// waiting; what runs goes on. A policy may say otherwise for users and groups
        owner_cpu_time: Option<u64> = None, Time;
        /// bytes, within `quota_period`, that came and went for one owner:
        /// with calls and for jobs, results that are asked for again, uploads, also broken ones, and what anybody reads of
        /// their grants and of files in their sessions; more is
        /// `QuotaExceeded`, with `retryAfter`. A policy may say otherwise for users and groups
        owner_traffic: Option<u64> = None, Bytes;
        /// bytes that one owner's jobs occupy, ended or not, and the data that they hold in the pool:
        /// each counted in full though others hold it too, broken uploads and fetches included; more is
        /// `QuotaExceeded`. A policy may say otherwise for users and groups
        owner_disk: Option<u64> = None, Bytes;
        /// for how long `owner_cpu_time` and `owner_traffic` are: days (UTC), this one and those before
        quota_period: Duration = Duration::from_hours(30 * 24), Time > 0;
        /// memory for the plans of waiting jobs;
        /// those of more are read from the disk when it is their turn
        plan_memory: u64 = 16 << 20, Bytes;
        /// jobs that one process fetches data for at once;
        /// more wait in the state `fetching`
        max_fetching: u32 = 32, Count > 0;
        /// those of them that are one owner's, so that slow data of one leaves others a place
        owner_fetching: u32 = 16, Count > 0;
        /// inputs by reference from this size on are linked into the workspace,
        /// if they can't share their blocks; smaller ones are copied
        link_size: u64 = 1 << 20, Bytes;
        /// outputs from this size on go by reference if they are chosen as `auto`
        reference_size: u64 = 1 << 20, Bytes;
        /// entries of a directory that a caller sends
        /// (`InvalidValue`)
        directory_entries: u64 = 1_000_000, Count > 0;
        /// bytes of all files of a directory that a caller sends,
        /// and of what its archive says of them in front of each (`InvalidValue`)
        directory_size: u64 = 1 << 40, Bytes > 0;
        /// bytes of one path in a directory that a caller sends
        /// (`InvalidValue`)
        directory_path: usize = 4096, Bytes Fixed;
        /// how long an ended job is kept
        retention: Duration = WEEK, Time;
        /// ended jobs that are kept;
        /// the oldest go first
        keep_jobs: u64 = 100_000, Count;
        /// how long it is known what jobs and transfers have used (`fishplate accounts`)
        usage_retention: Duration = Duration::from_secs(400 * 24 * 3600), Time;
        /// records of jobs and transfers that are kept one by one;
        /// of the oldest beyond there are sums of each day, owner, service, operation and state
        usage_records: u64 = 100_000, Count;
        /// bytes that jobs may occupy
        /// with what they were sent, what they wrote and their records, whether they wait, run or have ended;
        /// then new ones are refused (`QuotaExceeded`)
        disk_quota: Option<u64> = None, Bytes;
        /// bytes that stay free on the data directory's file system,
        /// and as large a part of the files (inodes) that it can hold (`StorageFull`)
        disk_reserve: u64 = 256 << 20, Bytes;
        /// how long a claim lasts unless renewed: how late a job of a stopped process is taken over
        lease: Duration = Duration::from_secs(15), Time > 0;
        /// how long places for ranks are held until ranks take them; then they are given back
        reservation_lease: Duration = Duration::from_secs(60), Time > 0;
    }

    "job" {
        /// time from start to end
        wall_time: Option<Duration> = None, Time ServiceFile;
        /// resident bytes of all of its processes
        memory: Option<u64> = None, Bytes ServiceFile;
        /// processors it may run on
        cores: Option<u32> = None, Count ServiceFile;
        /// bytes in its workspace
        output_size: Option<u64> = None, Bytes ServiceFile;
        /// bytes of stdout and of stderr, each, where they go to the log
        log_size: u64 = 64 << 20, Bytes ServiceFile;
        /// bytes of an output that is not `raw`, `xml`, `dir` or an array
        value_size: u64 = 16 << 20, Bytes ServiceFile;
        /// time between SIGTERM and SIGKILL when a job is ended
        kill_grace: Duration = Duration::from_secs(5), Time ServiceFile;
    }

    "ranks" {
        /// bytes of a message between ranks that is sent at once (eager);
        /// a longer one when its receive is posted (rendezvous)
        eager_limit: usize = 256 << 10, Bytes Launch;
        /// the same between ranks that share memory
        shared_memory_eager_limit: usize = 64 << 10, Bytes Launch;
        /// the same to a rank at another site, or to which there and back takes 1 ms or longer:
        /// asking it first takes longer than to copy what is sent
        distant_eager_limit: usize = 4 << 20, Bytes Launch;
        /// connections that carry the parts of a long message side by side to a rank at another site, 16 at most;
        /// with 1, messages go over one
        parallel_streams: usize = 4, Count Launch;
        /// bytes of such a message that each of them carries at least;
        /// what is shorter takes fewer
        stream_bytes: usize = 2 << 20, Bytes Launch;
        /// bytes of eager messages that a rank holds for receives to come, of all senders together;
        /// what is more waits at its sender
        unexpected_memory: usize = 64 << 20, Bytes Launch;
        /// bytes of buffered sends (`MPI_Bsend`) until they are received;
        /// one more is refused (`MPI_ERR_BUFFER`)
        buffer_size: usize = 64 << 20, Bytes Launch;
        /// how long a rank may be out of reach;
        /// then it has failed, and operations that need it end with an error that names it
        peer_timeout: Duration = Duration::from_secs(10), Time Launch > 0;
        /// connections to a rank that have not proved yet that they are of its domain, beyond one for each rank;
        /// for one more the oldest is closed
        unauthenticated_connections: usize = 64, Count Launch;
        /// how long such a connection may last
        authentication_timeout: Duration = Duration::from_secs(10), Time Launch > 0;
        /// how long a SOAP client may ask a rank to wait for a message (`receive`);
        /// a longer wait is refused
        receive_wait: Duration = Duration::from_secs(60), Time Launch;
        /// SOAP clients whose calls of `store`, `bstore` and `receive` a rank counts;
        /// one more is refused
        soap_clients: usize = 1024, Count Launch;
        /// a wait of a rank that lasts longer is told to its launcher or server, with what it waits for;
        /// what it sent to whom is told as often at most
        long_wait: Duration = Duration::from_secs(1), Time Launch > 0;
    }
}
