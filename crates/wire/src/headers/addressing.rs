//! WS-Addressing 1.0 (REC 2006-05-09) and the submission of August 2004: answers relate to their
//! request and go back on its connection, nowhere else.

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{CallOptions, Fault, FaultCode};

use super::table::{HeaderKind, HeaderReply};
use crate::envelope::{HeaderBlock, XmlElement};
use crate::name::{QName, WSA, WSA_2004};
use crate::pack::random_id;
use crate::write::ReplyForm;
use crate::wsdl;

/// The addressing headers of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addressing {
    /// Namespace of the version used; empty if the message has no addressing headers.
    pub(crate) namespace: &'static str,
    /// `MessageID`.
    pub(crate) message_id: Option<String>,
    /// `RelatesTo` (the first).
    pub(crate) relates_to: Option<String>,
    /// `To`.
    pub(crate) to: Option<String>,
    /// `Action`.
    pub(crate) action: Option<String>,
    /// Results are for nobody: `ReplyTo` is `none`.
    pub(crate) no_reply: bool,
    /// Faults are for nobody: `FaultTo` is `none`, or is missing and `ReplyTo` is.
    pub(crate) no_fault: bool,
    /// What is wrong with them.
    invalid: Option<InvalidAddressing>,
}

/// Why addressing headers are not acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InvalidAddressing {
    /// WS-Addressing 1.0 SOAP binding, section 6.4.1.
    subcode: &'static str,
    message: String,
}

/// Headers of either version that we understand.
const UNDERSTOOD: [&str; 7] =
    ["MessageID", "RelatesTo", "To", "Action", "ReplyTo", "FaultTo", "From"];

pub(crate) struct WsAddressing;

impl HeaderKind for WsAddressing {
    fn namespaces(&self) -> &'static [&'static str] {
        &[WSA, WSA_2004]
    }

    fn understands(&self, block: &XmlElement) -> bool {
        UNDERSTOOD.contains(&block.name.local.as_str())
    }

    fn read(&self, headers: &[HeaderBlock], _: &mut CallOptions) -> Result<(), Fault> {
        check(headers).map_err(|invalid| Fault::new(FaultCode::InvalidAddressing, invalid.message))
    }

    /// Only a request with a MessageID can be related to.
    fn answer(&self, form: &ReplyForm, answer: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        let Addressing { namespace, message_id, .. } = read(&form.headers);
        let Some(message_id) = message_id else { return Vec::new() };
        let action = match *answer {
            HeaderReply::Results { namespace, wrapper, .. } => wsdl::action(namespace, wrapper),
            HeaderReply::Fault(fault) => fault_action(namespace, fault.code),
        };
        let block = |local: &str, text: String| {
            HeaderBlock::optional(XmlElement::with_text(QName::new(namespace, local), text))
        };
        // The submission wants it of every message; later it has a default.
        let to =
            (namespace == WSA_2004).then(|| block("To", format!("{WSA_2004}{ANONYMOUS_2004}")));
        let related = [
            block("Action", action),
            block("MessageID", message_id_urn()),
            block("RelatesTo", message_id),
        ];
        related.into_iter().chain(to).collect()
    }

    /// WS-Addressing 1.0 SOAP binding, section 6.4.1; the submission calls it otherwise, and knows
    /// nothing of what is behind it.
    fn fault_codes(&self, headers: &[HeaderBlock], code: FaultCode) -> Vec<QName> {
        let Addressing { namespace, action, invalid, .. } = read(headers);
        let inner = match code {
            FaultCode::InvalidAddressing => invalid.map(|invalid| invalid.subcode),
            FaultCode::ActionMismatch if action.is_some() => Some("ActionMismatch"),
            _ => return Vec::new(),
        };
        if namespace == WSA_2004 {
            return vec![QName::new(WSA_2004, "InvalidMessageInformationHeader")];
        }
        let codes = ["InvalidAddressingHeader"].into_iter().chain(inner);
        codes.map(|code| QName::new(WSA, code)).collect()
    }
}

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
fn address(reference: &XmlElement) -> &str {
    reference.child("Address").map_or("", |address| trimmed(&address.text))
}

/// The version of WS-Addressing that an element is of.
fn version(element: &XmlElement) -> Option<&'static str> {
    [WSA, WSA_2004].into_iter().find(|namespace| *namespace == element.name.namespace)
}

/// Checks what would make us answer to somebody else, and what is ambiguous.
fn check(headers: &[HeaderBlock]) -> Result<(), InvalidAddressing> {
    let mut seen = Vec::new();
    for HeaderBlock { element, .. } in headers {
        if version(element).is_none() {
            continue;
        }
        let local = element.name.local.as_str();
        if local != "RelatesTo" && seen.contains(&&element.name) {
            let message = format!("the addressing header {local} stands twice");
            return Err(InvalidAddressing { subcode: "InvalidCardinality", message });
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
                return Err(InvalidAddressing { subcode, message });
            }
        }
    }
    Ok(())
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

/// The action of a fault (WS-Addressing 1.0 SOAP binding, section 6).
fn fault_action(namespace: &str, code: FaultCode) -> String {
    let addressing = namespace == WSA_2004 || code == FaultCode::InvalidAddressing;
    format!("{namespace}{}", if addressing { "/fault" } else { "/soap/fault" })
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
        let element = XmlElement::with_text(QName::new(namespace, local), text);
        HeaderBlock { must_understand: true, ..HeaderBlock::optional(element) }
    }

    fn reply_to(namespace: &str, local: &str, address: &str) -> HeaderBlock {
        let mut block = header(namespace, local, "");
        let address = XmlElement::with_text(QName::new(namespace, "Address"), address);
        block.element.children.push(address);
        block
    }

    /// The addressing headers of results for a request with these.
    fn answered(headers: Vec<HeaderBlock>) -> Vec<HeaderBlock> {
        let form = ReplyForm { headers, ..ReplyForm::of_head(&crate::MessageHead::default()) };
        let (namespace, wrapper) = ("urn:a", "callResponse");
        let results = HeaderReply::Results { namespace, wrapper, outputs: &[], job: None };
        WsAddressing.answer(&form, &results)
    }

    #[test]
    fn answers_relate_to_their_request_in_its_version() {
        for namespace in [WSA, WSA_2004] {
            let headers = vec![
                header(namespace, "MessageID", " urn:uuid:1 "),
                header(namespace, "Action", "urn:a#call"),
                header("urn:other", "To", "x"),
            ];
            let request = read(&headers);
            assert_eq!(request.action.as_deref(), Some("urn:a#call"));
            assert_eq!(request.to, None);
            let answer = read(&answered(headers));
            assert_eq!(answer.namespace, namespace);
            let to = (namespace == WSA_2004).then(|| format!("{WSA_2004}/role/anonymous"));
            assert_eq!(answer.to, to);
            assert_eq!(answer.relates_to.as_deref(), Some("urn:uuid:1"));
            assert_eq!(answer.action.as_deref(), Some("urn:a#callResponse"));
            let id = answer.message_id.unwrap();
            assert_eq!(id.len(), "urn:uuid:".len() + 36);
        }
        assert!(answered(Vec::new()).is_empty());
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
            assert!(invalid.message.contains(local));
            let headers = [reply_to(WSA, local, address)];
            let fault = WsAddressing.read(&headers, &mut CallOptions::default()).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidAddressing);
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
    fn addressing_faults_have_their_code_within_the_code() {
        let codes = |headers: &[HeaderBlock], code| WsAddressing.fault_codes(headers, code);
        let wsa = |local: &str| QName::new(WSA, local);
        let bad = reply_to(WSA, "ReplyTo", "urn:x");
        assert_eq!(
            codes(&[bad], FaultCode::InvalidAddressing),
            ["InvalidAddressingHeader", "OnlyAnonymousAddressSupported"].map(wsa)
        );
        assert_eq!(
            codes(&[header(WSA, "Action", "urn:x")], FaultCode::ActionMismatch),
            ["InvalidAddressingHeader", "ActionMismatch"].map(wsa)
        );
        assert_eq!(
            codes(&[header(WSA_2004, "Action", "urn:x")], FaultCode::ActionMismatch),
            [QName::new(WSA_2004, "InvalidMessageInformationHeader")]
        );
        assert_eq!(codes(&[], FaultCode::ActionMismatch), []);
        assert_eq!(codes(&[header(WSA, "Action", "urn:x")], FaultCode::QueueFull), []);
    }
}
