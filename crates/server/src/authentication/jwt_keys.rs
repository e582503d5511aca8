//! The keys of an issuer of JSON Web Tokens (RFC 7517): from a file, or from where it publishes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fishplate_data::transfer::{
    Http, ReadRequest, TransferError, TransferSettings, Transport as _,
};
use fishplate_data::{Policy, PolicySettings};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use serde_json::Value;
use tokio::time::Instant;
use url::{Host, ParseError, Url};

use crate::file_version::FileVersion;

/// Keys that are published are asked for at most so often: anybody can name a key that is not there.
const ASKED_EVERY: Duration = Duration::from_secs(60);

/// Keys that are published are asked for again after so long: one that was withdrawn must not be believed for ever.
const FRESH: Duration = Duration::from_mins(10);

/// Keys are believed so long if the issuer can't be asked.
const BELIEVED: Duration = Duration::from_hours(24);

/// How long that may take.
const ASKING_TIME: Duration = Duration::from_secs(10);

/// Bytes of a document of keys at the most.
const LONGEST: usize = 1 << 20;

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file (a JWK Set), which is read again when it has changed.
    File(PathBuf),
    /// At an address (`jwks_uri`).
    Url(Url),
    /// Where the issuer's own description says (OpenID Connect Discovery 1.0, section 4).
    Discovered,
}

impl FromStr for KeySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("http://") || text.starts_with("https://") {
            let url: Url = text.parse().map_err(|error| format!("no address: {error}"))?;
            return if is_safe(&url) { Ok(Self::Url(url)) } else { Err(UNSAFE.to_owned()) };
        }
        Ok(Self::File(PathBuf::from(text)))
    }
}

/// Whoever is on the way could put keys of their own in the place of the issuer's.
const UNSAFE: &str = "keys are believed over https only, and over http from this machine";

fn is_safe(url: &Url) -> bool {
    let here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || here
}

/// Why the keys are not known.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Its path, as configured.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is no set of keys.
    #[error("{from} holds no JWK Set (RFC 7517): {reason}")]
    Format {
        /// The file or the URL that was read.
        from: String,
        /// What is wrong.
        reason: String,
    },
    /// The issuer's server.
    #[error("{from}: {reason}")]
    Asked {
        /// Its address.
        from: String,
        /// What is wrong.
        reason: String,
    },
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    source: KeySource,
    issuer: String,
    /// Its description.
    discovery: String,
    transport: Http,
    known: Mutex<KnownKeys>,
    /// One asks for all.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct KnownKeys {
    /// Or why they are not known.
    keys: Result<Arc<[Jwk]>, Arc<KeyError>>,
    /// What the file was when it was read.
    version: Option<FileVersion>,
    /// When they were asked for last, and when that was answered last.
    asked: Option<Instant>,
    answered: Option<Instant>,
}

impl IssuerKeys {
    /// Those of an issuer; from a file at once, else when somebody comes with a token.
    ///
    /// # Errors
    /// If the file can't be used.
    pub(super) fn open(source: KeySource, issuer: &str) -> Result<Self, KeyError> {
        // Whoever runs the server says where the keys are: that may be in their own network.
        let everywhere = ["0.0.0.0/0", "::/0"].iter().filter_map(|block| block.parse().ok());
        let policy = PolicySettings { allow_private: true, networks: everywhere.collect() };
        let bounds = TransferSettings { connect: ASKING_TIME, ..TransferSettings::default() };
        let keys = Self {
            source,
            issuer: issuer.to_owned(),
            discovery: format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')),
            transport: Http::new(&bounds, Arc::new(Policy::new(policy))),
            known: Mutex::new(KnownKeys {
                keys: Ok(Arc::default()),
                version: None,
                asked: None,
                answered: None,
            }),
            asking: tokio::sync::Mutex::default(),
        };
        if let KeySource::File(path) = &keys.source {
            keys.known().keys = Ok(read(path)?);
        }
        Ok(keys)
    }

    /// Those that a token may be signed with: the one of this ID, or all.
    pub(super) async fn find(&self, id: Option<&str>) -> Result<Vec<Jwk>, Arc<KeyError>> {
        let of_id = |keys: Arc<[Jwk]>| -> Vec<Jwk> {
            let wanted = |key: &&Jwk| id.is_none() || key.common.key_id.as_deref() == id;
            keys.iter().filter(wanted).cloned().collect()
        };
        if let KeySource::File(path) = &self.source {
            let version = FileVersion::of(path).ok().flatten();
            let mut known = self.known();
            if version.is_none() || known.version != version {
                known.version = version;
                known.keep(read(path));
            }
            return known.keys.clone().map(of_id);
        }
        let (found, fresh) = {
            let known = self.known();
            let fresh = known.answered.is_some_and(|at| at.elapsed() < FRESH);
            (of_id(known.keys.clone().unwrap_or_default()), fresh)
        };
        if !found.is_empty() {
            // One asks, and the others go on with what is known.
            if !fresh && let Ok(_one) = self.asking.try_lock() {
                self.ask_if_due().await;
                return self.known().keys.clone().map(of_id);
            }
            return Ok(found);
        }
        self.ask_again().await;
        self.known().keys.clone().map(of_id)
    }

    /// Asks for published keys, unless that was just done.
    pub(super) async fn ask_again(&self) {
        if !matches!(self.source, KeySource::File(_)) {
            let _one = self.asking.lock().await;
            self.ask_if_due().await;
        }
    }

    async fn ask_if_due(&self) {
        if self.known().asked.is_some_and(|at| at.elapsed() < ASKED_EVERY) {
            return;
        }
        let keys = self.ask().await;
        let mut known = self.known();
        known.asked = Some(Instant::now());
        match keys {
            Err(error) if known.answered.is_some_and(|at| at.elapsed() < BELIEVED) => {
                tracing::warn!("new keys for JSON Web Tokens are not known: {error}");
            }
            keys => {
                known.answered = keys.is_ok().then(Instant::now);
                known.keep(keys);
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self) -> Result<Arc<[Jwk]>, KeyError> {
        let url = match &self.source {
            KeySource::Url(url) => url.clone(),
            _ => {
                let from = &self.discovery;
                let wrong = |reason: String| KeyError::Asked { from: from.clone(), reason };
                let address = |told: &str| -> Result<Url, KeyError> {
                    let url: Url =
                        told.parse().map_err(|error: ParseError| wrong(error.to_string()))?;
                    if is_safe(&url) { Ok(url) } else { Err(wrong(UNSAFE.to_owned())) }
                };
                let told: Value = serde_json::from_slice(&self.get(&address(from)?).await?)
                    .map_err(|error| wrong(error.to_string()))?;
                let text = |name| told.get(name).and_then(Value::as_str);
                // OpenID Connect Discovery 1.0, section 4.3.
                if text("issuer") != Some(&*self.issuer) {
                    return Err(wrong(format!("it is the description of {:?}", text("issuer"))));
                }
                address(text("jwks_uri").ok_or_else(|| wrong("it tells no jwks_uri".to_owned()))?)?
            }
        };
        key_set(&self.get(&url).await?, url.as_str())
    }

    async fn get(&self, url: &Url) -> Result<Vec<u8>, KeyError> {
        let failed = |reason: String| KeyError::Asked { from: url.to_string(), reason };
        let reading = async {
            let mut source = self.transport.open(url, ReadRequest::default()).await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = source.body.next().await? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > LONGEST {
                    return Ok(None);
                }
            }
            Ok::<_, TransferError>(Some(bytes))
        };
        let read = tokio::time::timeout(ASKING_TIME, reading).await;
        let read = read.map_err(|_| failed(format!("no answer within {ASKING_TIME:?}")))?;
        let read = read.map_err(|error| failed(error.to_string()))?;
        read.ok_or_else(|| failed(format!("more than {LONGEST} bytes")))
    }
}

impl KnownKeys {
    fn keep(&mut self, keys: Result<Arc<[Jwk]>, KeyError>) {
        if let Err(error) = &keys {
            tracing::error!("nobody can log in with a JSON Web Token: {error}");
        }
        self.keys = keys.map_err(Arc::new);
    }
}

fn read(path: &Path) -> Result<Arc<[Jwk]>, KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    key_set(&fs::read(path).map_err(failed)?, &path.display().to_string())
}

fn key_set(text: &[u8], from: &str) -> Result<Arc<[Jwk]>, KeyError> {
    let wrong = |reason: String| KeyError::Format { from: from.to_owned(), reason };
    let set: JwkSet = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if set.keys.is_empty() {
        return Err(wrong("it has no keys".to_owned()));
    }
    Ok(set.keys.into())
}
