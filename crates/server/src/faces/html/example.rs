//! Commands that call an operation, ready to be pasted.

use std::fmt::Write as _;

use fishplate_contract::{DataType, Operation, Parameter};
use fishplate_wire::wsdl;

use super::escaped;
use crate::host::ServiceEntry;

/// The command for our own client.
pub(super) fn fishplate(entry: &ServiceEntry, operation: &Operation) -> String {
    let mut command = format!("fishplate call {}", entry.url);
    if operation.name != fishplate_contract::interface::SOLE_OPERATION {
        let _ = write!(command, " --operation {}", operation.name);
    }
    for parameter in wanted(operation) {
        let _ = if parameter.data_type.is_binary() {
            write!(command, " {}:FILE", parameter.name)
        } else {
            write!(command, " {}={}", parameter.name, value(parameter))
        };
    }
    for parameter in &operation.signature.outputs {
        let _ = write!(command, " out:{}", parameter.name);
    }
    command
}

/// The command for curl: a SOAP 1.1 message.
pub(super) fn curl(entry: &ServiceEntry, operation: &Operation) -> String {
    let service = entry.service();
    let mut arguments = String::new();
    for parameter in wanted(operation) {
        let text = if parameter.data_type.is_binary() {
            "BASE64 OF THE FILE".to_owned()
        } else {
            escaped(&value(parameter))
        };
        let _ = writeln!(arguments, "      <s:{0}>{text}</s:{0}>", parameter.name);
    }
    format!(
        "curl -s {url} -H 'Content-Type: text/xml; charset=utf-8' \\\n  \
         -H 'SOAPAction: \"{action}\"' --data-binary @- <<'END'\n\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"\n    \
         xmlns:s=\"{namespace}\">\n  <soap:Body>\n    <s:{name}>\n{arguments}    </s:{name}>\n  \
         </soap:Body>\n</soap:Envelope>\nEND",
        url = entry.url,
        action = wsdl::action(&service.namespace, &operation.name),
        namespace = escaped(&service.namespace),
        name = operation.name,
    )
}

fn wanted(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    operation.signature.inputs.iter().filter(|parameter| !parameter.optional)
}

/// A value that the parameter takes.
fn value(parameter: &Parameter) -> String {
    let candidates =
        [parameter.default.as_ref(), parameter.choices.first(), parameter.min.as_ref()];
    if let Some(given) = candidates.into_iter().flatten().next() {
        return given.clone();
    }
    match parameter.data_type {
        DataType::Int | DataType::Long => "1",
        DataType::Float | DataType::Double => "1.5",
        DataType::Bool => "true",
        _ => "text",
    }
    .to_owned()
}
