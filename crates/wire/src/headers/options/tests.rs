use fishplate_contract::{
    DataType, JobId, Operation, OutputChoice, OutputForm, Parameter, Service, Signature,
};

use super::super::table;
use super::*;
use crate::envelope::{Body, Envelope, SoapVersion};
use crate::name::{SESSION_URN, WSCTX};
use crate::{MessageHead, Packaging, UnpackedMessage};

const PLAIN: DataView = DataView::Plain;

/// What a request with these headers, sent to the address of this view, asks for.
fn read(headers: &[HeaderBlock], data: DataView) -> Result<CallOptions, Fault> {
    let body = Body::Wrapper { name: QName::new("urn:t", "call"), children: Vec::new() };
    let (version, headers) = (SoapVersion::V11, headers.to_vec());
    let unpacked = UnpackedMessage {
        envelope: Envelope { version, headers, body },
        action: None,
        packaging: Packaging::Plain,
        reply_form: ReplyForm { data, ..ReplyForm::of_head(&MessageHead::default()) },
    };
    crate::read(unpacked).map(|request| request.options)
}

/// The headers of a request with these options.
fn write(options: &CallOptions, arrays: Option<ArrayForm>) -> Vec<HeaderBlock> {
    table::request(&RequestForm {
        wrapper: QName::new("urn:t", "call"),
        qualified: true,
        version: SoapVersion::V11,
        options: options.clone(),
        arrays,
        items: Vec::new(),
    })
}

fn choice(name: &str, form: OutputForm, to: Option<&str>) -> OutputChoice {
    OutputChoice { name: name.to_owned(), form, to: to.map(str::to_owned) }
}

fn context(session: &str) -> HeaderBlock {
    let identifier = QName::new(WSCTX, "context-identifier");
    let element = XmlElement {
        name: QName::new(WSCTX, "context"),
        children: vec![XmlElement::with_text(identifier, format!("{SESSION_URN}{session}"))],
        ..XmlElement::default()
    };
    HeaderBlock::optional(element)
}

#[test]
fn options_travel_in_headers() {
    let options = CallOptions {
        key: Some("a b".to_owned()),
        session: Some(SessionId::from_bytes([3; 16])),
        outputs: vec![
            choice("mesh", OutputForm::Reference, None),
            choice("log", OutputForm::Reference, Some("mailto:a@b.example?subject=\"<&>\"")),
            choice("*", OutputForm::Auto, None),
            choice("deck", OutputForm::Value, None),
        ],
        ..CallOptions::default()
    };
    for data in [PLAIN, DataView::Xdescr] {
        for arrays in [None, Some(ArrayForm::Binary)] {
            assert_eq!(read(&write(&options, arrays), data).unwrap(), options);
        }
    }
    assert_eq!(read(&[], PLAIN).unwrap(), CallOptions::default());
    for wrong in [vec![block(KEY, " ".into())], vec![block(KEY, "a".into()); 2]] {
        let fault = read(&wrong, PLAIN).unwrap_err();
        assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some(KEY)));
    }
}

#[test]
fn the_form_of_arrays_travels_in_a_header() {
    for form in ArrayForm::ALL {
        let headers = write(&CallOptions::default(), Some(form));
        assert_eq!(arrays(&headers), Some(form));
        assert!(read(&headers, PLAIN).is_ok());
    }
    let told = |text: &str| block(ARRAYS, text.to_owned());
    assert_eq!(arrays(&[]), None);
    for wrong in [vec![told("text")], vec![told("binary"), told("binary")]] {
        assert_eq!(read(&wrong, PLAIN).unwrap_err().code, FaultCode::InvalidValue);
    }
}

#[test]
fn an_answer_tells_its_job() {
    let (namespace, wrapper) = ("urn:t", "callResponse");
    let form = ReplyForm::of_head(&MessageHead::default());
    for existing in [false, true] {
        let job = Some(SubmittedJob { id: JobId::from_bytes([7; 16]), existing });
        let results = HeaderReply::Results { namespace, wrapper, outputs: &[], job };
        assert_eq!(read_job(&table::answer(&form, &results)), job);
    }
    assert_eq!(read_job(&[block("job", "7".into())]), None);
}

#[test]
fn a_session_is_named_by_our_header_or_a_context() {
    let (one, other) = (SessionId::from_bytes([1; 16]), SessionId::from_bytes([2; 16]));
    let ours = |id: SessionId| block(SESSION, format!(" {id}\n"));
    for headers in [
        vec![ours(one)],
        vec![context(&one.to_string())],
        vec![context(&one.to_string()), ours(one)],
    ] {
        assert_eq!(read(&headers, PLAIN).unwrap().session, Some(one));
    }
    let fault = read(&[ours(one), context(&other.to_string())], PLAIN).unwrap_err();
    assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some(SESSION)));
    assert!(fault.message.contains(&other.to_string()), "{}", fault.message);
    for none in [block(SESSION, "7".to_owned()), context("7"), context("")] {
        let fault = read(&[none], PLAIN).unwrap_err();
        assert_eq!(fault.code, FaultCode::NoSuchSession);
        assert_eq!(fault.parameter.as_deref(), Some(SESSION));
    }
}

#[test]
fn the_address_of_the_richer_view_takes_references_as_they_fit() {
    let auto = choice("*", OutputForm::Auto, None);
    let chosen =
        |options: CallOptions| read(&write(&options, None), DataView::Xdescr).unwrap().outputs;
    assert_eq!(chosen(CallOptions::default()), vec![auto.clone()]);
    let mesh = choice("mesh", OutputForm::Value, None);
    let outputs = vec![mesh.clone()];
    assert_eq!(chosen(CallOptions { outputs, ..CallOptions::default() }), [mesh, auto]);
    let all = vec![choice("*", OutputForm::Value, None)];
    let outputs = all.clone();
    assert_eq!(chosen(CallOptions { outputs, ..CallOptions::default() }), all);
    let session = Some(SessionId::from_bytes([1; 16]));
    assert_eq!(chosen(CallOptions { session, ..CallOptions::default() }), []);
}

fn output(attributes: &[(&str, &str)]) -> XmlElement {
    let attributes =
        attributes.iter().map(|(name, value)| (QName::new("", *name), (*value).into()));
    let name = QName::new(OPTIONS, "output");
    XmlElement { name, attributes: attributes.collect(), ..XmlElement::default() }
}

fn outputs(children: Vec<XmlElement>) -> HeaderBlock {
    let element =
        XmlElement { name: QName::new(OPTIONS, OUTPUTS), children, ..XmlElement::default() };
    HeaderBlock { must_understand: true, ..HeaderBlock::optional(element) }
}

#[test]
fn a_choice_that_is_none_is_a_fault_that_names_it() {
    for (children, parameter, why) in [
        (vec![output(&[("as", "value")])], OUTPUTS, "without a name"),
        (vec![output(&[("name", " "), ("as", "value")])], OUTPUTS, "without a name"),
        (vec![output(&[("name", "m")])], "m", "no form"),
        (vec![output(&[("name", "m"), ("as", "url")])], "m", "value or reference or auto"),
        (vec![output(&[("name", "m"), ("to", "")])], "m", "empty to"),
        (vec![output(&[("name", "m"), ("as", "value"), ("to", "s3:x")])], "m", "deliver"),
        (vec![output(&[("name", "m"), ("as", "auto")]); 2], "m", "twice"),
        (vec![XmlElement::with_text(QName::new("urn:x", "output"), "")], OUTPUTS, "urn:x"),
    ] {
        let fault = read(&[outputs(children)], PLAIN).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidValue, "{why}");
        assert_eq!(fault.parameter.as_deref(), Some(parameter), "{why}");
        assert!(fault.message.contains(why), "{}", fault.message);
    }
    let twice = vec![outputs(Vec::new()), outputs(Vec::new())];
    assert!(read(&twice, PLAIN).is_err());
    let delivered = outputs(vec![output(&[("name", "m"), ("to", "mailto:a@b")])]);
    let expected = [choice("m", OutputForm::Reference, Some("mailto:a@b"))];
    assert_eq!(read(&[delivered], PLAIN).unwrap().outputs, expected);
}

#[test]
fn outputs_are_chosen_that_the_operation_has_and_that_can_go_so() {
    let signature = Signature {
        inputs: vec![Parameter::new("deck", DataType::Raw)],
        outputs: vec![
            Parameter::new("mesh", DataType::Raw),
            Parameter::new("volume", DataType::Double),
            Parameter::new("field", DataType::from_name("float[]").unwrap()),
            Parameter::new("case", DataType::Dir),
        ],
    };
    let interface = fishplate_contract::Interface::of(&Service {
        name: "t".to_owned(),
        namespace: "urn:t".to_owned(),
        title: String::new(),
        documentation: String::new(),
        operations: vec![Operation {
            name: "call".to_owned(),
            documentation: String::new(),
            signature,
        }],
    });
    let (reference, value) = (OutputForm::Reference, OutputForm::Value);
    for verb in ["call", "spawn", "results"] {
        let definition = interface.find(verb).unwrap();
        let check = |name: &str, form, to| {
            outputs::check(&[choice(name, form, to)], definition, &interface).map_err(|fault| {
                assert_eq!(fault.parameter.as_deref(), Some(name));
                fault.code
            })
        };
        for good in ["mesh", "field", "case", "*"] {
            assert_eq!(check(good, reference, None), Ok(()), "{verb} {good}");
        }
        assert_eq!(check("volume", value, None), Ok(()));
        assert_eq!(check("volume", OutputForm::Auto, None), Ok(()));
        assert_eq!(check("volume", reference, None), Err(FaultCode::InvalidValue));
        assert_eq!(check("volume", OutputForm::Auto, Some("s3:x")), Err(FaultCode::InvalidValue));
        for none in ["deck", "Mesh", "job"] {
            assert_eq!(check(none, value, None), Err(FaultCode::UnexpectedParameter), "{verb}");
        }
    }
    // A verb that is about no outputs passes choices over.
    let status = interface.find("status").unwrap();
    assert_eq!(outputs::check(&[choice("x", value, None)], status, &interface), Ok(()));
}
