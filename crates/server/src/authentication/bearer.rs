//! A token (RFC 6750).

use fishplate_contract::{Clock as _, Fault, Principal, SystemClock, Timestamp};
use hyper::header;

use super::authenticator::{AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead};
use super::password_login::{unauthenticated, unusable};
use super::tokens::{PREFIX, Token, TokenFile, digest_of};
use crate::settings::Settings;

/// Tokens of a file.
#[derive(Debug)]
pub(super) struct Bearer {
    tokens: TokenFile,
    credentials_size: usize,
}

impl Bearer {
    pub(super) fn new(tokens: TokenFile, settings: &Settings) -> Self {
        Self { tokens, credentials_size: settings.credentials_size }
    }

    fn look(&self, request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(secret) = credentials(request, "bearer", self.credentials_size)? else {
            return Ok(None);
        };
        holder(&self.tokens, secret).map(Some)
    }
}

/// Whom a token stands for.
///
/// # Errors
/// `Unauthenticated`; `Internal` if it can't be known.
pub(super) fn holder(tokens: &TokenFile, secret: &str) -> Result<Identity, Refusal> {
    let tokens = tokens.all().map_err(|_| unusable())?;
    // Looked up by a digest, the time tells nothing of the token.
    let Some(token) = tokens.get(&digest_of(secret)) else {
        let hint = if secret.starts_with(PREFIX) { "" } else { " (they begin with fishplate_)" };
        return Err(unauthenticated(format!(
            "this server knows no such token{hint}; it may have been revoked"
        ))
        .into());
    };
    token.identity(SystemClock.now(), "token")
}

impl Token {
    /// Whom it stands for, as long as it is good.
    pub(super) fn identity(
        &self,
        now: Timestamp,
        credential: &'static str,
    ) -> Result<Identity, Refusal> {
        if self.has_expired(now) {
            let what = "the token has expired; ask the server's operator for another one";
            return Err(Refusal::of(&self.user, unauthenticated(what)));
        }
        let principal = Principal::named(&self.user).limited_to(&self.services);
        Ok(Identity { principal, credential })
    }
}

impl Authenticator for Bearer {
    fn expects(&self) -> String {
        "a token (HTTP Bearer)".to_owned()
    }

    fn challenge(&self) -> Option<&'static str> {
        Some("Bearer realm=\"fishplate\"")
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(std::future::ready(self.look(request).into()))
    }
}

/// What stands behind a scheme in the one field `Authorization` (RFC 9110, section 11.6.2); `None` if there is none,
/// or another scheme.
pub(super) fn credentials<'r>(
    request: RequestHead<'r>,
    scheme: &str,
    most: usize,
) -> Result<Option<&'r str>, Fault> {
    let mut told = request.headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = told.next() else { return Ok(None) };
    if told.next().is_some() {
        return Err(unauthenticated("the request has more than one Authorization; send one"));
    }
    if value.len() > most {
        let message = format!("Authorization has more than {most} bytes");
        return Err(unauthenticated(message).limit("credentials_size", most));
    }
    let text = value.to_str().map_err(|_| unauthenticated("Authorization is not ASCII"))?;
    let (told, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok(told.eq_ignore_ascii_case(scheme).then(|| rest.trim()))
}
