//! Requests: from templates, and from any WSDL, of which a template is made too.
//!
//! - `template`: bodies with words in braces, filled for each request
//! - `outgoing`: the bytes of one request
//! - `wsdl`: the template of an operation that a WSDL describes

pub(crate) mod outgoing;
mod template;
pub(crate) mod wsdl;

pub(crate) use template::RequestId;
pub use template::{Template, TemplateError};
