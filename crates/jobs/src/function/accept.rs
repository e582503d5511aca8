//! A call's arguments as a function gets them.

use std::borrow::Cow;

use fishplate_contract::{Argument, DataType, Fault, FaultCode, Parameter, Value};

use fishplate_programs::arguments::check;

/// The arguments in the caller's order, texts as [`Parameter::normal`] has them, defaults at the end.
pub(super) fn accept(
    operation: &str,
    parameters: &[Parameter],
    mut arguments: Vec<Argument>,
) -> Result<Vec<Argument>, Fault> {
    check(operation, parameters.iter(), &arguments)?;
    for argument in &mut arguments {
        if let Value::Text(text) = &mut argument.value {
            let parameter = parameters.iter().find(|parameter| parameter.name == argument.name);
            let normal = parameter.map(|it| it.normal(text)).filter(|normal| *normal != **text);
            if let Some(normal) = normal.map(Cow::into_owned) {
                *text = normal;
            }
        }
    }
    for parameter in parameters {
        let given = arguments.iter().find(|argument| argument.name == parameter.name);
        match (given.map(|given| &given.value), &parameter.default) {
            (Some(Value::Array(array)), _) => check_shape(parameter, &array.shape)?,
            (None, Some(text)) => arguments.push(Argument::text(&*parameter.name, &**text)),
            _ => {}
        }
    }
    Ok(arguments)
}

/// A function of an array of two dimensions takes no other. (Named dimensions were looked at where
/// the message was read.)
fn check_shape(parameter: &Parameter, shape: &[u64]) -> Result<(), Fault> {
    let Parameter { name, data_type, .. } = parameter;
    match data_type {
        DataType::Array(wanted) if !wanted.fits(shape) => {
            let shape = fishplate_contract::Array::shape_text(shape);
            let message = format!("parameter {name} is of type {wanted}; its shape is {shape}");
            Err(Fault::new(FaultCode::InvalidValue, message).parameter(name))
        }
        _ => Ok(()),
    }
}
