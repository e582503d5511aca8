//! Trying again what is safe to try again.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::meter::Meter;
use crate::settings::Retry;

/// Runs `attempt` until it succeeds, fails for good, or fails too often in a row.
///
/// No `AsyncFnMut`: nobody could tell of its future that it may be sent to another thread.
pub(crate) async fn retrying<T, F: Future<Output = Result<T, Error>>>(
    retry: Retry,
    meter: &Arc<Meter>,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error> {
    let mut failures = 0;
    let mut was_connected = false;
    loop {
        let started = Instant::now();
        let error = match attempt().await {
            Err(error) if error.is_transient() => error,
            concluded => return concluded,
        };
        let connected = !matches!(error, Error::Unreachable { .. });
        was_connected |= connected;
        let lasted = connected && meter.all_sent() && started.elapsed() > retry.longest_wait;
        failures = if lasted { 1 } else { failures + 1 };
        if !was_connected || failures >= retry.attempts {
            return Err(error);
        }
        pause(retry, meter, &error, failures, retry.attempts).await;
    }
}

/// Waits after so many failures in a row, and tells why.
pub(crate) async fn pause(
    retry: Retry,
    meter: &Meter,
    error: &Error,
    failures: u32,
    attempts: u32,
) {
    let wait = retry.wait(failures);
    meter.set_trouble(Some(error.trouble(wait, failures + 1, attempts)));
    sleep(wait).await;
    meter.set_trouble(None);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lost() -> Error {
        Error::ConnectionLost { url: String::new(), reason: String::new() }
    }

    fn unreachable() -> Error {
        Error::Unreachable { url: String::new(), reason: String::new() }
    }

    fn retry() -> Retry {
        Retry { attempts: 3, first_wait: Duration::from_millis(1), ..Retry::default() }
    }

    async fn tries(retry: Retry, error: fn(u32) -> Option<Error>) -> (u32, bool) {
        let mut tries = 0;
        let meter = Arc::new(Meter::default());
        let done = retrying(retry, &meter, || {
            tries += 1;
            std::future::ready(error(tries).map_or(Ok(()), Err))
        });
        let succeeded = done.await.is_ok();
        (tries, succeeded)
    }

    #[tokio::test]
    async fn a_lost_connection_is_tried_again_up_to_the_limit() {
        assert_eq!(tries(retry(), |_| Some(lost())).await, (3, false));
        assert_eq!(tries(retry(), |at| (at == 1).then(lost)).await, (2, true));
        assert_eq!(tries(Retry::NEVER, |_| Some(lost())).await, (1, false));
    }

    #[tokio::test]
    async fn a_server_never_reached_is_not_tried_again_but_one_that_went_away_is() {
        assert_eq!(tries(retry(), |_| Some(unreachable())).await, (1, false));
        let comes_back = |at| match at {
            1 => Some(lost()),
            2 => Some(unreachable()),
            _ => None,
        };
        assert_eq!(tries(retry(), comes_back).await, (3, true));
    }

    #[tokio::test]
    async fn a_gateways_refusal_is_tried_again_and_a_clients_mistake_is_not() {
        let http = |status| Error::Http { url: String::new(), status, line: String::new() };
        let gateway =
            |_| Some(Error::Http { url: String::new(), status: 504, line: String::new() });
        assert_eq!(tries(retry(), gateway).await.0, 3);
        assert!(!http(404).is_transient());
        assert!(!http(500).is_transient());
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_cuts_long_calls_does_not_use_up_the_tries() {
        let mut tries = 0;
        let meter = Arc::new(Meter::default());
        let done = retrying(retry(), &meter, || {
            tries += 1;
            let answer = if tries < 50 { Err(lost()) } else { Ok(()) };
            async move {
                sleep(Duration::from_secs(60)).await;
                answer
            }
        });
        done.await.unwrap();
        assert_eq!(tries, 50);
    }
}
