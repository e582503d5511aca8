//! A parcel to a checked request.

use fishplate_contract::{
    CallOptions, Fault, FaultCode, Interface, OutputChoice, OutputForm, VerbDefinition,
};

use crate::envelope::{Body, Child, HeaderBlock, SoapVersion};
use crate::headers::{addressing, outputs, table};
use crate::name::QName;
use crate::packaging::Packaging;
use crate::unpack::UnpackedMessage;
use crate::wsdl::DataView;

/// A request whose headers are in order.
#[derive(Clone, Debug)]
pub struct SoapRequest {
    /// SOAP version.
    pub version: SoapVersion,
    /// Name of the wrapper element: what is asked for. [`SoapRequest::verb`] checks that it exists.
    pub wrapper: QName,
    /// The values, not yet checked.
    pub children: Vec<Child>,
    /// What the headers ask for.
    pub options: CallOptions,
    /// The headers.
    pub headers: Vec<HeaderBlock>,
    /// SOAPAction or the action parameter, unquoted.
    pub action: Option<String>,
    /// How it was packaged.
    pub packaging: Packaging,
}

/// Checks the headers of a parcel that a server got.
///
/// # Errors
/// `MustUnderstand`, `InvalidAddressing`, `ActionMismatch`, `InvalidValue` for an option,
/// `NoSuchSession`, or `MalformedMessage` if the body holds no call.
pub fn read(unpacked: UnpackedMessage) -> Result<SoapRequest, Fault> {
    let version = unpacked.envelope.version;
    let headers = unpacked.envelope.headers;
    let mut options = table::read(version, &headers)?;
    // Who has the view knows references; in a session what is not chosen stays there anyway.
    let chosen = || options.outputs.iter().any(|choice| choice.name == OutputChoice::ALL);
    if unpacked.reply_form.data == DataView::Xdescr && options.session.is_none() && !chosen() {
        let name = OutputChoice::ALL.to_owned();
        options.outputs.push(OutputChoice { name, form: OutputForm::Auto, to: None });
    }
    let Body::Wrapper { name: wrapper, children } = unpacked.envelope.body else {
        let message = "the Body holds no call: it should hold one element named as an operation";
        return Err(Fault::new(FaultCode::MalformedMessage, message));
    };
    if let Some(action) = &unpacked.action
        && !names(action, &wrapper)
    {
        let message = format!(
            "the SOAP action is {action:?}, but the body asks for {wrapper}: give the soapAction \
             of the WSDL, or an empty one"
        );
        return Err(Fault::new(FaultCode::ActionMismatch, message));
    }
    Ok(SoapRequest {
        version,
        wrapper,
        children,
        options,
        headers,
        action: unpacked.action,
        packaging: unpacked.packaging,
    })
}

/// Whether an action is that of a wrapper: its name, after its namespace and a separator or alone.
fn names(action: &str, wrapper: &QName) -> bool {
    let Some(before) = action.strip_suffix(wrapper.local.as_str()) else { return false };
    let namespace = before.strip_suffix(['/', '#', ':']).unwrap_or(before);
    before.is_empty()
        || before == wrapper.namespace
        || namespace == wrapper.namespace
        || namespace == wrapper.namespace.trim_end_matches(['/', '#', ':'])
}

impl SoapRequest {
    /// The verb that is asked for.
    ///
    /// # Errors
    /// `UnknownOperation`, with the operations there are; `ActionMismatch`; `UnexpectedParameter` or `InvalidValue` for
    /// an output that it was asked to give otherwise than by value and can't.
    pub fn verb<'i>(
        &self,
        namespace: &str,
        interface: &'i Interface,
    ) -> Result<&'i VerbDefinition, Fault> {
        let found = interface.find(&self.wrapper.local);
        let found_here = found.filter(|_| self.wrapper.namespace == namespace);
        let definition = found_here.ok_or_else(|| {
            let names: Vec<&str> =
                interface.verbs.iter().map(|definition| definition.name.as_str()).collect();
            if found.is_some() {
                let message = format!(
                    "operation {} is asked for in the namespace {:?}; this service's is {namespace:?}",
                    self.wrapper.local, self.wrapper.namespace
                );
                return Fault::new(FaultCode::UnknownOperation, message);
            }
            let message = format!(
                "there is no operation {}: the operations are {}, all of the namespace {namespace}",
                self.wrapper,
                names.join(", ")
            );
            Fault::new(FaultCode::UnknownOperation, message)
        })?;
        self.check_action(definition, interface)?;
        outputs::check(&self.options.outputs, definition, interface)?;
        Ok(definition)
    }

    /// Whether `wsa:Action` asks for something else than the body (WS-Addressing 1.0 SOAP binding,
    /// section 6.4.1.6). Toolkits call the same operation in several ways, so one that names none here
    /// is let pass.
    fn check_action(
        &self,
        definition: &VerbDefinition,
        interface: &Interface,
    ) -> Result<(), Fault> {
        let Some(action) = &addressing::read(&self.headers).action else { return Ok(()) };
        let namespace = self.wrapper.namespace.as_str();
        let acts = |definition: &VerbDefinition| acts(action, namespace, &definition.name);
        let other = interface.verbs.iter().find(|other| acts(other));
        match other.filter(|_| !acts(definition)) {
            None => Ok(()),
            Some(other) => {
                let message = format!(
                    "wsa:Action is {action:?}, which is {}, but the body asks for {}: give the \
                     soapAction of the WSDL",
                    other.name, definition.name
                );
                Err(Fault::new(FaultCode::ActionMismatch, message))
            }
        }
    }
}

/// Whether a `wsa:Action` is an operation's: its soapAction, or `NAMESPACE/PORTTYPE/NAMERequest` where
/// a toolkit makes one itself (WS-Addressing 1.0 Metadata, section 4.4.4).
fn acts(action: &str, namespace: &str, name: &str) -> bool {
    let made = action.strip_suffix("Request").and_then(|made| made.strip_suffix(name));
    let made = made.and_then(|made| made.strip_suffix(['/', ':']));
    names(action, &QName::new(namespace, name))
        || made.is_some_and(|made| made.starts_with(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_the_wrapper_in_the_ways_that_toolkits_know() {
        let urn = QName::new("urn:test", "call");
        for good in ["urn:test#call", "urn:test/call", "urn:test:call", "call", "urn:testcall"] {
            assert!(names(good, &urn), "{good}");
        }
        for bad in ["urn:test#kill", "urn:other#call", "urn:test", "urn:test#recall", "#call"] {
            assert!(!names(bad, &urn), "{bad}");
        }
        for good in ["urn:test/testPortType/callRequest", "urn:test:PortType:callRequest"] {
            assert!(acts(good, "urn:test", "call"), "{good}");
            assert!(!acts(good, "urn:test", "all"), "{good}");
        }
        let url = QName::new("http://a.example/b/", "call");
        for good in ["http://a.example/b/call", "http://a.example/b/#call"] {
            assert!(names(good, &url), "{good}");
        }
    }
}
