//! Whether a server takes a credential.

use http::{Request, StatusCode, Uri};

use super::credential::Credential;
use super::known::Credentials;
use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::settings::Settings;
use crate::transport::{Transport, no_soap};

/// What a server says of a credential that it does not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAnswer {
    /// It takes it.
    Accepted,
    /// It asks nobody who they are.
    NotAsked,
}

/// Asks the server of a URL whether this logs in there.
///
/// # Errors
/// See [`Error`]: a fault `Unauthenticated` if it does not; any answer from which that can't be known.
pub async fn login(
    url: &str,
    credential: &Credential,
    settings: &Settings,
) -> Result<LoginAnswer, Error> {
    let url = location::parse(url)?;
    let ask = async |given: Option<&Credential>| {
        let credentials = Credentials { given: given.cloned(), ..Credentials::default() };
        let settings = Settings { credentials, ..settings.clone() };
        let mut request = Request::new(SegmentBody::empty());
        *request.uri_mut() = Uri::clone(&url);
        Transport::new(&settings, &url).send(request).await
    };
    let answer = ask(None).await?;
    match answer.status() {
        StatusCode::UNAUTHORIZED => {}
        status if status.is_success() => return Ok(LoginAnswer::NotAsked),
        _ => return Err(no_soap(&url, answer).await),
    }
    let answer = ask(Some(credential)).await?;
    // Another service than the token is for, or a page that is not there: it is known who asked.
    match answer.status() {
        status if status.is_success() => Ok(LoginAnswer::Accepted),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(LoginAnswer::Accepted),
        _ => Err(no_soap(&url, answer).await),
    }
}
