//! Outcomes, faults and calls to envelopes.

use fishplate_contract::{
    Argument, Array, Blame, CallOptions, Exposed, Fault, FaultCode, JobId, Payload, Value,
};

use crate::addressing::{self, Addressing};
use crate::detail;
use crate::envelope::{
    ArrayForm, Body, Child, Content, Element, Envelope, HeaderBlock, Numbers, SoapFault,
    SoapVersion,
};
use crate::media::MediaType;
use crate::name::{FAULT, QName, SOAP_11, SOAP_12, WSA, WSA_2004, XMLNS};
use crate::options;
use crate::packaging::{Packaging, of_answer};
use crate::unpack::Head;
use crate::wsdl::{self, Binding, DataView, View};
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
    /// The addressing headers of the request; an answer relates to them.
    pub addressing: Addressing,
    /// How files are typed where the request was sent to: in the view `data=xdescr` what stands for a
    /// file is an element of its own.
    pub data: DataView,
    /// The answer tells how its outputs came, because the request chose.
    pub tells_outputs: bool,
    /// The WS-Context of the request, which the answer repeats.
    pub context: Option<HeaderBlock>,
    /// Headers that had to be understood and are not; a `MustUnderstand` fault tells them.
    pub not_understood: Vec<QName>,
}

impl ReplyForm {
    /// The form of an answer to a request whose body was not read.
    pub fn of_head(head: &Head<'_>) -> Self {
        Self::of_media(&MediaType::parse(head.content_type), head)
    }

    pub(crate) fn of_media(media: &MediaType, head: &Head<'_>) -> Self {
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
            swa_ref: view.binding == Binding::Swa,
            addressing: Addressing::default(),
            data: view.data,
            tells_outputs: view.data == DataView::Xdescr,
            context: None,
            not_understood: Vec::new(),
        }
    }
}

impl ReplyForm {
    /// Nobody is to get this answer, results or a fault: the address for it is `none` (WS-Addressing
    /// 1.0 core, section 2.1). A fault of the headers is answered nevertheless, because what they say is
    /// not to be relied on.
    pub fn is_unwanted(&self, fault: Option<&Fault>) -> bool {
        match fault {
            None => self.addressing.no_reply,
            Some(fault) => self.addressing.no_fault && !is_about_headers(self, fault.code),
        }
    }
}

/// The envelope of results. Characters that XML cannot hold become U+FFFD.
pub fn write_reply(
    form: &ReplyForm,
    namespace: &str,
    exposed: &Exposed,
    outputs: &[Argument],
    job: Option<JobId>,
) -> Envelope {
    let response = format!("{}Response", exposed.name);
    let action = || wsdl::action(namespace, &response);
    let mut headers = addressing::answer(&form.addressing, action);
    headers.extend(job.map(options::write_job));
    headers.extend(form.tells_outputs.then(|| options::write_answer(outputs)).flatten());
    headers.extend(form.context.clone());
    let children = children(namespace, outputs, form.arrays.unwrap_or_default());
    let name = QName::new(namespace, response);
    Envelope { version: form.version, headers, body: Body::Wrapper { name, children } }
}

fn children(namespace: &str, values: &[Argument], arrays: ArrayForm) -> Vec<Child> {
    let child = |value: &Argument| Child {
        name: QName::new(namespace, &*value.name),
        label: value.label.clone(),
        content: match &value.value {
            Value::Text(text) => Content::Text(text.clone()),
            Value::Data(payload) => Content::Data(payload.clone()),
            Value::Array(array) => Content::Array(Numbers {
                element: array.element,
                shape: Some(array.shape.clone()),
                data: Box::new(Content::Data(array.data.clone())),
                form: arrays,
                names: Vec::new(),
            }),
            Value::Record(fields) => Content::Fields(children(namespace, fields, arrays)),
        },
    };
    values.iter().map(child).collect()
}

/// The envelope of a fault. `namespace` is the service's, whose WSDL declares the detail; `None`
/// where no service is concerned.
pub fn write_fault(form: &ReplyForm, namespace: Option<&str>, fault: &Fault) -> Envelope {
    let action = || addressing::fault_action(&form.addressing, fault.code);
    let mut headers = addressing::answer(&form.addressing, action);
    headers.extend(form.context.clone());
    if form.version == SoapVersion::V12 {
        headers.extend(explanations(form, fault.code));
    }
    let (code, subcodes) = match form.version {
        SoapVersion::V11 => (code_11(form, fault.code), Vec::new()),
        SoapVersion::V12 => codes_12(form, fault.code),
    };
    let mut detail = Vec::new();
    // SOAP 1.1 section 4.4: what is wrong with headers is told in a header.
    if form.version == SoapVersion::V11 && is_about_headers(form, fault.code) {
        let element = detail::write(FAULT, fault);
        headers.push(HeaderBlock { must_understand: false, role: None, element });
    } else {
        detail.push(detail::write(namespace.unwrap_or(FAULT), fault));
    }
    let body = Body::Fault(SoapFault { code, subcodes, reason: fault.message.clone(), detail });
    Envelope { version: form.version, headers, body }
}

/// A fault of what SOAP and WS-Addressing themselves say of headers.
fn is_about_headers(form: &ReplyForm, code: FaultCode) -> bool {
    match code {
        FaultCode::MustUnderstand | FaultCode::InvalidAddressing => true,
        FaultCode::ActionMismatch => form.addressing.action.is_some(),
        _ => false,
    }
}

/// SOAP 1.1 section 4.4.1. No codes with dots: WS-I Basic Profile 1.1, R1031.
fn code_11(form: &ReplyForm, code: FaultCode) -> QName {
    let local = match (code, code.blame()) {
        (FaultCode::MustUnderstand, _) => "MustUnderstand",
        (FaultCode::VersionMismatch, _) => "VersionMismatch",
        (FaultCode::InvalidAddressing, _) => return addressing_code(form),
        (FaultCode::ActionMismatch, _) if is_about_headers(form, code) => {
            return addressing_code(form);
        }
        (_, Blame::Sender) => "Client",
        (_, Blame::Receiver) => "Server",
    };
    QName::new(SOAP_11, local)
}

/// SOAP 1.2 part 1 section 5.4.6.
fn codes_12(form: &ReplyForm, code: FaultCode) -> (QName, Vec<QName>) {
    let (local, subcodes) = match (code, code.blame()) {
        (FaultCode::MustUnderstand, _) => ("MustUnderstand", Vec::new()),
        (FaultCode::VersionMismatch, _) => ("VersionMismatch", Vec::new()),
        (FaultCode::DataEncodingUnknown, _) => ("DataEncodingUnknown", Vec::new()),
        (FaultCode::InvalidAddressing, _) => {
            let invalid = form.addressing.invalid.as_ref().map(|invalid| invalid.subcode);
            ("Sender", addressing_codes(form, invalid))
        }
        (FaultCode::ActionMismatch, _) if is_about_headers(form, code) => {
            ("Sender", addressing_codes(form, Some("ActionMismatch")))
        }
        (_, Blame::Sender) => ("Sender", vec![QName::new(FAULT, code.name())]),
        (_, Blame::Receiver) => ("Receiver", vec![QName::new(FAULT, code.name())]),
    };
    (QName::new(SOAP_12, local), subcodes)
}

/// WS-Addressing 1.0 SOAP binding, section 6.4.1; the submission calls it otherwise.
fn addressing_code(form: &ReplyForm) -> QName {
    match form.addressing.namespace {
        WSA_2004 => QName::new(WSA_2004, "InvalidMessageInformationHeader"),
        _ => QName::new(WSA, "InvalidAddressingHeader"),
    }
}

/// The same and what is behind it, which the submission knows nothing of.
fn addressing_codes(form: &ReplyForm, inner: Option<&str>) -> Vec<QName> {
    let inner = inner.filter(|_| form.addressing.namespace != WSA_2004);
    [addressing_code(form)].into_iter().chain(inner.map(|inner| QName::new(WSA, inner))).collect()
}

/// The headers that explain a fault of SOAP 1.2: part 1, sections 5.4.7 and 5.4.8.
fn explanations(form: &ReplyForm, code: FaultCode) -> Vec<HeaderBlock> {
    let named = |local: &str, of: &QName| {
        let mut attributes = Vec::new();
        let qname = if of.namespace.is_empty() {
            of.local.clone()
        } else {
            attributes.push((QName::new(XMLNS, "q"), of.namespace.clone()));
            format!("q:{}", of.local)
        };
        attributes.push((QName::new("", "qname"), qname));
        Element { name: QName::new(SOAP_12, local), attributes, ..Element::default() }
    };
    let block = |element| HeaderBlock { must_understand: false, role: None, element };
    match code {
        FaultCode::MustUnderstand => {
            form.not_understood.iter().map(|name| block(named("NotUnderstood", name))).collect()
        }
        FaultCode::VersionMismatch => {
            let supported = [SOAP_12, SOAP_11]
                .map(|namespace| named("SupportedEnvelope", &QName::new(namespace, "Envelope")));
            vec![block(Element {
                name: QName::new(SOAP_12, "Upgrade"),
                children: supported.into(),
                ..Element::default()
            })]
        }
        _ => Vec::new(),
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
        if let Content::Array(numbers) = &mut child.content
            && let Some((_, items)) = form.items.iter().find(|(name, _)| *name == child.name.local)
        {
            numbers.names.clone_from(items);
        }
    }
    Ok(Envelope {
        version: form.version,
        headers: options::write(&form.options, form.arrays),
        body: Body::Wrapper { name: form.wrapper.clone(), children },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head<'a>(content_type: &'a str, accept: Option<&'a str>) -> ReplyForm {
        ReplyForm::of_head(&Head { content_type, accept, ..Head::default() })
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
            let head =
                Head { content_type, accept: Some(accept), query: Some(query), ..Head::default() };
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
        form.not_understood = vec![QName::new("urn:a", "b"), QName::new("", "c")];
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
                form.addressing.namespace = WSA;
                form.addressing.action = Some("urn:s#call".to_owned());
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
    fn addressing_faults_have_their_code_within_the_code() {
        let mut form = head("application/soap+xml", None);
        form.addressing.namespace = WSA;
        form.addressing.invalid = Some(addressing::Invalid {
            subcode: "OnlyAnonymousAddressSupported",
            message: String::new(),
        });
        let wsa = |local: &str| QName::new(WSA, local);
        let (_, codes) = codes_12(&form, FaultCode::InvalidAddressing);
        assert_eq!(codes, ["InvalidAddressingHeader", "OnlyAnonymousAddressSupported"].map(wsa));
        form.addressing.action = Some(String::new());
        let (_, codes) = codes_12(&form, FaultCode::ActionMismatch);
        assert_eq!(codes, ["InvalidAddressingHeader", "ActionMismatch"].map(wsa));
        form.addressing.namespace = WSA_2004;
        let (_, codes) = codes_12(&form, FaultCode::InvalidAddressing);
        assert_eq!(codes, [QName::new(WSA_2004, "InvalidMessageInformationHeader")]);
        assert_eq!(
            codes_12(&form, FaultCode::DataEncodingUnknown),
            (QName::new(SOAP_12, "DataEncodingUnknown"), Vec::new())
        );
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
