//! How a connection begins.

use crate::header::{DomainId, Rank};

const MAGIC: [u8; 8] = *b"fp-rank1";

/// What a sender says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) domain: DomainId,
    pub(super) from: Rank,
    pub(super) to: Rank,
    /// The sender's process: another one in its place can't go on with its sequence numbers.
    pub(super) instance: u64,
}

impl Greeting {
    pub(super) const SIZE: usize = 40;

    pub(super) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(self.domain.as_bytes());
        bytes[24..28].copy_from_slice(&self.from.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.to.to_le_bytes());
        bytes[32..].copy_from_slice(&self.instance.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (domain, rest) = rest.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        Some(Self {
            domain: DomainId::from_bytes(*domain),
            from: u32::from_le_bytes(*from),
            to: u32::from_le_bytes(*to),
            instance: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// What its receiver answers: the last sequence number that it has.
pub(super) const ANSWER_SIZE: usize = 16;

pub(super) fn answer(received: u64) -> [u8; ANSWER_SIZE] {
    let mut bytes = [0; ANSWER_SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&received.to_le_bytes());
    bytes
}

pub(super) fn read_answer(bytes: [u8; ANSWER_SIZE]) -> Option<u64> {
    let received = bytes.strip_prefix(&MAGIC)?;
    Some(u64::from_le_bytes(received.try_into().ok()?))
}
