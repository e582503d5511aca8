//! Outcomes, faults and calls to envelopes.

use fishplate_contract::{
    Argument, Array, Blame, CallOptions, Fault, FaultCode, Payload, SubmittedJob, Value,
    VerbDefinition,
};

use crate::detail;
use crate::envelope::{
    ArrayForm, Body, Child, Envelope, HeaderBlock, MessageArray, SoapFault, SoapVersion,
    ValueContent,
};
use crate::headers::addressing;
use crate::headers::table::{self, HeaderReply};
use crate::media::MediaType;
use crate::name::{FAULT, QName};
use crate::packaging::{Packaging, of_answer};
use crate::unpack::MessageHead;
use crate::wsdl::{DataView, PackagingBinding, View};
use crate::xml::unfit;

/// How a request wants to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyForm {
    /// SOAP version of the request.
    pub version: SoapVersion,
    /// What the caller can read.
    pub packaging: Packaging,
    /// How arrays are to stand in the answer, if the request told: by our header, the query of its
    /// address, or its own arrays. Else as elements.
    pub arrays: Option<ArrayForm>,
    /// SOAP with Attachments refers to parts by `swaRef` alone, as the WSDL says that the address is
    /// from.
    pub swa_ref: bool,
    /// How files are typed where the request was sent to: in the view `data=xdescr` what stands for a
    /// file is an element of its own.
    pub data: DataView,
    /// The headers of the request, which those of the answer depend on.
    pub headers: Vec<HeaderBlock>,
}

impl ReplyForm {
    /// The form of an answer to a request whose body was not read.
    pub fn of_head(head: &MessageHead<'_>) -> Self {
        Self::of_media(&MediaType::parse(head.content_type), head)
    }

    pub(crate) fn of_media(media: &MediaType, head: &MessageHead<'_>) -> Self {
        let multipart = media.essence == "multipart/related";
        let info = media.parameter("start-info").or(media.parameter("type")).unwrap_or_default();
        let newer = media.essence == "application/soap+xml"
            || multipart && info.to_ascii_lowercase().starts_with("application/soap+xml");
        let view = View::of_address(head.query.unwrap_or_default());
        let plain = Packaging::of_media(media).unwrap_or_default() == Packaging::Plain;
        let packaging = match view.packaging() {
            bound if plain && bound != Packaging::Plain => bound,
            _ => of_answer(media, head.accept.unwrap_or_default()),
        };
        Self {
            version: if newer { SoapVersion::V12 } else { SoapVersion::V11 },
            packaging,
            arrays: (view.arrays() == ArrayForm::Binary).then_some(ArrayForm::Binary),
            swa_ref: view.binding == PackagingBinding::Swa,
            data: view.data,
            headers: Vec::new(),
        }
    }
}

impl ReplyForm {
    /// Nobody is to get this answer, results or a fault: the address for it is `none` (WS-Addressing
    /// 1.0 core, section 2.1). A fault of the headers is answered nevertheless, because what they say is
    /// not to be relied on.
    pub fn is_unwanted(&self, fault: Option<&Fault>) -> bool {
        match fault {
            None => addressing::read(&self.headers).no_reply,
            Some(fault) => {
                addressing::read(&self.headers).no_fault && !self.is_about_headers(fault.code)
            }
        }
    }

    /// A fault of what SOAP, or what defines a header, says of headers.
    pub(crate) fn is_about_headers(&self, code: FaultCode) -> bool {
        code == FaultCode::MustUnderstand || !table::fault_codes(&self.headers, code).is_empty()
    }
}

/// The envelope of results. Characters that XML cannot hold become U+FFFD.
pub fn write_reply(
    form: &ReplyForm,
    namespace: &str,
    definition: &VerbDefinition,
    outputs: &[Argument],
    job: Option<SubmittedJob>,
) -> Envelope {
    let wrapper = [definition.name.as_str(), "Response"].concat();
    let headers =
        table::answer(form, &HeaderReply::Results { namespace, wrapper: &wrapper, outputs, job });
    let children = children(namespace, outputs, form.arrays.unwrap_or_default());
    let name = QName::new(namespace, wrapper);
    Envelope { version: form.version, headers, body: Body::Wrapper { name, children } }
}

fn children(namespace: &str, values: &[Argument], arrays: ArrayForm) -> Vec<Child> {
    let child = |value: &Argument| Child {
        name: QName::new(namespace, &*value.name),
        label: value.label.clone(),
        content: match &value.value {
            Value::Text(text) => ValueContent::Text(text.clone()),
            Value::Data(payload) => ValueContent::Data(payload.clone()),
            Value::Array(array) => ValueContent::Array(MessageArray {
                element: array.element,
                shape: Some(array.shape.clone()),
                data: Box::new(ValueContent::Data(array.data.clone())),
                form: arrays,
                names: Vec::new(),
            }),
            Value::Record(fields) => ValueContent::Fields(children(namespace, fields, arrays)),
        },
    };
    values.iter().map(child).collect()
}

/// The envelope of a fault. `namespace` is the service's, whose WSDL declares the detail; `None`
/// where no service is concerned.
pub fn write_fault(form: &ReplyForm, namespace: Option<&str>, fault: &Fault) -> Envelope {
    let headers = table::answer(form, &HeaderReply::Fault(fault));
    let (code, subcodes) = codes(form, fault.code);
    // SOAP 1.1 section 4.4: what is wrong with headers is told in a header.
    let told = form.version == SoapVersion::V11 && form.is_about_headers(fault.code);
    let detail = (!told).then(|| detail::write(namespace.unwrap_or(FAULT), fault));
    let detail = detail.into_iter().collect();
    let body = Body::Fault(SoapFault { code, subcodes, reason: fault.message.clone(), detail });
    Envelope { version: form.version, headers, body }
}

/// The code of a fault, and in SOAP 1.2 those within it: SOAP 1.1 section 4.4.1, without dots (WS-I Basic
/// Profile 1.1, R1031); SOAP 1.2 part 1 section 5.4.6.
fn codes(form: &ReplyForm, code: FaultCode) -> (QName, Vec<QName>) {
    let soap = |local: &str| QName::new(form.version.namespace(), local);
    let of_headers = table::fault_codes(&form.headers, code);
    match (code, form.version, code.blame()) {
        (FaultCode::MustUnderstand | FaultCode::VersionMismatch, ..)
        | (FaultCode::DataEncodingUnknown, SoapVersion::V12, _) => (soap(code.name()), Vec::new()),
        (_, SoapVersion::V11, blame) => {
            let general = if blame == Blame::Sender { "Client" } else { "Server" };
            (of_headers.into_iter().next().unwrap_or_else(|| soap(general)), Vec::new())
        }
        (_, SoapVersion::V12, blame) => {
            let general = if blame == Blame::Sender { "Sender" } else { "Receiver" };
            let own = of_headers.is_empty().then(|| QName::new(FAULT, code.name()));
            (soap(general), of_headers.into_iter().chain(own).collect())
        }
    }
}

/// How a client calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestForm {
    /// Name of the wrapper element.
    pub wrapper: QName,
    /// The values' elements are in the wrapper's namespace too (`elementFormDefault`).
    pub qualified: bool,
    /// SOAP version.
    pub version: SoapVersion,
    /// Our options.
    pub options: CallOptions,
    /// How arrays stand in the call, and are to stand in the answer: our header tells that. `None`
    /// is for servers that are not ours: elements, and no header.
    pub arrays: Option<ArrayForm>,
    /// Names of the elements of arrays, outermost first, by the name of the argument; they are `item`
    /// in the namespace of the values where nothing else is said.
    pub items: Vec<(String, Vec<QName>)>,
}

/// The envelope of a call.
///
/// # Errors
/// `InvalidValue` if a text or a URL holds a character that XML cannot hold.
pub fn write_request(form: &RequestForm, arguments: &[Argument]) -> Result<Envelope, Fault> {
    for argument in arguments {
        let text = match &argument.value {
            Value::Text(text) => text,
            Value::Data(Payload::Reference(reference))
            | Value::Array(Array { data: Payload::Reference(reference), .. }) => &reference.url,
            _ => continue,
        };
        if let Some(c) = unfit(text) {
            let name = &*argument.name;
            let message = format!("parameter {name} holds {c:?}, which XML cannot hold");
            return Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
        }
    }
    let namespace = if form.qualified { form.wrapper.namespace.as_str() } else { "" };
    let mut children = children(namespace, arguments, form.arrays.unwrap_or_default());
    for child in &mut children {
        if let ValueContent::Array(numbers) = &mut child.content
            && let Some((_, items)) = form.items.iter().find(|(name, _)| *name == child.name.local)
        {
            numbers.names.clone_from(items);
        }
    }
    Ok(Envelope {
        version: form.version,
        headers: table::request(form),
        body: Body::Wrapper { name: form.wrapper.clone(), children },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::XmlElement;
    use crate::name::{SOAP_11, SOAP_12, WSA};

    fn head<'a>(content_type: &'a str, accept: Option<&'a str>) -> ReplyForm {
        ReplyForm::of_head(&MessageHead { content_type, accept, ..MessageHead::default() })
    }

    #[test]
    fn an_answer_is_mtom_only_for_those_who_can_read_it() {
        let mtom = "multipart/related; type=\"application/xop+xml\"; start-info=\"text/xml\"";
        assert_eq!(head(mtom, None).packaging, Packaging::Mtom);
        assert_eq!(head("text/xml", Some("*/*")).packaging, Packaging::Plain);
        assert_eq!(head("text/xml", None).packaging, Packaging::Plain);
        assert_eq!(head("text/xml", Some("a/b, Multipart/Related")).packaging, Packaging::Mtom);
        assert_eq!(head("text/xml", Some("application/xop+xml")).packaging, Packaging::Mtom);
    }

    #[test]
    fn the_version_is_guessed_from_the_content_type() {
        let newer = "multipart/related; type=\"application/xop+xml\"; \
                     start-info=\"application/soap+xml; action=x\"";
        assert_eq!(head(newer, None).version, SoapVersion::V12);
        assert_eq!(head("application/soap+xml", None).version, SoapVersion::V12);
        assert_eq!(head("text/xml", None).version, SoapVersion::V11);
        assert_eq!(head("nonsense", None).version, SoapVersion::V11);
    }

    #[test]
    fn a_bound_address_is_answered_so_unless_the_request_is_packaged() {
        let of = |content_type: &str, accept: &str, query: &str| {
            let head = MessageHead {
                content_type,
                accept: Some(accept),
                query: Some(query),
                ..MessageHead::default()
            };
            ReplyForm::of_head(&head).packaging
        };
        for accept in ["text/xml", "multipart/related", ""] {
            assert_eq!(of("text/xml", accept, "binding=dime"), Packaging::Dime);
            assert_eq!(of("text/xml", accept, "a=b&binding=swa"), Packaging::Swa);
            assert_eq!(of("application/dime", accept, "binding=swa"), Packaging::Dime);
        }
        assert_eq!(of("text/xml", "application/dime", "binding=soap"), Packaging::Dime);
    }

    /// The answer to a fault, as it is sent.
    fn answered(form: &ReplyForm, code: FaultCode) -> String {
        let fault = Fault::new(code, "no");
        let packed = crate::pack_reply(&write_fault(form, Some("urn:s"), &fault), form);
        let bytes = |segment: &crate::Segment| match segment {
            crate::Segment::Bytes(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        let bytes: Vec<_> = packed.segments.iter().map(bytes).collect();
        String::from_utf8(bytes.concat()).unwrap()
    }

    #[test]
    fn what_is_not_understood_is_named_with_or_without_a_namespace() {
        let mut form = head("application/soap+xml", None);
        let unknown = |namespace: &str, local: &str| {
            let element =
                XmlElement { name: QName::new(namespace, local), ..XmlElement::default() };
            HeaderBlock { must_understand: true, ..HeaderBlock::optional(element) }
        };
        form.headers = vec![unknown("urn:a", "b"), unknown("", "c")];
        let text = answered(&form, FaultCode::MustUnderstand);
        let document = roxmltree::Document::parse(&text).unwrap();
        let told: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name((SOAP_12, "NotUnderstood")))
            .map(|node| {
                let name = node.attribute("qname").unwrap();
                let (prefix, local) = name
                    .split_once(':')
                    .map_or((None, name), |(prefix, local)| (Some(prefix), local));
                (node.lookup_namespace_uri(prefix), local)
            })
            .collect();
        assert_eq!(told, [(Some("urn:a"), "b"), (None, "c")], "{text}");
    }

    #[test]
    fn in_soap_11_a_fault_of_headers_is_told_in_a_header() {
        for code in FaultCode::ALL {
            for newer in [false, true] {
                let mut form = head(if newer { "application/soap+xml" } else { "text/xml" }, None);
                let action = XmlElement::with_text(QName::new(WSA, "Action"), "urn:s#call");
                form.headers = vec![HeaderBlock::optional(action)];
                let text = answered(&form, *code);
                let document = roxmltree::Document::parse(&text).unwrap();
                let fault = document
                    .descendants()
                    .find(|node| node.has_tag_name((FAULT, detail::FAULT_ELEMENT)));
                let in_header = fault.is_some_and(|fault| {
                    fault.parent().is_some_and(|parent| parent.has_tag_name((SOAP_11, "Header")))
                });
                let detailed = document
                    .descendants()
                    .any(|node| matches!(node.tag_name().name(), "detail" | "Detail"));
                let headers = [
                    FaultCode::MustUnderstand,
                    FaultCode::InvalidAddressing,
                    FaultCode::ActionMismatch,
                ];
                let expected = !newer && headers.contains(code);
                assert_eq!((in_header, detailed), (expected, !expected), "{text}");
            }
        }
    }

    #[test]
    fn soap_names_some_faults_itself() {
        let (older, newer) = (head("text/xml", None), head("application/soap+xml", None));
        for own in [FaultCode::MustUnderstand, FaultCode::VersionMismatch] {
            assert_eq!(codes(&older, own), (QName::new(SOAP_11, own.name()), Vec::new()));
            assert_eq!(codes(&newer, own), (QName::new(SOAP_12, own.name()), Vec::new()));
        }
        let own = FaultCode::DataEncodingUnknown;
        assert_eq!(codes(&newer, own), (QName::new(SOAP_12, own.name()), Vec::new()));
        assert_eq!(codes(&older, own), (QName::new(SOAP_11, "Client"), Vec::new()));
    }

    #[test]
    fn a_call_with_what_xml_cannot_hold_is_refused() {
        let form = RequestForm {
            wrapper: QName::new("urn:t", "call"),
            qualified: true,
            version: SoapVersion::V11,
            options: CallOptions::default(),
            arrays: None,
            items: Vec::new(),
        };
        let fault = write_request(&form, &[Argument::text("x", "a\u{1}")]).unwrap_err();
        assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("x")));
        assert!(write_request(&form, &[Argument::text("x", "a\r\n\tü")]).is_ok());
    }
}
