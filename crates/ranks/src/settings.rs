//! Limits and times of message passing: name, default, setting.

use std::time::Duration;

/// What a process may be told when it joins a domain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Payloads up to this many bytes are sent at once (eager); longer ones when the receive is posted (rendezvous). 32 KiB.
    pub eager_limit: usize,
    /// The same between ranks that share memory, where a longer payload is still copied only once more. 64 KiB.
    pub shared_memory_eager_limit: usize,
    /// Bytes of eager messages that a process holds for receives to come, all senders together; what
    /// exceeds it waits at its sender. 64 MiB.
    pub unexpected_memory: usize,
    /// Bytes that buffered sends may occupy until they are received. 64 MiB.
    pub buffer_size: usize,
    /// How long a waiting thread looks again and again before it blocks. 20 µs; zero never spins.
    pub spin: Duration,
    /// How long a rank may be out of reach before it has failed. 10 s.
    pub peer_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            eager_limit: 32 << 10,
            shared_memory_eager_limit: 64 << 10,
            unexpected_memory: 64 << 20,
            buffer_size: 64 << 20,
            spin: Duration::from_micros(20),
            peer_timeout: Duration::from_secs(10),
        }
    }
}
