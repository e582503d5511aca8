//! Connections that several services use: who calls many services of one host connects to it once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fishplate_data::http::tls::Trust;
use fishplate_data::http::{Client, SystemAddresses};
use fishplate_data::policy::Policy;
use fishplate_data::transfer::{Addresses, TransferSettings};

use crate::body::SegmentBody;
use crate::settings::Settings;

/// Connections that wait for another request, of all whose [`Settings`] have a clone of this.
#[derive(Clone, Default)]
pub struct Connections(Arc<Mutex<HashMap<ClientKey, Arc<Client<SegmentBody>>>>>);

/// What connections have in common that may serve the same requests.
#[derive(PartialEq, Eq, Hash)]
struct ClientKey {
    ca_file: Option<PathBuf>,
    /// A file that was written anew, or another one at that path, is another.
    file: Option<(u64, u64, u64, i64, i64)>,
    /// Variables that say where the system's certificates are.
    system: [Option<OsString>; 2],
    connect_timeout: Duration,
}

impl Connections {
    /// The client for these settings; one whose addresses are restricted has connections of its own.
    pub(crate) fn client(&self, settings: &Settings) -> Arc<Client<SegmentBody>> {
        let make = |addresses: Arc<dyn Addresses>| {
            let trust = Trust::of(settings.ca_file.clone());
            let interim = TransferSettings::default().interim;
            Arc::new(Client::new(addresses, trust, settings.connect_timeout, interim))
        };
        if let Some(policy) = &settings.policy {
            return make(Arc::new(Policy::new(policy.clone())));
        }
        let ca_file = settings.ca_file.clone();
        let file = ca_file.as_ref().and_then(|path| path.metadata().ok());
        let file = file.map(|it| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec()));
        let system = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(std::env::var_os);
        let connect_timeout = settings.connect_timeout;
        let key = ClientKey { ca_file, file, system, connect_timeout };
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(clients.entry(key).or_insert_with(|| make(Arc::new(SystemAddresses))))
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connections")
    }
}
