//! Which of its addresses a rank is reached at, and why not at others.

use std::fmt;

use crate::header::Rank;
use crate::status::{StatusError, number, plain};

/// The longest address or reason that is told, in bytes; what is longer is cut.
const LONGEST_TEXT: usize = 120;
/// So many addresses that were rejected are told, the first.
const MOST_REJECTED: usize = 4;
/// The longest word of a route, in bytes: each of a text is three at most.
pub(super) const LONGEST: usize = 11 + (1 + 2 * MOST_REJECTED) * (1 + 3 * LONGEST_TEXT);

/// How a rank reaches another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRoute {
    /// The other one.
    pub peer: Rank,
    /// Where it is reached: `memory`, `IP:PORT`, or `URL at IP:PORT`; `None`: not yet.
    pub address: Option<String>,
    /// What else was tried and did not come about, the last time, in the order in which addresses are tried.
    pub rejected: Vec<RejectedAddress>,
}

/// An address at which a rank was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedAddress {
    /// As [`PeerRoute::address`]; a name that was not resolved stands alone.
    pub address: String,
    /// What was wrong with it, for people.
    pub reason: String,
}

impl RejectedAddress {
    /// With as much of both as a status can have.
    pub(crate) fn new(address: &impl ToString, reason: &impl ToString) -> Self {
        Self { address: printable(&address.to_string()), reason: printable(&reason.to_string()) }
    }
}

/// Text as a status can have it: not empty, not too long, printable ASCII.
pub(crate) fn printable(text: &str) -> String {
    let is_plain = |c: &char| *c == ' ' || c.is_ascii_graphic();
    let plain = text.chars().map(|c| if is_plain(&c) { c } else { '?' });
    let plain: String = plain.take(LONGEST_TEXT).collect();
    if plain.is_empty() { "?".to_owned() } else { plain }
}

/// `over 192.0.2.1:4000, not 10.0.0.1:4000 (connection refused)`.
impl fmt::Display for PeerRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "over {address}")?,
            None => f.write_str("not reached")?,
        }
        self.rejected.iter().try_for_each(|RejectedAddress { address, reason }| {
            write!(f, ", not {address} ({reason})")
        })
    }
}

/// `PEER;ADDRESS[;ADDRESS=REASON]...`, no address being empty.
pub(super) fn to_word(route: &PeerRoute) -> String {
    let address = route.address.as_deref().unwrap_or_default();
    let mut word = format!("{};{}", route.peer, escaped(address));
    for RejectedAddress { address, reason } in route.rejected.iter().take(MOST_REJECTED) {
        word += &format!(";{}={}", escaped(address), escaped(reason));
    }
    word
}

pub(super) fn of_word(word: &str) -> Result<PeerRoute, StatusError> {
    let mut parts = word.split(';');
    let mut next = || parts.next().ok_or(StatusError);
    let (peer, address) = (number(next()?)?, next()?);
    let address = if address.is_empty() { None } else { Some(unescaped(address)?) };
    let rejected = parts.map(|part| {
        let (address, reason) = part.split_once('=').ok_or(StatusError)?;
        Ok(RejectedAddress { address: unescaped(address)?, reason: unescaped(reason)? })
    });
    Ok(PeerRoute { peer, address, rejected: rejected.collect::<Result<_, _>>()? })
}

/// Without what separates words and their parts (RFC 3986, 2.1).
fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            ' ' | ',' | ';' | '=' | '%' => format!("%{:02X}", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

fn unescaped(word: &str) -> Result<String, StatusError> {
    let mut parts = word.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(StatusError)?;
        text.push(char::from(u8::from_str_radix(digits, 16).map_err(|_| StatusError)?));
        text += rest;
    }
    // One text has one word.
    plain(&text).ok().filter(|text| escaped(text) == word).ok_or(StatusError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_told_with_what_was_rejected() {
        let rejected = vec![RejectedAddress::new(&"10.0.0.1:4", &"refus\u{e9}\n")];
        let mut route = PeerRoute { peer: 3, address: Some("192.0.2.1:4".to_owned()), rejected };
        assert_eq!(route.to_string(), "over 192.0.2.1:4, not 10.0.0.1:4 (refus??)");
        route.address = None;
        assert_eq!(route.to_string(), "not reached, not 10.0.0.1:4 (refus??)");
    }

    #[test]
    fn no_word_is_longer_than_the_longest() {
        let rejected = RejectedAddress::new(&"%".repeat(1000), &"=".repeat(1000));
        let address = Some(rejected.address.clone());
        let route = PeerRoute { peer: u32::MAX, address, rejected: vec![rejected; 100] };
        let word = to_word(&route);
        assert!(word.len() < LONGEST, "{}", word.len());
        assert_eq!(of_word(&word).unwrap().rejected.len(), MOST_REJECTED);
    }
}
