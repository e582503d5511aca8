//! The faces of a server. Each enters at a call and leaves at an outcome.

pub mod data;
pub mod gateway;
pub mod html;
pub mod mcp;
pub mod metrics;
pub mod ogc;
pub(crate) mod passage;
pub mod quota;
pub mod sites;
pub mod soap;
pub(crate) mod whole_body;
