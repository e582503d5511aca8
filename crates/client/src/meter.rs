//! How much of an exchange was transferred: written by the exchange, read by whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counters of one exchange; a further try starts them anew.
#[derive(Debug, Default)]
pub struct Meter {
    sent: AtomicU64,
    /// [`UNKNOWN`] until the end, if only sending it tells.
    to_send: AtomicU64,
    received: AtomicU64,
    to_receive: AtomicU64,
    moved: AtomicU64,
    tries: AtomicU64,
    trouble: Mutex<Option<String>>,
}

const UNKNOWN: u64 = u64::MAX;

impl Meter {
    /// Bytes of the request sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Bytes of the whole request; 0 if not known yet.
    pub fn to_send(&self) -> u64 {
        match self.to_send.load(Relaxed) {
            UNKNOWN => 0,
            bytes => bytes,
        }
    }

    /// Bytes of the answer received.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Bytes of the whole answer; 0 if not known (yet).
    pub fn to_receive(&self) -> u64 {
        self.to_receive.load(Relaxed)
    }

    /// Bytes that went over the connection, either way and in all tries: never those that were there
    /// before. Only its growth tells anything.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// How often the request was sent, or begun to be.
    pub fn tries(&self) -> u64 {
        self.tries.load(Relaxed)
    }

    /// What went wrong last, while it is waited to try again.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    pub(crate) fn start(&self, to_send: Option<u64>) {
        self.tries.fetch_add(1, Relaxed);
        self.sent.store(0, Relaxed);
        self.received.store(0, Relaxed);
        self.to_receive.store(0, Relaxed);
        self.to_send.store(to_send.unwrap_or(UNKNOWN), Relaxed);
    }

    /// So many bytes of the request are at the other end already.
    pub(crate) fn set_sent(&self, bytes: u64) {
        self.sent.store(bytes, Relaxed);
    }

    /// So many bytes of the answer are here already.
    pub(crate) fn set_received(&self, bytes: u64) {
        self.received.store(bytes, Relaxed);
    }

    /// That was all.
    pub(crate) fn end_sent(&self) {
        self.to_send.store(self.sent(), Relaxed);
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        self.moved.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
        self.moved.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn expect(&self, to_receive: u64) {
        self.to_receive.store(to_receive, Relaxed);
    }

    /// The whole request was sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.sent() >= self.to_send.load(Relaxed)
    }
}
