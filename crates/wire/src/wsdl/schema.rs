//! The schema of a service: a wrapper element for each request and response, named types for
//! records and choices, one element for faults.
//!
//! An annotation stands in a type, or in an element whose type has a name: PySimpleSOAP takes one in an
//! element with a type of its own for that type. A wrapper has none, because Axis does not unwrap it
//! then: what an operation does is told in the port type. No element's simple type is without a name: Mono's
//! svcutil stops at one.

use fishplate_contract::{ArrayType, DataType, FaultCode, Interface, Parameter, VerbDefinition};

use super::arrays::ArrayTypes;
use super::markup::Markup;
use super::view::{DataView, PackagingBinding, View};
use super::xdescr;
use crate::detail::FAULT_ELEMENT;
use crate::envelope::ArrayForm;
use crate::name::{PARAMETER, SWA_REF, XMIME, XSD};

/// Java gets a `DataHandler` for this; for an image or XML it would get something that reads the
/// file into memory.
const ANY_CONTENT: (&str, &str) = ("xmime:expectedContentTypes", "application/octet-stream");

/// What a directory is sent as. No such type is registered; this name is in general use.
const TAR: (&str, &str) = ("xmime:expectedContentTypes", "application/x-tar");

/// How a file is typed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum FileType {
    Base64,
    /// The URL of a part of the message.
    SwaRef,
}

impl FileType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Base64 => "xs:base64Binary",
            Self::SwaRef => "ref:swaRef",
        }
    }

    /// The declaration of its prefix, if it has one of its own.
    pub(super) fn declaration(self) -> Option<(&'static str, &'static str)> {
        (self == Self::SwaRef).then_some(("xmlns:ref", SWA_REF))
    }

    /// Imports its namespace into a schema.
    pub(super) fn import(self, to: &mut Markup) {
        if self == Self::SwaRef {
            to.empty("xs:import", &[("namespace", SWA_REF)]);
        }
    }

    /// Attributes of an element or a type of it.
    pub(super) fn attributes(self) -> Option<(&'static str, &'static str)> {
        (self == Self::Base64).then_some(ANY_CONTENT)
    }
}

pub(super) fn write(to: &mut Markup, namespace: &str, interface: &Interface, view: View) {
    let file = match view.binding {
        PackagingBinding::Soap | PackagingBinding::Dime => FileType::Base64,
        PackagingBinding::Swa => FileType::SwaRef,
    };
    let mut attributes = vec![
        ("targetNamespace", namespace),
        ("elementFormDefault", "qualified"),
        ("xmlns:xs", XSD),
        ("xmlns:tns", namespace),
        ("xmlns:xmime", XMIME),
    ];
    if file == FileType::SwaRef {
        write_swa_ref(to);
    }
    attributes.extend(file.declaration());
    let richer = view.data == DataView::Xdescr;
    if richer {
        xdescr::write_schemas(to, file);
        attributes.extend(xdescr::IMPORTS);
    }
    to.open("xs:schema", &attributes);
    file.import(to);
    for (_, namespace) in xdescr::IMPORTS.iter().filter(|_| richer) {
        to.empty("xs:import", &[("namespace", namespace)]);
    }
    // By this our client knows a server of ours.
    to.open("xs:annotation", &[]);
    to.empty("xs:appinfo", &[("source", PARAMETER)]);
    to.close();
    let mut schema = Schema {
        view,
        file,
        labelled: Vec::new(),
        choices: Vec::new(),
        arrays: ArrayTypes::of(file, view.data),
        data_used: false,
    };
    for definition in &interface.verbs {
        schema.wrappers(to, definition);
    }
    for definition in &interface.verbs {
        for parameters in [&definition.signature.inputs, &definition.signature.outputs] {
            schema.records(to, &definition.name, parameters);
        }
    }
    schema.choice_types(to);
    schema.labelled_types(to);
    schema.arrays.write(to);
    if schema.data_used {
        xdescr::write_data(to);
    }
    write_fault(to);
    to.close();
}

/// The profile's own schema, so that nothing has to be fetched.
fn write_swa_ref(to: &mut Markup) {
    to.open("xs:schema", &[("targetNamespace", SWA_REF), ("xmlns:xs", XSD)]);
    to.open("xs:simpleType", &[("name", "swaRef")]);
    to.empty("xs:restriction", &[("base", "xs:anyURI")]);
    to.close();
    to.close();
}

struct Schema {
    view: View,
    file: FileType,
    /// Types that a repeated element of it is of, in the order of their use.
    labelled: Vec<DataType>,
    /// Types of texts of which only some are allowed: name and texts, in the order of their use.
    choices: Vec<(String, Vec<String>)>,
    arrays: ArrayTypes,
    data_used: bool,
}

impl Schema {
    fn wrappers(&mut self, to: &mut Markup, definition: &VerbDefinition) {
        let name = &definition.name;
        self.wrapper(to, name, name, &definition.signature.inputs);
        let response = format!("{name}Response");
        self.wrapper(to, &response, name, &definition.signature.outputs);
    }

    fn wrapper(
        &mut self,
        to: &mut Markup,
        element: &str,
        operation: &str,
        parameters: &[Parameter],
    ) {
        to.open("xs:element", &[("name", element)]);
        to.open("xs:complexType", &[]);
        self.sequence(to, operation, parameters);
        to.close();
        to.close();
    }

    fn sequence(&mut self, to: &mut Markup, within: &str, parameters: &[Parameter]) {
        if parameters.is_empty() {
            to.empty("xs:sequence", &[]);
            return;
        }
        to.open("xs:sequence", &[]);
        for parameter in parameters {
            self.element(to, within, parameter);
        }
        to.close();
    }

    fn element(&mut self, to: &mut Markup, within: &str, parameter: &Parameter) {
        let type_name = self.type_name(within, parameter);
        let mut attributes = vec![("name", parameter.name.as_str()), ("type", &*type_name)];
        let (least, most) = (parameter.min_count.to_string(), parameter.max_count);
        let most = most.map_or("unbounded".to_owned(), |most| most.to_string());
        if !parameter.is_required() {
            attributes.push(("minOccurs", "0"));
        } else if parameter.repeated && parameter.min_count > 1 {
            attributes.push(("minOccurs", &least));
        }
        if parameter.repeated {
            attributes.push(("maxOccurs", &most));
        }
        if parameter.data_type.is_binary() && type_name == self.file.name() {
            let told = self.file.attributes();
            attributes.extend(match parameter.data_type {
                DataType::Dir => told.map(|_| TAR),
                _ => told,
            });
        }
        to.open("xs:element", &attributes);
        annotate_parameter(to, parameter, self.view);
        to.close();
    }

    fn type_name(&mut self, within: &str, parameter: &Parameter) -> String {
        match (&parameter.data_type, self.view.data) {
            (DataType::Record(_), _) => format!("tns:{within}_{}", parameter.name),
            (DataType::Array(of), _) => {
                let name = self.arrays.name(of, parameter.repeated, self.view.arrays());
                format!("tns:{name}")
            }
            (DataType::Raw | DataType::Xml | DataType::Dir, DataView::Xdescr) => {
                self.data_used = true;
                format!("tns:{}", xdescr::DATA)
            }
            (data_type, _) if parameter.repeated => {
                if !self.labelled.iter().any(|has| xsd_name(has) == xsd_name(data_type)) {
                    self.labelled.push(data_type.clone());
                }
                format!("tns:{}", labelled_name(data_type))
            }
            _ if is_enumerated(parameter) => {
                format!("tns:{}", self.choice_name(within, parameter))
            }
            (data_type, _) => self.simple_name(data_type),
        }
    }

    /// The type of a choice of texts; the same choice has the same type everywhere.
    fn choice_name(&mut self, within: &str, parameter: &Parameter) -> String {
        let same = self.choices.iter().find(|(_, choices)| *choices == parameter.choices);
        if let Some((name, _)) = same {
            return name.clone();
        }
        let mut name = format!("{within}_{}", parameter.name);
        while self.choices.iter().any(|(taken, _)| *taken == name) {
            name.push('_');
        }
        self.choices.push((name.clone(), parameter.choices.clone()));
        name
    }

    fn choice_types(&self, to: &mut Markup) {
        for (name, choices) in &self.choices {
            to.open("xs:simpleType", &[("name", name)]);
            to.open("xs:restriction", &[("base", "xs:string")]);
            for choice in choices {
                to.empty("xs:enumeration", &[("value", choice)]);
            }
            to.close();
            to.close();
        }
    }

    /// The type of a value that has no attributes.
    fn simple_name(&self, data_type: &DataType) -> String {
        match data_type.is_binary() {
            true => self.file.name().to_owned(),
            false => format!("xs:{}", xsd_name(data_type)),
        }
    }

    /// The named types of records, inner ones after the one that holds them.
    fn records(&mut self, to: &mut Markup, within: &str, parameters: &[Parameter]) {
        for parameter in parameters {
            let DataType::Record(fields) = &parameter.data_type else { continue };
            let name = format!("{within}_{}", parameter.name);
            to.open("xs:complexType", &[("name", &name)]);
            annotate(to, &parameter.help, &[], &[]);
            self.sequence(to, &name, fields);
            to.close();
            self.records(to, &name, fields);
        }
    }

    /// Types of repeated values: the value with a `name` that tells it from the others.
    fn labelled_types(&self, to: &mut Markup) {
        for data_type in &self.labelled {
            let name = labelled_name(data_type);
            let mut attributes = vec![("name", name.as_str())];
            if data_type.is_binary() {
                attributes.extend(self.file.attributes());
            }
            to.open("xs:complexType", &attributes);
            annotate(to, "One of several values, told apart by its name.", &[], &[]);
            to.open("xs:simpleContent", &[]);
            to.open("xs:extension", &[("base", &self.simple_name(data_type))]);
            to.empty("xs:attribute", &[("name", "name"), ("type", "xs:string")]);
            to.close();
            to.close();
            to.close();
        }
    }
}

/// Texts are enumerated in the schema; toolkits differ in what they make of enumerated numbers.
fn is_enumerated(parameter: &Parameter) -> bool {
    !parameter.choices.is_empty() && parameter.data_type == DataType::String && !parameter.repeated
}

fn xsd_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int => "int",
        DataType::Long => "long",
        DataType::Float => "float",
        DataType::Double => "double",
        DataType::Bool => "boolean",
        DataType::String => "string",
        DataType::DateTime => "dateTime",
        DataType::Raw | DataType::Xml | DataType::Dir => "base64Binary",
        DataType::Array(_) | DataType::Record(_) => "anyType",
    }
}

fn labelled_name(data_type: &DataType) -> String {
    if data_type.is_binary() {
        "NamedFile".to_owned()
    } else {
        format!("Named_{}", xsd_name(data_type))
    }
}

/// Documentation, and in `xs:appinfo` what our client reads again.
pub(crate) fn annotate(to: &mut Markup, text: &str, info: &[(&str, &str)], choices: &[String]) {
    if text.is_empty() && info.is_empty() {
        return;
    }
    to.open("xs:annotation", &[]);
    if !text.is_empty() {
        to.text("xs:documentation", &[], text);
    }
    if !info.is_empty() {
        to.open("xs:appinfo", &[("source", PARAMETER)]);
        let attributes: Vec<(&str, &str)> =
            [("xmlns:p", PARAMETER)].into_iter().chain(info.iter().copied()).collect();
        if choices.is_empty() {
            to.empty("p:parameter", &attributes);
        } else {
            to.open("p:parameter", &attributes);
            for choice in choices {
                to.text("p:choice", &[], choice);
            }
            to.close();
        }
        to.close();
    }
    to.close();
}

fn annotate_parameter(to: &mut Markup, parameter: &Parameter, view: View) {
    let text = parameter_text(parameter);
    let mut info: Vec<(&str, &str)> = Vec::new();
    let type_name = parameter.data_type.name();
    let schema_tells = match &parameter.data_type {
        DataType::Xml | DataType::Dir => false,
        DataType::Raw | DataType::Array(_) if view.data == DataView::Xdescr => false,
        DataType::Array(of) => {
            view.arrays() == ArrayForm::Elements && *of == ArrayType::new(of.element, of.rank())
        }
        _ => true,
    };
    if !schema_tells {
        info.push(("type", &type_name));
    }
    for (name, value) in [("unit", &parameter.unit), ("mediaType", &parameter.media_type)] {
        if !value.is_empty() {
            info.push((name, value));
        }
    }
    let optional =
        [("default", &parameter.default), ("min", &parameter.min), ("max", &parameter.max)];
    for (name, value) in optional {
        info.extend(value.as_deref().map(|value| (name, value)));
    }
    if parameter.allow_leading_dash {
        info.push(("allowLeadingDash", "true"));
    }
    if parameter.trim {
        info.push(("trim", "true"));
    }
    let least = parameter.min_count.to_string();
    if parameter.repeated && parameter.optional {
        info.push(("optional", "true"));
    }
    if parameter.repeated && parameter.min_count > 0 {
        info.push(("minCount", &least));
    }
    let choices: &[String] = if is_enumerated(parameter) { &[] } else { &parameter.choices };
    let exact = parameter.help.trim() == parameter.help;
    if text != parameter.help || !exact || !info.is_empty() || !choices.is_empty() {
        info.push(("help", &parameter.help));
    }
    annotate(to, &text, &info, choices);
}

/// All that people should know of a parameter.
fn parameter_text(parameter: &Parameter) -> String {
    let mut sentences = Vec::new();
    if !parameter.help.is_empty() {
        sentences.push(parameter.help.clone());
    }
    match &parameter.data_type {
        DataType::Xml => sentences.push("An XML file.".to_owned()),
        DataType::Dir => {
            sentences.push(format!("A directory, as a tar archive ({}).", TAR.1));
        }
        DataType::Array(of) => sentences.push(format!("An array: {of}.")),
        _ => {}
    }
    for (what, value) in [("Unit", &parameter.unit), ("Content", &parameter.media_type)] {
        if !value.is_empty() {
            sentences.push(format!("{what}: {value}."));
        }
    }
    match (&parameter.min, &parameter.max) {
        (Some(min), Some(max)) => sentences.push(format!("From {min} to {max}.")),
        (Some(min), None) => sentences.push(format!("At least {min}.")),
        (None, Some(max)) => sentences.push(format!("At most {max}.")),
        (None, None) => {}
    }
    if !parameter.choices.is_empty() {
        sentences.push(format!("One of: {}.", parameter.choices.join(", ")));
    }
    if let Some(default) = &parameter.default {
        sentences.push(format!("Default: {default}."));
    }
    if sentences.is_empty() {
        sentences.push(format!("Of type {}.", parameter.data_type.name()));
    }
    sentences.join(" ")
}

/// The one declared fault: what [`crate::detail`] writes.
fn write_fault(to: &mut Markup) {
    to.open("xs:element", &[("name", FAULT_ELEMENT)]);
    to.open("xs:complexType", &[]);
    annotate(to, "What went wrong, in the detail of a SOAP fault.", &[], &[]);
    to.open("xs:sequence", &[]);
    let codes: Vec<&str> = FaultCode::ALL.iter().map(|code| code.name()).collect();
    let code = format!("What kind of fault: {}.", codes.join(", "));
    for (name, xsd, optional, text) in [
        ("code", "xs:string", false, code.as_str()),
        ("message", "xs:string", false, "What was wrong and what would be right."),
        ("parameter", "xs:string", true, "The parameter it is about."),
        ("limit", "", true, "The limit it ran into."),
        ("job", "xs:string", true, "ID of the job it is about."),
        ("exitCode", "xs:int", true, "The program's exit code."),
        ("signal", "xs:string", true, "The signal that ended the program."),
        ("stderr", "xs:string", true, "What the program's standard error said last."),
        ("retryAfter", "xs:double", true, "Seconds until it is worth trying again."),
    ] {
        let mut attributes = vec![("name", name)];
        if !xsd.is_empty() {
            attributes.push(("type", xsd));
        }
        if optional {
            attributes.push(("minOccurs", "0"));
        }
        to.open("xs:element", &attributes);
        if xsd.is_empty() {
            write_limit(to, text);
        } else {
            annotate(to, text, &[], &[]);
        }
        to.close();
    }
    to.close();
    to.close();
    to.close();
}

fn write_limit(to: &mut Markup, text: &str) {
    to.open("xs:complexType", &[]);
    annotate(to, text, &[], &[]);
    to.open("xs:sequence", &[]);
    for (name, text) in [("name", "The limit's name."), ("value", "Its value, with its unit.")] {
        to.open("xs:element", &[("name", name), ("type", "xs:string")]);
        annotate(to, text, &[], &[]);
        to.close();
    }
    to.close();
    to.close();
}
