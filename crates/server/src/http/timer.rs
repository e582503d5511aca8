//! The timer of a connection: its header's limit is set anew with each request, and nearly never
//! rings. So one timer of the runtime is kept for a connection, and moved only when it rings.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// A timer for one connection, whose waits follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionTimer {
    alarm: Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>,
}

/// A wait until a moment.
struct Wait {
    timer: ConnectionTimer,
    until: Instant,
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, until: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { timer: self.clone(), until })
    }

    fn now(&self) -> Instant {
        // The runtime's, which a test may hold still.
        tokio::time::Instant::now().into_std()
    }
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until.into();
        let mut alarm = self.timer.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if alarm.deadline() > until {
            alarm.as_mut().reset(until);
        }
        while alarm.as_mut().poll(context).is_ready() {
            if alarm.deadline() >= until {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_at_its_own_time() {
        let timer = ConnectionTimer::default();
        let second = Duration::from_secs(1);
        let begun = timer.now();
        let after = |timer: &ConnectionTimer| timer.now() - begun;
        let mut given_up = timer.sleep(5 * second);
        assert!(looked_at(&mut given_up).await.is_pending());
        drop(given_up);
        tokio::time::sleep(3 * second).await;
        timer.sleep(5 * second).await;
        assert_eq!(after(&timer).as_secs(), 8);
        timer.sleep(second).await;
        assert_eq!(after(&timer).as_secs(), 9);
    }

    async fn looked_at(wait: &mut Pin<Box<dyn Sleep>>) -> Poll<()> {
        std::future::poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await
    }
}
