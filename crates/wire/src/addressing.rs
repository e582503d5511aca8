//! WS-Addressing 1.0 (REC 2006-05-09) and the submission of August 2004: answers relate to their
//! request and go back on its connection, nowhere else.

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{Fault, FaultCode};

use crate::envelope::{Element, HeaderBlock, SoapVersion};
use crate::name::{OPTIONS, QName, WSA, WSA_2004, WSCTX};
use crate::pack::random_id;

/// The addressing headers of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Namespace of the version used; empty if the message has no addressing headers.
    pub namespace: &'static str,
    /// `MessageID`.
    pub message_id: Option<String>,
    /// `RelatesTo` (the first).
    pub relates_to: Option<String>,
    /// `To`.
    pub to: Option<String>,
    /// `Action`.
    pub action: Option<String>,
    /// Results are for nobody: `ReplyTo` is `none`.
    pub no_reply: bool,
    /// Faults are for nobody: `FaultTo` is `none`, or is missing and `ReplyTo` is.
    pub no_fault: bool,
    /// What is wrong with them.
    pub(crate) invalid: Option<Invalid>,
}

/// Why addressing headers are not acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// WS-Addressing 1.0 SOAP binding, section 6.4.1.
    pub(crate) subcode: &'static str,
    pub(crate) message: String,
}

/// Headers of either version that we understand.
const UNDERSTOOD: [&str; 7] =
    ["MessageID", "RelatesTo", "To", "Action", "ReplyTo", "FaultTo", "From"];

/// The addressing headers among these.
pub(crate) fn read(headers: &[HeaderBlock]) -> Addressing {
    let mut addressing = Addressing::default();
    let mut faults = None;
    for HeaderBlock { element, .. } in headers {
        let Some(namespace) = version(element) else { continue };
        addressing.namespace = namespace;
        let slot = match element.name.local.as_str() {
            "ReplyTo" => {
                addressing.no_reply = is_none(address(element));
                continue;
            }
            "FaultTo" => {
                faults = Some(is_none(address(element)));
                continue;
            }
            "MessageID" => &mut addressing.message_id,
            "RelatesTo" => &mut addressing.relates_to,
            "To" => &mut addressing.to,
            "Action" => &mut addressing.action,
            _ => continue,
        };
        let text = trimmed(&element.text);
        if slot.is_none() && !text.is_empty() {
            *slot = Some(text.to_owned());
        }
    }
    addressing.no_fault = faults.unwrap_or(addressing.no_reply);
    addressing.invalid = check(headers).err();
    addressing
}

/// The address in an endpoint reference; empty if it has none.
fn address(reference: &Element) -> &str {
    reference.child("Address").map_or("", |address| trimmed(&address.text))
}

/// The version of WS-Addressing that an element is of.
fn version(element: &Element) -> Option<&'static str> {
    [WSA, WSA_2004].into_iter().find(|namespace| *namespace == element.name.namespace)
}

/// Checks what would make us answer to somebody else, and what is ambiguous.
fn check(headers: &[HeaderBlock]) -> Result<(), Invalid> {
    let mut seen = Vec::new();
    for HeaderBlock { element, .. } in headers {
        if version(element).is_none() {
            continue;
        }
        let local = element.name.local.as_str();
        if local != "RelatesTo" && seen.contains(&&element.name) {
            let message = format!("the addressing header {local} stands twice");
            return Err(Invalid { subcode: "InvalidCardinality", message });
        }
        seen.push(&element.name);
        if matches!(local, "ReplyTo" | "FaultTo") {
            let address = address(element);
            if !is_anonymous(address) && !is_none(address) {
                let message = format!(
                    "{local} names {:?}; answers go back on the connection of their request only: \
                     leave {local} out or give {WSA}/anonymous, or {WSA}/none for no answer",
                    shortened(address)
                );
                let subcode = match address {
                    "" => "MissingAddressInEPR",
                    _ => "OnlyAnonymousAddressSupported",
                };
                return Err(Invalid { subcode, message });
            }
        }
    }
    Ok(())
}

impl Invalid {
    /// The fault that it is.
    pub(crate) fn fault(&self) -> Fault {
        Fault::new(FaultCode::InvalidAddressing, &*self.message)
    }
}

fn is_none(address: &str) -> bool {
    address.strip_prefix(WSA) == Some("/none")
}

fn is_anonymous(address: &str) -> bool {
    let after = |namespace: &str| address.strip_prefix(namespace);
    after(WSA) == Some("/anonymous") || after(WSA_2004) == Some(ANONYMOUS_2004)
}

/// What follows the namespace in the address of whoever is at the other end.
const ANONYMOUS_2004: &str = "/role/anonymous";

/// Names of headers that are for us, must be understood, and are not.
pub(crate) fn not_understood(version: SoapVersion, headers: &[HeaderBlock]) -> Vec<QName> {
    let unknown = |header: &&HeaderBlock| {
        let name = &header.element.name;
        let local = name.local.as_str();
        let known = match name.namespace.as_str() {
            WSA | WSA_2004 => UNDERSTOOD.contains(&local),
            OPTIONS => crate::options::UNDERSTOOD.contains(&local),
            WSCTX => crate::context::is_session(&header.element),
            _ => false,
        };
        header.must_understand && is_for_us(version, header.role.as_deref()) && !known
    };
    headers.iter().filter(unknown).map(|header| header.element.name.clone()).collect()
}

/// SOAP 1.1 section 4.2.2, SOAP 1.2 part 1 section 2.2.
fn is_for_us(version: SoapVersion, role: Option<&str>) -> bool {
    match (version, role.map(str::trim)) {
        (_, None | Some("")) => true,
        (SoapVersion::V11, Some(actor)) => actor == "http://schemas.xmlsoap.org/soap/actor/next",
        (SoapVersion::V12, Some(role)) => {
            let role = role.strip_prefix("http://www.w3.org/2003/05/soap-envelope/role/");
            matches!(role, Some("next" | "ultimateReceiver"))
        }
    }
}

/// The headers of an answer, if the request has a MessageID.
pub(crate) fn answer(request: &Addressing, action: impl FnOnce() -> String) -> Vec<HeaderBlock> {
    let Some(message_id) = &request.message_id else { return Vec::new() };
    let block = |local: &str, text: String| HeaderBlock {
        must_understand: false,
        role: None,
        element: Element::with_text(QName::new(request.namespace, local), text),
    };
    // The submission wants it of every message; later it has a default.
    let to =
        (request.namespace == WSA_2004).then(|| block("To", format!("{WSA_2004}{ANONYMOUS_2004}")));
    let related = [
        block("Action", action()),
        block("MessageID", message_id_urn()),
        block("RelatesTo", message_id.clone()),
    ];
    related.into_iter().chain(to).collect()
}

/// The action of a fault (WS-Addressing 1.0 SOAP binding, section 6).
pub(crate) fn fault_action(request: &Addressing, code: FaultCode) -> String {
    let addressing = request.namespace == WSA_2004 || code == FaultCode::InvalidAddressing;
    format!("{}{}", request.namespace, if addressing { "/fault" } else { "/soap/fault" })
}

/// A random UUID (RFC 9562 version 4) as a URN.
fn message_id_urn() -> String {
    let id = random_id();
    format!("urn:uuid:{}-{}-4{}-a{}-{}", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(namespace: &str, local: &str, text: &str) -> HeaderBlock {
        let element = Element::with_text(QName::new(namespace, local), text);
        HeaderBlock { must_understand: true, role: None, element }
    }

    fn reply_to(namespace: &str, local: &str, address: &str) -> HeaderBlock {
        let mut block = header(namespace, local, "");
        let address = Element::with_text(QName::new(namespace, "Address"), address);
        block.element.children.push(address);
        block
    }

    #[test]
    fn answers_relate_to_their_request_in_its_version() {
        for namespace in [WSA, WSA_2004] {
            let request = read(&[
                header(namespace, "MessageID", " urn:uuid:1 "),
                header(namespace, "Action", "urn:a#call"),
                header("urn:other", "To", "x"),
            ]);
            assert_eq!(request.action.as_deref(), Some("urn:a#call"));
            assert_eq!(request.to, None);
            let answer = read(&answer(&request, || "urn:a#callResponse".to_owned()));
            assert_eq!(answer.namespace, namespace);
            let to = (namespace == WSA_2004).then(|| format!("{WSA_2004}/role/anonymous"));
            assert_eq!(answer.to, to);
            assert_eq!(answer.relates_to.as_deref(), Some("urn:uuid:1"));
            assert_eq!(answer.action.as_deref(), Some("urn:a#callResponse"));
            let id = answer.message_id.unwrap();
            assert_eq!(id.len(), "urn:uuid:".len() + 36);
        }
        assert!(answer(&Addressing::default(), String::new).is_empty());
    }

    #[test]
    fn answers_go_nowhere_else() {
        let anonymous = format!("{WSA}/anonymous");
        let older = format!("{WSA_2004}/role/anonymous");
        assert_eq!(check(&[reply_to(WSA, "ReplyTo", &anonymous)]), Ok(()));
        assert_eq!(check(&[reply_to(WSA_2004, "FaultTo", &older)]), Ok(()));
        for (local, address, subcode) in [
            ("ReplyTo", "http://10.0.0.1/", "OnlyAnonymousAddressSupported"),
            ("FaultTo", "mailto:a@b", "OnlyAnonymousAddressSupported"),
            ("ReplyTo", "", "MissingAddressInEPR"),
        ] {
            let invalid = read(&[reply_to(WSA, local, address)]).invalid.unwrap();
            assert_eq!(invalid.subcode, subcode, "{address}");
            assert_eq!(invalid.fault().code, FaultCode::InvalidAddressing);
            assert!(invalid.message.contains(local));
        }
        let twice = [header(WSA, "MessageID", "a"), header(WSA, "MessageID", "b")];
        assert_eq!(read(&twice).invalid.unwrap().subcode, "InvalidCardinality");
    }

    #[test]
    fn answers_to_nobody_are_told_apart() {
        let (none, anonymous) = (format!("{WSA}/none"), format!("{WSA}/anonymous"));
        let told = |headers: &[(&str, &String)]| {
            let headers: Vec<_> =
                headers.iter().map(|(local, address)| reply_to(WSA, local, address)).collect();
            let Addressing { no_reply, no_fault, invalid, .. } = read(&headers);
            assert_eq!(invalid, None);
            (no_reply, no_fault)
        };
        assert_eq!(told(&[]), (false, false));
        assert_eq!(told(&[("ReplyTo", &none)]), (true, true));
        assert_eq!(told(&[("FaultTo", &none)]), (false, true));
        assert_eq!(told(&[("FaultTo", &anonymous), ("ReplyTo", &none)]), (true, false));
        assert_eq!(told(&[("ReplyTo", &anonymous), ("FaultTo", &none)]), (false, true));
    }

    #[test]
    fn only_headers_for_us_must_be_understood() {
        let role = |version, role: Option<&str>| {
            let mut block = header("urn:x", "Security", "");
            block.role = role.map(str::to_owned);
            not_understood(version, &[block]).len()
        };
        assert_eq!(role(SoapVersion::V11, None), 1);
        assert_eq!(role(SoapVersion::V11, Some("http://schemas.xmlsoap.org/soap/actor/next")), 1);
        assert_eq!(role(SoapVersion::V11, Some("urn:somebody")), 0);
        let next = "http://www.w3.org/2003/05/soap-envelope/role/next";
        assert_eq!(role(SoapVersion::V12, Some(next)), 1);
        assert_eq!(role(SoapVersion::V12, Some("urn:somebody")), 0);
        assert!(not_understood(SoapVersion::V12, &[header(WSA, "To", "x")]).is_empty());
        assert!(not_understood(SoapVersion::V12, &[header(OPTIONS, "key", "x")]).is_empty());
        assert_eq!(not_understood(SoapVersion::V12, &[header(OPTIONS, "warp", "9")]).len(), 1);
    }
}
