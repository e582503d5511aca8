//! Connections that wait for another request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{Connection, RequestBody};

/// Servers close idle connections after some time (nginx and ours after 75 s); ours go before. A new one costs more than its
/// round trips, because it begins slowly: docs/decisions/0009-one-http-client.md has figures.
pub(super) const LIFE: Duration = Duration::from_secs(60);
/// How often those that have waited too long are looked for: so that these, too, are gone before their server closes them.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Idle connections that are kept to one peer.
const KEPT: usize = 64;

/// The connections of one client, by scheme and authority.
pub(super) struct Idle<B: RequestBody>(Arc<Mutex<Connections<B>>>);

/// A connection, and since when it waits.
type Waiting<B> = (Box<Connection<B>>, Instant);

struct Connections<B: RequestBody> {
    of: HashMap<String, Vec<Waiting<B>>>,
    /// Somebody will come and close those that have waited too long.
    swept: bool,
}

impl<B: RequestBody> Default for Idle<B> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Connections { of: HashMap::new(), swept: false })))
    }
}

impl<B: RequestBody> Clone for Idle<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: RequestBody> Idle<B> {
    /// A connection to this peer that takes a request.
    pub(super) fn take(&self, peer: &str) -> Option<Box<Connection<B>>> {
        loop {
            let (mut connection, since) = self.with(|idle| idle.of.get_mut(peer)?.pop())?;
            if since.elapsed() < LIFE && connection.is_free() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection of which the last answer was read, if it takes another request.
    pub(super) fn keep(&self, mut connection: Box<Connection<B>>, peer: &str) {
        if !connection.is_free() {
            return;
        }
        let sweep = self.with(|idle| {
            let kept = match idle.of.get_mut(peer) {
                Some(kept) => kept,
                None => idle.of.entry(peer.to_owned()).or_default(),
            };
            if kept.len() < KEPT {
                kept.push((connection, Instant::now()));
            }
            !std::mem::replace(&mut idle.swept, true)
        });
        if sweep {
            tokio::spawn(sweeping(Arc::downgrade(&self.0)));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connections<B>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Closes connections that wait for too long, until none waits.
async fn sweeping<B: RequestBody>(idle: Weak<Mutex<Connections<B>>>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.of.retain(|_, kept| {
            kept.retain(|(_, since)| since.elapsed() < LIFE);
            !kept.is_empty()
        });
        if idle.of.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
