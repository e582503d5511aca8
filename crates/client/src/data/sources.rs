//! Where data is got from: a transport for each scheme.

use std::sync::Arc;

use fishplate_contract::DataRef;
use fishplate_data::policy::{Policy, PolicySettings};
use fishplate_data::settings::TransportSettings;
use fishplate_data::transfer::{Ftp, Http, S3, TransferSettings, Transports};

use crate::data::get::{Download, DownloadTarget, get};
use crate::error::Error;
use crate::meter::Meter;
use crate::settings::{Retry, Settings};

/// Transports with connections that are kept.
#[derive(Clone, Debug)]
pub struct Sources {
    transports: Transports,
    retry: Retry,
    settings: Settings,
}

impl Sources {
    /// HTTP, HTTPS and FTP for anonymous users.
    ///
    /// # Errors
    /// [`Error::Transports`].
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        Self::with(settings, &TransportSettings::default())
    }

    /// The same with accounts of FTP and stores of S3.
    ///
    /// # Errors
    /// [`Error::Transports`].
    pub fn with(settings: &Settings, accounts: &TransportSettings) -> Result<Self, Error> {
        let bounds = TransferSettings {
            connect: settings.connect_timeout,
            ca_file: settings.ca_file.clone(),
            ..TransferSettings::default()
        };
        let everywhere = ["0.0.0.0/0", "::/0"].iter().filter_map(|block| block.parse().ok());
        let any = || PolicySettings { allow_private: true, networks: everywhere.collect() };
        let policy = settings.policy.clone().unwrap_or_else(any);
        let addresses = Arc::new(Policy::new(policy));
        let mut transports = Transports::new()
            .with(Http::new(&bounds, Arc::clone(&addresses) as _))
            .with(Ftp::new(&accounts.ftp, &bounds, addresses)?);
        if !accounts.s3.is_empty() {
            transports = transports.with(S3::new(&accounts.s3, &bounds)?);
        }
        Ok(Self { transports, retry: settings.retry, settings: settings.clone() })
    }

    /// Gets what a reference refers to, verified.
    ///
    /// # Errors
    /// [`Error::BadUrl`] for a scheme that is not served; else see [`get`].
    pub async fn get(
        &self,
        from: &DataRef,
        to: &DownloadTarget,
        meter: &Arc<Meter>,
    ) -> Result<Download, Error> {
        let scheme = from.url.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        let transport = self.transports.find(&scheme).map_err(|_| {
            let schemes = self.transports.schemes();
            let schemes: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}:")).collect();
            let reason = format!("it must begin with {}", schemes.join(" or "));
            Error::BadUrl { url: from.url.clone(), reason }
        })?;
        let getting = get(&**transport, from, to, self.retry, meter);
        match self.settings.timeout {
            None => getting.await,
            Some(after) => tokio::time::timeout(after, getting)
                .await
                .unwrap_or_else(|_| Err(Error::TimedOut { url: from.url.clone(), after })),
        }
    }
}
