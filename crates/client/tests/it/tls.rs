//! HTTPS with certificates of one's own.

use std::sync::Arc;

use fishplate_client::{Error, Options, Service, Settings};
use fishplate_contract::Argument;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::server::{Reaction, Server, echo};

/// A server's end of TLS, and the PEM file that a client must trust.
fn identity() -> (TlsAcceptor, tempfile::NamedTempFile) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(pem.path(), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config).into(), pem)
}

#[tokio::test]
async fn a_service_behind_https_is_called_if_its_certificate_is_trusted_and_only_then() {
    let (acceptor, pem) = identity();
    let server = Server::start_with(Some(acceptor), |_, seen| Reaction::Outputs(echo(seen))).await;
    let trusting = Settings { ca_file: Some(pem.path().to_owned()), ..Settings::default() };
    let service = Service::connect_with(&server.url(), trusting).await.unwrap();
    let arguments = vec![Argument::text("x", "1")];
    service.call("call", arguments, &Options::default()).await.unwrap();

    let (_, other) = identity();
    let wrong = Settings { ca_file: Some(other.path().to_owned()), ..Settings::default() };
    let error = Service::connect_with(&server.url(), wrong).await.err().unwrap();
    assert!(
        matches!(&error, Error::Unreachable { reason, .. } if reason.contains("certificate")),
        "{error:?}"
    );
    assert_eq!(server.count(), 1);
}
