//! Limits and times of message passing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::limits::{DEFAULTS, RANK_LIMITS};

use crate::collective::Algorithms;
use crate::collective::algorithm;
use crate::error::{Error, Result};
use crate::header::Rank;
use crate::transport::tls::CA_FILE;

/// The environment variable that sets limits.
pub const VARIABLE: &str = RANK_LIMITS;

/// More connections to one rank do not make a message faster, and each takes its kernel's memory.
pub(crate) const MOST_STREAMS: usize = 16;

/// The round-trip time from which on a rank is distant.
const DISTANT: Duration = Duration::from_millis(1);

/// What a process may be told when it joins a domain. Those that are limits have their defaults in
/// [`fishplate_contract::limits`], section "ranks".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Payloads up to this many bytes are sent at once (eager); longer ones when the receive is posted (rendezvous).
    pub eager_limit: usize,
    /// The same between ranks that share memory, where a payload is copied no more often for being eager.
    pub shared_memory_eager_limit: usize,
    /// The same to a distant rank: asking it first takes longer than to copy what is sent.
    pub distant_eager_limit: usize,
    /// Connections that carry the parts of a long message side by side to a rank at another site.
    pub parallel_streams: usize,
    /// Bytes of such a message that each of them carries at least.
    pub stream_bytes: usize,
    /// Bytes of eager messages that a process holds for receives to come, all senders together; what
    /// exceeds it waits at its sender.
    pub unexpected_memory: usize,
    /// Bytes that buffered sends may occupy until they are received.
    pub buffer_size: usize,
    /// How long a waiting thread looks again and again before it yields its processor between looks, and then sleeps. 20 µs; zero: it sleeps at once.
    pub spin: Duration,
    /// How long a rank may be out of reach before it has failed.
    pub peer_timeout: Duration,
    /// Connections that have not greeted yet, beyond one for each rank; for one more the oldest is closed.
    pub unauthenticated_connections: usize,
    /// How long one may take to greet.
    pub authentication_timeout: Duration,
    /// How long a SOAP client may ask a rank to wait for a message.
    pub receive_wait: Duration,
    /// SOAP clients whose calls a rank counts.
    pub soap_clients: usize,
    /// How collective operations of communicators go that nobody names others for: the same at all ranks.
    pub algorithms: Algorithms,
    /// Which ranks are at one site. Collective operations cross from site to site as rarely as they can. The same at all ranks
    /// ([`crate::Process::agree_on_sites`]).
    pub sites: Sites,
    /// Authorities in PEM that are trusted beside the system's when gateways are reached over TLS.
    pub ca_file: Option<PathBuf>,
    /// A wait that lasts longer is told to the launcher; what was sent, as often at most.
    pub long_wait: Duration,
}

/// Where the ranks of a domain are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// The site of each rank, by any numbers; none: all are at one.
    pub of_ranks: Arc<[u32]>,
    /// The sites are hosts of one network: a message between them takes little longer than one within.
    pub are_near: bool,
}

impl From<&[u32]> for Sites {
    fn from(of_ranks: &[u32]) -> Self {
        Self { of_ranks: of_ranks.into(), are_near: false }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            eager_limit: DEFAULTS.eager_limit,
            shared_memory_eager_limit: DEFAULTS.shared_memory_eager_limit,
            distant_eager_limit: DEFAULTS.distant_eager_limit,
            parallel_streams: DEFAULTS.parallel_streams,
            stream_bytes: DEFAULTS.stream_bytes,
            unexpected_memory: DEFAULTS.unexpected_memory,
            buffer_size: DEFAULTS.buffer_size,
            spin: Duration::from_micros(20),
            peer_timeout: DEFAULTS.peer_timeout,
            unauthenticated_connections: DEFAULTS.unauthenticated_connections,
            authentication_timeout: DEFAULTS.authentication_timeout,
            receive_wait: DEFAULTS.receive_wait,
            soap_clients: DEFAULTS.soap_clients,
            algorithms: Algorithms::default(),
            sites: Sites::default(),
            ca_file: None,
            long_wait: DEFAULTS.long_wait,
        }
    }
}

impl Settings {
    /// Whether two ranks are at sites that are not near, or have a connection with a long round-trip time.
    pub(crate) fn are_distant(&self, from: Rank, to: Rank, round_trip: Option<Duration>) -> bool {
        let Sites { of_ranks, are_near } = &self.sites;
        let site = |rank: Rank| of_ranks.get(rank as usize);
        !are_near && site(from) != site(to) || round_trip.is_some_and(|time| time >= DISTANT)
    }

    /// Connections between two ranks that are worth having for long messages.
    pub(crate) fn streams(&self, from: Rank, to: Rank) -> usize {
        if self.are_distant(from, to, None) {
            self.parallel_streams.clamp(1, MOST_STREAMS)
        } else {
            1
        }
    }

    /// With the limits that [`VARIABLE`] of this process's environment sets, the algorithms that
    /// [`algorithm::VARIABLE`] names, and the file that [`CA_FILE`] names.
    pub fn with_environment(mut self) -> Result<Self> {
        self.ca_file = std::env::var_os(CA_FILE).map(PathBuf::from).or(self.ca_file);
        if let Ok(text) = std::env::var(algorithm::VARIABLE) {
            self.algorithms = text.parse().map_err(|error| Error::Join {
                problem: format!("{} is wrong: {error}", algorithm::VARIABLE),
            })?;
        }
        match std::env::var(VARIABLE) {
            Ok(text) => self.with_limits(&text),
            Err(_) => Ok(self),
        }
    }

    /// With limits as [`VARIABLE`] has them.
    pub fn with_limits(mut self, text: &str) -> Result<Self> {
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let wrong = |problem: &str| Error::Join {
                problem: format!("{VARIABLE} has {setting}: {problem}"),
            };
            let (name, value) =
                setting.split_once('=').ok_or_else(|| wrong("NAME=VALUE is needed"))?;
            let value = value.parse().map_err(|_| {
                wrong("a number (of bytes or milliseconds) is needed, without a unit")
            })?;
            let count = usize::try_from(value).unwrap_or(usize::MAX);
            let time = || match value {
                0 => Err(wrong("it has to be above zero")),
                value => Ok(Duration::from_millis(value)),
            };
            match name {
                "eager_limit" => self.eager_limit = count,
                "shared_memory_eager_limit" => self.shared_memory_eager_limit = count,
                "distant_eager_limit" => self.distant_eager_limit = count,
                "parallel_streams" => self.parallel_streams = count,
                "stream_bytes" => self.stream_bytes = count,
                "unexpected_memory" => self.unexpected_memory = count,
                "buffer_size" => self.buffer_size = count,
                "peer_timeout" => self.peer_timeout = time()?,
                "unauthenticated_connections" => self.unauthenticated_connections = count,
                "authentication_timeout" => self.authentication_timeout = time()?,
                "receive_wait" => self.receive_wait = Duration::from_millis(value),
                "soap_clients" => self.soap_clients = count,
                "long_wait" => self.long_wait = time()?,
                _ => return Err(wrong("ranks have no such limit")),
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{Limit, LimitSetting};

    use super::*;

    #[test]
    fn every_limit_of_ranks_is_set() {
        let ours = Limit::all().filter(|limit| limit.setting == LimitSetting::Launch);
        for limit in ours {
            let set = Settings::default().with_limits(&format!("{}=77", limit.name));
            assert_ne!(set, Ok(Settings::default()), "{}", limit.name);
            assert!(set.is_ok(), "{}", limit.name);
        }
        let both = Settings::default().with_limits("eager_limit=1,peer_timeout=2").unwrap();
        assert_eq!((both.eager_limit, both.peer_timeout), (1, Duration::from_millis(2)));
        assert_eq!(Settings::default().with_limits(""), Ok(Settings::default()));
    }

    #[test]
    fn ranks_are_distant_by_their_sites_or_by_the_time_there_and_back() {
        let sites = |are_near| Sites { of_ranks: [0, 0, 1][..].into(), are_near };
        for (are_near, to, time, distant) in [
            (false, 1, None, false),
            (false, 2, None, true),
            (true, 2, None, false),
            (true, 2, Some(DISTANT), true),
            (false, 1, Some(DISTANT), true),
            (false, 1, Some(DISTANT - Duration::from_micros(1)), false),
        ] {
            let settings = Settings { sites: sites(are_near), ..Settings::default() };
            assert_eq!(settings.are_distant(0, to, time), distant, "{are_near} {to} {time:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("eager_limit", "FISHPLATE_LIMITS has eager_limit: NAME=VALUE"),
            ("eager_limit=1KiB", "without a unit"),
            ("eager_limit=-1", "a number (of bytes"),
            ("peer_timeout=0", "above zero"),
            ("eager_limit=1,speed=2", "speed=2: ranks have no such limit"),
        ] {
            let error = Settings::default().with_limits(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
