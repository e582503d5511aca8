//! The client against a server that speaks real SOAP over real HTTP and misbehaves on demand.

mod calls;
mod failures;
mod jobs;
mod server;
mod tls;
mod transfers;
mod uploads;
