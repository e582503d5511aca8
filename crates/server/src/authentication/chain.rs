//! Several authenticators, one after the other.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fishplate_contract::{Fault, FaultCode};
use hyper::header::HeaderValue;

use super::authenticator::{Authentication, Authenticator, Identity, Refusal, RequestHead};
use super::basic::Basic;
use super::bearer::Bearer;
use super::certificate::ClientCertificate;
use super::jwt::Jwt;
use super::jwt_keys::KeyError;
use super::password_login::PasswordLogin;
use super::proxy::ProxyHeader;
use super::records::RecordError;
use super::tokens::TokenFile;
use super::username_token::UsernameTokens;
use super::users::UserFile;
use crate::dispatch::authorise::is_within;
use crate::settings::Settings;

/// Refusals are logged at most so often: who attacks must not fill the log.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// All the ways in which a server knows who calls. With none, everybody is anonymous; with one, nobody is.
#[derive(Debug, Default)]
pub struct Authenticators {
    list: Vec<Box<dyn Authenticator>>,
    refusals: Mutex<Refusals>,
}

/// Why it can't be known who calls.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticatorError {
    /// The files of users and tokens.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The keys of an issuer of tokens.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

/// Those that are not in the log yet.
#[derive(Debug, Default)]
struct Refusals {
    logged: Option<Instant>,
    since: u64,
}

impl Authenticators {
    /// Those that the settings ask for, with the users and tokens of a data directory.
    ///
    /// # Errors
    /// If their files can't be read, or hold what they should not.
    pub fn open(settings: &Settings, data: &Path) -> Result<Self, AuthenticatorError> {
        let mut list: Vec<Box<dyn Authenticator>> = Vec::new();
        if let Some(header) = &settings.user_header {
            list.push(Box::new(ProxyHeader::new(header.clone(), settings.proxies.clone())));
        }
        if settings.client_certificates {
            list.push(Box::new(ClientCertificate));
        }
        if let Some(jwt) = &settings.jwt {
            list.push(Box::new(Jwt::open(jwt.clone(), settings)?));
        }
        if settings.login {
            let (users, tokens) = (UserFile::open(data), TokenFile::open(data));
            if users.all()?.is_empty() && tokens.all()?.is_empty() {
                tracing::warn!(
                    "nobody can log in yet: add users with `fishplate user add NAME` (they need no restart)"
                );
            }
            let users = Arc::new(PasswordLogin::new(users, settings));
            let of_messages =
                UsernameTokens::new(Arc::clone(&users), TokenFile::open(data), settings);
            list.push(Box::new(Bearer::new(tokens, settings)));
            list.push(Box::new(Basic::new(users, settings)));
            list.push(Box::new(of_messages));
        }
        Ok(Self { list, refusals: Mutex::default() })
    }

    /// Whether nobody is asked who they are.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the header of a message may tell who sent it.
    pub fn read_envelopes(&self) -> bool {
        self.list.iter().any(|it| it.reads_envelopes())
    }

    /// Who sent this request to a service, or another first segment of a path; `None`, where it `may_be_unknown`, if
    /// nothing in it tells.
    ///
    /// # Errors
    /// `Unauthenticated`, `Forbidden`, or `Internal` if it can't be known.
    pub async fn identify(
        &self,
        request: RequestHead<'_>,
        service: &str,
        may_be_unknown: bool,
    ) -> Result<Option<Identity>, Refusal> {
        let identified = self.first(request).await.and_then(|identity| {
            let identity = match identity {
                None if may_be_unknown => return Ok(None),
                identity => identity.ok_or_else(|| self.unknown())?,
            };
            match is_within(&identity.principal, service) {
                Ok(()) => Ok(Some(identity)),
                Err(fault) => Err(Refusal::of(identity.principal.as_str(), fault)),
            }
        });
        if let Err(refusal) = &identified {
            self.log(&refusal.fault, request);
        }
        identified
    }

    async fn first(&self, request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
        if self.list.is_empty() {
            return Ok(Some(Identity::anonymous()));
        }
        let of_envelope = request.security.is_some();
        for authenticator in self.list.iter().filter(|it| it.reads_envelopes() == of_envelope) {
            match authenticator.authenticate(request).await {
                Authentication::Authenticated(identity) => return Ok(Some(identity)),
                Authentication::Refused(refusal) => return Err(refusal),
                Authentication::NotRequested => {}
            }
        }
        Ok(None)
    }

    /// The fault of who does not say who calls.
    fn unknown(&self) -> Fault {
        let expected: Vec<_> = self.list.iter().map(|it| it.expects()).collect();
        let message = format!(
            "this server wants to know who calls, and the request does not say: send {}",
            expected.join(", or ")
        );
        Fault::new(FaultCode::Unauthenticated, message)
    }

    /// What tells a client how to say who calls (`WWW-Authenticate`).
    pub fn challenges(&self) -> impl Iterator<Item = HeaderValue> {
        let mut told: Vec<_> = self.list.iter().filter_map(|it| it.challenge()).collect();
        told.dedup();
        told.into_iter().map(HeaderValue::from_static)
    }

    fn log(&self, fault: &Fault, request: RequestHead<'_>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.since += 1;
        if refusals.logged.is_some_and(|logged| logged.elapsed() < LOGGED_EVERY) {
            return;
        }
        // Nobody's name: people type passwords where a name is asked for.
        tracing::warn!(
            fault = fault.code.name(),
            peer = %request.client,
            refused = refusals.since,
            "requests were refused, the last of them: {}",
            fault.message
        );
        *refusals = Refusals { logged: Some(Instant::now()), since: 0 };
    }
}
