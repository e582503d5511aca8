//! A call's arguments, checked as a program's are: what is missing, twice or unknown, what is no
//! text of its type, what is out of range.

use fishplate_contract::{Argument, Array, Fault, FaultCode, Parameter, Payload, Value, lexical};

/// The arguments in the caller's order, texts trimmed, defaults at the end.
pub(super) fn accept(
    operation: &str,
    parameters: &[Parameter],
    mut arguments: Vec<Argument>,
) -> Result<Vec<Argument>, Fault> {
    for index in 0..arguments.len() {
        let name = arguments[index].name.as_str();
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
            return Err(stray(operation, parameters, name));
        };
        if arguments[..index].iter().any(|earlier| earlier.name == name) {
            let what = format!("parameter {name} stands twice; send it once");
            return Err(Fault::new(FaultCode::UnexpectedParameter, what).parameter(name));
        }
        accept_value(parameter, &mut arguments[index].value)?;
    }
    for parameter in parameters {
        if arguments.iter().any(|argument| argument.name == parameter.name) {
            continue;
        }
        match &parameter.default {
            Some(text) => arguments.push(Argument::text(&*parameter.name, &**text)),
            None if parameter.optional => {}
            None => return Err(missing(parameter)),
        }
    }
    Ok(arguments)
}

fn accept_value(parameter: &Parameter, value: &mut Value) -> Result<(), Fault> {
    let name = &parameter.name;
    let wrong = |should: &str| {
        let type_name = parameter.data_type.name();
        let message = format!("parameter {name} is of type {type_name}: {should}");
        Err(Fault::new(FaultCode::InvalidValue, message).parameter(name))
    };
    let data_type = &parameter.data_type;
    match value {
        Value::Data(Payload::Reference(reference))
        | Value::Array(Array { data: Payload::Reference(reference), .. }) => {
            let message = format!(
                "parameter {name} is a reference to {:?}, and this server does not accept \
                 references yet; send the data itself",
                lexical::shortened(&reference.url)
            );
            Err(Fault::new(FaultCode::NotSupported, message).parameter(name))
        }
        Value::Array(array) => match data_type.as_array() {
            Some(expected) if expected.element == array.element && expected.fits(&array.shape) => {
                Ok(())
            }
            Some(_) => wrong(&format!(
                "an array of {} of shape {} is not",
                array.element.name(),
                Array::shape_text(&array.shape)
            )),
            None => wrong("an array of numbers is not"),
        },
        Value::Text(_) if data_type.is_binary() => wrong("send a file's bytes"),
        Value::Text(_) if data_type.as_array().is_some() => wrong("send an array of numbers"),
        Value::Text(text) => {
            let accepted = parameter.accept(text)?;
            if accepted.len() != text.len() {
                *text = accepted.to_owned();
            }
            Ok(())
        }
        Value::Data(_) if data_type.is_binary() => Ok(()),
        Value::Data(_) => wrong("send it as text"),
        Value::Record(_) => wrong("send one value without fields"),
    }
}

fn stray(operation: &str, parameters: &[Parameter], name: &str) -> Fault {
    let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let known = match known.as_slice() {
        [] => "it takes none".to_owned(),
        known => format!("it takes {}", known.join(", ")),
    };
    let shown = lexical::shortened(name);
    let what = format!("operation {operation} has no parameter {shown:?}; {known}");
    Fault::new(FaultCode::UnexpectedParameter, what).parameter(name)
}

fn missing(parameter: &Parameter) -> Fault {
    let (name, type_name) = (&parameter.name, parameter.data_type.name());
    let help =
        if parameter.help.is_empty() { String::new() } else { format!(" ({})", parameter.help) };
    let message = format!("parameter {name} is missing; it is of type {type_name}{help}");
    Fault::new(FaultCode::MissingParameter, message).parameter(name)
}
