//! Data by handle: a payload is one idea everywhere, whatever carries it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::digest::Digest;
use crate::stream::ByteStream;

/// The bytes of a value, wherever they are.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Here, in memory. Bounded: what is larger is spooled.
    Inline(Bytes),
    /// Here, in memory, in the pieces that it came in: none was copied to join them.
    Pieces(Arc<[Bytes]>),
    /// In a file of this machine that somebody holds.
    Spooled(Arc<dyn FileHandle>),
    /// Somewhere else, at a URL (paper 000, section 4.5, Figure 7).
    Reference(DataRef),
    /// On its way: nobody knows yet how many bytes there are, and they can be read once.
    Stream(ByteStream),
}

impl Payload {
    /// Length in bytes, where it is known without asking anybody.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Inline(bytes) => Some(bytes.len() as u64),
            Self::Pieces(pieces) => Some(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Self::Spooled(held) => Some(held.len()),
            Self::Reference(reference) => reference.len,
            Self::Stream(_) => None,
        }
    }

    /// The bytes, piece by piece, if they are in memory.
    pub fn pieces(&self) -> Option<&[Bytes]> {
        match self {
            Self::Inline(bytes) => Some(std::slice::from_ref(bytes)),
            Self::Pieces(pieces) => Some(pieces),
            Self::Spooled(_) | Self::Reference(_) | Self::Stream(_) => None,
        }
    }

    /// Known to hold no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Inline(bytes)
    }
}

/// A file that holds a payload. Dropping the last handle frees what it occupies, unless it was
/// kept; how is the holder's affair.
pub trait FileHandle: Send + Sync + Debug {
    /// Where the bytes are.
    fn path(&self) -> &Path;

    /// How many there are.
    fn len(&self) -> u64;

    /// There are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Others may hold the same file, so it must be neither moved nor written to: link or copy it.
    fn is_shared(&self) -> bool {
        false
    }

    /// XXH3 (64 bits) of the bytes, if whoever wrote them took it on the way: nobody has to read them for it.
    fn fingerprint(&self) -> Option<u64> {
        None
    }

    /// Called by whoever moved the file away or took charge of it: dropping no longer frees it.
    /// Nobody does that to a file that is shared.
    fn keep(&self);
}

/// A file that stays its owner's: whoever gets it may neither move it nor write to it.
#[derive(Debug)]
pub struct SharedFile<G> {
    /// Where the bytes are.
    pub path: PathBuf,
    /// How many there are.
    pub len: u64,
    /// What keeps the file there as long as it lives.
    pub guard: G,
}

impl<G: Send + Sync + Debug> FileHandle for SharedFile<G> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self) {}
}

/// A reference to data elsewhere (`wsa:EndpointReference`, paper 000, Figure 7). What it tells
/// beside the address is what the data must be: other bytes are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataRef {
    /// The address, as it was sent.
    pub url: String,
    /// How many bytes there are.
    pub len: Option<u64>,
    /// Their digest.
    pub digest: Option<Digest>,
}

impl DataRef {
    /// The data at this address, whatever it is.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), len: None, digest: None }
    }
}
