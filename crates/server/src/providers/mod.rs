//! What runs the operations of services, one file a kind.

pub mod functions;
pub mod program;
pub mod session;
