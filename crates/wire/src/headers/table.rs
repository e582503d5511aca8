//! All kinds of header blocks, and what is done with the blocks of a message by asking each kind.

use fishplate_contract::{Argument, CallOptions, Fault, FaultCode, SubmittedJob};

use super::addressing::WsAddressing;
use super::context::WsContext;
use super::explanation::Explanation;
use super::options::Options;
use super::security::WsSecurity;
use crate::envelope::{HeaderBlock, SoapVersion, XmlElement};
use crate::name::QName;
use crate::write::{ReplyForm, RequestForm};
use crate::wsdl::Markup;

/// A kind of header blocks, told apart by their namespaces.
pub(crate) trait HeaderKind: Sync {
    /// Its namespaces: a block of them is kept whole when a message is read, of others the name only.
    fn namespaces(&self) -> &'static [&'static str];

    /// Whether a block of its namespaces is understood in a request.
    fn understands(&self, block: &XmlElement) -> bool;

    /// What the blocks of a request ask for.
    ///
    /// # Errors
    /// What is wrong with a block.
    fn read(&self, _: &[HeaderBlock], _: &mut CallOptions) -> Result<(), Fault> {
        Ok(())
    }

    /// The blocks of a request.
    fn request(&self, _: &RequestForm) -> Vec<HeaderBlock> {
        Vec::new()
    }

    /// The blocks of an answer to a request with the blocks [`ReplyForm::headers`].
    fn answer(&self, _: &ReplyForm, _: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        Vec::new()
    }

    /// Its blocks that a call may have, by their names in the first of its namespaces: the view
    /// `data=xdescr` of a WSDL publishes them.
    fn published(&self) -> &'static [&'static str] {
        &[]
    }

    /// Writes the schema of the namespace of what is published.
    fn write_schema(&self, _: &mut Markup) {}

    /// The codes, outermost first, of a fault that is about the blocks of a request; none if it is not
    /// about those of this kind.
    fn fault_codes(&self, _: &[HeaderBlock], _: FaultCode) -> Vec<QName> {
        Vec::new()
    }
}

/// The order is that of the blocks in an answer, and in which requests are checked.
const TABLE: &[&dyn HeaderKind] = &[
    &WsAddressing,
    &Options,
    &WsContext,
    &WsSecurity,
    &Explanation,
    #[cfg(test)]
    &super::sample::Sample,
];

/// What is answered.
pub(crate) enum HeaderReply<'a> {
    /// A call or a verb, by its outputs.
    Results {
        /// Namespace of the service.
        namespace: &'a str,
        /// Name of the wrapper.
        wrapper: &'a str,
        outputs: &'a [Argument],
        /// The job that they are of, if the caller may ask for it again.
        job: Option<SubmittedJob>,
    },
    Fault(&'a Fault),
}

/// The kind of the blocks of a namespace.
fn of_namespace(namespace: &str) -> Option<&'static dyn HeaderKind> {
    TABLE.iter().copied().find(|header| header.namespaces().contains(&namespace))
}

/// Whether a block of this namespace is kept whole.
pub(crate) fn keeps(namespace: &str) -> bool {
    of_namespace(namespace).is_some()
}

/// Names of the blocks of a request that are for us, must be understood, and are not.
pub(crate) fn not_understood(
    version: SoapVersion,
    headers: &[HeaderBlock],
) -> impl Iterator<Item = &QName> {
    let unknown = move |header: &&HeaderBlock| {
        let block = &header.element;
        header.must_understand
            && is_for_us(version, header.role.as_deref())
            && !of_namespace(&block.name.namespace).is_some_and(|kind| kind.understands(block))
    };
    headers.iter().filter(unknown).map(|header| &header.element.name)
}

/// SOAP 1.1 section 4.2.2, SOAP 1.2 part 1 section 2.2.
pub(super) fn is_for_us(version: SoapVersion, role: Option<&str>) -> bool {
    match (version, role.map(str::trim)) {
        (_, None | Some("")) => true,
        (SoapVersion::V11, Some(actor)) => actor == "http://schemas.xmlsoap.org/soap/actor/next",
        (SoapVersion::V12, Some(role)) => {
            let role = role.strip_prefix("http://www.w3.org/2003/05/soap-envelope/role/");
            matches!(role, Some("next" | "ultimateReceiver"))
        }
    }
}

/// What the blocks of a request ask for.
///
/// # Errors
/// `MustUnderstand`, or what is wrong with a block.
pub(crate) fn read(version: SoapVersion, headers: &[HeaderBlock]) -> Result<CallOptions, Fault> {
    if let Some(name) = not_understood(version, headers).next() {
        let message = format!("the header {name} is marked mustUnderstand, but is not understood");
        return Err(Fault::new(FaultCode::MustUnderstand, message));
    }
    let mut options = CallOptions::default();
    TABLE.iter().try_for_each(|header| header.read(headers, &mut options))?;
    Ok(options)
}

/// The blocks of a request.
pub(crate) fn request(form: &RequestForm) -> Vec<HeaderBlock> {
    TABLE.iter().flat_map(|header| header.request(form)).collect()
}

/// The blocks of an answer.
pub(crate) fn answer(form: &ReplyForm, answer: &HeaderReply<'_>) -> Vec<HeaderBlock> {
    TABLE.iter().flat_map(|header| header.answer(form, answer)).collect()
}

/// A block that a call may have, as a WSDL publishes it.
pub(crate) struct PublishedHeader {
    /// Prefix of its namespace.
    pub(crate) prefix: String,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
}

/// All blocks that a call may have.
pub(crate) fn published() -> Vec<PublishedHeader> {
    let kinds = TABLE.iter().filter(|kind| !kind.published().is_empty()).enumerate();
    let blocks = kinds.flat_map(|(number, kind)| {
        let prefix = if number == 0 { "o".to_owned() } else { format!("o{}", number + 1) };
        let namespace = kind.namespaces()[0];
        kind.published().iter().map(move |name| PublishedHeader {
            prefix: prefix.clone(),
            namespace,
            name,
        })
    });
    blocks.collect()
}

/// Writes the schemas of all that is published.
pub(crate) fn write_schemas(to: &mut Markup) {
    TABLE.iter().for_each(|kind| kind.write_schema(to));
}

/// The codes, outermost first, of a fault that is about the blocks of a request; empty if it is not.
pub(crate) fn fault_codes(headers: &[HeaderBlock], code: FaultCode) -> Vec<QName> {
    let mut codes = TABLE.iter().map(|header| header.fault_codes(headers, code));
    codes.find(|codes| !codes.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{OPTIONS, WSA};

    fn block(namespace: &str, local: &str) -> HeaderBlock {
        let element = XmlElement::with_text(QName::new(namespace, local), "x");
        HeaderBlock { must_understand: true, ..HeaderBlock::optional(element) }
    }

    #[test]
    fn a_namespace_is_of_one_kind() {
        let all: Vec<&str> = TABLE.iter().flat_map(|header| header.namespaces()).copied().collect();
        let distinct: std::collections::HashSet<&&str> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }

    #[test]
    fn only_headers_for_us_must_be_understood() {
        let unknown = |version, role: Option<&str>| {
            let block = HeaderBlock { role: role.map(str::to_owned), ..block("urn:x", "Security") };
            not_understood(version, &[block]).count()
        };
        assert_eq!(unknown(SoapVersion::V11, None), 1);
        let next = "http://schemas.xmlsoap.org/soap/actor/next";
        assert_eq!(unknown(SoapVersion::V11, Some(next)), 1);
        assert_eq!(unknown(SoapVersion::V11, Some("urn:somebody")), 0);
        let next = "http://www.w3.org/2003/05/soap-envelope/role/next";
        assert_eq!(unknown(SoapVersion::V12, Some(next)), 1);
        assert_eq!(unknown(SoapVersion::V12, Some("urn:somebody")), 0);
        for (namespace, local, known) in
            [(WSA, "To", true), (OPTIONS, "key", true), (OPTIONS, "warp", false)]
        {
            let told = not_understood(SoapVersion::V12, &[block(namespace, local)]).count();
            assert_eq!(told == 0, known, "{local}");
        }
    }
}
