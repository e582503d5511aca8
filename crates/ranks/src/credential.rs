//! What proves that a process belongs to a domain: a secret that all of its processes share.

use std::fmt;
use std::str::FromStr;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};

/// A number that is used once, so that no proof is good twice.
pub(crate) type Nonce = [u8; 16];
/// Bytes of a proof.
pub(crate) const PROOF_SIZE: usize = 32;

/// 256 random bits, the same at every process of a domain. It never goes over a connection between ranks: who has it proves so
/// (HMAC with SHA-256, RFC 2104). Only SOAP clients, which can't do that, show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential([u8; 32]);

impl Credential {
    /// A new one.
    pub fn random() -> Result<Self> {
        random().map(Self)
    }

    /// That of these bits, which the caller drew at random.
    pub const fn from_bytes(bits: [u8; 32]) -> Self {
        Self(bits)
    }

    /// As 64 hexadecimal digits; the only way to see it.
    pub fn reveal(&self) -> String {
        to_hex(&self.0)
    }

    /// Whether a text reveals this one; in constant time.
    pub fn is(&self, text: &str) -> bool {
        text.parse::<Self>().is_ok_and(|other| self.verify(&[], &other.prove(&[])))
    }

    /// What proves to one rank, again and again, that its sender has it, and is good for nobody else: whoever gets it in that rank's place
    /// has gained nothing. 64 hexadecimal digits.
    pub(crate) fn token(&self, domain: DomainId, rank: Rank) -> String {
        to_hex(&self.prove(&token_text(domain, rank)))
    }

    /// Whether a text is that; in constant time.
    pub fn is_token(&self, text: &str, domain: DomainId, rank: Rank) -> bool {
        from_hex::<PROOF_SIZE>(text)
            .is_some_and(|proof| self.verify(&token_text(domain, rank), &proof))
    }

    /// Proves to have it, to whoever made up a part of `message`.
    pub(crate) fn prove(&self, message: &[u8]) -> [u8; PROOF_SIZE] {
        let mut proof = [0; PROOF_SIZE];
        proof.copy_from_slice(hmac::sign(&self.key(), message).as_ref());
        proof
    }

    /// Whether `proof` is of who has it; in constant time.
    pub(crate) fn verify(&self, message: &[u8], proof: &[u8]) -> bool {
        hmac::verify(&self.key(), message, proof).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

fn token_text(domain: DomainId, rank: Rank) -> Vec<u8> {
    [b"token", &domain.as_bytes()[..], &rank.to_le_bytes()].concat()
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

impl FromStr for Credential {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        from_hex(text).map(Self).ok_or("64 hexadecimal digits are needed")
    }
}

impl DomainId {
    /// A new one.
    pub fn random() -> Result<Self> {
        random().map(Self::from_bytes)
    }
}

impl FromStr for DomainId {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        from_hex(text).map(Self::from_bytes).ok_or("32 hexadecimal digits are needed")
    }
}

/// Bits that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bits = [0; N];
    let problem = || "the system gives no random numbers".to_owned();
    SystemRandom::new().fill(&mut bits).map_err(|_| Error::Join { problem: problem() })?;
    Ok(bits)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_read_as_it_was_written_and_is_not_shown() {
        let credential = Credential::random().unwrap();
        assert_eq!(credential.reveal().parse(), Ok(credential.clone()));
        assert_ne!(credential, Credential::random().unwrap());
        assert!(!format!("{credential:?}").contains(&credential.reveal()[..8]));
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"+0".repeat(32)]
        {
            assert!(wrong.parse::<Credential>().is_err(), "{wrong}");
        }
        let domain = DomainId::random().unwrap();
        assert_eq!(domain.to_string().parse(), Ok(domain));
    }

    #[test]
    fn a_token_is_good_for_one_rank_of_one_domain() {
        let (credential, other) =
            (Credential::from_bytes([1; 32]), Credential::from_bytes([2; 32]));
        let (domain, elsewhere) = (DomainId::from_bytes([3; 16]), DomainId::from_bytes([4; 16]));
        let token = credential.token(domain, 5);
        assert!(credential.is_token(&token, domain, 5));
        assert!(!credential.is_token(&token, domain, 6));
        assert!(!credential.is_token(&token, elsewhere, 5));
        assert!(!other.is_token(&token, domain, 5));
        assert!(!credential.is_token(&credential.reveal(), domain, 5) && !credential.is(&token));
        assert!(credential.is(&credential.reveal()) && !credential.is(&other.reveal()));
    }

    #[test]
    fn a_proof_is_of_one_message_and_one_credential() {
        let (credential, other) =
            (Credential::from_bytes([1; 32]), Credential::from_bytes([2; 32]));
        let proof = credential.prove(b"to be proved");
        assert!(credential.verify(b"to be proved", &proof));
        assert!(!credential.verify(b"to be provee", &proof));
        assert!(!other.verify(b"to be proved", &proof));
        assert!(!credential.verify(b"to be proved", &proof[..31]));
    }
}
