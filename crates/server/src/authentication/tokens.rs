//! Tokens that stand for users: `DATA/tokens`. Only their digests are kept.

use std::fmt::{self, Write as _};

use fishplate_contract::Timestamp;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::records::{Record, RecordFile};
use super::users::check_name;

/// How each begins, so that scanners find those that were published by mistake.
pub const PREFIX: &str = "fishplate_";

/// The digits of a digest that name a token.
const ID: usize = 12;

/// A token, as it is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// SHA-256 of it, in hexadecimal digits.
    digest: String,
    /// Whom it stands for.
    pub user: String,
    /// Itself, if it may be told by a digest of it that others make: to check one, it has to be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The services it is good for; all, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// When it was made, in milliseconds since 1970.
    created: i64,
    /// From when on it is good for nothing, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
}

/// The tokens of a data directory.
pub type TokenFile = RecordFile<Token>;

impl Token {
    /// A new one: itself, which nobody can be told again, and what is kept of it.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn new(
        user: &str,
        services: Vec<String>,
        created: Timestamp,
        expires: Option<Timestamp>,
    ) -> Result<(String, Self), String> {
        check_name(user)?;
        let mut bits = [0; 32];
        getrandom::fill(&mut bits).map_err(|error| error.to_string())?;
        let secret = format!("{PREFIX}{}", hexadecimal(&bits));
        let (user, digest) = (user.to_owned(), digest_of(&secret));
        let (created, expires) = (created.0, expires.map(|end| end.0));
        let kept = Self { digest, user, secret: None, services, created, expires };
        Ok((secret, kept))
    }

    /// The same, kept so that it may be told by a digest (PasswordDigest of a UsernameToken).
    #[must_use]
    pub fn readable(self, secret: &str) -> Self {
        Self { secret: Some(secret.to_owned()), ..self }
    }

    /// Itself, if it may be told by a digest.
    pub(super) fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// Whether it is kept as it is.
    pub fn is_readable(&self) -> bool {
        self.secret.is_some()
    }

    /// SHA-256 of it, in hexadecimal digits: what it is found by.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What it is called where it is listed and revoked.
    pub fn id(&self) -> &str {
        self.digest.get(..ID).unwrap_or(&self.digest)
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        Timestamp(self.created)
    }

    /// From when on it is good for nothing.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires.map(Timestamp)
    }

    /// Whether its time is over.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires().is_some_and(|end| now >= end)
    }
}

/// Without itself.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// What a token is found by.
pub(super) fn digest_of(secret: &str) -> String {
    hexadecimal(digest(&SHA256, secret.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Record for Token {
    const FILE: &'static str = "tokens";

    fn read(line: &str) -> Result<Self, String> {
        let token: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        check_name(&token.user)?;
        if token.digest.len() != 2 * SHA256.output_len() {
            return Err("its digest is no SHA-256".to_owned());
        }
        if token.secret().is_some_and(|secret| digest_of(secret) != token.digest) {
            return Err("its digest is not that of its secret".to_owned());
        }
        Ok(token)
    }

    fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn key(&self) -> &str {
        &self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_as_its_digest_until_it_expires() {
        let (now, end) = (Timestamp(1000), Timestamp(2000));
        let services = vec!["heat".to_owned()];
        let (secret, kept) = Token::new("ada", services, now, Some(end)).unwrap();
        assert!(secret.starts_with(PREFIX) && secret.len() == PREFIX.len() + 64, "{secret}");
        let line = kept.line();
        assert!(!line.contains(&secret[PREFIX.len()..]), "{line}");
        assert_eq!(Token::read(&line).unwrap(), kept);
        assert_eq!(kept.key(), digest_of(&secret));
        assert_eq!((kept.has_expired(Timestamp(1999)), kept.has_expired(end)), (false, true));
        let (other, endless) = Token::new("ada", Vec::new(), now, None).unwrap();
        assert!(other != secret && !endless.has_expired(Timestamp(i64::MAX)));
    }

    #[test]
    fn a_token_that_is_told_by_a_digest_is_kept_as_it_is_and_never_shown() {
        let (secret, kept) = Token::new("ada", Vec::new(), Timestamp(0), None).unwrap();
        assert_eq!((kept.secret(), kept.is_readable()), (None, false));
        let readable = kept.clone().readable(&secret);
        assert_eq!((readable.id(), readable.secret()), (kept.id(), Some(secret.as_str())));
        assert_eq!(Token::read(&readable.line()).unwrap(), readable);
        assert!(!format!("{readable:?}").contains(&secret[PREFIX.len()..]));
        assert!(Token::read(&kept.readable("fishplate_other").line()).is_err());
    }

    #[test]
    fn a_line_that_is_no_token_is_refused() {
        let (_, kept) = Token::new("ada", Vec::new(), Timestamp(0), None).unwrap();
        let line = kept.line();
        for wrong in [
            "{}".to_owned(),
            line.replace("ada", "a b"),
            line.replace("created", "made"),
            line.replacen(kept.id(), "", 1),
            line[..line.len() - 1].to_owned(),
        ] {
            assert!(Token::read(&wrong).is_err(), "{wrong}");
        }
    }
}
