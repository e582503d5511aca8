//! XML: a push tokenizer for what comes in, and escaping for what goes out.
//!
//! The tokenizer takes chunks cut anywhere and copies nothing but what is cut: text is passed on
//! as slices of the chunk, found by `memchr`. It reads what SOAP allows (SOAP 1.2 part 1 section
//! 5): no DOCTYPE, no processing instruction, the five predefined entities and character
//! references. Namespaces are resolved (Namespaces in XML 1.0).

mod decode;
mod escape;
mod namespaces;
mod run;
mod tag;
mod tokenizer;

pub use decode::charset;
pub(crate) use escape::{is_space, push_attribute, push_text, unfit};
pub use namespaces::Namespaces;
pub(crate) use run::RunHandler;
pub use run::RunNames;
pub(crate) use tag::is_ncname;
pub use tag::{Attribute, StartTag};
pub(crate) use tokenizer::end_tag_len;
pub use tokenizer::{Handler, Tokenizer};

use fishplate_contract::{Fault, FaultCode};

/// What is wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum XmlError {
    #[error("the message is not well-formed XML: {what}, at byte {at}")]
    Malformed { what: String, at: u64 },
    #[error("the message holds {what}, which SOAP forbids, at byte {at}")]
    Forbidden { what: &'static str, at: u64 },
}

impl From<XmlError> for Fault {
    fn from(error: XmlError) -> Self {
        let code = match error {
            XmlError::Malformed { .. } => FaultCode::MalformedMessage,
            XmlError::Forbidden { .. } => FaultCode::ForbiddenContent,
        };
        Self::new(code, error.to_string())
    }
}
