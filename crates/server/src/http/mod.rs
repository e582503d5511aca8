//! HTTP/1.1: connections, bodies and their limits. What a request means is the faces' affair.

pub mod body;
mod connections;
mod direct;
mod file;
mod linger;
mod listen;
mod message;
pub(crate) mod origin;
mod reply;
mod route;
mod stall;
mod timer;

pub use file::Section;
pub use listen::{Listening, bind};
pub use reply::{Reply, ReplyBody};
pub(crate) use route::not_for_us;
pub use route::respond;
