//! The machine-readable detail of a fault: one element, both ways. It stands in the service's
//! namespace, where its WSDL declares it, or in [`crate::name::FAULT`] where no service is concerned.

use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};

use crate::envelope::XmlElement;
use crate::name::QName;

/// Local name of the element. (Stubs for Go have a type `Fault` already, which is SOAP's.)
pub const FAULT_ELEMENT: &str = "faultDetail";

/// The detail of a fault.
pub(crate) fn write(namespace: &str, fault: &Fault) -> XmlElement {
    let name = |local: &str| QName::new(namespace, local);
    let text = |local: &str, text: String| XmlElement::with_text(name(local), text);
    let mut children =
        vec![text("code", fault.code.name().to_owned()), text("message", fault.message.clone())];
    children.extend(fault.parameter.clone().map(|parameter| text("parameter", parameter)));
    children.extend(fault.limit.as_ref().map(|limit| XmlElement {
        name: name("limit"),
        children: vec![text("name", limit.name.clone()), text("value", limit.value.clone())],
        ..XmlElement::default()
    }));
    children.extend(fault.job.map(|job| text("job", job.to_string())));
    children.extend(fault.exit_code.map(|code| text("exitCode", code.to_string())));
    children.extend(fault.signal.clone().map(|signal| text("signal", signal)));
    children.extend(fault.stderr.clone().map(|stderr| text("stderr", stderr)));
    let retry_after = fault.retry_after.map(|wait| wait.as_secs_f64().to_string());
    children.extend(retry_after.map(|seconds| text("retryAfter", seconds)));
    XmlElement { name: name(FAULT_ELEMENT), children, ..XmlElement::default() }
}

/// The fault that a detail tells; `None` if it is none of ours.
pub(crate) fn read(element: &XmlElement) -> Option<Fault> {
    if element.name.local != FAULT_ELEMENT {
        return None;
    }
    let text = |local: &str| element.child(local).map(|child| child.text.clone());
    let code = FaultCode::from_name(text("code")?.trim())?;
    let mut fault = Fault::new(code, text("message").unwrap_or_default());
    fault.parameter = text("parameter");
    if let Some(limit) = element.child("limit") {
        let text = |local: &str| limit.child(local).map(|child| child.text.clone());
        fault = fault.limit(text("name").unwrap_or_default(), text("value").unwrap_or_default());
    }
    fault.job = text("job").and_then(|job| job.trim().parse().ok());
    fault.exit_code = text("exitCode").and_then(|code| code.trim().parse().ok());
    fault.signal = text("signal");
    fault.stderr = text("stderr");
    fault.retry_after = text("retryAfter")
        .and_then(|seconds| seconds.trim().parse().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_comes_back() {
        for code in FaultCode::ALL {
            let mut fault = Fault::new(*code, "a < b").parameter("x").limit("parts", "3 bytes");
            assert_eq!(read(&write("urn:a", &fault)), Some(fault.clone()));
            fault.job = Some(fishplate_contract::JobId::from_bytes([3; 16]));
            fault.exit_code = Some(-1);
            fault.signal = Some("SIGSEGV".to_owned());
            fault.stderr = Some("line\nline".to_owned());
            fault.retry_after = Some(Duration::from_millis(1500));
            assert_eq!(read(&write("urn:a", &fault)), Some(fault));
        }
        assert_eq!(read(&XmlElement::with_text(QName::new("", FAULT_ELEMENT), "x")), None);
    }
}
