//! What people see.

pub(crate) mod diagnostics;
