//! A message as a SOAP call: an envelope with an MTOM attachment, posted to the receiver's operation `store` (papers 001 and 002).
//!
//! One persistent HTTP/1.1 connection a direction, dialled by its sender, with requests one behind the other. What two of our own ranks say
//! is the same byte for byte but for digits (`layout`), and is not parsed; all else goes through `fishplate-wire`.
//!
//! - `layout`: the text of a `store` between two of our own
//! - `http`: heads, chunks and answers of HTTP/1.1
//! - `operations`: `store`, `bstore` and `receive`, their WSDL and their arguments
//! - `broadcasts`: those of this rank that others may still miss
//! - `outgoing`: what a sender says and hears
//! - `incoming`: a connection from a rank or a client; `answers`: what it says; `known_head`: the head that all messages of a rank have; `reception`: what all
//!   connections share
//! - `client_call`: a call that is read by `fishplate-wire`; `clients`: who counts its calls
//! - `endpoint`: an address, and who is behind it
//! - `transport`: all of it together
//!
//! Why it is so: docs/decisions/0018.

mod answers;
mod broadcasts;
mod client_call;
mod clients;
mod endpoint;
mod http;
mod incoming;
mod known_head;
mod layout;
mod operations;
mod outgoing;
mod reception;
mod transport;

pub use endpoint::Endpoint;
pub use operations::NAMESPACE;
pub use transport::Soap;
