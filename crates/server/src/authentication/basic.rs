//! A user and a password: HTTP Basic (RFC 7617).

use fishplate_contract::{Fault, FaultCode};
use hyper::header;

use super::authenticator::{
    Authentication, AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead,
};
use super::bearer::credentials;
use super::password::{PasswordCheck, Verdict};
use super::users::{LONGEST, User, UserFile};
use crate::settings::Settings;

/// HTTP Basic against a file of users.
#[derive(Debug)]
pub(super) struct Basic {
    users: UserFile,
    check: PasswordCheck,
    credentials_size: usize,
}

impl Basic {
    pub(super) fn new(users: UserFile, settings: &Settings) -> Self {
        let check = PasswordCheck::new(settings);
        Self { users, check, credentials_size: settings.credentials_size }
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
        if user.len().max(password.len()) > LONGEST {
            return Err(wrong().into());
        }
        let users = self.users.all().map_err(|_| unusable())?;
        let hash = users.get(user).map(User::hash);
        let refusal = |fault| match hash {
            Some(_) => Refusal::of(user, fault),
            None => Refusal::from(fault),
        };
        match self.check.look(request.client, user, hash, password).await {
            Verdict::Right => Ok(Some(Identity::named(user, "password"))),
            Verdict::Wrong => Err(refusal(wrong())),
            Verdict::TooMany(limit) => {
                let message = "there were too many wrong passwords; this one was not looked at";
                Err(refusal(limit.of(unauthenticated(message))))
            }
            Verdict::Busy(limit) => {
                let message = "too many passwords are being looked at; this one was not: try again";
                Err(refusal(limit.of(Fault::new(FaultCode::QueueFull, message))))
            }
        }
    }
}

fn wrong() -> Fault {
    unauthenticated("there is no such user, or the password is another one")
}

pub(super) fn unauthenticated(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::Unauthenticated, message)
}

/// Nobody gets in; why, is the operator's affair, and in the log.
pub(super) fn unusable() -> Fault {
    Fault::new(FaultCode::Internal, "this server can't look up who may log in; its log says why")
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
