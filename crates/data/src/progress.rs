//! How far a transfer is: written by who moves bytes, read by whoever asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use fishplate_contract::TransferState;

/// How far one transfer is. Cheap to clone: all clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Figures>);

#[derive(Debug)]
struct Figures {
    state: AtomicU8,
    bytes: AtomicU64,
    /// [`UNKNOWN`] until the other end tells.
    total: AtomicU64,
    cached: AtomicBool,
}

const UNKNOWN: u64 = u64::MAX;

impl Default for Figures {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(0),
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(UNKNOWN),
            cached: AtomicBool::new(false),
        }
    }
}

impl Progress {
    /// The transfer is in this state now.
    pub fn enter(&self, state: TransferState) {
        let at = TransferState::ALL.iter().position(|known| *known == state).unwrap_or_default();
        self.0.state.store(u8::try_from(at).unwrap_or_default(), Ordering::Relaxed);
    }

    /// There will be so many bytes.
    pub fn expect(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// So many bytes more are there.
    pub fn add(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes are there: a transfer was begun again, or taken up where it stopped.
    pub fn set(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// As far as another one is, which does the same.
    pub fn follow(&self, other: &Self) {
        self.set(other.bytes());
        self.0.total.store(other.0.total.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// It was here before, or comes by another transfer.
    pub fn mark_cached(&self) {
        self.0.cached.store(true, Ordering::Relaxed);
    }

    /// Whether that was so.
    pub fn cached(&self) -> bool {
        self.0.cached.load(Ordering::Relaxed)
    }

    /// Where it stands.
    pub fn state(&self) -> TransferState {
        let at = usize::from(self.0.state.load(Ordering::Relaxed));
        TransferState::ALL.get(at).copied().unwrap_or(TransferState::Waiting)
    }

    /// Bytes that are there.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many there will be.
    pub fn total(&self) -> Option<u64> {
        Some(self.0.total.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clones_tell_the_same() {
        let (writer, reader) = (Progress::default(), Progress::default());
        assert_eq!(
            (reader.state(), reader.bytes(), reader.total()),
            (TransferState::Waiting, 0, None)
        );
        let reader = writer.clone();
        for state in TransferState::ALL {
            writer.enter(state);
            assert_eq!(reader.state(), state);
        }
        writer.expect(10);
        writer.set(4);
        writer.add(3);
        assert_eq!((reader.bytes(), reader.total()), (7, Some(10)));
    }
}
