//! The server: the faces it shows, and the only place that joins the rooms.
//!
//! Reading order:
//!
//! - [`settings`]: what an administrator may set
//! - [`authentication`]: who calls
//! - [`policy`]: who may do what
//! - [`audit`]: who logged in, what was refused, what was changed
//! - [`host`]: the services of one server, joined with their jobs
//! - [`current`]: the host in use, which a reload replaces
//! - [`dispatch`]: what every face asks for, done in one place
//! - [`providers`]: what runs the operations of services: programs, functions, the services `session` and
//!   `domain`
//! - [`domains`]: communication domains that have ranks here, and their rendezvous
//! - [`sites`]: servers that nobody can dial, of which this one is the relay
//! - [`data`]: data by reference: pool, uploads, sessions
//! - [`stager`]: data by reference, as the engine needs it moved
//! - [`spool`]: payloads on their way in
//! - [`memory`]: what all messages together may hold
//! - `file_version`: whether a file is still the one that was read
//! - [`http`]: connections, bodies and their limits
//! - [`status`]: which HTTP status goes with a fault, in each protocol
//! - [`faces`]: SOAP, pages for people, metrics; each enters at a call and leaves at an outcome
//! - [`caller`]: a service as whoever is in this process calls it
//! - [`assembly`]: the only place that joins the rooms
//! - [`backup`]: a data directory in another place, and back
//! - [`worker`]: processes of this same program that a server starts
//! - [`cgi`]: one request of a web server's CGI interface (RFC 3875)

pub mod assembly;
pub mod audit;
pub mod authentication;
pub mod backup;
pub mod caller;
pub mod cgi;
pub mod current;
pub mod data;
pub mod dispatch;
pub mod domains;
pub mod faces;
mod file_version;
pub mod host;
pub mod http;
pub mod memory;
pub mod policy;
pub mod providers;
pub mod settings;
pub mod sites;
pub mod spool;
pub mod stager;
pub mod status;
pub mod worker;
