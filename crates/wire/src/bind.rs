//! A request's values to arguments, and a reply's to results.

use fishplate_contract::{
    Argument, Array, ArrayType, DataType, Dimension, Fault, FaultCode, OutputChoice, Parameter,
    Payload, SubmittedJob, Value, dimensions, lexical,
};

use crate::detail;
use crate::envelope::{Body, Child, HeaderBlock, MessageArray, SoapFault, ValueContent};
use crate::headers::{options, outputs};
use crate::name::QName;
use crate::unpack::UnpackedMessage;

/// The arguments among these parameters, in the caller's order. Scalars stay text; their values
/// are checked by [`Parameter::accept`].
///
/// # Errors
/// `UnexpectedParameter`, `MissingParameter`; `InvalidValue` for an array whose shape is not that of
/// its type, of its bytes or of the others.
pub fn bind(
    operation: &str,
    parameters: &[Parameter],
    children: Vec<Child>,
) -> Result<Vec<Argument>, Fault> {
    if let Some(child) = children.iter().find(|child| is_unexpected(child)) {
        return Err(unexpected(operation, parameters, &child.name));
    }
    complete(operation, parameters, arguments(parameters, children)?)
}

/// The arguments of a call that came as such: each of a parameter, and none twice unless it may be; in
/// the form that its parameter has.
///
/// # Errors
/// As [`bind`].
pub fn accept(
    operation: &str,
    parameters: &[Parameter],
    arguments: Vec<Argument>,
) -> Result<Vec<Argument>, Fault> {
    let mut accepted: Vec<Argument> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Some(parameter) = parameters.iter().find(|known| known.name == argument.name) else {
            return Err(unexpected(operation, parameters, &QName::new("", argument.name)));
        };
        if !parameter.repeated && accepted.iter().any(|other| other.name == argument.name) {
            return Err(twice(&parameter.name));
        }
        accepted.push(argument.in_form_of(parameter));
    }
    complete(operation, parameters, accepted)
}

/// The fault of a parameter that stands twice, though it may not.
pub(crate) fn twice(parameter: &str) -> Fault {
    let message = format!("parameter {parameter} stands twice");
    Fault::new(FaultCode::UnexpectedParameter, message).parameter(parameter)
}

/// The same arguments, if none is missing and their dimensions agree.
fn complete(
    operation: &str,
    parameters: &[Parameter],
    arguments: Vec<Argument>,
) -> Result<Vec<Argument>, Fault> {
    dimensions::check(parameters, &arguments)?;
    match missing(parameters, &arguments) {
        None => Ok(arguments),
        Some(parameter) => {
            let message = format!(
                "operation {operation} needs the parameter {} of type {}, which is missing",
                parameter.name,
                parameter.data_type.name()
            );
            Err(Fault::new(FaultCode::MissingParameter, message).parameter(&*parameter.name))
        }
    }
}

fn is_unexpected(child: &Child) -> bool {
    match &child.content {
        ValueContent::Unexpected => true,
        ValueContent::Fields(fields) => fields.iter().any(is_unexpected),
        _ => false,
    }
}

fn unexpected(operation: &str, parameters: &[Parameter], name: &QName) -> Fault {
    let takes = match parameters {
        [] => "it takes none".to_owned(),
        some => {
            let names: Vec<&str> = some.iter().map(|parameter| parameter.name.as_str()).collect();
            format!("it takes {}", names.join(", "))
        }
    };
    let known = parameters.iter().map(|parameter| parameter.name.as_str());
    let hint = lexical::closest(&name.local, known).map(|near| format!("; did you mean {near}?"));
    let message = format!(
        "operation {operation} has no parameter {}: {takes}{}",
        lexical::shortened(&name.to_string()),
        hint.unwrap_or_default()
    );
    Fault::new(FaultCode::UnexpectedParameter, message).parameter(&*name.local)
}

/// Values of parameters; what is nil or none of them is left out.
pub(crate) fn arguments(
    parameters: &[Parameter],
    children: Vec<Child>,
) -> Result<Vec<Argument>, Fault> {
    let mut bound = Vec::with_capacity(children.len());
    for child in children {
        let name = child.name.local;
        let data_type = || {
            let parameter = parameters.iter().find(|parameter| parameter.name == name)?;
            Some(&parameter.data_type)
        };
        let value = match child.content {
            ValueContent::Text(text) => Value::Text(text),
            ValueContent::Data(payload) => Value::Data(payload),
            ValueContent::Fields(fields) => match data_type() {
                Some(DataType::Record(known)) => Value::Record(arguments(known, fields)?),
                _ => continue,
            },
            ValueContent::Array(numbers) => match data_type() {
                Some(DataType::Array(of)) => array(&name, of, numbers)?,
                _ => continue,
            },
            ValueContent::Nil | ValueContent::Unexpected | ValueContent::Part(_) => continue,
        };
        bound.push(Argument { name, label: child.label, value });
    }
    Ok(bound)
}

/// An array whose shape is that of its type and of its bytes; or a reference to one, whose shape shows
/// in what is there if neither the shape nor the number of bytes came with the reference.
fn array(name: &str, of: &ArrayType, numbers: MessageArray) -> Result<Value, Fault> {
    let invalid = |what: String| {
        let message = format!("parameter {name} is of type {of}: {what}");
        Fault::new(FaultCode::InvalidValue, message).parameter(name)
    };
    let missing = || invalid("its bytes are missing".to_owned());
    let ValueContent::Data(data) = *numbers.data else { return Err(missing()) };
    let refers = matches!(data, Payload::Reference(_));
    let len = data.len().unwrap_or_default();
    let untold = refers && data.len().is_none();
    let told = |shape: &Vec<u64>| !untold || shape.first() != Some(&Array::UNKNOWN);
    let shape = match numbers.shape.filter(told) {
        Some(shape) if shape.first() == Some(&Array::UNKNOWN) => {
            let row = Array::size(of.element, &shape[1..]).filter(|row| *row > 0);
            let rows = row.filter(|row| len.is_multiple_of(*row)).map(|row| len / row);
            let rows = rows.ok_or_else(|| {
                invalid(format!("its {len} bytes are not so many rows as its shape says"))
            })?;
            [&[rows], &shape[1..]].concat()
        }
        Some(shape) => shape,
        None if refers => return Ok(Value::Data(data)),
        None => inferred(of, len).ok_or_else(|| {
            invalid(format!(
                "its {len} bytes do not tell its shape: give it in the attribute shape"
            ))
        })?,
    };
    let told = Array::shape_text(&shape);
    if !of.fits(&shape) {
        return Err(invalid(format!("it is {told}")));
    }
    match Array::size(of.element, &shape) {
        Some(size) if refers || size == len => {
            Ok(Value::Array(Array { element: of.element, shape, data }))
        }
        Some(size) => Err(invalid(format!("as {told} it has {size} bytes, but {len} came"))),
        None => Err(invalid(format!("as {told} it has more bytes than can be counted"))),
    }
}

/// The shape of an array of so many bytes of which at most one length is not fixed.
fn inferred(of: &ArrayType, len: u64) -> Option<Vec<u64>> {
    let fixed = |dimension: &Dimension| match dimension {
        Dimension::Fixed(length) => Some(*length),
        Dimension::Any | Dimension::Named(_) => None,
    };
    let lengths: Vec<Option<u64>> = of.dimensions.iter().map(fixed).collect();
    let free = lengths.iter().filter(|length| length.is_none()).count();
    let row = lengths
        .iter()
        .flatten()
        .try_fold(of.element.size() as u64, |size, length| size.checked_mul(*length))?;
    let rows = match row {
        0 => 0,
        row if free == 1 && !len.is_multiple_of(row) => return None,
        row => len / row,
    };
    (free <= 1).then(|| lengths.iter().map(|length| length.unwrap_or(rows)).collect())
}

/// The first parameter that should have a value and has none.
fn missing<'p>(
    parameters: impl IntoIterator<Item = &'p Parameter>,
    arguments: &[Argument],
) -> Option<&'p Parameter> {
    parameters.into_iter().find(|parameter| {
        parameter.is_required() && !arguments.iter().any(|argument| argument.name == parameter.name)
    })
}

/// An answer to a client.
#[derive(Clone, Debug)]
pub struct SoapReply {
    /// The results, in the operation's order.
    pub outputs: Vec<Argument>,
    /// The job behind it, from our header.
    pub job: Option<SubmittedJob>,
    /// How files and arrays came, if the call chose; by our header.
    pub chosen: Vec<OutputChoice>,
}

/// The results in a parcel that a client got.
///
/// # Errors
/// The fault in the parcel as the server meant it; `MalformedMessage` if the answer is not what
/// the description says.
pub fn bind_reply(unpacked: UnpackedMessage, parameters: &[Parameter]) -> Result<SoapReply, Fault> {
    let job = options::read_job(&unpacked.envelope.headers);
    let chosen = outputs::of_answer(&unpacked.envelope.headers);
    let children = match unpacked.envelope.body {
        Body::Fault(fault) => return Err(fault_of(&fault, &unpacked.envelope.headers)),
        Body::Wrapper { children, .. } => children,
        Body::Empty => Vec::new(),
    };
    let mut values = arguments(parameters, children)?;
    // Foreign services describe a list that may be empty as one that may not.
    let single = parameters.iter().filter(|parameter| !parameter.repeated);
    if let Some(lacking) = missing(single, &values) {
        let message = format!("the answer lacks {}, which the WSDL promises", lacking.name);
        return Err(Fault::new(FaultCode::MalformedMessage, message).parameter(&*lacking.name));
    }
    values.sort_by_key(|value| parameters.iter().position(|output| output.name == value.name));
    Ok(SoapReply { outputs: values, job, chosen })
}

/// The fault that a SOAP fault means: ours from its detail, or from a header if it is about those; a
/// foreign one by its code.
fn fault_of(fault: &SoapFault, headers: &[HeaderBlock]) -> Fault {
    let headers = headers.iter().map(|header| &header.element);
    if let Some(ours) = fault.detail.iter().chain(headers).find_map(detail::read) {
        return ours;
    }
    let mut codes = fault.subcodes.iter().rev().chain([&fault.code]);
    let named = codes.find_map(|code| FaultCode::from_name(&code.local));
    let general = fault.code.local.split('.').next();
    let code = named.unwrap_or(match general {
        Some("Client" | "Sender") => FaultCode::InvalidValue,
        _ => FaultCode::Internal,
    });
    let reason = if fault.reason.is_empty() { "no reason given" } else { &fault.reason };
    Fault::new(code, format!("the service answered with the fault {}: {reason}", fault.code.local))
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{DataRef, ElementType};

    use super::*;
    use crate::envelope::ArrayForm;

    fn child(name: &str, content: ValueContent) -> Child {
        Child { name: QName::new("urn:t", name), label: None, content }
    }

    fn text(name: &str, text: &str) -> Child {
        child(name, ValueContent::Text(text.to_owned()))
    }

    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::new("deck", DataType::Raw),
            Parameter::new("size", DataType::Double).default("1"),
            Parameter::new("order", DataType::Int).optional(),
        ]
    }

    #[test]
    fn arguments_keep_the_callers_order_and_nil_is_left_out() {
        let deck = Payload::Inline(bytes::Bytes::from_static(b"x"));
        let children = vec![
            text("size", " 2 "),
            child("order", ValueContent::Nil),
            child("deck", ValueContent::Data(deck)),
        ];
        let bound = bind("call", &parameters(), children).unwrap();
        let names: Vec<&str> = bound.iter().map(|argument| argument.name.as_str()).collect();
        assert_eq!(names, ["size", "deck"]);
        assert!(matches!(&bound[0].value, Value::Text(text) if text == " 2 "));
    }

    #[test]
    fn a_missing_parameter_is_named_with_its_type() {
        let fault =
            bind("call", &parameters(), vec![child("deck", ValueContent::Nil)]).unwrap_err();
        assert_eq!(fault.code, FaultCode::MissingParameter);
        assert_eq!(fault.parameter.as_deref(), Some("deck"));
        assert!(fault.message.contains("raw"));
    }

    #[test]
    fn an_unknown_parameter_is_told_with_what_is_near() {
        let fault = bind("call", &parameters(), vec![child("sise", ValueContent::Unexpected)]);
        let fault = fault.unwrap_err();
        assert_eq!(fault.code, FaultCode::UnexpectedParameter);
        assert_eq!(fault.parameter.as_deref(), Some("sise"));
        assert!(fault.message.contains("deck, size, order"), "{}", fault.message);
        assert!(fault.message.contains("did you mean size?"), "{}", fault.message);
    }

    #[test]
    fn a_reference_of_no_known_length_has_the_rows_that_are_there() {
        let refers = |len| {
            let reference = DataRef { len, ..DataRef::new("http://h/a") };
            let data = Box::new(ValueContent::Data(Payload::Reference(reference)));
            let (form, names) = (ArrayForm::Binary, Vec::new());
            let shape = Some(vec![Array::UNKNOWN, 3]);
            let numbers = MessageArray { element: ElementType::Double, shape, data, form, names };
            array("a", &"double[n,3]".parse().unwrap(), numbers)
        };
        assert!(
            matches!(refers(None), Ok(Value::Data(Payload::Reference(_)))),
            "{:?}",
            refers(None)
        );
        let Ok(Value::Array(array)) = refers(Some(48)) else { panic!("{:?}", refers(Some(48))) };
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(refers(Some(47)).unwrap_err().code, FaultCode::InvalidValue);
    }

    #[test]
    fn a_fault_of_headers_is_read_from_its_header() {
        let told = Fault::new(FaultCode::MustUnderstand, "no such header");
        let element = detail::write(crate::name::FAULT, &told);
        let header = HeaderBlock::optional(element);
        assert_eq!(fault_of(&SoapFault::default(), &[header]), told);
    }

    #[test]
    fn a_foreign_fault_is_told_by_its_code_and_reason() {
        let foreign = |code: &str| {
            let code = QName::new("", code);
            fault_of(&SoapFault { code, reason: "no".to_owned(), ..SoapFault::default() }, &[])
        };
        assert_eq!(foreign("Client").code, FaultCode::InvalidValue);
        assert_eq!(foreign("Client.Authentication").code, FaultCode::InvalidValue);
        assert_eq!(foreign("Server").code, FaultCode::Internal);
        assert_eq!(foreign("MustUnderstand").code, FaultCode::MustUnderstand);
        assert!(foreign("Server").message.ends_with("Server: no"));
    }
}
