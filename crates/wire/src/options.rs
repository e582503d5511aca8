//! Our options, which travel as SOAP headers of [`crate::name::OPTIONS`].
