//! Inputs of which not every choice makes sense: what a caller gave, against the groups of the operation.

use fishplate_contract::lexical::trimmed;
use fishplate_contract::{Argument, Fault, FaultCode, Value};

use crate::descriptor::{Group, Invocation};

/// Checks what was given against every group. A default is not given, nor is a flag that is off.
///
/// # Errors
/// `InvalidValue` for what excludes each other, `MissingParameter` for what is missing; the fault names the
/// parameter, the others of the group and what would be right.
pub(super) fn check(invocation: &Invocation, given: &[Argument]) -> Result<(), Fault> {
    invocation.groups.iter().try_for_each(|group| {
        let (there, absent): (Vec<&str>, Vec<&str>) =
            group.inputs.iter().map(String::as_str).partition(|it| is_given(invocation, it, given));
        check_group(group, &there, &absent)
    })
}

fn check_group(group: &Group, there: &[&str], absent: &[&str]) -> Result<(), Fault> {
    let demand = group.sentence();
    let (code, parameter, message) = match (there, absent) {
        ([first, second, ..], _) if group.exclusive => {
            let message = format!("parameters {first} and {second} exclude each other: {demand}");
            (FaultCode::InvalidValue, second, message)
        }
        ([], [first, ..]) if group.required => {
            let message = format!("none of the group {} was given: {demand}", group.name);
            (FaultCode::MissingParameter, first, message)
        }
        ([first, ..], [lacking, ..]) if group.together => {
            let message = format!("parameter {first} needs {lacking}: {demand}");
            (FaultCode::MissingParameter, lacking, message)
        }
        _ => return Ok(()),
    };
    Err(Fault::new(code, message).parameter(*parameter))
}

fn is_given(invocation: &Invocation, name: &str, given: &[Argument]) -> bool {
    let is_flag = invocation.input(name).is_some_and(|input| !input.flag.is_empty());
    given.iter().any(|argument| {
        let is_off = |text: &str| is_flag && !matches!(trimmed(text), "true" | "1");
        argument.name == name && !matches!(&argument.value, Value::Text(text) if is_off(text))
    })
}
