//! TLS at the server's end: its certificate, read again when it has changed, and those of clients.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::file_version::FileVersion;

/// First byte of a connection that begins with TLS (RFC 8446, section 5.1: a record of a handshake).
const HANDSHAKE: u8 = 22;

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A file can't be used.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// They don't belong together.
    #[error("cannot use {} with {}: {reason}", certificate.display(), key.display())]
    Pair {
        /// The file of certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What TLS says.
        reason: String,
    },
}

/// The files of a server's end, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Its certificate, and those of the authorities between it and a known one.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// Authorities that vouch for clients.
    pub client_authorities: Option<PathBuf>,
}

/// A server's end of TLS.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    current: Mutex<CurrentConfig>,
}

#[derive(Debug)]
struct CurrentConfig {
    /// Of all files, when they were read last, for good or not.
    versions: Vec<Option<FileVersion>>,
    config: Arc<ServerConfig>,
}

impl TlsFiles {
    fn versions(&self) -> Vec<Option<FileVersion>> {
        let files = [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()];
        let version = |path: &PathBuf| FileVersion::of(path).ok().flatten();
        files.into_iter().map(|path| path.and_then(version)).collect()
    }

    fn config(&self) -> Result<ServerConfig, TlsFilesError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = |error: rustls::Error| TlsFilesError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(path)?);
                // Who brings none may know a token.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|error| unusable(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| unusable(&self.key, &error))?;
        let chain = certificates(&self.certificate)?;
        let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFilesError> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path, &"there is no PEM certificate in it")),
        found => found.map_err(|error: pem::Error| unusable(path, &error)),
    }
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> TlsFilesError {
    TlsFilesError::File { path: path.to_owned(), reason: reason.to_string() }
}

impl ServerTls {
    /// With these files.
    ///
    /// # Errors
    /// If one can't be used, or they don't belong together.
    pub fn open(files: TlsFiles) -> Result<Self, TlsFilesError> {
        let versions = files.versions();
        let config = Arc::new(files.config()?);
        Ok(Self { files, current: Mutex::new(CurrentConfig { versions, config }) })
    }

    /// Reads the files again. What can't be used leaves all as it was.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn reload(&self) -> Result<(), TlsFilesError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.versions = self.files.versions();
        current.config = Arc::new(self.files.config()?);
        Ok(())
    }

    /// As the files are now, or were when they could be used last.
    fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = self.files.versions();
        if versions != current.versions {
            match self.files.config() {
                Ok(config) => {
                    tracing::info!("the certificate has changed: it was read again");
                    current.config = Arc::new(config);
                }
                Err(error) => tracing::warn!("the certificate from before stays in use: {error}"),
            }
            current.versions = versions;
        }
        Arc::clone(&current.config)
    }

    /// Greets a client; `None` if it is none that speaks TLS.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<Option<TlsStream<TcpStream>>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        if first != [HANDSHAKE] {
            tell_to_use_https(stream).await?;
            return Ok(None);
        }
        TlsAcceptor::from(self.config()).accept(stream).await.map(Some)
    }
}

/// Tells a client that speaks HTTP so. What it sends is thrown away until it closes, so that it sees the answer.
async fn tell_to_use_https(mut stream: TcpStream) -> io::Result<()> {
    let what = "this port speaks TLS: write https:// in place of http:// in its address\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\n\r\n{what}",
        what.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}
