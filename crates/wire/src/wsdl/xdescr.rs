//! The schemas of the view `data=xdescr`, whole in the WSDL: toolkits have nothing to fetch. A file is
//! a choice of elements there, because toolkits can't tell text from elements.

use super::markup::Markup;
use super::schema::{FileType, annotate};
use crate::headers::table;
use crate::name::{WSA, XDESCR, XMIME, XSD};

/// Named type of a file.
pub(super) const DATA: &str = "Data";

/// The message whose parts are the headers that a call may have.
pub(super) const HEADERS_MESSAGE: &str = "Options";

/// The namespaces that the service's own schema imports.
pub(super) const IMPORTS: [(&str, &str); 2] = [("xmlns:wsa", WSA), ("xmlns:x", XDESCR)];

/// The schemas of WS-Addressing, of what stands for a file, and of the headers of a call.
pub(super) fn write_schemas(to: &mut Markup, file: FileType) {
    write_addressing(to);
    write_values(to, file);
    table::write_schemas(to);
}

/// What is used of the schema of WS-Addressing 1.0 (2006-03), as it is there.
fn write_addressing(to: &mut Markup) {
    let attributes = [
        ("targetNamespace", WSA),
        ("elementFormDefault", "qualified"),
        ("attributeFormDefault", "unqualified"),
        ("xmlns:xs", XSD),
        ("xmlns:tns", WSA),
    ];
    to.open("xs:schema", &attributes);
    // The bindings of CXF look for the latter three.
    for name in ["EndpointReference", "ReplyTo", "From", "FaultTo"] {
        to.empty("xs:element", &[("name", name), ("type", "tns:EndpointReferenceType")]);
    }
    to.open("xs:complexType", &[("name", "EndpointReferenceType")]);
    to.open("xs:sequence", &[]);
    to.empty("xs:element", &[("name", "Address"), ("type", "tns:AttributedURIType")]);
    for optional in ["tns:ReferenceParameters", "tns:Metadata"] {
        to.empty("xs:element", &[("ref", optional), ("minOccurs", "0")]);
    }
    any(to, "##other");
    to.close();
    any_attribute(to);
    to.close();
    for (name, of) in
        [("ReferenceParameters", "ReferenceParametersType"), ("Metadata", "MetadataType")]
    {
        to.empty("xs:element", &[("name", name), ("type", &format!("tns:{of}"))]);
        to.open("xs:complexType", &[("name", of)]);
        to.open("xs:sequence", &[]);
        any(to, "##any");
        to.close();
        any_attribute(to);
        to.close();
    }
    to.open("xs:complexType", &[("name", "AttributedURIType")]);
    to.open("xs:simpleContent", &[]);
    to.open("xs:extension", &[("base", "xs:anyURI")]);
    any_attribute(to);
    to.close();
    to.close();
    to.close();
    to.close();
}

fn any(to: &mut Markup, namespace: &str) {
    let attributes = [
        ("namespace", namespace),
        ("processContents", "lax"),
        ("minOccurs", "0"),
        ("maxOccurs", "unbounded"),
    ];
    to.empty("xs:any", &attributes);
}

fn any_attribute(to: &mut Markup) {
    to.empty("xs:anyAttribute", &[("namespace", "##other"), ("processContents", "lax")]);
}

/// What stands for a file. `Length` and `Digest` in the metadata of a reference are not declared: zeep
/// keeps elements that it does not know, and so gives on a reference as it came.
fn write_values(to: &mut Markup, file: FileType) {
    let mut attributes = vec![
        ("targetNamespace", XDESCR),
        ("elementFormDefault", "qualified"),
        ("xmlns:xs", XSD),
        ("xmlns:xmime", XMIME),
    ];
    attributes.extend(file.declaration());
    to.open("xs:schema", &attributes);
    file.import(to);
    let named = [("name", "Value"), ("type", file.name())];
    to.open("xs:element", &named.into_iter().chain(file.attributes()).collect::<Vec<_>>());
    annotate(to, "The bytes themselves.", &[], &[]);
    to.close();
    to.open("xs:element", &[("name", "XMLData")]);
    to.open("xs:complexType", &[]);
    annotate(to, "An XML file: its root element.", &[], &[]);
    to.open("xs:sequence", &[]);
    to.empty("xs:any", &[("namespace", "##any"), ("processContents", "lax")]);
    to.close();
    to.close();
    to.close();
    to.close();
}

/// A file in the message or elsewhere (paper 000, section 4.5).
pub(super) fn write_data(to: &mut Markup) {
    to.open("xs:complexType", &[("name", DATA)]);
    let text = format!(
        "A file: its bytes, or an XML file's root element, or the address where it is. The Metadata of \
         an EndpointReference may hold {{{XDESCR}}}Length, a number of bytes, and {{{XDESCR}}}Digest, \
         sha-256=:BASE64: or sha-512=:BASE64: (RFC 9530)."
    );
    annotate(to, &text, &[], &[]);
    to.open("xs:choice", &[]);
    for element in ["x:Value", "x:XMLData", "wsa:EndpointReference"] {
        to.empty("xs:element", &[("ref", element)]);
    }
    to.close();
    to.empty("xs:attribute", &[("name", "name"), ("type", "xs:string")]);
    to.close();
}
