//! Named dimensions: every array of a call whose type has `[n]` is equally long there, and so says
//! the `int` or `long` of the name `n`, if there is one.

use crate::array::Dimension;
use crate::call::{Argument, Value};
use crate::fault::{Fault, FaultCode};
use crate::lexical::trimmed;
use crate::service::{DataType, Parameter};

/// Checks that the lengths of a call's arguments, or of its results, agree.
///
/// # Errors
/// `InvalidValue` that names the parameter and both lengths.
pub fn check(parameters: &[Parameter], arguments: &[Argument]) -> Result<(), Fault> {
    if !arguments.iter().any(|argument| matches!(argument.value, Value::Array(_))) {
        return Ok(());
    }
    let mut known = Vec::new();
    for parameter in parameters {
        if matches!(parameter.data_type, DataType::Int | DataType::Long)
            && let Some(value) = scalar(parameter, arguments)
        {
            known.push((parameter.name.as_str(), value, parameter));
        }
    }
    for argument in arguments {
        let Value::Array(array) = &argument.value else { continue };
        let parameter = parameters.iter().find(|parameter| parameter.name == argument.name);
        let Some(parameter) = parameter else { continue };
        let dimensions = parameter.data_type.as_array().map(|of| of.dimensions.as_slice());
        for (dimension, length) in dimensions.unwrap_or_default().iter().zip(&array.shape) {
            let Dimension::Named(name) = dimension else { continue };
            let length = i128::from(*length);
            match known.iter().find(|(of, ..)| of == name) {
                None => known.push((name, length, parameter)),
                Some((_, other, _)) if *other == length => {}
                Some((_, other, by)) => return Err(differ(parameter, name, length, by, *other)),
            }
        }
    }
    Ok(())
}

/// The value of a scalar, that of its default if it was left out; what is none is somebody else's
/// affair.
fn scalar(parameter: &Parameter, arguments: &[Argument]) -> Option<i128> {
    let given = arguments.iter().find(|argument| argument.name == parameter.name);
    let text = match given.map(|argument| &argument.value) {
        Some(Value::Text(text)) => Some(text),
        Some(_) => None,
        None => parameter.default.as_ref(),
    };
    trimmed(text?).parse().ok()
}

fn differ(parameter: &Parameter, name: &str, length: i128, by: &Parameter, other: i128) -> Fault {
    let says = match by.data_type {
        DataType::Array(_) => format!("that of {} is {other}", by.name),
        _ => format!("the parameter {} is {other}", by.name),
    };
    let message = format!(
        "parameter {} is of type {}: its dimension {name} is {length}, but {says}",
        parameter.name,
        parameter.data_type.name()
    );
    Fault::new(FaultCode::InvalidValue, message).parameter(&*parameter.name)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::array::{Array, ElementType};
    use crate::payload::Payload;

    fn array(name: &str, shape: &[u64]) -> Argument {
        let data = Payload::Inline(Bytes::new());
        Argument::new(
            name,
            Value::Array(Array { element: ElementType::Int, shape: shape.to_vec(), data }),
        )
    }

    fn of(text: &str) -> DataType {
        DataType::from_name(text).unwrap()
    }

    #[test]
    fn lengths_of_one_name_are_equal() {
        let parameters = [
            Parameter::new("a", of("int[n,m]")),
            Parameter::new("b", of("int[m]")),
            Parameter::new("c", of("int[n,3]")).optional(),
            Parameter::new("m", DataType::Int).optional(),
            Parameter::new("n", DataType::Long).default("2"),
        ];
        let good = [array("a", &[2, 5]), array("b", &[5]), Argument::text("m", " 5 ")];
        assert_eq!(check(&parameters, &good), Ok(()));
        assert_eq!(check(&parameters, &[array("b", &[0])]), Ok(()));
        let told = |arguments: &[Argument]| check(&parameters, arguments).unwrap_err();
        let fault = told(&[array("a", &[2, 5]), array("b", &[4])]);
        assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("b")));
        assert!(fault.message.contains("dimension m is 4, but that of a is 5"), "{fault:?}");
        let fault = told(&[array("a", &[3, 5])]);
        assert!(fault.message.contains("but the parameter n is 2"), "{fault:?}");
        let fault = told(&[Argument::text("m", "-1"), array("b", &[1])]);
        assert!(fault.message.contains("but the parameter m is -1"), "{fault:?}");
        assert_eq!(check(&parameters, &[Argument::text("m", "x"), array("b", &[1])]), Ok(()));
    }
}
