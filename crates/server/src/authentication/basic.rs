//! A user and a password: HTTP Basic (RFC 7617).

use std::sync::Arc;

use hyper::header;

use super::authenticator::{
    Authentication, AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead,
};
use super::bearer::credentials;
use super::password_login::{PasswordLogin, unauthenticated};
use crate::settings::Settings;

/// HTTP Basic against a file of users.
#[derive(Debug)]
pub(super) struct Basic {
    users: Arc<PasswordLogin>,
    credentials_size: usize,
}

impl Basic {
    pub(super) fn new(users: Arc<PasswordLogin>, settings: &Settings) -> Self {
        Self { users, credentials_size: settings.credentials_size }
    }

    async fn look(&self, request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(told) = credentials(request, "basic", self.credentials_size)? else {
            return Ok(None);
        };
        let unreadable = || {
            let what = "it is no user and password in base64 and UTF-8 (RFC 7617)";
            unauthenticated(format!("{}: {what}", header::AUTHORIZATION))
        };
        let decoded = base64_simd::STANDARD.decode_to_vec(told).map_err(|_| unreadable())?;
        let told = String::from_utf8(decoded).map_err(|_| unreadable())?;
        let (user, password) = told.split_once(':').ok_or_else(unreadable)?;
        self.users.identity(request.client, user, password).await.map(Some)
    }
}

impl Authenticator for Basic {
    fn expects(&self) -> String {
        "a user and a password (HTTP Basic)".to_owned()
    }

    fn challenge(&self) -> Option<&'static str> {
        Some("Basic realm=\"fishplate\", charset=\"UTF-8\"")
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(async move { self.look(request).await.into() })
    }
}

impl From<Result<Option<Identity>, Refusal>> for Authentication {
    fn from(looked: Result<Option<Identity>, Refusal>) -> Self {
        match looked {
            Ok(Some(identity)) => Self::Authenticated(identity),
            Ok(None) => Self::NotRequested,
            Err(refusal) => Self::Refused(refusal),
        }
    }
}
