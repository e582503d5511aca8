//! A server over real connections, in this process: routing, bodies, limits of connections.

mod connection;
mod server;
