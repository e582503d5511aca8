//! The same over TLS.

use std::thread;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A server with TLS before it, and the certificate to trust for it.
struct Front {
    behind: origin::Origin,
    address: SocketAddr,
    certificate: tempfile::NamedTempFile,
}

impl Front {
    fn start(behind: origin::Origin) -> Self {
        let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(certificate.path(), issued.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (target, (send, receive)) = (behind.address(), std::sync::mpsc::channel());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let Ok(mut near) = acceptor.accept(stream).await else { return };
                        let mut far = TcpStream::connect(target).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    });
                }
            });
        });
        Self { behind, address: receive.recv().unwrap(), certificate }
    }

    fn trusting(&self) -> Http {
        let ca_file = Some(self.certificate.path().to_owned());
        let settings = TransferSettings { ca_file, ..TransferSettings::default() };
        Http::new(&settings, Arc::new(Anywhere))
    }
}

impl Server for Front {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.behind.put(name, bytes);
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.behind.get(name)
    }
}

#[tokio::test]
async fn https_conforms() {
    let server = Front::start(origin::Origin::start(DigestAnnouncement::Before));
    let transport = Arc::new(server.trusting());
    let features = Features { digest: DigestAnnouncement::Before, ..HTTP };
    let peer = Behind { scheme: "https", transport, ..Behind::new(server, features) };
    conformance::run(&peer).await;
}

#[tokio::test]
async fn who_can_not_prove_who_they_are_is_not_asked() {
    let server = Front::start(origin::Origin::start(DigestAnnouncement::Never));
    server.put("x", b"x");
    let url: Url = format!("https://{}/x", server.address()).parse().unwrap();
    assert!(server.trusting().open(&url, ReadRequest::default()).await.is_ok());
    let error = http().open(&url, ReadRequest::default()).await.unwrap_err();
    // With no certificates at all on the machine, TLS can't be spoken either.
    assert!(matches!(error, TransferError::Strange { .. }), "{error:?}");
    let elsewhere: Url =
        format!("https://localhost:{}/x", server.address().port()).parse().unwrap();
    let error = server.trusting().open(&elsewhere, ReadRequest::default()).await.unwrap_err();
    assert!(matches!(error, TransferError::Strange { .. }), "{error:?}");
}
