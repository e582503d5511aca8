//! HTTP/1.1 as a client, with TLS or without: the one that services are called with, data is fetched
//! and delivered with, and stores of objects are asked with.
//!
//! Nothing runs beside: whoever waits for an answer, or reads its body, drives its connection. So a
//! byte does not change threads on its way, and what nobody reads is not received.
//!
//! Reading order:
//!
//! - [`Client`]: one request to one address; what follows redirects or tries again is built upon it
//! - [`ResponseBody`]: what comes, and where its connection is kept afterwards
//! - [`tls`]: which certificates are trusted
//! - `dial`: connections to allowed addresses, within a deadline
//! - `connection`: one connection, one request after the other; `idle`: those that wait for another

mod client;
mod connection;
mod dial;
mod idle;
pub mod tls;

pub use client::{Client, ClientError, ResponseBody};
pub use connection::RequestBody;
pub use dial::{DialedStream, SystemAddresses, UNKNOWN_ISSUER, dial};
