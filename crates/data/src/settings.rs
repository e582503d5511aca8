//! What the operator says of transfers: one TOML file, whose tables are those of the transports.
//! See `docs/reference/transfers.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fishplate_formats::units;
use serde::{Deserialize, Deserializer, de};
use url::Host;

use crate::policy::Network;
use crate::transfer::ftp::{Ftp, FtpSettings};
use crate::transfer::mailto::{MailSettings, Mailto};
use crate::transfer::s3::{S3, S3Settings};
use crate::transfer::{Addresses, TransferSettings, Transports};

/// The settings of all transports (`[transfer]`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransportSettings {
    /// Networks that callers may name hosts of, private or not, by their name: their blocks.
    pub networks: BTreeMap<String, Vec<String>>,
    /// FTP servers by host, or `host:port` where the port is not 21.
    pub ftp: BTreeMap<String, FtpSettings>,
    /// Object stores by the name that stands in `s3://NAME/KEY`.
    pub s3: BTreeMap<String, S3Settings>,
    /// The relay that takes mail; without, none is sent.
    pub mail: Option<MailSettings>,
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file can't be read.
    #[error("cannot read {path}, {what}", path = .path.display())]
    Unreadable {
        /// What it is.
        what: String,
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML, or has a key that does not exist, or a value that does not fit.
    #[error("{path} is not usable", path = .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value that can't be used.
    #[error("{key}: {reason}")]
    Unusable {
        /// Its key.
        key: String,
        /// What would be right.
        reason: String,
    },
}

impl SettingsError {
    pub(crate) fn unusable(key: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self::Unusable { key: key.into(), reason: reason.to_string() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    #[serde(default)]
    transfer: TransportSettings,
}

impl TransportSettings {
    /// Reads the file of `fishplate serve --transfers FILE`. Paths in it are relative to it.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = fs::read_to_string(path).map_err(|source| SettingsError::Unreadable {
            what: "the settings of transfers".to_owned(),
            path: path.to_owned(),
            source,
        })?;
        let file: SettingsFile = toml::from_str(&text).map_err(|source| {
            SettingsError::Malformed { path: path.to_owned(), source: Box::new(source) }
        })?;
        let mut settings = file.transfer;
        settings.resolve_paths(path.parent().unwrap_or(Path::new("")));
        Ok(settings)
    }

    /// The networks, as the policy takes them.
    pub fn networks(&self) -> Result<Vec<Network>, SettingsError> {
        let network = |(name, blocks): (&String, &Vec<String>)| {
            let text = format!("{name}={}", blocks.join(","));
            let key = format!("transfer.networks.{name}");
            text.parse().map_err(|error| SettingsError::unusable(key, error))
        };
        self.networks.iter().map(network).collect()
    }

    /// Adds the transports that they describe. FTP is there without any settings, for anonymous
    /// users; `addresses` is the policy for hosts that the settings do not name.
    pub fn add_to(
        &self,
        transports: Transports,
        bounds: &TransferSettings,
        addresses: Arc<dyn Addresses>,
    ) -> Result<Transports, SettingsError> {
        Ok(transports
            .with(Ftp::new(&self.ftp, bounds, addresses)?)
            .with(S3::new(&self.s3, bounds)?)
            .with(Mailto::new(self.mail.as_ref(), bounds)?))
    }

    /// The names of the variables in which its secrets are.
    pub fn secret_variables(&self) -> BTreeSet<String> {
        let mut settings = self.clone();
        let names = settings.secrets().filter_map(|secret| match secret {
            SecretSource::Env(name) => Some(name.clone()),
            SecretSource::File(_) => None,
        });
        names.collect()
    }

    fn resolve_paths(&mut self, base: &Path) {
        let files = (self.ftp.values_mut().map(|ftp| &mut ftp.ca_file))
            .chain(self.s3.values_mut().map(|s3| &mut s3.ca_file))
            .chain(self.mail.iter_mut().map(|mail| &mut mail.ca_file));
        for file in files.flatten() {
            *file = base.join(&*file);
        }
        for secret in self.secrets() {
            if let SecretSource::File(path) = secret {
                *path = base.join(&*path);
            }
        }
    }

    fn secrets(&mut self) -> impl Iterator<Item = &mut SecretSource> {
        let of_ftp = self.ftp.values_mut().map(|ftp| &mut ftp.password);
        let of_s3 = self.s3.values_mut();
        let of_s3 = of_s3.flat_map(|s3| [&mut s3.access_key, &mut s3.secret_key, &mut s3.token]);
        let of_mail = self.mail.iter_mut().map(|mail| &mut mail.password);
        of_ftp.chain(of_s3).chain(of_mail).flatten()
    }
}

/// Where a secret is. It never stands in the settings themselves, nor on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretSource {
    /// In a file; a line break at its end does not count.
    File(PathBuf),
    /// In a variable of the environment.
    Env(String),
}

impl SecretSource {
    /// Reads it. `key` is the setting, for the message.
    pub(crate) fn read(&self, key: &str) -> Result<SecretValue, SettingsError> {
        let secret = match self {
            Self::File(path) => {
                let text = fs::read_to_string(path).map_err(|source| {
                    SettingsError::Unreadable { what: key.to_owned(), path: path.clone(), source }
                })?;
                text.strip_suffix('\n')
                    .map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line))
                    .to_owned()
            }
            Self::Env(name) => std::env::var(name).map_err(|_| {
                SettingsError::unusable(key, format!("the environment has no variable {name}"))
            })?,
        };
        if secret.is_empty() || secret.contains(['\r', '\n', '\0']) {
            return Err(SettingsError::unusable(key, "a secret is one line that is not empty"));
        }
        Ok(SecretValue(secret))
    }
}

/// A secret that was read: nothing prints it.
#[derive(Clone)]
pub(crate) struct SecretValue(String);

impl SecretValue {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The key under which a host stands in the settings.
pub(crate) fn host_key(host: &Host<&str>, port: u16, usual: u16) -> String {
    let host = host.to_string().to_ascii_lowercase();
    if port == usual { host } else { format!("{host}:{port}") }
}

/// A size with a unit.
pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    units::size(&text).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests;
