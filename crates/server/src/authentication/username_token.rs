//! A UsernameToken in a message's header (OASIS WSS UsernameToken Profile 1.1.1). Why so: docs/decisions/0020.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::lexical::shortened;
use fishplate_contract::{Clock as _, Fault, FaultCode, SystemClock, Timestamp};
use fishplate_wire::{SecurityHeader, TokenPassword, UsernameToken};
use ipnet::IpNet;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::authenticator::{AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead};
use super::bearer::holder;
use super::nonces::{NonceCache, NonceError};
use super::password_login::{PasswordLogin, unauthenticated, unusable};
use super::throttle::Attempt;
use super::tokens::{PREFIX, Token, TokenFile};
use crate::settings::Settings;

/// UsernameTokens of the users and tokens of a data directory.
#[derive(Debug)]
pub(super) struct UsernameTokens {
    users: Arc<PasswordLogin>,
    tokens: TokenFile,
    nonces: NonceCache,
    /// What was made before may have been used: nobody remembers.
    begun: Timestamp,
    age: Duration,
    clock_skew: Duration,
    credentials_size: usize,
    plain_passwords: bool,
    proxies: Vec<IpNet>,
}

impl UsernameTokens {
    pub(super) fn new(users: Arc<PasswordLogin>, tokens: TokenFile, settings: &Settings) -> Self {
        Self {
            users,
            tokens,
            nonces: NonceCache::new(settings.login_nonces),
            begun: SystemClock.now(),
            age: settings.login_age,
            clock_skew: settings.login_clock_skew,
            credentials_size: settings.credentials_size,
            plain_passwords: settings.plain_passwords,
            proxies: settings.proxies.clone(),
        }
    }

    async fn look(&self, request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
        let Some(header) = request.security else { return Ok(None) };
        let now = SystemClock.now();
        self.check_timestamp(header, now)?;
        let Some(token) = &header.token else { return Ok(None) };
        if length(token) > self.credentials_size {
            let most = self.credentials_size;
            let message = format!("the UsernameToken has more than {most} bytes");
            return Err(unauthenticated(message).limit("credentials_size", most).into());
        }
        let made =
            token.created.as_deref().map(|text| moment("the UsernameToken", text)).transpose()?;
        if let Some(made) = made {
            self.check_age(made, now)?;
        }
        let identity = match &token.password {
            TokenPassword::Text(password) => self.by_text(request, token, password).await?,
            TokenPassword::Digest(digest) => self.by_digest(token, digest, made)?,
        };
        if let (Some(made), Some(nonce)) = (made, &token.nonce) {
            self.use_nonce(token, nonce, now, self.end(made))
                .map_err(|fault| Refusal::of(&token.username, fault))?;
        }
        Ok(Some(identity))
    }

    /// A password, or a token in its place.
    async fn by_text(
        &self,
        request: RequestHead<'_>,
        token: &UsernameToken,
        password: &str,
    ) -> Result<Identity, Refusal> {
        if !self.is_private(request) {
            let message =
                "a PasswordText must not cross a network as it is: use https, or a PasswordDigest";
            return Err(unauthenticated(message).into());
        }
        if !password.starts_with(PREFIX) {
            return self.users.identity(request.client, &token.username, password).await;
        }
        let identity = holder(&self.tokens, password)?;
        if identity.principal.as_str() != token.username {
            return Err(unauthenticated("the token is another user's").into());
        }
        Ok(identity)
    }

    /// Tokens that may be told by a digest are long random numbers: guessing need not be slowed down.
    fn by_digest(
        &self,
        token: &UsernameToken,
        told: &[u8],
        made: Option<Timestamp>,
    ) -> Result<Identity, Refusal> {
        let (Some(nonce), Some(created), Some(made)) = (&token.nonce, &token.created, made) else {
            let message = "a PasswordDigest needs a Nonce and Created beside it";
            return Err(unauthenticated(message).into());
        };
        let tokens = self.tokens.all().map_err(|_| unusable())?;
        let mut known = tokens.values().filter(|it| it.user == token.username).peekable();
        if known.peek().is_none() {
            return Err(no_such_secret().into());
        }
        let refused = |fault| Refusal::of(&token.username, fault);
        let is_of = |it: &&Token| {
            it.secret().is_some_and(|secret| is_digest_of(told, nonce, created, secret))
        };
        let Some(found) = known.find(is_of) else { return Err(refused(no_such_secret())) };
        // Many clients tell whole seconds.
        if made.0 < self.begun.0 - 1000 {
            let message = "the UsernameToken was made before this server started, by its clock; make a new one";
            return Err(refused(unauthenticated(message)));
        }
        found.identity(SystemClock.now(), "digest")
    }

    fn use_nonce(
        &self,
        token: &UsernameToken,
        nonce: &[u8],
        now: Timestamp,
        end: Timestamp,
    ) -> Result<(), Fault> {
        let mut text = token.username.len().to_le_bytes().to_vec();
        text.extend_from_slice(token.username.as_bytes());
        text.extend_from_slice(nonce);
        let mut nonce = Attempt::default();
        nonce.copy_from_slice(digest(&SHA256, &text).as_ref());
        self.nonces.use_once(nonce, now, end).map_err(|error| match error {
            NonceError::Used => unauthenticated(
                "the UsernameToken was used before: each message needs one of its own",
            ),
            NonceError::Full(limit) => {
                let message = "too many UsernameTokens were used; try again";
                limit.of(Fault::new(FaultCode::QueueFull, message))
            }
        })
    }

    /// Whether nobody on the way can read what was sent: it came in TLS, or never left this machine, or a proxy of
    /// ours has passed it on. (Of a relay only the former tells.)
    fn is_private(&self, request: RequestHead<'_>) -> bool {
        let address = request.peer.address.to_canonical();
        self.plain_passwords
            || request.peer.encrypted
            || !request.peer.relayed
                && (address.is_loopback() || self.proxies.iter().any(|net| net.contains(&address)))
    }

    fn check_timestamp(&self, header: &SecurityHeader, now: Timestamp) -> Result<(), Fault> {
        let read = |text: &Option<String>| {
            text.as_deref().map(|text| moment("the Timestamp", text)).transpose()
        };
        let (created, expires) = (read(&header.created)?, read(&header.expires)?);
        if expires.is_some_and(|end| end.after(self.clock_skew) < now) {
            return Err(unauthenticated(
                "the message has expired, its Timestamp says by this server's clock",
            ));
        }
        match created {
            Some(created) if created > now.after(self.clock_skew) => Err(from_the_future()),
            _ => Ok(()),
        }
    }

    fn check_age(&self, made: Timestamp, now: Timestamp) -> Result<(), Fault> {
        if made > now.after(self.clock_skew) {
            return Err(from_the_future());
        }
        if self.end(made) < now {
            let age = self.age.as_secs();
            let message = format!(
                "the UsernameToken is older than {age} s by this server's clock; make a new one"
            );
            return Err(unauthenticated(message));
        }
        Ok(())
    }

    /// Until when what was made then is good.
    fn end(&self, made: Timestamp) -> Timestamp {
        made.after(self.age.saturating_add(self.clock_skew))
    }
}

/// In bytes.
fn length(token: &UsernameToken) -> usize {
    let password = match &token.password {
        TokenPassword::Text(text) => text.len(),
        TokenPassword::Digest(digest) => digest.len(),
    };
    let nonce = token.nonce.as_ref().map_or(0, Vec::len);
    token.username.len() + password + nonce + token.created.as_ref().map_or(0, String::len)
}

fn no_such_secret() -> Fault {
    unauthenticated(
        "there is no such user, or the digest is of something else than a token that was made with \
         `fishplate token create --digest`",
    )
}

fn from_the_future() -> Fault {
    unauthenticated("the message was made later than it is by this server's clock")
}

/// `wsu:Created` and `wsu:Expires` (SOAP Message Security, section 10): UTC.
fn moment(what: &str, text: &str) -> Result<Timestamp, Fault> {
    let read = text.parse::<jiff::Timestamp>().map_err(|_| {
        let text = shortened(text);
        unauthenticated(format!(
            "{what} has the time {text:?}; it is one such as 2026-11-22T21:00:00Z"
        ))
    })?;
    Ok(Timestamp(read.as_millisecond()))
}

/// UsernameToken Profile 1.1.1, section 3.1: `Base64(SHA-1(nonce + created + password))`.
fn is_digest_of(told: &[u8], nonce: &[u8], created: &str, secret: &str) -> bool {
    let mut made = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    [nonce, created.as_bytes(), secret.as_bytes()].iter().for_each(|part| made.update(part));
    // Compared by digests, the time tells nothing.
    digest(&SHA256, told).as_ref() == digest(&SHA256, made.finish().as_ref()).as_ref()
}

impl Authenticator for UsernameTokens {
    fn expects(&self) -> String {
        "a UsernameToken (WS-Security)".to_owned()
    }

    fn challenge(&self) -> Option<&'static str> {
        None
    }

    fn reads_envelopes(&self) -> bool {
        true
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(async move { self.look(request).await.into() })
    }
}

#[cfg(test)]
mod tests;
