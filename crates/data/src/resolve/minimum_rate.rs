//! How quickly data must move: a peer that brings, or takes, a byte now and then does not stall, and
//! yet would hold its place for as long as it likes.

use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::Digest;
use tokio::time::Instant;

use crate::transfer::{TransferBody, TransferError, TransferFuture, TransferSettings};

/// Whether so many bytes are enough for that time.
pub(super) fn suffices(bytes: u64, time: Duration, rate: u64) -> bool {
    bytes > 0 && u128::from(bytes) * 1000 >= u128::from(rate) * time.as_millis()
}

/// The peer `did` (brought, took) too little.
pub(super) fn too_slow(
    did: &str,
    peer: String,
    bytes: u64,
    time: Duration,
    rate: u64,
) -> TransferError {
    let time = time.as_secs_f64();
    let reason =
        format!("it {did} {bytes} bytes in {time:.0} s, less than {rate} a second (transfer_rate)");
    TransferError::Broken { peer, reason }
}

/// A body that fails once it comes too slowly. The time in which nobody asked it for bytes, since
/// the disk was busy, does not count.
#[derive(Debug)]
pub(super) struct MinimumRate {
    body: Box<dyn TransferBody>,
    peer: String,
    rate: u64,
    /// The time over which the average is taken.
    over: Duration,
    waited: Duration,
    came: u64,
}

impl MinimumRate {
    pub(super) fn new(
        body: Box<dyn TransferBody>,
        peer: String,
        settings: &TransferSettings,
    ) -> Self {
        let (rate, over) = (settings.rate, settings.stall);
        Self { body, peer, rate, over, waited: Duration::ZERO, came: 0 }
    }

    async fn step(&mut self) -> Result<Option<Bytes>, TransferError> {
        let asked = Instant::now();
        let piece = self.body.next().await?;
        let Some(bytes) = &piece else { return Ok(None) };
        self.waited += asked.elapsed();
        self.came += bytes.len() as u64;
        if self.waited >= self.over {
            if !suffices(self.came, self.waited, self.rate) {
                let peer = self.peer.clone();
                return Err(too_slow("brought", peer, self.came, self.waited, self.rate));
            }
            (self.waited, self.came) = (Duration::ZERO, 0);
        }
        Ok(piece)
    }
}

impl TransferBody for MinimumRate {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(self.step())
    }

    fn digest(&mut self) -> TransferFuture<'_, Option<Digest>> {
        self.body.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of so many bytes a second.
    #[derive(Debug)]
    struct Every(usize);

    impl TransferBody for Every {
        fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Some(Bytes::from(vec![0; self.0])))
            })
        }
    }

    fn paced(bytes: usize) -> MinimumRate {
        let settings = TransferSettings {
            rate: 100,
            stall: Duration::from_secs(30),
            ..TransferSettings::default()
        };
        MinimumRate::new(Box::new(Every(bytes)), "http://slow".to_owned(), &settings)
    }

    #[tokio::test(start_paused = true)]
    async fn what_trickles_is_given_up_and_what_flows_is_not() {
        let (mut slow, mut pieces) = (paced(99), 0);
        let error = loop {
            match slow.next().await {
                Ok(_) => pieces += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!((29..=30).contains(&pieces), "{pieces}");
        assert!(error.contains("2970 bytes in 30 s") && error.contains("transfer_rate"), "{error}");
        let mut quick = paced(101);
        for _ in 0..300 {
            quick.next().await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_asks_does_not_count() {
        let mut body = paced(101);
        for _ in 0..60 {
            body.next().await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }

    #[test]
    fn bytes_are_held_against_time() {
        let second = Duration::from_secs(1);
        assert!(!suffices(0, Duration::ZERO, 0), "nothing came");
        assert!(suffices(1, Duration::ZERO, 100) && suffices(1, second, 0));
        assert!(suffices(100, second, 100) && !suffices(99, second, 100));
    }
}
