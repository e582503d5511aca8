//! A WSDL to a description: ours, and reasonable foreign ones.

use fishplate_contract::{Signature, Verb, VerbDefinition, lexical};
use roxmltree::{Document, Node};

use super::types::Types;
use crate::envelope::SoapVersion;
use crate::name::{PARAMETER, QName, WSDL, WSDL_SOAP_11, WSDL_SOAP_12, XSD};
use crate::xml::is_ncname;

/// What a client needs to know of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Short name.
    pub name: String,
    /// Target namespace.
    pub namespace: String,
    /// Full name.
    pub title: String,
    /// What it does.
    pub documentation: String,
    /// Its operations, in the WSDL's order.
    pub operations: Vec<DescribedOperation>,
    /// Where it is, SOAP 1.1 first.
    pub addresses: Vec<(SoapVersion, String)>,
    /// The server is ours: it reads MTOM and our headers.
    pub ours: bool,
}

/// An operation as its WSDL describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedOperation {
    /// Name, verb, documentation and signature.
    pub definition: VerbDefinition,
    /// soapAction; may be empty.
    pub action: String,
    /// Wrapper element of the request.
    pub request: QName,
    /// Wrapper element of the response.
    pub response: QName,
    /// The values' elements are in the wrapper's namespace (`elementFormDefault`).
    pub qualified: bool,
    /// Names of the elements of arrays among the inputs, outermost first, by the input's name.
    pub items: Vec<(String, Vec<QName>)>,
    /// Element of the declared fault's detail.
    pub fault: Option<QName>,
}

/// Why a WSDL cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WsdlError {
    /// It is not XML.
    #[error("the description is not XML: {0}")]
    NotXml(String),
    /// It is not WSDL 1.1, or a part of it is missing.
    #[error("the description is not usable: {0}")]
    Unusable(String),
}

pub(super) fn unusable(what: impl Into<String>) -> WsdlError {
    WsdlError::Unusable(what.into())
}

/// The name of a definition. Outputs, operations and services become names of files: what is no name might lead elsewhere.
pub(super) fn name_of<'a>(node: Node<'a, '_>) -> Result<&'a str, WsdlError> {
    let kind = node.tag_name().name();
    let name = node.attribute("name").ok_or_else(|| unusable(format!("a {kind} has no name")))?;
    if is_ncname(name) {
        return Ok(name);
    }
    let shown = lexical::shortened(name);
    Err(unusable(format!(
        "{shown:?} is no name of a {kind}: one is of letters, digits, '_', '-' and '.'"
    )))
}

/// Reads a WSDL 1.1.
///
/// # Errors
/// [`WsdlError`] if it is none, or none of its operations is document/literal wrapped.
pub fn read(text: &str) -> Result<Description, WsdlError> {
    let document = Document::parse(text).map_err(|error| WsdlError::NotXml(error.to_string()))?;
    let root = document.root_element();
    if !root.has_tag_name((WSDL, "definitions")) {
        let name = root.tag_name().name();
        return Err(unusable(format!("its root element is {name}, not WSDL 1.1's definitions")));
    }
    let definitions = Definitions { root };
    let service = definitions.children("service").next();
    let service = service.ok_or_else(|| unusable("it has no service"))?;
    let ports = definitions.ports(service)?;
    let ours = is_ours(root);
    let documentation = documentation(root, ours);
    let (title, rest) = documentation.split_once("\n\n").unwrap_or((&documentation, ""));
    let name = name_of(service)?;
    Ok(Description {
        name: name.to_owned(),
        namespace: root.attribute("targetNamespace").unwrap_or_default().to_owned(),
        title: if title.is_empty() { name.to_owned() } else { title.to_owned() },
        documentation: rest.to_owned(),
        operations: definitions.operations(&ports, ours)?,
        addresses: ports.iter().map(|port| (port.version, port.address.clone())).collect(),
        ours,
    })
}

impl Description {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&DescribedOperation> {
        self.operations.iter().find(|operation| operation.definition.name == name)
    }

    /// The address for a SOAP version.
    pub fn address(&self, version: SoapVersion) -> Option<&str> {
        self.addresses.iter().find(|(of, _)| *of == version).map(|(_, address)| address.as_str())
    }
}

fn is_ours(root: Node<'_, '_>) -> bool {
    let mut appinfo = root.descendants().filter(|node| node.has_tag_name((XSD, "appinfo")));
    appinfo.any(|node| node.attribute("source") == Some(PARAMETER))
}

/// The documentation of a node: ours as it is, others' without the white space around it.
fn documentation(node: Node<'_, '_>, exact: bool) -> String {
    let found = node.children().find(|child| child.has_tag_name((WSDL, "documentation")));
    let text: String = found
        .into_iter()
        .flat_map(|node| node.descendants())
        .filter_map(|node| if node.is_text() { node.text() } else { None })
        .collect();
    if exact { text } else { text.trim().to_owned() }
}

struct Definitions<'a, 'i> {
    root: Node<'a, 'i>,
}

struct Port<'a, 'i> {
    version: SoapVersion,
    address: String,
    binding: Node<'a, 'i>,
}

impl<'a, 'i> Definitions<'a, 'i> {
    fn children(&self, local: &'static str) -> impl Iterator<Item = Node<'a, 'i>> + use<'a, 'i> {
        self.root.children().filter(move |node| node.has_tag_name((WSDL, local)))
    }

    /// A definition by the QName that an attribute holds; a WSDL in one file has one namespace.
    fn named(&self, local: &'static str, qname: &str) -> Result<Node<'a, 'i>, WsdlError> {
        let name = qname.rsplit(':').next().unwrap_or(qname);
        self.children(local)
            .find(|node| node.attribute("name") == Some(name))
            .ok_or_else(|| unusable(format!("it refers to the {local} {qname}, which it lacks")))
    }

    /// The ports that speak SOAP, SOAP 1.1 first.
    fn ports(&self, service: Node<'a, 'i>) -> Result<Vec<Port<'a, 'i>>, WsdlError> {
        let mut ports = Vec::new();
        for port in service.children().filter(|node| node.has_tag_name((WSDL, "port"))) {
            let soap = [(WSDL_SOAP_11, SoapVersion::V11), (WSDL_SOAP_12, SoapVersion::V12)];
            let address = port.children().find_map(|child| {
                let (_, version) = soap
                    .into_iter()
                    .find(|(namespace, _)| child.has_tag_name((*namespace, "address")))?;
                Some((version, child.attribute("location")?.to_owned()))
            });
            let Some((version, address)) = address else { continue };
            let binding = self.named("binding", port.attribute("binding").unwrap_or_default())?;
            ports.push(Port { version, address, binding });
        }
        if ports.is_empty() {
            return Err(unusable("its service has no SOAP port with an address"));
        }
        ports.sort_by_key(|port| port.version == SoapVersion::V12);
        Ok(ports)
    }

    fn operations(
        &self,
        ports: &[Port<'a, 'i>],
        ours: bool,
    ) -> Result<Vec<DescribedOperation>, WsdlError> {
        let binding = ports[0].binding;
        let port_type = self.named("portType", binding.attribute("type").unwrap_or_default())?;
        let types = Types::of(self.root);
        let mut operations = Vec::new();
        let mut reason = unusable("it has no operations");
        let bound = children_named(port_type, "operation");
        for node in bound {
            match self.operation(node, binding, &types, ours) {
                Ok(operation) => operations.push(operation),
                Err(error) => reason = error,
            }
        }
        if operations.is_empty() {
            return Err(reason);
        }
        if ours {
            let names: Vec<String> =
                operations.iter().map(|operation| operation.definition.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for (operation, name) in operations.iter_mut().zip(&names) {
                let (verb, of) = Verb::from_name(name, &names);
                operation.definition.verb = verb;
                operation.definition.operation = of.to_owned();
            }
        }
        Ok(operations)
    }

    fn operation(
        &self,
        node: Node<'a, 'i>,
        binding: Node<'a, 'i>,
        types: &Types<'a, 'i>,
        ours: bool,
    ) -> Result<DescribedOperation, WsdlError> {
        let name = name_of(node)?;
        let action = self.check_style(name, binding)?;
        let request = self.element_of(node, "input", types)?;
        let response = self.element_of(node, "output", types)?;
        let inputs = types.wrapped(&request)?;
        let outputs = types.wrapped(&response)?.parameters;
        let fault = self.element_of(node, "fault", types).ok();
        Ok(DescribedOperation {
            definition: VerbDefinition {
                name: name.to_owned(),
                verb: Verb::Call,
                operation: name.to_owned(),
                documentation: documentation(node, ours),
                signature: Signature { inputs: inputs.parameters, outputs },
            },
            action,
            qualified: types.is_qualified(&request),
            items: inputs.items,
            request,
            response,
            fault,
        })
    }

    /// The soapAction of an operation, if its binding is document/literal.
    fn check_style(&self, name: &str, binding: Node<'a, 'i>) -> Result<String, WsdlError> {
        let soap = |node: &Node<'_, '_>| {
            matches!(node.tag_name().namespace(), Some(WSDL_SOAP_11 | WSDL_SOAP_12))
        };
        let of = |node: Node<'a, 'i>, local: &str| {
            node.descendants().find(|node| soap(node) && node.tag_name().name() == local)
        };
        let bound = children_named(binding, "operation")
            .find(|node| node.attribute("name") == Some(name))
            .ok_or_else(|| unusable(format!("the operation {name} is not bound")))?;
        let operation = of(bound, "operation");
        let style = operation.and_then(|node| node.attribute("style")).or_else(|| {
            let general = binding.children().find(|node| soap(node))?;
            general.attribute("style")
        });
        let encoded = of(bound, "body").and_then(|node| node.attribute("use")) == Some("encoded");
        if style == Some("rpc") || encoded {
            return Err(unusable(format!(
                "the operation {name} is rpc or encoded; only document/literal is spoken"
            )));
        }
        let action = operation.and_then(|node| node.attribute("soapAction"));
        Ok(action.unwrap_or_default().to_owned())
    }

    /// The element that a direction's message is made of.
    fn element_of(
        &self,
        operation: Node<'a, 'i>,
        direction: &'static str,
        types: &Types<'a, 'i>,
    ) -> Result<QName, WsdlError> {
        let name = operation.attribute("name").unwrap_or_default();
        let node = children_named(operation, direction)
            .next()
            .ok_or_else(|| unusable(format!("the operation {name} has no {direction}")))?;
        let message = self.named("message", node.attribute("message").unwrap_or_default())?;
        let element = children_named(message, "part")
            .find_map(|part| Some(types.qname(part, part.attribute("element")?)));
        element.ok_or_else(|| {
            unusable(format!("the {direction} of {name} is no element: it is not document/literal"))
        })
    }
}

fn children_named<'a, 'i>(
    node: Node<'a, 'i>,
    local: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name((WSDL, local)))
}
