//! A future that wakes itself while it is polled.
//!
//! A connection does so with every request that has a body: who reads the body asks the connection for it, and both are
//! one task. The runtime takes that for giving way to others, and wakes a thread that is idle to come and take the task
//! over: two futex calls and a switch of threads a request. Here such a future is polled again at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// So often in turn: then others have theirs.
const MOST: usize = 8;

/// Nobody polls it.
const IDLE: u8 = 0;
/// It is being polled.
const POLLED: u8 = 1;
/// It was woken while it was polled.
const WOKEN: u8 = 2;

/// This future, which is polled again at once where it was woken meanwhile.
pub(super) async fn repolled<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let state = Arc::new(WakeState { phase: AtomicU8::new(IDLE), task: AtomicWaker::new() });
    let waker = Waker::from(Arc::clone(&state));
    poll_fn(move |context| {
        state.task.register(context.waker());
        for _ in 0..MOST {
            state.phase.store(POLLED, Ordering::SeqCst);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(output);
            }
            if state.turn(POLLED, IDLE) {
                return Poll::Pending;
            }
        }
        state.phase.store(IDLE, Ordering::SeqCst);
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

struct WakeState {
    phase: AtomicU8,
    /// The task that the future is part of.
    task: AtomicWaker,
}

impl WakeState {
    fn turn(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.turn(POLLED, WOKEN) && self.phase.load(Ordering::SeqCst) == IDLE {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::task::{ArcWake, waker};

    use super::*;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl ArcWake for WakeCount {
        fn wake_by_ref(it: &Arc<Self>) {
            it.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Wakes itself so often; then it is ready with how often it was polled.
    async fn wakes_itself(times: usize) -> usize {
        let mut polled = 0;
        poll_fn(move |context| {
            polled += 1;
            if polled > times {
                return Poll::Ready(polled);
            }
            context.waker().wake_by_ref();
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    #[test]
    fn one_that_wakes_itself_is_polled_again_at_once_and_gives_way_now_and_then() {
        for (times, gives_way) in [(0, 0), (1, 0), (MOST - 1, 0), (MOST, 1), (3 * MOST, 3)] {
            let wakes = Arc::new(WakeCount::default());
            let mut future = pin!(repolled(wakes_itself(times)));
            let (outer, mut polls) = (waker(Arc::clone(&wakes)), 0);
            let polled = loop {
                match future.as_mut().poll(&mut Context::from_waker(&outer)) {
                    Poll::Ready(polled) => break polled,
                    Poll::Pending => polls += 1,
                }
                assert_eq!(wakes.0.load(Ordering::SeqCst), polls, "it is woken after each");
            };
            assert_eq!((polled, polls), (times + 1, gives_way), "{times}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_of_another_thread_is_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sending = tokio::spawn(async move {
            for number in 0..20_000 {
                sender.send(number).await.unwrap();
            }
        });
        let receiving = tokio::spawn(repolled(async move {
            for number in 0..20_000 {
                assert_eq!(receiver.recv().await, Some(number));
            }
        }));
        receiving.await.unwrap();
        sending.await.unwrap();
    }
}
