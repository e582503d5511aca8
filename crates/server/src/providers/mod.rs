//! What runs the operations of services, one file a kind.

pub mod built_in;
pub mod domain;
pub mod functions;
pub mod program;
pub mod session;
