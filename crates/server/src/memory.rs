//! What all messages together may hold in memory (limit `message_memory`).
//!
//! A message reserves memory in steps, as it grows, and never much more than it holds: what it says
//! of its length, or leaves unsaid, takes nothing from others. Once it was read it keeps what its
//! arguments hold, and its answer what the outputs hold, until the answer was sent.
//!
//! Those who wait for more hold some already, so all of them could wait for each other. Therefore a
//! message whose payloads grow waits for [`GROWTH_PATIENCE`] only and then spools them; and of those
//! that hold what cannot be spooled, their XML, one at a time goes on whatever the others hold, until
//! it has ended. So does one of those whose answer is ready: not the same, because a message that was
//! read may wait for the place of another whose answer waits for memory. Whoever waits for longer than
//! `body_stall` is refused with a fault, and what it held is free.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Argument, Fault, FaultCode, Payload, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What a message may hold without asking.
pub const SMALL: u64 = 64 << 10;

/// How long a message waits for more before it goes on without.
pub const GROWTH_PATIENCE: Duration = Duration::from_secs(1);

/// What a message asks for is the double of what it had, up to this much more.
const STEP: u64 = 16 << 20;

/// A message that holds so much less than it has gives some back while it is read.
const SLACK: u64 = 4;

/// In what memory is counted: permits are 32 bits.
const UNIT: u64 = 64 << 10;

/// The memory of all messages.
#[derive(Debug)]
pub struct MessageMemory {
    units: Arc<Semaphore>,
    /// Of those who read a message, who goes on whatever the others hold.
    reading: Arc<Semaphore>,
    /// And of those who have an answer.
    answering: Arc<Semaphore>,
    all: u32,
    bytes: u64,
}

/// Memory that a message has until this is dropped; none as long as it is small.
#[derive(Debug, Default)]
pub struct MemoryReservation {
    units: Option<OwnedSemaphorePermit>,
    /// It may hold what it needs beside that.
    turn: Option<OwnedSemaphorePermit>,
}

impl MemoryReservation {
    /// What may be held with it, without its turn.
    pub fn bytes(&self) -> u64 {
        let units = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        (units as u64 * UNIT).max(SMALL)
    }

    /// Gives back what is not needed for so many bytes.
    pub fn shrink(&mut self, bytes: u64) {
        if bytes <= self.bytes() {
            self.turn = None;
        }
        let Some(permit) = &mut self.units else { return };
        if bytes <= SMALL {
            self.units = None;
            return;
        }
        let needed = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        drop(permit.split(permit.num_permits().saturating_sub(needed)));
    }
}

impl MessageMemory {
    /// So many bytes.
    pub fn new(bytes: u64) -> Self {
        let most = Semaphore::MAX_PERMITS as u64;
        let all = u32::try_from((bytes / UNIT).clamp(1, most)).unwrap_or(u32::MAX);
        let one = || Arc::new(Semaphore::new(1));
        let units = Arc::new(Semaphore::new(all as usize));
        Self { units, reading: one(), answering: one(), all, bytes }
    }

    /// Has an answer hold so many bytes: gives back what is more, waits for what is less or for its
    /// turn. One that needs more than there is at all gets all there is.
    ///
    /// # Errors
    /// `TimedOut`, if neither comes within `retry_budget`; it keeps what it has.
    pub async fn resize(
        &self,
        reserved: &mut MemoryReservation,
        bytes: u64,
        retry_budget: Duration,
    ) -> Result<(), Fault> {
        self.wait(reserved, bytes, retry_budget, Some(&self.answering)).await
    }

    async fn wait(
        &self,
        reserved: &mut MemoryReservation,
        bytes: u64,
        retry_budget: Duration,
        turn: Option<&Arc<Semaphore>>,
    ) -> Result<(), Fault> {
        reserved.shrink(bytes);
        match self.missing(reserved, bytes) {
            0 => Ok(()),
            // On the heap: who has enough must not carry the room of who waits.
            missing => Box::pin(self.wait_for(missing, reserved, bytes, retry_budget, turn)).await,
        }
    }

    /// Waits for so many units, or for its turn.
    async fn wait_for(
        &self,
        missing: u32,
        reserved: &mut MemoryReservation,
        bytes: u64,
        retry_budget: Duration,
        turn: Option<&Arc<Semaphore>>,
    ) -> Result<(), Fault> {
        let more = Arc::clone(&self.units).acquire_many_owned(missing);
        let turn = async {
            match turn {
                Some(turn) => Arc::clone(turn).acquire_owned().await,
                None => std::future::pending().await,
            }
        };
        let waited = async {
            tokio::select! {
                biased;
                more = more => more.map(|more| add(reserved, more)),
                turn = turn => turn.map(|turn| reserved.turn = Some(turn)),
            }
        };
        match timeout(retry_budget, waited).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(self.refusal(bytes, retry_budget)),
        }
    }

    /// The same for a message that is read, and wants more beside what it holds: for so long, or until
    /// it is its turn.
    pub(crate) async fn wait_to_read(
        &self,
        reserved: &mut MemoryReservation,
        bytes: u64,
        retry_budget: Duration,
    ) -> Result<(), Fault> {
        self.wait(reserved, bytes, retry_budget, Some(&self.reading)).await
    }

    /// It waits for a moment only, and takes no turn.
    pub(crate) async fn wait_to_grow(
        &self,
        reserved: &mut MemoryReservation,
        held: u64,
        most: u64,
    ) -> Result<(), Fault> {
        let wanted = step(held).min(most).max(held);
        self.wait(reserved, wanted, GROWTH_PATIENCE, None).await
    }

    /// Whether it has room for what it holds, at once, after it gave back what it needs no more.
    pub(crate) fn settle(&self, reserved: &mut MemoryReservation, held: u64, most: u64) -> bool {
        if held.saturating_mul(SLACK) < reserved.bytes() {
            reserved.shrink(step(held));
        }
        self.fits(reserved, held) || self.try_grow(reserved, held, most)
    }

    pub(crate) fn fits(&self, reserved: &MemoryReservation, bytes: u64) -> bool {
        bytes <= reserved.bytes() || self.missing(reserved, bytes) == 0
    }

    fn try_grow(&self, reserved: &mut MemoryReservation, held: u64, most: u64) -> bool {
        let missing = self.missing(reserved, step(held).min(most).max(held));
        let more = Arc::clone(&self.units).try_acquire_many_owned(missing);
        more.map(|more| add(reserved, more)).is_ok()
    }

    /// Units that it has not and needs to hold so many bytes.
    fn missing(&self, reserved: &MemoryReservation, bytes: u64) -> u32 {
        if bytes <= SMALL || reserved.turn.is_some() {
            return 0;
        }
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.all);
        let has = reserved.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        units.saturating_sub(u32::try_from(has).unwrap_or(u32::MAX))
    }

    fn refusal(&self, bytes: u64, retry_budget: Duration) -> Fault {
        let what = format!(
            "the server has no memory for {bytes} bytes: other messages held it for {} s",
            retry_budget.as_secs()
        );
        Fault::new(FaultCode::TimedOut, what)
            .limit("message_memory", format!("{} bytes", self.bytes))
            .retry_after(retry_budget)
    }
}

/// Bytes of these values that are in memory.
pub fn held_by(values: &[Argument]) -> u64 {
    let of = |value: &Value| match value {
        Value::Text(text) => text.len() as u64,
        Value::Data(payload) => held_by_payload(payload),
        Value::Array(array) => held_by_payload(&array.data),
        Value::Record(fields) => held_by(fields),
    };
    values.iter().map(|argument| of(&argument.value)).fold(0, u64::saturating_add)
}

fn held_by_payload(payload: &Payload) -> u64 {
    let pieces = payload.pieces().unwrap_or_default();
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// What to ask for, for somebody who holds so much.
fn step(held: u64) -> u64 {
    let double = held.checked_next_power_of_two().unwrap_or(held);
    double.min(held.next_multiple_of(STEP))
}

fn add(reserved: &mut MemoryReservation, more: OwnedSemaphorePermit) {
    match &mut reserved.units {
        Some(permit) => permit.merge(more),
        none => *none = Some(more),
    }
}

#[cfg(test)]
mod tests;
