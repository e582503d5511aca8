//! WSDL 1.1 for a service: document/literal wrapped, in one file, as nine toolkits import it.
//!
//! What they need (each was seen to fail otherwise): the SOAP 1.1 port first and complete; prefixes
//! that a schema uses declared on the schema; binary as `xs:base64Binary` with
//! `xmime:expectedContentTypes` (Java gets a `DataHandler`); no import; no default values and no
//! numeric facets in the schema (generated code would act on them before we can answer clearly):
//! these are told in the documentation, and for our own client in `xs:appinfo`.

use fishplate_contract::{DataType, Exposed, Interface, Parameter, Service};

use super::markup::Markup;
use super::schema;
use super::{Binding, View};
use crate::detail::FAULT_ELEMENT;
use crate::name::{WSDL, WSDL_DIME, WSDL_MIME, WSDL_SOAP_11, WSDL_SOAP_12};

/// Transport of a binding (WSDL 1.1 section 3.3).
const HTTP: &str = "http://schemas.xmlsoap.org/soap/http";

/// The envelope first, then what it refers to, and nothing more (WSDL extension for SOAP in DIME).
const CLOSED_LAYOUT: &str = "http://schemas.xmlsoap.org/ws/2002/04/dime/closed-layout";

/// Local name of the fault's message.
const FAULT_MESSAGE: &str = "FaultMessage";

/// The WSDL of a service at a public address.
pub fn write(service: &Service, interface: &Interface, view: View, address: &str) -> String {
    let mut to = Markup::new();
    let mut attributes = vec![
        ("name", service.name.as_str()),
        ("targetNamespace", service.namespace.as_str()),
        ("xmlns:wsdl", WSDL),
        ("xmlns:soap", WSDL_SOAP_11),
    ];
    attributes.push(match view.binding {
        Binding::Soap => ("xmlns:soap12", WSDL_SOAP_12),
        Binding::Swa => ("xmlns:mime", WSDL_MIME),
        Binding::Dime => ("xmlns:dime", WSDL_DIME),
    });
    attributes.push(("xmlns:tns", &service.namespace));
    to.open("wsdl:definitions", &attributes);
    to.text("wsdl:documentation", &[], &title_and_documentation(service));
    to.open("wsdl:types", &[]);
    schema::write(&mut to, &service.namespace, interface, view);
    to.close();
    for exposed in &interface.exposed {
        write_messages(&mut to, &exposed.name);
    }
    write_message(&mut to, FAULT_MESSAGE, FAULT_ELEMENT, FAULT_ELEMENT);
    write_port_type(&mut to, service, interface);
    let ports = Port::of(view.binding);
    for port in ports {
        write_binding(&mut to, *port, service, interface);
    }
    write_service(&mut to, service, ports, &view.address(address));
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

fn port_type(service: &Service) -> String {
    format!("{}PortType", service.name)
}

fn write_port_type(to: &mut Markup, service: &Service, interface: &Interface) {
    to.open("wsdl:portType", &[("name", &port_type(service))]);
    for Exposed { name, documentation, .. } in &interface.exposed {
        to.open("wsdl:operation", &[("name", name)]);
        if !documentation.is_empty() {
            to.text("wsdl:documentation", &[], documentation);
        }
        to.empty("wsdl:input", &[("message", &format!("tns:{name}Request"))]);
        to.empty("wsdl:output", &[("message", &format!("tns:{name}Response"))]);
        let message = format!("tns:{FAULT_MESSAGE}");
        to.empty("wsdl:fault", &[("name", FAULT_ELEMENT), ("message", &message)]);
        to.close();
    }
    to.close();
}

/// A port and its binding: a SOAP version, and how messages with files are packaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Soap11,
    Soap12,
    Swa,
    Dime,
}

impl Port {
    fn of(binding: Binding) -> &'static [Self] {
        match binding {
            Binding::Soap => &[Self::Soap11, Self::Soap12],
            Binding::Swa => &[Self::Swa],
            Binding::Dime => &[Self::Dime],
        }
    }

    /// Name of an element of the binding's extension, and that of the binding itself.
    fn element(self, local: &'static str) -> &'static str {
        match (self, local) {
            (Self::Soap12, "binding") => "soap12:binding",
            (Self::Soap12, "operation") => "soap12:operation",
            (Self::Soap12, "body") => "soap12:body",
            (Self::Soap12, "fault") => "soap12:fault",
            (Self::Soap12, _) => "soap12:address",
            (_, "binding") => "soap:binding",
            (_, "operation") => "soap:operation",
            (_, "body") => "soap:body",
            (_, "fault") => "soap:fault",
            (..) => "soap:address",
        }
    }

    /// The name of both.
    fn name(self, service: &Service) -> String {
        let kind = match self {
            Self::Soap11 => "Soap11",
            Self::Soap12 => "Soap12",
            Self::Swa => "Swa",
            Self::Dime => "Dime",
        };
        format!("{}{kind}", service.name)
    }
}

fn write_binding(to: &mut Markup, port: Port, service: &Service, interface: &Interface) {
    let port_type = format!("tns:{}", port_type(service));
    to.open("wsdl:binding", &[("name", &port.name(service)), ("type", &port_type)]);
    to.empty(port.element("binding"), &[("style", "document"), ("transport", HTTP)]);
    for exposed in &interface.exposed {
        let action = action(&service.namespace, &exposed.name);
        to.open("wsdl:operation", &[("name", &exposed.name)]);
        to.empty(port.element("operation"), &[("soapAction", &action), ("style", "document")]);
        let signature = &exposed.signature;
        for (direction, parameters) in
            [("wsdl:input", &signature.inputs), ("wsdl:output", &signature.outputs)]
        {
            to.open(direction, &[]);
            write_body(to, port, parameters.iter().any(is_attached));
            to.close();
        }
        to.open("wsdl:fault", &[("name", FAULT_ELEMENT)]);
        to.empty(port.element("fault"), &[("name", FAULT_ELEMENT), ("use", "literal")]);
        to.close();
        to.close();
    }
    to.close();
}

/// What a value is that the bindings of attachments attach.
fn is_attached(parameter: &Parameter) -> bool {
    match &parameter.data_type {
        DataType::Record(fields) => fields.iter().any(is_attached),
        DataType::Array(_) => true,
        other => other.is_binary(),
    }
}

fn write_body(to: &mut Markup, port: Port, attached: bool) {
    let body = |to: &mut Markup| to.empty(port.element("body"), &[("use", "literal")]);
    match port {
        // Without it a sender may not attach anything (WS-I Attachments Profile 1.0, R2901).
        Port::Swa if attached => {
            to.open("mime:multipartRelated", &[]);
            to.open("mime:part", &[]);
            body(to);
            to.close();
            to.close();
        }
        Port::Dime if attached => {
            to.empty("dime:message", &[("layout", CLOSED_LAYOUT), ("wsdl:required", "true")]);
            body(to);
        }
        _ => body(to),
    }
}

fn write_service(to: &mut Markup, service: &Service, ports: &[Port], address: &str) {
    to.open("wsdl:service", &[("name", &service.name)]);
    for port in ports {
        let name = port.name(service);
        to.open("wsdl:port", &[("name", &name), ("binding", &format!("tns:{name}"))]);
        to.empty(port.element("address"), &[("location", address)]);
        to.close();
    }
    to.close();
}

/// The soapAction of an operation: `NAMESPACE/NAME` for a URL, `NAMESPACE#NAME` else.
pub fn action(namespace: &str, name: &str) -> String {
    let separator = if namespace.contains("://") { "/" } else { "#" };
    format!("{}{separator}{name}", namespace.trim_end_matches(separator))
}
