//! How a connection begins: each side proves that it has the domain's credential, with a number that the other made up.

use crate::credential::{Credential, Nonce, PROOF_SIZE};
use crate::header::{DomainId, Rank};

/// The version of all that ranks say to each other over a connection, a digit or letter. It changes whenever one of these does.
pub(super) const VERSION: u8 = b'4';
const NAME: [u8; 7] = *b"fp-rank";
const MAGIC: [u8; 8] = [NAME[0], NAME[1], NAME[2], NAME[3], NAME[4], NAME[5], NAME[6], VERSION];

/// What a receiver says first.
pub(super) const CHALLENGE_SIZE: usize = 24;

pub(super) fn challenge(nonce: Nonce) -> [u8; CHALLENGE_SIZE] {
    let mut bytes = [0; CHALLENGE_SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&nonce);
    bytes
}

/// Who answers is no rank that can be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It is no rank, or of another domain.
    Unknown,
    /// A rank that speaks another version.
    Version(u8),
}

pub(super) fn read_challenge(bytes: [u8; CHALLENGE_SIZE]) -> Result<Nonce, Stranger> {
    match bytes.strip_prefix(&NAME).and_then(<[u8]>::split_first) {
        Some((&VERSION, nonce)) => nonce.try_into().map_err(|_| Stranger::Unknown),
        Some((&version, _)) if version.is_ascii_alphanumeric() => Err(Stranger::Version(version)),
        _ => Err(Stranger::Unknown),
    }
}

/// What a sender says then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) domain: DomainId,
    pub(super) from: Rank,
    pub(super) to: Rank,
    /// Which of its connections to there, from 0.
    pub(super) stream: u32,
    /// The sender's process: another one in its place can't go on with its sequence numbers.
    pub(super) instance: u64,
    /// For the receiver's proof.
    pub(super) nonce: Nonce,
}

impl Greeting {
    const FIELDS: usize = 60;
    pub(super) const SIZE: usize = Self::FIELDS + PROOF_SIZE;

    /// With the proof that `challenge` asks for.
    pub(super) fn to_bytes(self, challenge: Nonce, credential: &Credential) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(self.domain.as_bytes());
        bytes[24..28].copy_from_slice(&self.from.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.to.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.stream.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.instance.to_le_bytes());
        bytes[44..Self::FIELDS].copy_from_slice(&self.nonce);
        let proof = credential.prove(&proved(b"sender", challenge, &bytes[..Self::FIELDS]));
        bytes[Self::FIELDS..].copy_from_slice(&proof);
        bytes
    }

    /// If it proves that its sender has the credential.
    pub(super) fn from_bytes(
        bytes: &[u8],
        challenge: Nonce,
        credential: &Credential,
    ) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let (fields, proof) = bytes.split_at(Self::FIELDS);
        let rest = fields.strip_prefix(&MAGIC)?;
        if !credential.verify(&proved(b"sender", challenge, fields), proof) {
            return None;
        }
        let (domain, rest) = rest.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (instance, nonce) = rest.split_first_chunk()?;
        Some(Self {
            domain: DomainId::from_bytes(*domain),
            from: u32::from_le_bytes(*from),
            to: u32::from_le_bytes(*to),
            stream: u32::from_le_bytes(*stream),
            instance: u64::from_le_bytes(*instance),
            nonce: nonce.try_into().ok()?,
        })
    }
}

/// What the receiver answers: the last sequence number that it has, and its own proof.
pub(super) const ANSWER_SIZE: usize = 16 + PROOF_SIZE;

pub(super) fn answer(
    received: u64,
    challenge: Nonce,
    credential: &Credential,
) -> [u8; ANSWER_SIZE] {
    let mut bytes = [0; ANSWER_SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&received.to_le_bytes());
    let proof = credential.prove(&proved(b"receiver", challenge, &bytes[..16]));
    bytes[16..].copy_from_slice(&proof);
    bytes
}

pub(super) fn read_answer(
    bytes: [u8; ANSWER_SIZE],
    challenge: Nonce,
    credential: &Credential,
) -> Option<u64> {
    let (fields, proof) = bytes.split_at(16);
    let received = fields.strip_prefix(&MAGIC)?;
    if !credential.verify(&proved(b"receiver", challenge, fields), proof) {
        return None;
    }
    Some(u64::from_le_bytes(received.try_into().ok()?))
}

/// A proof of one side is never one of the other.
fn proved(side: &[u8], challenge: Nonce, fields: &[u8]) -> Vec<u8> {
    [side, &challenge, fields].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Credential = Credential::from_bytes([1; 32]);
    const OTHER: Credential = Credential::from_bytes([2; 32]);
    const GREETING: Greeting = Greeting {
        domain: DomainId::from_bytes([3; 16]),
        from: 4,
        to: 5,
        stream: 9,
        instance: 6,
        nonce: [7; 16],
    };

    #[test]
    fn a_greeting_is_good_for_one_challenge_and_one_credential_and_can_not_be_changed() {
        let bytes = GREETING.to_bytes([8; 16], &OURS);
        assert_eq!(Greeting::from_bytes(&bytes, [8; 16], &OURS), Some(GREETING));
        assert_eq!(Greeting::from_bytes(&bytes, [9; 16], &OURS), None, "replayed");
        assert_eq!(Greeting::from_bytes(&bytes, [8; 16], &OTHER), None, "another domain's");
        for at in 0..bytes.len() {
            let mut forged = bytes;
            forged[at] ^= 1;
            assert_eq!(Greeting::from_bytes(&forged, [8; 16], &OURS), None, "byte {at}");
        }
    }

    #[test]
    fn an_answer_is_good_for_one_challenge_and_one_credential_and_can_not_be_changed() {
        let bytes = answer(77, [7; 16], &OURS);
        assert_eq!(read_answer(bytes, [7; 16], &OURS), Some(77));
        assert_eq!(read_answer(bytes, [8; 16], &OURS), None);
        assert_eq!(read_answer(bytes, [7; 16], &OTHER), None);
        for at in 0..bytes.len() {
            let mut forged = bytes;
            forged[at] ^= 1;
            assert_eq!(read_answer(forged, [7; 16], &OURS), None, "byte {at}");
        }
        assert_eq!(read_challenge(challenge([7; 16])), Ok([7; 16]));
    }

    #[test]
    fn a_challenge_of_another_version_is_told_from_that_of_a_stranger() {
        for (at, byte, stranger) in [
            (7, VERSION + 1, Stranger::Version(VERSION + 1)),
            (7, b'A', Stranger::Version(b'A')),
            (7, 0, Stranger::Unknown),
            (6, b'K', Stranger::Unknown),
        ] {
            let mut other = challenge([7; 16]);
            other[at] = byte;
            assert_eq!(read_challenge(other), Err(stranger), "{other:?}");
        }
    }
}
