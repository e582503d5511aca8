//! SOAP on the wire: bytes to calls and back. Sans-IO: no socket, no runtime, no file. Whoever
//! drives it pushes chunks as they come and streams segments as they are wanted, so memory stays
//! bounded whatever the size of a payload.
//!
//! The data's way in: [`unpack`] (chunks to a [`UnpackedMessage`]), [`read`](mod@read) (a checked [`SoapRequest`]),
//! [`bind`](mod@bind) (arguments). The way out: [`write`](mod@write) (an [`Envelope`]),
//! [`pack`](mod@pack) (a content type and segments).
//!
//! Reading order:
//!
//! - [`limits`]: what a message may not exceed
//! - [`name`]: qualified names and the namespaces we know
//! - [`media`]: media types and their parameters
//! - [`base64`]: base64 in a stream, both ways
//! - `number`: the numbers of arrays as text, both ways
//! - [`xml`]: a push tokenizer, and writing
//! - [`spool`]: where large payloads go
//! - [`packaging`]: plain XML, MTOM, SOAP with Attachments and DIME; others slot in here
//! - [`envelope`]: headers and body, as data
//! - [`unpack`]: chunks to a parcel
//! - `headers`: the headers we understand, a table
//! - [`read`](mod@read), [`bind`](mod@bind): a parcel to a request to arguments
//! - [`write`](mod@write), [`detail`], [`pack`](mod@pack): an outcome to an envelope to segments
//! - [`form`]: forms of HTML, which are no SOAP but have parts as well
//! - [`encode`], [`items`], [`outgoing`]: segments to the bytes that are sent
//! - [`wsdl`]: a service's description, both ways

pub mod base64;
pub mod bind;
pub mod detail;
pub mod encode;
pub mod envelope;
pub mod form;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod headers;
pub mod items;
pub mod limits;
pub mod media;
pub mod name;
mod number;
pub mod outgoing;
pub mod pack;
pub mod packaging;
mod quoted;
pub mod read;
pub mod spool;
pub mod unpack;
pub mod write;
pub mod wsdl;
pub mod xml;

pub use base64::Base64Encoder;
pub use bind::{SoapReply, bind, bind_reply};
pub use encode::{Encoder, Encoding};
pub use envelope::{ArrayForm, Body, Envelope, SoapVersion};
pub use form::{FormEvent, FormField, FormReader};
pub use headers::security::{SecurityHeader, TokenPassword, UsernameToken};
pub use items::ItemFormat;
pub use limits::WireLimits;
pub use name::QName;
pub use outgoing::{BodyStep, OutgoingBody, Segment};
pub use pack::{PackedMessage, pack, pack_reply};
pub use packaging::Packaging;
pub use read::{SoapRequest, read};
pub use spool::SpoolSink;
pub use unpack::{ExpectedTable, ExpectedTypes, MessageHead, UnpackedMessage, Unpacker};
pub use write::{ReplyForm, RequestForm, write_fault, write_reply, write_request};
