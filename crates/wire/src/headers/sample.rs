//! A kind of header blocks for tests: `urn:sample:ticket` is understood, refused if it is empty, told
//! with a code of its own, and answered. All that it takes is this file and its line in the table.

use fishplate_contract::{CallOptions, Fault, FaultCode};

use super::table::{HeaderKind, HeaderReply};
use crate::envelope::{HeaderBlock, XmlElement};
use crate::name::{QName, XSD};
use crate::write::ReplyForm;
use crate::wsdl::Markup;

const NAMESPACE: &str = "urn:sample";

pub(super) struct Sample;

/// The text of the block.
fn ticket(headers: &[HeaderBlock]) -> Option<&str> {
    let block = headers.iter().find(|header| header.element.name.is(NAMESPACE, "ticket"))?;
    Some(block.element.text.as_str())
}

impl HeaderKind for Sample {
    fn namespaces(&self) -> &'static [&'static str] {
        &[NAMESPACE]
    }

    fn understands(&self, block: &XmlElement) -> bool {
        block.name.local == "ticket"
    }

    fn read(&self, headers: &[HeaderBlock], options: &mut CallOptions) -> Result<(), Fault> {
        match ticket(headers) {
            Some("") => Err(Fault::new(FaultCode::InvalidValue, "an empty ticket")),
            Some(ticket) => {
                options.key = Some(ticket.to_owned());
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn answer(&self, form: &ReplyForm, _: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        let stamped = ticket(&form.headers).map(|ticket| {
            XmlElement::with_text(QName::new(NAMESPACE, "stamped"), format!("{ticket}, stamped"))
        });
        stamped.into_iter().map(HeaderBlock::optional).collect()
    }

    fn published(&self) -> &'static [&'static str] {
        &["ticket"]
    }

    fn write_schema(&self, to: &mut Markup) {
        to.open("xs:schema", &[("targetNamespace", NAMESPACE), ("xmlns:xs", XSD)]);
        to.empty("xs:element", &[("name", "ticket"), ("type", "xs:string")]);
        to.close();
    }

    fn fault_codes(&self, headers: &[HeaderBlock], code: FaultCode) -> Vec<QName> {
        match (ticket(headers), code) {
            (Some(""), FaultCode::InvalidValue) => vec![QName::new(NAMESPACE, "BadTicket")],
            _ => Vec::new(),
        }
    }
}

mod tests {
    use fishplate_contract::Argument;

    use super::*;
    use crate::envelope::SoapVersion;
    use crate::unpack::tests::{NS, Sink, call_with, interface};
    use crate::wsdl::{self, DataView, View};
    use crate::{Envelope, UnpackedMessage, pack_reply, read, write_fault, write_reply};

    /// A request with such a block, which must be understood.
    fn sent(version: SoapVersion, local: &str, ticket: &str) -> UnpackedMessage {
        let soap = version.namespace();
        let block = format!(
            "<t:{local} xmlns:t='{NAMESPACE}' xmlns:e='{soap}' e:mustUnderstand='1'>{ticket}</t:{local}>"
        );
        call_with(version, &block)
    }

    fn text_of(envelope: &Envelope, form: &ReplyForm) -> String {
        String::from_utf8(Sink::default().body(&pack_reply(envelope, form))).unwrap()
    }

    #[test]
    fn a_header_in_the_table_is_read_understood_and_answered() {
        for version in [SoapVersion::V11, SoapVersion::V12] {
            let unpacked = sent(version, "ticket", "7");
            let form = unpacked.reply_form.clone();
            assert_eq!(read(unpacked).unwrap().options.key.as_deref(), Some("7"));
            let outputs = [Argument::text("result", "3")];
            let results = write_reply(&form, NS, &interface().verbs[0], &outputs, None);
            let fault = write_fault(&form, Some(NS), &Fault::new(FaultCode::QueueFull, "full"));
            for answer in [results, fault] {
                let text = text_of(&answer, &form);
                let document = roxmltree::Document::parse(&text).unwrap();
                let stamped =
                    document.descendants().find(|node| node.has_tag_name((NAMESPACE, "stamped")));
                assert_eq!(stamped.and_then(|node| node.text()), Some("7, stamped"), "{text}");
            }
        }
    }

    #[test]
    fn a_header_in_the_table_is_published_under_a_prefix_of_its_own() {
        let service = fishplate_contract::Service {
            name: "s".to_owned(),
            namespace: NS.to_owned(),
            title: String::new(),
            documentation: String::new(),
            operations: Vec::new(),
        };
        let view = View { data: DataView::Xdescr, ..View::default() };
        let text = wsdl::write(&service, &interface(), view, "http://localhost/s");
        let document = roxmltree::Document::parse(&text).unwrap();
        let mut parts = document.descendants().filter(|node| node.tag_name().name() == "part");
        let part = parts.find(|node| node.attribute("name") == Some("ticket"));
        let (prefix, local) = part.unwrap().attribute("element").unwrap().split_once(':').unwrap();
        let namespace = document.root_element().lookup_namespace_uri(Some(prefix));
        assert_eq!((namespace, local), (Some(NAMESPACE), "ticket"));
        let uses = document.descendants().filter(|node| node.attribute("part") == Some("ticket"));
        assert!(uses.count() > 0, "no message has it");
    }

    #[test]
    fn a_block_that_its_kind_does_not_know_or_want_is_a_fault_of_headers() {
        for version in [SoapVersion::V11, SoapVersion::V12] {
            let fault = read(sent(version, "voucher", "7")).unwrap_err();
            assert_eq!(fault.code, FaultCode::MustUnderstand);
            assert!(fault.message.contains("voucher"), "{}", fault.message);
            let unpacked = sent(version, "ticket", "");
            let form = unpacked.reply_form.clone();
            let fault = read(unpacked).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidValue);
            let text = text_of(&write_fault(&form, Some(NS), &fault), &form);
            assert!(text.contains(":BadTicket<"), "{text}");
        }
    }
}
