//! HTTP/1.1: connections, bodies and their limits. What a request means is the faces' affair.

pub(crate) mod accept;
pub mod body;
pub(crate) mod connections;
mod direct;
mod file;
mod listen;
mod message;
pub(crate) mod origin;
mod relay;
mod reply;
mod repoll;
mod route;
pub mod sender;
pub(crate) mod timeout;
mod timer;
pub mod tls;

pub use file::BodySection;
pub use listen::{Listener, bind};
pub use reply::{HttpBody, HttpResponse};
pub(crate) use reply::{put, reply_with};
pub use route::respond;
pub(crate) use route::{content_coding, not_for_us};
