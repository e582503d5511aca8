//! What all messages together may hold in memory (limit `message_memory`): a message asks for what
//! it may come to take before it takes more than a little, and waits if there is not so much left.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};
use fishplate_wire::WireLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What a message may hold without asking.
pub const SMALL: u64 = 256 << 10;

/// In what memory is counted: permits are 32 bits.
const UNIT: u64 = 64 << 10;

/// The memory of all messages.
#[derive(Debug)]
pub struct MessageMemory {
    units: Arc<Semaphore>,
    all: u32,
    bytes: u64,
}

/// Memory that a message has until this is dropped.
#[derive(Debug)]
pub struct Reserved(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl MessageMemory {
    /// So many bytes.
    pub fn new(bytes: u64) -> Self {
        let most = Semaphore::MAX_PERMITS as u64;
        let all = u32::try_from((bytes / UNIT).clamp(1, most)).unwrap_or(u32::MAX);
        Self { units: Arc::new(Semaphore::new(all as usize)), all, bytes }
    }

    /// What a message may come to hold: all of it if it tells its length, but never more than its
    /// XML and the payloads that are not spooled may be.
    pub fn need(limits: &WireLimits, told: Option<u64>) -> u64 {
        let most = limits.envelope_size.saturating_add(limits.inline_total as u64);
        told.map_or(most, |told| told.min(most))
    }

    /// Memory for a message. One that needs more than there is at all gets all there is.
    ///
    /// # Errors
    /// `TimedOut`, if others do not give back so much within `patience`.
    pub async fn reserve(&self, bytes: u64, patience: Duration) -> Result<Reserved, Fault> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.all);
        let reserved = Arc::clone(&self.units).acquire_many_owned(units);
        match timeout(patience, reserved).await {
            Ok(Ok(reserved)) => Ok(Reserved(reserved)),
            _ => Err(self.refusal(bytes, patience)),
        }
    }

    fn refusal(&self, bytes: u64, patience: Duration) -> Fault {
        let what = format!(
            "the server has no memory for {bytes} bytes: other messages held it for {} s",
            patience.as_secs()
        );
        Fault::new(FaultCode::TimedOut, what)
            .limit("message_memory", format!("{} bytes", self.bytes))
            .retry_after(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn messages_together_hold_no_more_than_there_is() {
        let memory = MessageMemory::new(10 << 20);
        let first = memory.reserve(6 << 20, PATIENCE).await.unwrap();
        let second = memory.reserve(4 << 20, PATIENCE).await.unwrap();
        let fault = memory.reserve(1, PATIENCE).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::TimedOut);
        assert_eq!(fault.limit.unwrap().name, "message_memory");
        drop(second);
        let third = memory.reserve(4 << 20, PATIENCE).await.unwrap();
        // A message larger than all waits for all.
        assert!(memory.reserve(1 << 40, PATIENCE).await.is_err());
        drop((first, third));
        assert!(memory.reserve(1 << 40, PATIENCE).await.is_ok());
    }

    #[test]
    fn a_message_needs_what_it_says_but_no_more_than_it_may_hold() {
        let limits = WireLimits::default();
        let most = limits.envelope_size + limits.inline_total as u64;
        assert_eq!(MessageMemory::need(&limits, Some(1000)), 1000);
        assert_eq!(MessageMemory::need(&limits, Some(u64::MAX)), most);
        assert_eq!(MessageMemory::need(&limits, None), most);
    }
}
