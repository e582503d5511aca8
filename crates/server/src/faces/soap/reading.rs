//! The memory that a message has while it is read, or the spool that it goes to instead.

use std::time::Duration;

use fishplate_contract::Fault;
use fishplate_wire::{Unpacker, WireLimits};

use crate::memory::{MemoryReservation, MessageMemory, SMALL};
use crate::spool::Spooler;

/// A message that is being read.
pub(crate) struct MessageReading<'m> {
    /// What holds it.
    pub unpacker: &'m mut Unpacker,
    /// Where its payloads go.
    pub sink: &'m mut Spooler,
    /// The most that it may come to hold.
    pub most: u64,
    /// How long it may wait.
    pub retry_budget: Duration,
    /// It was told to spool all that comes.
    pub spools: bool,
}

impl MessageReading<'_> {
    /// Makes room for the next chunk of a message that is being read, in memory or in the spool.
    ///
    /// # Errors
    /// `TimedOut` if there is no memory for its XML; [`RoomError::Spool`] if its payloads cannot be
    /// written.
    pub(crate) async fn make_room(
        &mut self,
        memory: &MessageMemory,
        reserved: &mut MemoryReservation,
        chunk: usize,
    ) -> Result<(), RoomError> {
        let held = self.held().saturating_add(chunk as u64);
        if memory.settle(reserved, held, self.most) {
            return Ok(());
        }
        if !self.spools {
            if memory.wait_to_grow(reserved, held, self.most).await.is_ok() {
                return Ok(());
            }
            self.spools = true;
            self.unpacker.spool_from_here();
        }
        self.sink.flush().await.map_err(RoomError::Spool)?;
        let held = self.unpacker.held();
        if memory.fits(reserved, held) {
            return Ok(());
        }
        let wanted = held.saturating_add(SMALL);
        let waited = memory.wait_to_read(reserved, wanted, self.retry_budget);
        waited.await.map_err(RoomError::Memory)
    }

    fn held(&self) -> u64 {
        self.unpacker.held().saturating_add(self.sink.pending())
    }
}

/// Why there is no room for a chunk.
#[derive(Debug)]
pub(crate) enum RoomError {
    /// Others hold the memory.
    Memory(Fault),
    /// A payload could not be spooled.
    Spool(std::io::Error),
}

/// What a message may come to hold: all of it if it tells its length, but never more than its XML
/// and the payloads that are not spooled may be.
pub(crate) fn most(limits: &WireLimits, told: Option<u64>) -> u64 {
    let most = limits.envelope_size.saturating_add(limits.inline_total as u64);
    told.map_or(most, |told| told.min(most))
}
