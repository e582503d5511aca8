//! How long the other end is borne with.

use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};
use tokio::time::Instant;
use url::Url;

use super::minimum_rate::{suffices, too_slow};
use crate::Progress;
use crate::transfer::http::peer;
use crate::transfer::{TransferError, TransferFuture, TransferSettings};

/// Waits before attempts; the last one again and again.
const WAITS: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
];
/// Attempts in a row, if nobody listens at the address or its name can't be resolved, and there never
/// was a connection: it is more likely wrong than away for a moment.
const UNREACHED_ATTEMPTS: u32 = 3;
/// Between those.
const UNREACHED_WAIT: Duration = Duration::from_secs(1);
/// The longest that the other end may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Attempts and time that one transfer has left.
#[derive(Debug)]
pub(super) struct RetryBudget {
    settings: TransferSettings,
    until: Instant,
    fruitless: u32,
    /// There was a connection, or somebody who may have one.
    reached: bool,
}

impl RetryBudget {
    pub(super) fn new(settings: &TransferSettings) -> Self {
        let until = Instant::now() + settings.time;
        Self { settings: settings.clone(), until, fruitless: 0, reached: false }
    }

    /// Waits until it is worth trying again after an error; `gained`, if bytes came before it.
    ///
    /// # Errors
    /// The fault with which the transfer is given up.
    pub(super) async fn endure(&mut self, error: TransferError, gained: bool) -> Result<(), Fault> {
        let asked = match &error {
            TransferError::Broken { .. } => None,
            TransferError::Unreachable { .. } => (!self.reached).then_some(UNREACHED_WAIT),
            TransferError::Busy { retry_after, .. } => *retry_after,
            _ => return Err(error.into()),
        };
        if Instant::now() >= self.until {
            return Err(self.too_long(Fault::from(error)));
        }
        self.fruitless = if gained { 1 } else { self.fruitless + 1 };
        self.reached |= gained || !matches!(error, TransferError::Unreachable { .. });
        let attempts = match self.reached {
            true => self.settings.attempts,
            false => self.settings.attempts.min(UNREACHED_ATTEMPTS),
        };
        if self.fruitless >= attempts {
            return Err(Fault::from(error).limit("transfer_attempts", attempts));
        }
        let nth = usize::try_from(self.fruitless - 1).unwrap_or(WAITS.len());
        let wait = WAITS[nth.min(WAITS.len() - 1)].max(asked.unwrap_or_default().min(LONGEST_WAIT));
        if Instant::now() + wait >= self.until {
            return Err(self.too_long(Fault::from(error)));
        }
        tracing::debug!(%error, wait = ?wait, "a transfer is taken up again");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// A step that may take no longer than the other end may stall, nor than the transfer has left.
    pub(super) async fn step<T>(
        &self,
        url: &Url,
        step: TransferFuture<'_, T>,
    ) -> Result<T, TransferError> {
        let allowed = self.settings.stall.min(self.until - Instant::now());
        tokio::time::timeout(allowed, step).await.unwrap_or_else(|_| Err(self.given_up(url)))
    }

    /// A delivery, for as long as it goes on, and quickly enough.
    pub(super) async fn watch<T>(
        &self,
        mut moving: TransferFuture<'_, T>,
        progress: &Progress,
        url: &Url,
    ) -> Result<T, TransferError> {
        loop {
            let before = progress.bytes();
            let allowed = self.settings.stall.min(self.until - Instant::now());
            if let Ok(done) = tokio::time::timeout(allowed, &mut moving).await {
                return done;
            }
            let moved = progress.bytes().saturating_sub(before);
            if Instant::now() >= self.until || moved == 0 {
                return Err(self.given_up(url));
            }
            // Who has all of it may take as long to answer as it may take nothing.
            let all = progress.total().is_some_and(|total| progress.bytes() >= total);
            if !all && !suffices(moved, allowed, self.settings.rate) {
                return Err(too_slow("took", peer(url), moved, allowed, self.settings.rate));
            }
        }
    }

    /// The other end moves nothing for too long, or the transfer has no time left.
    fn given_up(&self, url: &Url) -> TransferError {
        let reason = if Instant::now() >= self.until {
            format!("it was not done within {} s", self.settings.time.as_secs_f64())
        } else {
            let stall = self.settings.stall.as_secs_f64();
            format!("nothing moved for {stall} s (transfer_stall)")
        };
        TransferError::Broken { peer: peer(url), reason }
    }

    fn too_long(&self, fault: Fault) -> Fault {
        let time = format!("{} s", self.settings.time.as_secs_f64());
        Fault::new(FaultCode::TransferFailed, fault.message).limit("transfer_time", time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the last attempt that it allows.
    fn retry_budget(stall: u64, time: u64) -> RetryBudget {
        RetryBudget::new(&TransferSettings {
            stall: Duration::from_secs(stall),
            time: Duration::from_secs(time),
            attempts: 1,
            rate: 4,
            ..TransferSettings::default()
        })
    }

    /// Takes so many bytes each second, and never ends.
    fn takes(bytes: u64, progress: &Progress) -> TransferFuture<'_, ()> {
        Box::pin(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                progress.add(bytes);
            }
        })
    }

    fn never<'t>() -> TransferFuture<'t, ()> {
        Box::pin(std::future::pending())
    }

    async fn told(retry_budget: &mut RetryBudget, error: TransferError) -> (String, String) {
        let fault = retry_budget.endure(error, false).await.unwrap_err();
        (fault.limit.map(|limit| limit.name).unwrap_or_default(), fault.message)
    }

    #[tokio::test(start_paused = true)]
    async fn what_ran_out_is_what_is_told() {
        let url = Url::parse("http://slow/x").unwrap();
        let mut stalls = retry_budget(30, 100);
        let error = stalls.step(&url, never()).await.unwrap_err();
        let (limit, message) = told(&mut stalls, error).await;
        assert_eq!(limit, "transfer_attempts");
        assert!(message.contains("nothing moved for 30 s (transfer_stall)"), "{message}");

        let mut ends = retry_budget(30, 10);
        let error = ends.step(&url, never()).await.unwrap_err();
        let (limit, message) = told(&mut ends, error).await;
        assert_eq!(limit, "transfer_time");
        assert!(message.contains("not done within 10 s"), "{message}");
    }

    /// Attempts and seconds until these errors, the last again and again, are too many.
    async fn endured(errors: &[fn() -> TransferError]) -> (usize, u64) {
        let mut retry_budget = RetryBudget::new(&TransferSettings::default());
        let begun = Instant::now();
        for nth in 0.. {
            let error = errors[nth.min(errors.len() - 1)]();
            if retry_budget.endure(error, false).await.is_err() {
                return (nth + 1, begun.elapsed().as_secs());
            }
        }
        unreachable!()
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_never_reached_is_not_tried_as_often_as_who_went_away() {
        let away = || TransferError::Unreachable { peer: String::new(), reason: String::new() };
        let broken = || TransferError::Broken { peer: String::new(), reason: String::new() };
        assert_eq!(endured(&[away]).await, (3, 2));
        assert_eq!(endured(&[broken, away]).await, (10, 45));
        assert_eq!(endured(&[away, away, broken, away]).await.0, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_ends_with_its_time() {
        let url = Url::parse("http://slow/x").unwrap();
        let (mut retry_budget, progress) = (retry_budget(30, 100), Progress::default());
        let begun = Instant::now();
        let error = retry_budget.watch(takes(5, &progress), &progress, &url).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 100);
        let (limit, message) = told(&mut retry_budget, error).await;
        assert_eq!(limit, "transfer_time");
        assert!(message.contains("not done within 100 s"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_that_drips_is_broken_off() {
        let url = Url::parse("http://slow/x").unwrap();
        let begun = Instant::now();
        let error = retry_budget(30, 100)
            .watch(takes(1, &Progress::default()), &Progress::default(), &url)
            .await
            .unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 30);
        assert!(error.to_string().contains("nothing moved"), "{error}");

        let (begun, progress) = (Instant::now(), Progress::default());
        progress.expect(1000);
        let error =
            retry_budget(30, 100).watch(takes(3, &progress), &progress, &url).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 30);
        let error = error.to_string();
        assert!(error.contains("took") && error.contains("4 a second (transfer_rate)"), "{error}");

        // All of it is there: the other end may take its time to say so.
        let (begun, progress) = (Instant::now(), Progress::default());
        progress.expect(40);
        retry_budget(30, 100).watch(takes(3, &progress), &progress, &url).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 100);
    }
}
