//! The faces of a server. Each enters at a call and leaves at an outcome.

pub mod data;
pub mod html;
pub mod metrics;
pub mod soap;

use crate::dispatch::authorise::{DATA, METRICS};

/// First segments of the addresses of faces that are no service's: no service may be called so.
pub(crate) const NAMES: [&str; 2] = [DATA, METRICS];
