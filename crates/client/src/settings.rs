//! How to reach a service, and options of one exchange.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::CallOptions;
use fishplate_data::policy::PolicySettings;
use fishplate_wire::{ArrayForm, Packaging, SoapVersion, WireLimits};

use crate::connections::Connections;
use crate::credentials::Credentials;
use crate::meter::Meter;

/// How to reach a service and talk to it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a connection may take to come about, TLS included: 10 s.
    pub connect_timeout: Duration,
    /// How long a whole exchange may take; none, because a `call` takes as long as its program. An output
    /// that is read while it comes ([`Options::streams`]) may take as long as it likes, but no chunk of it
    /// longer than this.
    pub timeout: Option<Duration>,
    /// The packaging of requests. By default MTOM when the server is ours and a file exceeds
    /// [`MTOM_THRESHOLD`], else plain.
    pub packaging: Option<Packaging>,
    /// How arrays travel, both ways: as bytes by default. To servers that are not ours always as
    /// elements.
    pub arrays: Option<ArrayForm>,
    /// SOAP version: 1.1.
    pub soap: SoapVersion,
    /// PEM file of the certificates to trust instead of the system's; for data by reference, which is anywhere,
    /// beside them.
    pub ca_file: Option<PathBuf>,
    /// What says who calls: nothing by default.
    pub credentials: Credentials,
    /// Call this address instead of the one in the description (a tunnel, say).
    pub address: Option<String>,
    /// How often to try again what is safe to try again.
    pub retry: Retry,
    /// Limits on answers. What they let stay in memory of a file or an array is one block
    /// ([`Payload::Inline`](fishplate_contract::Payload)); what is larger is in a file.
    pub limits: WireLimits,
    /// Which addresses may be reached, for who acts on the word of others; `None`: all, because whoever runs us may reach
    /// whatever this machine reaches.
    pub policy: Option<PolicySettings>,
    /// The connections that are used: of all who have a clone of these.
    pub connections: Connections,
}

impl Settings {
    /// The packagings: the name that users know, what it means, and how arrays travel in it.
    pub const PACKAGINGS: [(&str, &str, Packaging, ArrayForm); 5] = [
        (
            "xml",
            "The envelope alone: arrays as elements, files as base64",
            Packaging::Plain,
            ArrayForm::Elements,
        ),
        (
            "base64",
            "The envelope alone: arrays and files as base64",
            Packaging::Plain,
            ArrayForm::Binary,
        ),
        (
            "mtom",
            "MTOM: arrays and files as attachments by XOP",
            Packaging::Mtom,
            ArrayForm::Binary,
        ),
        (
            "swa",
            "SOAP with Attachments: arrays and files as MIME attachments",
            Packaging::Swa,
            ArrayForm::Binary,
        ),
        ("dime", "DIME: arrays and files as records", Packaging::Dime, ArrayForm::Binary),
    ];

    /// The same with the packaging of that name; `None`: there is no such name.
    #[must_use]
    pub fn packaged(self, name: &str) -> Option<Self> {
        let (_, _, packaging, arrays) =
            Self::PACKAGINGS.into_iter().find(|(known, ..)| *known == name)?;
        Some(Self { packaging: Some(packaging), arrays: Some(arrays), ..self })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            timeout: None,
            packaging: None,
            arrays: None,
            soap: SoapVersion::V11,
            ca_file: None,
            credentials: Credentials::default(),
            address: None,
            retry: Retry::default(),
            limits: WireLimits::default(),
            policy: None,
            connections: Connections::default(),
        }
    }
}

/// A request with a larger file goes out as MTOM, if the server is ours.
pub const MTOM_THRESHOLD: u64 = 16 << 10;

/// Trying again after a broken connection. Only what cannot do harm twice is tried again: verbs
/// that change nothing or the same thing, and `call` and `spawn` with an idempotency key.
///
/// A failure to connect at all is only tried again after a connection existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in a row that fail before it is given up: 8. A try that sent its whole request and
    /// then lasted longer than `longest_wait` starts the count anew (a gateway that cuts long calls).
    pub attempts: u32,
    /// Wait before the second try: 0.2 s. It doubles from try to try.
    pub first_wait: Duration,
    /// Longest wait: 10 s.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 8,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(10),
        }
    }
}

/// Tries in a row to get data from where nobody was ever reached: its address is more likely wrong
/// than its server away for a moment.
const UNREACHED_ATTEMPTS: u32 = 3;

impl Retry {
    /// One attempt, whatever comes of it.
    pub const NEVER: Self =
        Self { attempts: 1, first_wait: Duration::ZERO, longest_wait: Duration::ZERO };

    /// Tries in a row that may fail; fewer if there never was a connection.
    pub(crate) fn attempts(&self, reached: bool) -> u32 {
        if reached { self.attempts } else { self.attempts.min(UNREACHED_ATTEMPTS) }
    }

    /// The wait after so many failures in a row (at least one).
    pub(crate) fn wait(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait)
    }
}

/// Options of one exchange.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the server is asked for beside the arguments. With an idempotency key ([`crate::new_key`] draws
    /// one) the program runs once however often the call is sent, and a broken connection is no loss.
    pub call: CallOptions,
    /// Files among the outputs that are wanted while they arrive, as [`Payload::Stream`]s. A call then returns
    /// before its answer has ended, if that is in the way of nothing else in it; what goes wrong later is
    /// an item of the stream.
    ///
    /// [`Payload::Stream`]: fishplate_contract::Payload::Stream
    pub streams: Vec<String>,
    /// An answer whose length is told is not given as streams: the server has it, and can be asked for it again
    /// if the connection breaks.
    pub stored_whole: bool,
    /// Directory where large outputs are put while they come, and stay until they are saved or
    /// dropped; best the one they shall be saved in. Default: the system's directory for such.
    pub spool_dir: Option<PathBuf>,
    /// Counts what is transferred.
    pub meter: Option<Arc<Meter>>,
    /// Instead of [`Settings::timeout`].
    pub timeout: Option<Duration>,
}

impl From<CallOptions> for Options {
    fn from(call: CallOptions) -> Self {
        Self { call, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retry = Retry::default();
        let waits: Vec<_> = (1..=8).map(|failures| retry.wait(failures).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(retry.wait(u32::MAX), retry.longest_wait);
    }
}
