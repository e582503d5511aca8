//! JSON Web Tokens of an issuer (RFC 7519): who somebody is says a service of the site's, such as
//! Keycloak or an identity provider of OpenID Connect.

use std::time::Duration;

use fishplate_contract::{Clock as _, Fault, SystemClock};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{AlgorithmFamily, DecodingKey, Header, TokenData, Validation, decode};
use serde_json::{Map, Value};

use super::authenticator::{AuthenticationFuture, Authenticator, Identity, Refusal, RequestHead};
use super::bearer::credentials;
use super::jwt_keys::{IssuerKeys, KeyError, KeySource};
use super::jwt_signature;
use super::password_login::{unauthenticated, unusable};
use super::tokens::PREFIX;
use super::users::check_name;
use crate::settings::Settings;

/// Whose tokens are believed, and what they must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The issuer, exactly as its tokens name it (`iss`).
    pub issuer: String,
    /// Whom tokens must be for (`aud`): this server's name at the issuer.
    pub audience: String,
    /// Where the issuer's keys are.
    pub keys: KeySource,
    /// The claim that names the user: `sub`, `preferred_username`, `email`.
    pub user_claim: String,
}

/// Tokens of one issuer.
#[derive(Debug)]
pub(super) struct Jwt {
    settings: JwtSettings,
    keys: IssuerKeys,
    clock_skew: Duration,
    credentials_size: usize,
}

impl Jwt {
    /// The issuer's, whose keys were read.
    ///
    /// # Errors
    /// If the keys are in a file that can't be used.
    pub(super) fn open(jwt: JwtSettings, settings: &Settings) -> Result<Self, KeyError> {
        jwt_signature::install();
        let keys = IssuerKeys::open(jwt.keys.clone(), &jwt.issuer)?;
        let (clock_skew, credentials_size) = (settings.login_clock_skew, settings.credentials_size);
        Ok(Self { settings: jwt, keys, clock_skew, credentials_size })
    }

    async fn look(&self, request: RequestHead<'_>) -> Result<Option<Identity>, Refusal> {
        let told = credentials(request, "bearer", self.credentials_size)?;
        // Tokens of ours are another authenticator's.
        let Some(token) = told.filter(|token| !token.starts_with(PREFIX)) else { return Ok(None) };
        let claims = self.claims(token).await?;
        let claim = &self.settings.user_claim;
        let name = claims.get(claim).and_then(Value::as_str).ok_or_else(|| {
            unauthenticated(format!("the token does not say who calls: it has no text {claim:?}"))
        })?;
        check_name(name).map_err(unauthenticated)?;
        Ok(Some(Identity::named(name, "jwt")))
    }

    async fn claims(&self, token: &str) -> Result<Map<String, Value>, Fault> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| self.refused(&error))?;
        // Whoever can check a secret's signature can make one: it proves nothing.
        if header.alg.family() == AlgorithmFamily::Hmac {
            return Err(unauthenticated(format!(
                "the token is signed with a shared secret ({:?}); send one that its issuer signed with a \
                 private key",
                header.alg
            )));
        }
        let mut asked_again = header.kid.is_some();
        loop {
            // Why they are not known is the operator's affair, and in the log.
            let keys = self.keys.find(header.kid.as_deref()).await.map_err(|_| unusable())?;
            let mut refused = None;
            for key in keys.iter().filter(|key| may_have_signed(key, &header)) {
                match self.verified(token, key, &header) {
                    Ok(claims) => return Ok(claims),
                    Err(error) => refused = Some(self.refused(&error)),
                }
            }
            // A token that names no key may be signed with a new one.
            if std::mem::replace(&mut asked_again, true) {
                return Err(refused.unwrap_or_else(|| {
                    let issuer = &self.settings.issuer;
                    unauthenticated(format!("the token is signed with no key of {issuer}"))
                }));
            }
            self.keys.ask_again().await;
        }
    }

    fn verified(
        &self,
        token: &str,
        key: &Jwk,
        header: &Header,
    ) -> jsonwebtoken::errors::Result<Map<String, Value>> {
        let mut expected = Validation::new(header.alg);
        expected.leeway = self.clock_skew.as_secs();
        expected.validate_nbf = true;
        expected.set_required_spec_claims(&["exp", "iss", "aud"]);
        expected.set_issuer(&[&self.settings.issuer]);
        expected.set_audience(&[&self.settings.audience]);
        let TokenData { claims, .. } =
            decode::<Map<String, Value>>(token, &DecodingKey::from_jwk(key)?, &expected)?;
        let now = u64::try_from(SystemClock.now().0 / 1000).unwrap_or_default();
        let issued = claims.get("iat").and_then(Value::as_u64).unwrap_or_default();
        if issued > now.saturating_add(expected.leeway) {
            return Err(ErrorKind::ImmatureSignature.into());
        }
        Ok(claims)
    }

    /// What is wrong with a token, as whoever sent it can mend it.
    fn refused(&self, error: &jsonwebtoken::errors::Error) -> Fault {
        let JwtSettings { issuer, audience, .. } = &self.settings;
        let what = match error.kind() {
            ErrorKind::ExpiredSignature => "the token has expired; get a new one".to_owned(),
            ErrorKind::ImmatureSignature => {
                "the token is good only later, or was issued later, than it is by this server's clock".to_owned()
            }
            ErrorKind::InvalidIssuer => format!("the token is of another issuer than {issuer}"),
            ErrorKind::InvalidAudience => {
                format!("the token is not for this server: its audience (aud) must be {audience}")
            }
            ErrorKind::MissingRequiredClaim(claim) => format!("the token has no claim {claim:?}"),
            ErrorKind::InvalidSignature => format!("the token is not signed by {issuer}"),
            _ => format!(
                "it is neither a token of this server (they begin with {PREFIX}) nor a JSON Web Token of {issuer}"
            ),
        };
        unauthenticated(what)
    }
}

/// Whether a key is one for signatures with a token's algorithm.
fn may_have_signed(key: &Jwk, header: &Header) -> bool {
    let common = &key.common;
    let signs = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let algorithm =
        common.key_algorithm.is_none_or(|of| of.to_string() == format!("{:?}", header.alg));
    signs && algorithm
}

impl Authenticator for Jwt {
    fn expects(&self) -> String {
        format!("a JSON Web Token of {} (HTTP Bearer)", self.settings.issuer)
    }

    fn challenge(&self) -> Option<&'static str> {
        Some("Bearer realm=\"fishplate\"")
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(async move { self.look(request).await.into() })
    }
}

#[cfg(test)]
mod tests;
