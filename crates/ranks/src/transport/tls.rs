//! Which gateways are trusted: those whose certificates the system's authorities issued, or others that a file names.

use std::cell::{OnceCell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, Result};

/// The environment variable that names a file of authorities in PEM, which are trusted beside the system's.
pub const CA_FILE: &str = "FISHPLATE_CA_FILE";

/// How long an address is waited for, only to look at a certificate. One that is slower is dialled all the same.
const LONGEST_CONNECT: Duration = Duration::from_secs(1);

/// Who is trusted. Nothing is read before TLS is needed.
pub(super) struct Trust {
    ca_file: Option<PathBuf>,
    config: OnceCell<Arc<ClientConfig>>,
    /// Hosts and ports whose certificates were looked at, whatever came of it.
    checked: RefCell<Vec<(ServerName<'static>, u16)>>,
    /// When it is too late to look at more.
    until: OnceCell<Instant>,
}

impl Trust {
    pub(super) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            config: OnceCell::new(),
            checked: RefCell::default(),
            until: OnceCell::new(),
        }
    }

    /// TLS that trusts them.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let config = self.read().map_err(|problem| Error::Join {
            problem: format!("gateways can't be reached over TLS: {problem}"),
        })?;
        Ok(self.config.get_or_init(|| config.into()).clone())
    }

    /// Looks at the certificate of a gateway, once, so that who is not trusted is told before the first message. What else is wrong with it
    /// may pass: it is dialled again. All gateways together may take `timeout`; those that are left then are not looked at.
    pub(super) fn check(
        &self,
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
        sockets: &[SocketAddr],
        timeout: Duration,
    ) -> std::result::Result<(), String> {
        let Some(first) = sockets.first() else { return Ok(()) };
        let gateway = (name.clone(), first.port());
        if self.checked.borrow().contains(&gateway) {
            return Ok(());
        }
        self.checked.borrow_mut().push(gateway);
        let until = *self.until.get_or_init(|| Instant::now() + timeout);
        let tls = ClientConnection::new(config.clone(), name.clone());
        let mut tls = tls.map_err(|error| error.to_string())?;
        let mut connected = sockets
            .iter()
            .map(|at| TcpStream::connect_timeout(at, left(until)?.min(LONGEST_CONNECT)));
        let Some(mut socket) = connected.find_map(io::Result::ok) else { return Ok(()) };
        loop {
            match step(&mut tls, &mut socket, until) {
                Ok(Ok(())) if tls.is_handshaking() => {}
                Ok(Err(error)) => return problem(&error).map_or(Ok(()), Err),
                Ok(Ok(())) | Err(_) => return Ok(()),
            }
        }
    }

    fn read(&self) -> std::result::Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca_file {
            let unusable = |what: String| format!("{CA_FILE} is {}: {what}", path.display());
            let found = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                .map_err(|error| unusable(error.to_string()))?;
            if roots.add_parsable_certificates(found).0 == 0 {
                return Err(unusable(
                    "no certificate of an authority, in PEM, is in it".to_owned(),
                ));
            }
        }
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let what = "this system trusts no authority";
            return Err(format!("{what}; {CA_FILE} names a file of one, in PEM"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

/// One step of a handshake: what is to be said, and then what comes.
fn step(
    tls: &mut ClientConnection,
    socket: &mut TcpStream,
    until: Instant,
) -> io::Result<std::result::Result<(), rustls::Error>> {
    socket.set_write_timeout(Some(left(until)?))?;
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    if !tls.is_handshaking() {
        return Ok(Ok(()));
    }
    socket.set_read_timeout(Some(left(until)?))?;
    if tls.read_tls(socket)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(tls.process_new_packets().map(drop))
}

/// The time until then, if there is any.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What is wrong for good: neither a restart of the gateway nor patience mends it.
fn problem(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => Some(format!(
            "its certificate was issued by no authority that is trusted here; {CA_FILE} names a file of another (of a server's ranks: --rank-ca)"
        )),
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    /// Whether somebody waits to be accepted.
    fn was_dialled(listener: &TcpListener) -> bool {
        listener.set_nonblocking(true).unwrap();
        listener.accept().is_ok()
    }

    fn nobody_trusted() -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(RootCertStore::empty());
        Arc::new(config.with_no_client_auth())
    }

    #[test]
    fn what_may_pass_is_not_told_and_each_gateway_is_looked_at_once() {
        let (trust, config) = (Trust::new(None), nobody_trusted());
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let (listener, at) = listener();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                // A proxy whose server is being started.
                stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap();
            });
            assert_eq!(trust.check(&config, &name, &[at], Duration::from_secs(60)), Ok(()));
        });
        assert_eq!(trust.check(&config, &name, &[at], Duration::from_secs(60)), Ok(()));
        assert!(!was_dialled(&listener));
    }

    #[test]
    fn all_gateways_together_have_one_deadline() {
        let (trust, config) = (Trust::new(None), nobody_trusted());
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let (first, next) = (listener(), listener());
        // The first starts the clock of all, and leaves nothing for the next, whatever that may take.
        assert_eq!(trust.check(&config, &name, &[first.1], Duration::ZERO), Ok(()));
        assert_eq!(trust.check(&config, &name, &[next.1], Duration::from_secs(60)), Ok(()));
        assert!(!was_dialled(&next.0));
    }

    #[test]
    fn a_file_that_can_not_be_used_is_named() {
        let path = std::env::temp_dir().join("no such authority");
        let error = Trust::new(Some(path.clone())).config().unwrap_err().to_string();
        assert!(error.contains(CA_FILE) && error.contains(path.to_str().unwrap()), "{error}");
    }
}
