//! What bounds a transfer. The names and defaults are those of [`fishplate_contract::limits`].

use std::path::PathBuf;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;

/// Bounds of transfers, and what they trust.
#[derive(Clone, Debug)]
pub struct TransferSettings {
    /// `transfer_size`: bytes of one fetched payload; else what the pool takes.
    pub size: Option<u64>,
    /// `transfer_attempts`: attempts in a row that bring nothing, until a transfer is given up; at
    /// most 3 if there never was a connection.
    pub attempts: u32,
    /// `transfer_stall`: how long the other end may bring, or take, nothing; then the connection
    /// counts as broken.
    pub stall: Duration,
    /// `transfer_rate`: bytes a second that the other end must bring, or take, on average over
    /// `transfer_stall`; else the connection counts as broken.
    pub rate: u64,
    /// `transfer_time`: how long a transfer may take, all its attempts together.
    pub time: Duration,
    /// `transfer_connect`: how long a connection may take, name and TLS included.
    pub connect: Duration,
    /// `transfer_redirects`: redirects that are followed, one after the other.
    pub redirects: u32,
    /// `transfer_interim`: interim answers (1xx) to one request.
    pub interim: u32,
    /// `transfer_connections`: connections over which one large payload comes.
    pub connections: u32,
    /// `transfers_running`: fetches and deliveries that run at once; more wait.
    pub running: u32,
    /// `transfers_per_owner`: as many of them are one caller's.
    pub per_owner: u32,
    /// `transfers_per_peer`: as many of them are with one server.
    pub per_peer: u32,
    /// Certificates in PEM to trust beside the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for TransferSettings {
    fn default() -> Self {
        Self {
            size: DEFAULTS.transfer_size,
            attempts: DEFAULTS.transfer_attempts,
            stall: DEFAULTS.transfer_stall,
            rate: DEFAULTS.transfer_rate,
            time: DEFAULTS.transfer_time,
            connect: DEFAULTS.transfer_connect,
            redirects: DEFAULTS.transfer_redirects,
            interim: DEFAULTS.transfer_interim,
            connections: DEFAULTS.transfer_connections,
            running: DEFAULTS.transfers_running,
            per_owner: DEFAULTS.transfers_per_owner,
            per_peer: DEFAULTS.transfers_per_peer,
            ca_file: None,
        }
    }
}
