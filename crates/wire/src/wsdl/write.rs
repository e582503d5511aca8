//! WSDL 1.1 for a service: document/literal wrapped, in one file, as nine toolkits import it.
//!
//! What they need (each was seen to fail otherwise): the SOAP 1.1 port first and complete; prefixes
//! that a schema uses declared on the schema; binary as `xs:base64Binary` with
//! `xmime:expectedContentTypes` (Java gets a `DataHandler`); no import, but of schemas in the same
//! file where a view needs them; no default values and no
//! numeric facets in the schema (generated code would act on them before we can answer clearly):
//! these are told in the documentation, and for our own client in `xs:appinfo`.

use fishplate_contract::{Interface, Service, VerbDefinition};

use super::bound::BindingDefinition;
use super::markup::Markup;
use super::schema;
use super::view::{DataView, View};
use super::xdescr;
use crate::detail::FAULT_ELEMENT;
use crate::headers;
use crate::headers::table::PublishedHeader;
use crate::name::{WSDL, WSDL_SOAP_11, WSDL_SOAP_12};

/// Transport of a binding (WSDL 1.1 section 3.3).
const HTTP: &str = "http://schemas.xmlsoap.org/soap/http";

/// Name of the fault.
const FAULT: &str = "fault";

/// Local name of its message.
const FAULT_MESSAGE: &str = "FaultMessage";

/// The WSDL of a service at a public address.
pub fn write(service: &Service, interface: &Interface, view: View, address: &str) -> String {
    let mut to = Markup::new();
    let bindings = BindingDefinition::of(view.binding);
    let mut attributes: Vec<(&str, &str)> = vec![
        ("name", &service.name),
        ("targetNamespace", &service.namespace),
        ("xmlns:wsdl", WSDL),
        ("xmlns:soap", WSDL_SOAP_11),
        ("xmlns:soap12", WSDL_SOAP_12),
        ("xmlns:tns", &service.namespace),
    ];
    attributes.extend(bindings.iter().filter_map(|bound| bound.declaration()));
    let published = match view.data {
        DataView::Plain => Vec::new(),
        DataView::Xdescr => headers::table::published(),
    };
    let mut prefixes: Vec<(String, &str)> =
        published.iter().map(|it| (format!("xmlns:{}", it.prefix), it.namespace)).collect();
    prefixes.dedup();
    attributes.extend(prefixes.iter().map(|(prefix, namespace)| (prefix.as_str(), *namespace)));
    let headers: Vec<&str> = published.iter().map(|it| it.name).collect();
    to.open("wsdl:definitions", &attributes);
    to.text("wsdl:documentation", &[], &title_and_documentation(service));
    to.open("wsdl:types", &[]);
    schema::write(&mut to, &service.namespace, interface, view);
    to.close();
    for definition in &interface.verbs {
        write_messages(&mut to, &definition.name);
    }
    write_message(&mut to, FAULT_MESSAGE, FAULT, FAULT_ELEMENT);
    if !published.is_empty() {
        write_headers(&mut to, &published);
    }
    write_port_type(&mut to, service, interface);
    for bound in bindings {
        write_binding(&mut to, *bound, &headers, service, interface);
    }
    write_service(&mut to, service, bindings, &view.address(address));
    to.finish()
}

/// The title, an empty line, the documentation.
fn title_and_documentation(service: &Service) -> String {
    if service.documentation.is_empty() {
        service.title.clone()
    } else {
        format!("{}\n\n{}", service.title, service.documentation)
    }
}

fn write_messages(to: &mut Markup, name: &str) {
    let response = format!("{name}Response");
    write_message(to, &format!("{name}Request"), "parameters", name);
    write_message(to, &response, "parameters", &response);
}

fn write_message(to: &mut Markup, message: &str, part: &str, element: &str) {
    to.open("wsdl:message", &[("name", message)]);
    to.empty("wsdl:part", &[("name", part), ("element", &format!("tns:{element}"))]);
    to.close();
}

/// What may stand beside the arguments of a call.
fn write_headers(to: &mut Markup, headers: &[PublishedHeader]) {
    to.open("wsdl:message", &[("name", xdescr::HEADERS_MESSAGE)]);
    for PublishedHeader { prefix, name, .. } in headers {
        to.empty("wsdl:part", &[("name", name), ("element", &format!("{prefix}:{name}"))]);
    }
    to.close();
}

fn port_type(service: &Service) -> String {
    format!("{}PortType", service.name)
}

fn write_port_type(to: &mut Markup, service: &Service, interface: &Interface) {
    to.open("wsdl:portType", &[("name", &port_type(service))]);
    for VerbDefinition { name, documentation, .. } in &interface.verbs {
        to.open("wsdl:operation", &[("name", name)]);
        if !documentation.is_empty() {
            to.text("wsdl:documentation", &[], documentation);
        }
        to.empty("wsdl:input", &[("message", &format!("tns:{name}Request"))]);
        to.empty("wsdl:output", &[("message", &format!("tns:{name}Response"))]);
        let message = format!("tns:{FAULT_MESSAGE}");
        to.empty("wsdl:fault", &[("name", FAULT), ("message", &message)]);
        to.close();
    }
    to.close();
}

fn write_binding(
    to: &mut Markup,
    bound: BindingDefinition,
    headers: &[&str],
    service: &Service,
    interface: &Interface,
) {
    let port_type = format!("tns:{}", port_type(service));
    to.open("wsdl:binding", &[("name", &bound.name(service)), ("type", &port_type)]);
    to.empty(bound.element("binding"), &[("style", "document"), ("transport", HTTP)]);
    for definition in &interface.verbs {
        let action = action(&service.namespace, &definition.name);
        to.open("wsdl:operation", &[("name", &definition.name)]);
        to.empty(bound.element("operation"), &[("soapAction", &action), ("style", "document")]);
        // With an answer headers would change what toolkits give back.
        for (direction, headers) in [("wsdl:input", headers), ("wsdl:output", &[][..])] {
            to.open(direction, &[]);
            bound.write_message(to, headers);
            to.close();
        }
        to.open("wsdl:fault", &[("name", FAULT)]);
        to.empty(bound.element("fault"), &[("name", FAULT), ("use", "literal")]);
        to.close();
        to.close();
    }
    to.close();
}

fn write_service(
    to: &mut Markup,
    service: &Service,
    bindings: &[BindingDefinition],
    address: &str,
) {
    to.open("wsdl:service", &[("name", &service.name)]);
    for bound in bindings {
        let binding = bound.name(service);
        to.open("wsdl:port", &[("name", &binding), ("binding", &format!("tns:{binding}"))]);
        to.empty(bound.element("address"), &[("location", address)]);
        to.close();
    }
    to.close();
}

/// The soapAction of an operation: `NAMESPACE/NAME` for a URL, `NAMESPACE#NAME` else.
pub fn action(namespace: &str, name: &str) -> String {
    let separator = if namespace.contains("://") { "/" } else { "#" };
    format!("{}{separator}{name}", namespace.trim_end_matches(separator))
}
