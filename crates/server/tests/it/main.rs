//! A server over real connections, in this process: routing, bodies, limits of connections.

mod boundary;
mod connection;
mod server;
