//! WSDL 1.1 for a service: document/literal wrapped, in one file, as nine toolkits import it.

use fishplate_contract::{Interface, Service};

use super::View;

/// The WSDL of a service at a public address.
pub fn write(service: &Service, interface: &Interface, view: View, address: &str) -> String {
    todo!("{service:?} {interface:?} {view:?} {address}")
}

/// The soapAction of an operation: `NAMESPACE/NAME` for a URL, `NAMESPACE#NAME` else.
pub fn action(namespace: &str, name: &str) -> String {
    let separator = if namespace.contains("://") { "/" } else { "#" };
    format!("{}{separator}{name}", namespace.trim_end_matches(separator))
}
