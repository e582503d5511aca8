use fishplate_contract::{DataType, Interface, Operation, Parameter, Service, Signature, Verb};
use proptest::prelude::*;

use super::*;
use crate::envelope::{ArrayForm, SoapVersion};
use crate::name::QName;

fn service(operations: Vec<Operation>) -> Service {
    Service {
        name: "arithmetic-test".to_owned(),
        namespace: "urn:test".to_owned(),
        title: "Arithmetic <Server> & more".to_owned(),
        documentation: "First line.\nSecond line.\n\nThird.".to_owned(),
        operations,
    }
}

fn rich() -> Service {
    let mut size = Parameter::new("size", DataType::Double).default("1.5").help("How fine.");
    size.unit = "mm".to_owned();
    size.min = Some("0.1".to_owned());
    size.max = Some("1e3".to_owned());
    let mut order = Parameter::new("order", DataType::String).optional();
    order.choices = vec!["linear".to_owned(), "quad \"ratic\"".to_owned()];
    let mut level = Parameter::new("level", DataType::Int);
    level.choices = vec!["1".to_owned(), "2".to_owned()];
    let mut deck = Parameter::new("deck", DataType::Raw).help("Input deck, \n  in two lines ");
    deck.media_type = "text/plain".to_owned();
    let mut title = Parameter::new("title", DataType::String);
    title.allow_leading_dash = true;
    let model = Parameter::new("model", DataType::Xml).optional();
    let fields = Parameter::new("fields", DataType::Raw).repeated().help("Each field.");
    let notes = Parameter::new("notes", DataType::String).repeated().optional();
    let flag = Parameter::new("flag", DataType::Bool);
    let mut sizes = Parameter::new("sizes", DataType::Int).repeated();
    (sizes.min_count, sizes.max_count) = (2, Some(3));
    let mut names = Parameter::new("names", DataType::String).repeated().optional();
    names.min_count = 1;
    service(vec![
        Operation {
            name: "call".to_owned(),
            documentation: "Solves.".to_owned(),
            signature: Signature {
                inputs: vec![deck.clone(), size, order, level, title, model, flag, sizes, names],
                outputs: vec![fields, notes, deck],
            },
        },
        Operation { name: "mesh".to_owned(), ..Operation::default() },
    ])
}

const ADDRESS: &str = "http://h.example:8080/arithmetic-test";

fn round_trip(service: &Service) {
    round_trip_in(service, View::default(), ADDRESS);
    let binary = View { arrays: ArrayForm::Binary, ..View::default() };
    round_trip_in(service, binary, &format!("{ADDRESS}?arrays=binary"));
    for (binding, query) in
        [(PackagingBinding::Swa, "binding=swa"), (PackagingBinding::Dime, "binding=dime")]
    {
        let view = View { binding, ..View::default() };
        round_trip_in(service, view, &format!("{ADDRESS}?{query}"));
        let view = View { data: DataView::Xdescr, ..view };
        round_trip_in(service, view, &format!("{ADDRESS}?data=xdescr&{query}"));
    }
    for (arrays, query) in [(ArrayForm::Elements, ""), (ArrayForm::Binary, "&arrays=binary")] {
        let view = View { data: DataView::Xdescr, arrays, ..View::default() };
        round_trip_in(service, view, &format!("{ADDRESS}?data=xdescr{query}"));
    }
}

fn round_trip_in(service: &Service, view: View, address: &str) {
    let interface = Interface::of(service);
    let text = write(service, &interface, view, ADDRESS);
    let description = read(&text).unwrap();
    assert_eq!(description.name, service.name);
    assert_eq!(description.namespace, service.namespace);
    assert_eq!(description.title, service.title);
    assert_eq!(description.documentation, service.documentation);
    assert!(description.ours);
    let definition: Vec<_> =
        description.operations.iter().map(|operation| operation.definition.clone()).collect();
    assert_eq!(definition, interface.verbs);
    for operation in &description.operations {
        let name = &operation.definition.name;
        assert_eq!(operation.action, action(&service.namespace, name));
        assert!(operation.request.is(&service.namespace, name));
        assert!(operation.response.is(&service.namespace, &format!("{name}Response")));
        assert!(operation.qualified);
        assert_eq!(operation.fault, Some(QName::new(&*service.namespace, "faultDetail")));
    }
    let versions = match view.binding {
        PackagingBinding::Soap => &[SoapVersion::V11, SoapVersion::V12][..],
        PackagingBinding::Swa | PackagingBinding::Dime => &[SoapVersion::V11],
    };
    let addresses: Vec<_> = versions.iter().map(|v| (*v, address.to_owned())).collect();
    assert_eq!(description.addresses, addresses);
}

#[test]
fn a_description_comes_back() {
    round_trip(&rich());
    round_trip(&service(Vec::new()));
}

#[test]
fn what_toolkits_need_is_there() {
    let service = rich();
    let text = write(&service, &Interface::of(&service), View::default(), ADDRESS);
    let document = roxmltree::Document::parse(&text).unwrap();
    let nodes = |name: &'static str| {
        let document = &document;
        document.descendants().filter(move |node| node.tag_name().name() == name)
    };
    let first = nodes("address").next().unwrap();
    assert_eq!(first.tag_name().namespace(), Some(crate::name::WSDL_SOAP_11));
    let mut actions: Vec<_> =
        nodes("operation").filter_map(|n| n.attribute("soapAction")).collect();
    let half = actions.len() / 2;
    actions.truncate(half);
    actions.sort_unstable();
    actions.dedup();
    assert_eq!(actions.len(), half, "soapAction is unique in a binding");
    assert!(nodes("import").next().is_none());
    let binary: Vec<_> =
        nodes("element").filter(|node| node.attribute("type") == Some("xs:base64Binary")).collect();
    assert!(!binary.is_empty());
    for node in binary {
        let content = node.attribute((crate::name::XMIME, "expectedContentTypes"));
        assert_eq!(content, Some("application/octet-stream"));
    }
    for attribute in ["default", "fixed"] {
        assert!(document.descendants().all(|node| {
            node.tag_name().namespace() != Some(crate::name::XSD)
                || node.attribute(attribute).is_none()
        }));
    }
    let within = |node: &roxmltree::Node<'_, '_>, name: &str| {
        node.parent().is_some_and(|parent| parent.tag_name().name() == name)
    };
    // A wrapper is told of where its operation is.
    let told = nodes("element").filter(|node| !within(node, "schema"));
    for element in told.chain(nodes("operation").filter(|node| within(node, "portType"))) {
        let told = element.descendants().any(|node| node.tag_name().name() == "documentation");
        assert!(told, "{:?} is documented", element.attribute("name"));
    }
}

/// What each of these was seen to stop at is in `schema`.
#[test]
fn what_older_readers_stop_at_is_not_there() {
    let mut service = rich();
    let mut method = Parameter::new("b_method", DataType::String);
    method.choices = vec!["direct".to_owned()];
    let operation = |name: &str, inputs: Vec<Parameter>| Operation {
        name: name.to_owned(),
        documentation: "It does.".to_owned(),
        signature: Signature { inputs, outputs: Vec::new() },
    };
    service.operations.push(operation("a", vec![method.clone()]));
    // `a` and `b_method`, `a_b` and `method`: their types have names of their own.
    method.name = "method".to_owned();
    method.choices.push("iterative".to_owned());
    service.operations.push(operation("a_b", vec![method]));
    round_trip(&service);
    for data in [DataView::Plain, DataView::Xdescr] {
        let view = View { data, ..View::default() };
        let text = write(&service, &Interface::of(&service), view, ADDRESS);
        let document = roxmltree::Document::parse(&text).unwrap();
        let mut names = std::collections::HashSet::new();
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let parent = node.parent_element().map_or("", |parent| parent.tag_name().name());
            let name = node.attribute("name");
            match node.tag_name().name() {
                "simpleType" if parent != "attribute" => assert!(names.insert(name.unwrap())),
                "complexType" if parent == "schema" => assert!(names.insert(name.unwrap())),
                "element" if parent == "schema" => assert_ne!(name, Some("fault")),
                "annotation" if parent == "element" => {
                    let own = node.next_siblings().any(|it| it.tag_name().name() == "complexType");
                    assert!(!own, "{:?}", node.parent().unwrap().attribute("name"));
                }
                "annotation" if parent == "complexType" => {
                    let element = node.parent_element().and_then(|it| it.parent_element()).unwrap();
                    let name = element.attribute("name").unwrap_or_default();
                    let wraps = Interface::of(&service).find(name).is_some();
                    assert!(!wraps && !name.ends_with("Response"), "{name}");
                }
                _ => {}
            }
        }
        assert!(names.contains("a_b_method") && names.contains("a_b_method_"), "{names:?}");
    }
}

#[test]
fn the_richer_view_types_files_otherwise_and_reads_back() {
    let service = rich();
    let interface = Interface::of(&service);
    let view = View { data: DataView::Xdescr, ..View::default() };
    let text = write(&service, &interface, view, ADDRESS);
    let description = read(&text).unwrap();
    let call = &description.operation("call").unwrap().definition;
    assert_eq!(call.signature.input("deck").unwrap().data_type, DataType::Raw);
    assert_eq!(call.signature.input("model").unwrap().data_type, DataType::Xml);
    assert!(call.signature.output("fields").unwrap().repeated);
}

#[test]
fn the_richer_view_has_a_choice_for_a_file_and_nothing_to_fetch() {
    let service = service(vec![Operation {
        name: "call".to_owned(),
        documentation: String::new(),
        signature: Signature {
            inputs: vec![
                Parameter::new("deck", DataType::Raw),
                Parameter::new("m", DataType::from_name("float[][]").unwrap()),
            ],
            outputs: vec![Parameter::new("case", DataType::Dir)],
        },
    }]);
    let interface = Interface::of(&service);
    for binding in [PackagingBinding::Soap, PackagingBinding::Swa, PackagingBinding::Dime] {
        let view = View { data: DataView::Xdescr, binding, ..View::default() };
        let text = write(&service, &interface, view, ADDRESS);
        let document = roxmltree::Document::parse(&text).unwrap();
        let nodes = |name: &'static str| {
            let document = &document;
            document.descendants().filter(move |node| node.tag_name().name() == name)
        };
        let published: Vec<_> =
            nodes("schema").filter_map(|node| node.attribute("targetNamespace")).collect();
        for import in nodes("import") {
            assert!(published.contains(&import.attribute("namespace").unwrap()));
            assert_eq!(import.attribute("schemaLocation"), None);
        }
        for prefix in ["wsa", "x", "o"] {
            let namespace =
                document.descendants().find_map(|node| node.lookup_namespace_uri(Some(prefix)));
            assert!(published.contains(&namespace.unwrap()), "{prefix}");
        }
        let of = |name: &str| {
            let named = |node: &roxmltree::Node<'_, '_>| node.attribute("name") == Some(name);
            let data = nodes("complexType").find(named).unwrap();
            let refers = data.descendants().filter_map(|node| node.attribute("ref"));
            refers.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("Data"), ["x:Value", "x:XMLData", "wsa:EndpointReference"]);
        let array =
            if binding == PackagingBinding::Soap { "DataArrayOfArrayOfFloat" } else { "DataArray" };
        assert!(of(array).contains(&"wsa:EndpointReference".to_owned()));
        let headers: Vec<_> = nodes("header").filter_map(|node| node.attribute("part")).collect();
        assert_eq!(headers[..3], ["key", "session", "outputs"]);
        let inputs = nodes("header")
            .all(|node| node.ancestors().any(|above| above.tag_name().name() == "input"));
        assert!(inputs, "with answers they would change what toolkits give back");
    }
    let plain = write(&service, &interface, View::default(), ADDRESS);
    for absent in ["EndpointReference", "urn:fishplate:options:1", ":header"] {
        assert!(!plain.contains(absent), "{absent}");
    }
    assert!(plain.contains("expectedContentTypes=\"application/x-tar\""));
}

#[test]
fn actions_are_made_as_toolkits_know_them() {
    assert_eq!(action("urn:test", "call"), "urn:test#call");
    assert_eq!(action("http://a.example/b", "call"), "http://a.example/b/call");
    assert_eq!(action("http://a.example/b/", "call"), "http://a.example/b/call");
}

#[test]
fn a_foreign_description_is_read() {
    let description = read(include_str!("foreign.wsdl")).unwrap();
    assert!(!description.ours);
    assert_eq!(description.title, "Calculator");
    let names: Vec<&str> =
        description.operations.iter().map(|operation| operation.definition.name.as_str()).collect();
    assert_eq!(names, ["Add", "Store"]);
    let add = description.operation("Add").unwrap();
    assert_eq!(add.action, "http://tempuri.org/Add");
    assert_eq!(add.definition.verb, Verb::Call);
    assert_eq!(add.definition.documentation, "Adds two integers.");
    assert!(add.qualified);
    let types: Vec<_> =
        add.definition.signature.inputs.iter().map(|p| (p.name.as_str(), &p.data_type)).collect();
    assert_eq!(types, [("intA", &DataType::Int), ("intB", &DataType::Int)]);
    let store = &description.operation("Store").unwrap().definition.signature;
    let colour = store.input("colour").unwrap();
    assert_eq!((&colour.data_type, colour.optional), (&DataType::String, true));
    assert_eq!(colour.choices, ["red", "green"]);
    assert_eq!(store.input("grid").unwrap().data_type.name(), "float[][]");
    let row = QName::new("http://tempuri.org/", "ArrayOfFloat");
    let names = vec![("grid".to_owned(), vec![row, QName::new("", "float")])];
    assert_eq!(description.operation("Store").unwrap().items, names);
    let points = store.input("points").unwrap();
    assert!(points.repeated);
    let DataType::Record(fields) = &points.data_type else { panic!("{points:?}") };
    assert_eq!(fields[0].data_type, DataType::Double);
    assert_eq!(store.output("picture").unwrap().data_type, DataType::Raw);
    assert_eq!(description.address(SoapVersion::V12), Some("http://h.example/calc.asmx"));
}

#[test]
fn what_cannot_be_used_says_why() {
    for (text, why) in [
        ("not xml", "not XML"),
        ("<a/>", "not WSDL 1.1"),
        ("<!DOCTYPE a><a/>", "not XML"),
        ("<definitions xmlns='http://schemas.xmlsoap.org/wsdl/'/>", "no service"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let rpc = include_str!("foreign.wsdl").replace("style=\"document\"", "style=\"rpc\"");
    assert!(read(&rpc).unwrap_err().to_string().contains("rpc"));
    let looped = include_str!("foreign.wsdl").replace("type=\"s:double\"", "type=\"tns:Point\"");
    assert!(read(&looped).unwrap().operation("Store").is_none());
}

#[test]
fn what_is_no_name_is_refused() {
    let honest = include_str!("foreign.wsdl");
    let hostile = ["/etc/passwd", "../../.profile", "..", "a/b", "", "-x", "a:b", "a\nb"];
    for name in hostile.map(|name| format!("name=\"{name}\"")) {
        // Of an output, of a record's field, of an operation: the others can be used.
        for of in ["picture", "x", "Store"] {
            let text = honest.replace(&format!("name=\"{of}\""), &name);
            let read = read(&text).unwrap();
            assert!(read.operation("Add").is_some() && read.operations.len() == 1, "{of} {name}");
        }
        let service = honest.replace("service name=\"Calculator\"", &format!("service {name}"));
        let error = read(&service).unwrap_err().to_string();
        assert!(error.contains("is no name of a service"), "{name}: {error}");
    }
    let letters = honest.replace("name=\"picture\"", "name=\"Größe_1.2-a\"");
    assert!(read(&letters).unwrap().operation("Store").is_some());
}

fn parameter(names: impl Strategy<Value = String>) -> impl Strategy<Value = Parameter> {
    let text = || "[ -~é\n]{0,12}";
    let data_type = prop_oneof![
        Just(DataType::Int),
        Just(DataType::Long),
        Just(DataType::Float),
        Just(DataType::Double),
        Just(DataType::Bool),
        Just(DataType::String),
        Just(DataType::Raw),
        Just(DataType::Xml),
        Just(DataType::Dir),
        proptest::sample::select(
            &["int[]", "float[][]", "double[n,m]", "long[n,3]", "float[,,]"][..]
        )
        .prop_map(|name| DataType::from_name(name).unwrap()),
    ];
    let marks = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let texts = (text(), text(), text());
    let options = (
        proptest::option::of(text()),
        proptest::option::of(text()),
        proptest::option::of(text()),
        proptest::collection::vec(text(), 0..3),
    );
    (names, data_type, marks, texts, options).prop_map(
        |(name, data_type, marks, texts, (default, min, max, choices))| {
            let mut parameter = Parameter::new(name, data_type);
            (parameter.help, parameter.unit, parameter.media_type) = texts;
            parameter.optional = marks.0 || default.is_some();
            parameter.repeated = marks.1;
            parameter.allow_leading_dash = marks.2;
            parameter.trim = marks.3;
            (parameter.default, parameter.min, parameter.max) = (default, min, max);
            parameter.choices = choices;
            parameter
        },
    )
}

proptest! {
    #[test]
    fn any_service_comes_back(
        inputs in proptest::collection::vec(parameter("[a-z][a-zA-Z0-9_.-]{0,5}".boxed()), 0..4),
        outputs in proptest::collection::vec(parameter("[a-z][a-zA-Z0-9_.-]{0,5}".boxed()), 0..3),
        documentation in "[ -~é\n]{0,30}",
        sole in any::<bool>(),
    ) {
        let name = if sole { "call" } else { "solve" };
        round_trip(&service(vec![Operation {
            name: name.to_owned(),
            documentation,
            signature: Signature { inputs, outputs },
        }]));
    }
}
