//! A call's arguments, checked the same for programs and functions: what is missing, twice or
//! unknown, what is not of its type or out of its range.

use fishplate_contract::{
    Argument, Array, ArrayType, Fault, FaultCode, Parameter, Payload, Value, lexical,
};

/// Checks arguments against the parameters of an operation.
///
/// # Errors
/// A fault that names the parameter and says what would be right.
pub fn check<'p>(
    operation: &str,
    parameters: impl Iterator<Item = &'p Parameter> + Clone,
    arguments: &[Argument],
) -> Result<(), Fault> {
    reject_strays(operation, parameters.clone(), arguments)?;
    for parameter in parameters {
        let mut given = arguments.iter().filter(|argument| argument.name == parameter.name);
        let count = given.clone().count();
        given.try_for_each(|argument| check_value(parameter, &argument.value))?;
        match count {
            0 if parameter.is_required() => return Err(missing(parameter)),
            0 => {}
            _ if parameter.repeated => check_count(parameter, count)?,
            _ => {}
        }
    }
    Ok(())
}

/// How many values a repeated parameter has.
fn check_count(parameter: &Parameter, count: usize) -> Result<(), Fault> {
    let (least, most) = (parameter.min_count as usize, parameter.max_count);
    if count >= least && most.is_none_or(|most| count <= most as usize) {
        return Ok(());
    }
    let name = &parameter.name;
    let message =
        format!("parameter {name} stands {count} times; it takes {}", parameter.count_text());
    Err(Fault::new(FaultCode::InvalidValue, message).parameter(name))
}

/// Arguments that no parameter takes, or that stand twice.
fn reject_strays<'p>(
    operation: &str,
    parameters: impl Iterator<Item = &'p Parameter> + Clone,
    arguments: &[Argument],
) -> Result<(), Fault> {
    for (index, argument) in arguments.iter().enumerate() {
        let name = &argument.name;
        let stray =
            |message| Err(Fault::new(FaultCode::UnexpectedParameter, message).parameter(name));
        let Some(parameter) = parameters.clone().find(|parameter| parameter.name == *name) else {
            let known: Vec<&str> = parameters.map(|parameter| parameter.name.as_str()).collect();
            let known = match known.as_slice() {
                [] => "it takes none".to_owned(),
                known => format!("it takes {}", known.join(", ")),
            };
            let shown = lexical::shortened(name);
            return stray(format!("operation {operation} has no parameter {shown:?}; {known}"));
        };
        let twice = || arguments[..index].iter().any(|earlier| earlier.name == *name);
        if !parameter.repeated && twice() {
            return stray(format!("parameter {name} stands twice; send it once"));
        }
    }
    Ok(())
}

fn check_value(parameter: &Parameter, value: &Value) -> Result<(), Fault> {
    let Parameter { name, data_type, .. } = parameter;
    let wrong = |what: &str| {
        let type_name = data_type.name();
        let message = format!("parameter {name} is of type {type_name}{what}");
        Err(Fault::new(FaultCode::InvalidValue, message).parameter(name))
    };
    match (value, data_type.as_array()) {
        (
            Value::Data(Payload::Reference(_))
            | Value::Array(Array { data: Payload::Reference(_), .. }),
            None,
        ) if !data_type.is_binary() => wrong(": send its value, not a reference"),
        // What is there shows once it was fetched.
        (Value::Data(Payload::Reference(_)), Some(_)) => Ok(()),
        (Value::Array(array), Some(wanted)) => check_array(parameter, wanted, array),
        (_, Some(_)) => wrong(": send an array of numbers"),
        (Value::Text(_), _) if data_type.is_binary() => wrong(": send a file's bytes"),
        (Value::Text(text), _) => parameter.accept(text).map(drop),
        (Value::Data(_), _) if data_type.is_binary() => Ok(()),
        (Value::Data(_), _) => wrong(": send it as text"),
        (Value::Array(_), _) => wrong(", not an array of numbers"),
        (Value::Record(_), _) => wrong(": send one value without fields"),
    }
}

fn check_array(parameter: &Parameter, wanted: &ArrayType, array: &Array) -> Result<(), Fault> {
    let Array { element, shape, data } = array;
    let name = &parameter.name;
    let wrong = |message| Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
    if wanted.element != *element {
        let element = element.name();
        return wrong(format!("parameter {name} is of type {wanted}, not an array of {element}"));
    }
    if matches!(data, Payload::Reference(_)) {
        return Ok(());
    }
    if Array::size(*element, shape) != data.len() {
        let (shape, len) = (Array::shape_text(shape), data.len().unwrap_or(0));
        let element = element.name();
        return wrong(format!("parameter {name} has {len} bytes, not those of {shape} {element}"));
    }
    Ok(())
}

fn missing(parameter: &Parameter) -> Fault {
    let (name, type_name) = (&parameter.name, parameter.data_type.name());
    let help =
        if parameter.help.is_empty() { String::new() } else { format!(" ({})", parameter.help) };
    let message = format!("parameter {name} is missing; it is of type {type_name}{help}");
    Fault::new(FaultCode::MissingParameter, message).parameter(name)
}
