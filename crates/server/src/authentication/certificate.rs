//! A certificate that a client showed, and that an authority of ours vouches for: TLS has checked that.

use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509Certificate};

use super::authenticator::{AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead};
use super::password_login::unauthenticated;

/// Certificates of clients: the common name of the subject is the user's.
#[derive(Debug)]
pub(super) struct ClientCertificate;

fn look(request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
    let Some(certificate) = &request.peer.certificate else { return Ok(None) };
    let unusable = || unauthenticated("the client's certificate has not one common name (CN)");
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| unusable())?;
    let mut names = parsed.subject().iter_common_name().map(AttributeTypeAndValue::as_str);
    match (names.next(), names.next()) {
        (Some(Ok(name)), None) if !name.is_empty() && !name.contains(char::is_control) => {
            Ok(Some(Identity::named(name, "certificate")))
        }
        _ => Err(unusable().into()),
    }
}

impl Authenticator for ClientCertificate {
    fn expects(&self) -> String {
        "a certificate of the client (TLS)".to_owned()
    }

    fn challenge(&self) -> Option<&'static str> {
        None
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(std::future::ready(look(request).into()))
    }
}
