//! The watchdog's own request: made every so often, each on a connection of its own, so that what holds up the clients'
//! connections does not hold it up, and one that is kept open does not hide that no new one is accepted.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// What a probe says when the port refuses connections; nobody else says so.
pub const NOBODY_LISTENS: &str = "connection refused";
const CANNOT_CONNECT: &str = "cannot connect";
const NO_ANSWER: &str = "no answer";

/// A request to the system, and whether it was answered rightly; if not, what was wrong, in words. It may take as long
/// as it takes: it is dropped when it takes too long.
pub type Ask =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// The watchdog's own request, and its last answer.
#[derive(Clone)]
pub struct Probe(Arc<Inside>);

struct Inside {
    ask: Ask,
    /// No answer for so long is none.
    within: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Its time in microseconds, or what was wrong.
    last: Option<Result<u64, String>>,
    /// Since when it has been waited for.
    asked: Option<Instant>,
    asking: Option<AbortHandle>,
}

/// It is asked no more.
impl Drop for Inside {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(asking) = &state.asking {
            asking.abort();
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("within", &self.0.within).finish_non_exhaustive()
    }
}

impl Probe {
    /// A probe that has no answer when it was waited for longer than `within` (the watchdog's `hang_after`).
    pub fn new(ask: Ask, within: Duration) -> Self {
        Self(Arc::new(Inside { ask, within, state: Mutex::default() }))
    }

    /// Asks once: how long it took, in microseconds.
    ///
    /// # Errors
    /// What was wrong, in words.
    pub async fn ask(&self) -> Result<u64, String> {
        let begun = Instant::now();
        match tokio::time::timeout(self.0.within, (self.0.ask)()).await {
            Ok(Ok(())) => Ok(micros(begun.elapsed())),
            Ok(Err(wrong)) => Err(wrong),
            Err(_) => Err(no_answer(self.0.within)),
        }
    }

    /// Asks every so often from now on, until the last copy of the probe is dropped. Needs a tokio runtime about it.
    pub fn repeat(&self, every: Duration) {
        let inside = Arc::downgrade(&self.0);
        let asking = tokio::spawn(async move {
            let mut times = tokio::time::interval(every);
            times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                times.tick().await;
                let Some(probe) = inside.upgrade().map(Self) else { return };
                probe.state().asked = Some(Instant::now());
                let (ask, within) = (Arc::clone(&probe.0.ask), probe.0.within);
                // It is not held while it is waited for, so that dropping it ends this.
                drop(probe);
                let begun = Instant::now();
                let answer = match tokio::time::timeout(within, ask()).await {
                    Ok(answer) => answer.map(|()| micros(begun.elapsed())),
                    Err(_) => Err(no_answer(within)),
                };
                let Some(probe) = inside.upgrade().map(Self) else { return };
                let mut state = probe.state();
                (state.asked, state.last) = (None, Some(answer));
            }
        });
        let before = self.state().asking.replace(asking.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    /// The last answer: its time in microseconds, or what was wrong. One that is waited for longer than the last took
    /// and longer than a second is none.
    pub fn last(&self) -> Option<Result<u64, String>> {
        let state = self.state();
        let waited = state.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        let usual = match &state.last {
            Some(Ok(time)) => Duration::from_micros(*time),
            _ => Duration::ZERO,
        };
        if waited > usual.max(Duration::from_secs(1)) {
            return Some(Err(no_answer(waited)));
        }
        state.last.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what a probe says means that there was no answer at all, not that a wrong one was given.
pub fn is_silence(said: &str) -> bool {
    [NO_ANSWER, CANNOT_CONNECT, NOBODY_LISTENS].iter().any(|words| said.starts_with(words))
}

/// Whether what a probe says means that it had no connection, so that nothing was asked.
pub fn is_unreachable(said: &str) -> bool {
    [CANNOT_CONNECT, NOBODY_LISTENS].iter().any(|words| said.starts_with(words))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn no_answer(waited: Duration) -> String {
    format!("{NO_ANSWER} for {:.1} s", waited.as_secs_f64())
}

/// An error of connecting in words, of which [`NOBODY_LISTENS`] is one.
pub fn unreachable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => NOBODY_LISTENS.to_owned(),
        _ => format!("{CANNOT_CONNECT}: {error}"),
    }
}
