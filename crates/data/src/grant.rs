//! Grants: a URL with 256 random bits in it. Whoever has it may read that one payload until it
//! expires or its owner revokes it.
//!
//! Of the token only the digest is kept, so that a reader of the catalogue gets no grants.

use std::time::Duration;

use base64_simd::URL_SAFE_NO_PAD;
use fishplate_contract::{Principal, Timestamp};
use ring::digest::{SHA256, digest};
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};
use url::Url;

use crate::lease::Lease;
use crate::pool::{Pool, PoolError, Row, StoredRow};

/// The segment of a path before the token.
const SEGMENT: &str = "data";

/// Length of a token: 256 bits in base64url.
const TOKEN_LEN: usize = 43;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct GrantRequest {
    /// The server's public address, which the URL begins with.
    pub origin: String,
    /// A file name that the URL ends with; empty if there is none.
    pub name: String,
    /// Media type of the data; empty if it is not known.
    pub media_type: String,
    /// How long it is good; `grant_life` at the most and if nothing is said.
    pub life: Option<Duration>,
}

/// A grant that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `ORIGIN/data/TOKEN/NAME`.
    pub url: String,
    /// Its name for its owner, which gives nobody access.
    pub id: GrantId,
    /// When it expires.
    pub expires: Timestamp,
}

/// A grant's name for its owner and the operator: the first half of the digest of its token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrantId([u8; 16]);

/// What a grant gives.
#[derive(Clone, Debug)]
pub struct GrantedData {
    /// The data.
    pub lease: Lease,
    /// The grant.
    pub id: GrantId,
    /// Who gave it.
    pub owner: Principal,
    /// The public address of the server that issued it.
    pub origin: String,
    /// A file name; empty if there is none.
    pub name: String,
    /// Media type of the data; empty if it is not known.
    pub media_type: String,
    /// When it expires.
    pub expires: Timestamp,
}

/// A grant as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantListing {
    /// Its name.
    pub id: GrantId,
    /// Who gave it.
    pub owner: Principal,
    /// The public address of the server that issued it.
    pub origin: String,
    /// The file name in its URL.
    pub name: String,
    /// When it was given.
    pub created: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
    /// Bytes of the data.
    pub len: u64,
}

impl Pool {
    /// Grants data to whoever gets the URL. Its owner holds the data from now on, and is charged.
    ///
    /// # Errors
    /// [`PoolError::Quota`] if that is more than they may hold; [`PoolError::NoSuchData`] if the
    /// operator removed it.
    pub fn grant(
        &self,
        lease: &Lease,
        owner: &Principal,
        request: GrantRequest,
    ) -> Result<Grant, PoolError> {
        let mut bits = [0; 32];
        crate::pool::random(&mut bits)?;
        let token = URL_SAFE_NO_PAD.encode_to_string(bits);
        let key = token_key(&token);
        let now = self.now();
        let most = self.settings().grant_life;
        let expires = now.after(request.life.map_or(most, |life| life.min(most)));
        let url = grant_url(&request.origin, &token, &request.name);
        self.charge(lease, owner, move |sql, number, owner| {
            sql.prepare_cached(
                "INSERT INTO grants
                   (token, object, owner, origin, name, media_type, created, expires)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                key,
                number,
                owner,
                request.origin,
                request.name,
                request.media_type,
                now.0,
                expires.0,
            ])?;
            Ok(())
        })?;
        Ok(Grant { url, id: GrantId::of(&key), expires })
    }

    /// The data of a grant, by its URL or its token, whichever server of this pool gave it. `None`:
    /// there is no such grant, it has expired or was revoked.
    ///
    /// # Errors
    /// If the catalogue or the file can't be read.
    pub fn redeem(&self, text: &str) -> Result<Option<GrantedData>, PoolError> {
        let Some(token) = token_of(text) else { return Ok(None) };
        let (key, now) = (token_key(token), self.now());
        let mut found = None;
        let lease = self.lease_found(|sql| {
            let columns = Row::COLUMNS;
            let row = sql
                .prepare_cached(&format!(
                    "SELECT {columns}, o.content,
                            g.owner, g.origin, g.name, g.media_type, g.expires
                     FROM grants AS g JOIN objects AS o ON o.number = g.object
                     WHERE g.token = ?1 AND g.expires > ?2"
                ))?
                .query_row(params![key, now.0], |row| {
                    Ok((StoredRow::read(row)?, GrantTerms::read(row)?))
                })
                .optional()?;
            Ok(row.map(|(row, terms)| {
                found = Some(terms);
                row
            }))
        })?;
        Ok(lease.zip(found).map(|(lease, terms)| GrantedData {
            lease,
            id: GrantId::of(&key),
            owner: terms.owner,
            origin: terms.origin,
            name: terms.name,
            media_type: terms.media_type,
            expires: terms.expires,
        }))
    }

    /// Ends a grant of this owner, by its URL or its token. `false`: they have no such grant.
    ///
    /// # Errors
    /// If the catalogue can't be written.
    pub fn revoke(&self, owner: &Principal, text: &str) -> Result<bool, PoolError> {
        let Some(token) = token_of(text) else { return Ok(false) };
        let (key, owner) = (token_key(token), owner.as_str().to_owned());
        self.write(move |sql| {
            let ended = sql
                .prepare_cached("DELETE FROM grants WHERE token = ?1 AND owner = ?2")?
                .execute(params![key, owner])?;
            Ok(ended > 0)
        })
    }

    /// Ends a grant by its name or URL, whoever gave it: for the operator.
    ///
    /// # Errors
    /// If the catalogue can't be written.
    pub fn revoke_any(&self, text: &str) -> Result<bool, PoolError> {
        let (from, to) = match (text.parse(), token_of(text)) {
            (Ok(GrantId(half)), _) => {
                ([&half[..], &[0; 16]].concat(), [&half[..], &[0xff; 16]].concat())
            }
            (Err(NotAGrantId), Some(token)) => {
                let key = token_key(token);
                (key.to_vec(), key.to_vec())
            }
            (Err(NotAGrantId), None) => return Ok(false),
        };
        self.write(move |sql| {
            let ended = sql
                .prepare_cached("DELETE FROM grants WHERE token BETWEEN ?1 AND ?2")?
                .execute(params![from, to])?;
            Ok(ended > 0)
        })
    }

    /// The grants of an owner that are good, the newest first.
    ///
    /// # Errors
    /// If the catalogue can't be read.
    pub fn grants(&self, owner: &Principal) -> Result<Vec<GrantListing>, PoolError> {
        let now = self.now();
        self.read(|sql| {
            sql.prepare_cached(
                "SELECT g.token, g.owner, g.origin, g.name, g.created, g.expires, o.size
                 FROM grants AS g JOIN objects AS o ON o.number = g.object
                 WHERE g.owner = ?1 AND g.expires > ?2 ORDER BY g.created DESC, g.token",
            )?
            .query_map(params![owner.as_str(), now.0], GrantListing::read)?
            .collect()
        })
    }

    /// The grants of one object that are good: for the operator.
    pub(crate) fn grants_of(
        sql: &Connection,
        number: i64,
        now: i64,
    ) -> rusqlite::Result<Vec<GrantListing>> {
        sql.prepare_cached(
            "SELECT g.token, g.owner, g.origin, g.name, g.created, g.expires, o.size
             FROM grants AS g JOIN objects AS o ON o.number = g.object
             WHERE g.object = ?1 AND g.expires > ?2 ORDER BY g.created DESC, g.token",
        )?
        .query_map(params![number, now], GrantListing::read)?
        .collect()
    }
}

struct GrantTerms {
    owner: Principal,
    origin: String,
    name: String,
    media_type: String,
    expires: Timestamp,
}

impl GrantTerms {
    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            owner: principal(&row.get::<_, String>(7)?),
            origin: row.get(8)?,
            name: row.get(9)?,
            media_type: row.get(10)?,
            expires: Timestamp(row.get(11)?),
        })
    }
}

impl GrantListing {
    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: GrantId::of(&row.get(0)?),
            owner: principal(&row.get::<_, String>(1)?),
            origin: row.get(2)?,
            name: row.get(3)?,
            created: Timestamp(row.get(4)?),
            expires: Timestamp(row.get(5)?),
            len: u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0),
        })
    }
}

/// Whom a name in the catalogue means: nobody's is empty.
pub(crate) fn principal(name: &str) -> Principal {
    if name.is_empty() { Principal::anonymous() } else { Principal::named(name) }
}

fn grant_url(origin: &str, token: &str, name: &str) -> String {
    let plain = format!("{}/{SEGMENT}/{token}", origin.trim_end_matches('/'));
    if name.is_empty() {
        return plain;
    }
    let Ok(mut url) = Url::parse(&plain) else { return plain };
    if let Ok(mut path) = url.path_segments_mut() {
        path.push(name);
    }
    url.into()
}

/// The token of a URL such as [`Pool::grant`] gives, or of a text that is one.
fn token_of(text: &str) -> Option<&str> {
    let text = text.split(['?', '#']).next()?;
    let token = if text.contains('/') {
        let mut segments = text.split('/');
        segments.by_ref().find(|segment| *segment == SEGMENT)?;
        // The origin may have such a segment too: the token is what looks like one.
        segments.find(|segment| segment.len() == TOKEN_LEN)?
    } else {
        text
    };
    let looks_right =
        token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (token.len() == TOKEN_LEN && looks_right).then_some(token)
}

/// What the catalogue has instead of a token.
fn token_key(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    key
}

impl GrantId {
    fn of(key: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&key[..16]);
        Self(half)
    }
}

impl std::fmt::Display for GrantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for GrantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GrantId({self})")
    }
}

/// A text that is no grant's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a grant's name is 32 lower-case hexadecimal digits")]
pub struct NotAGrantId;

impl std::str::FromStr for GrantId {
    type Err = NotAGrantId;

    fn from_str(text: &str) -> Result<Self, NotAGrantId> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 32 || !digits {
            return Err(NotAGrantId);
        }
        u128::from_str_radix(text, 16).map(|bits| Self(bits.to_be_bytes())).map_err(|_| NotAGrantId)
    }
}
