//! What to collect of a call: the operation's outputs, those that are named after an input's value under that
//! name.

use std::path::Path;

use fishplate_contract::{Fault, FaultCode};
use globset::GlobBuilder;

use super::fill::AcceptedValue;
use crate::descriptor::{Invocation, Output};
use crate::output_name::{NamePart, parts};
use crate::plan::{OutputRule, OutputSource, StagedFile};
use crate::template::reject_file_name;

/// The rules of a call with these values, in the order of the inputs. An output that is named after an input
/// that was left out is nowhere.
///
/// # Errors
/// `InvalidValue` for a value that is no name of a file in the workspace.
pub(super) fn rules(
    invocation: &Invocation,
    accepted: &[AcceptedValue],
) -> Result<Vec<OutputRule>, Fault> {
    let mut rules = Vec::with_capacity(invocation.outputs.len());
    for output in &invocation.outputs {
        let source = if output.references.is_empty() {
            Some(output.source.clone())
        } else {
            source(invocation, accepted, output)?
        };
        let Some(source) = source else { continue };
        rules.push(OutputRule {
            name: output.parameter.name.clone(),
            data_type: output.parameter.data_type.name().into_owned(),
            source,
            required: !output.parameter.optional,
            non_empty: output.non_empty,
            format: output.parameter.data_type.as_array().map(|_| output.format),
            media_type: output.parameter.media_type.clone(),
        });
    }
    Ok(rules)
}

/// Where an output is that is named after inputs; `None` if one of them was left out.
fn source(
    invocation: &Invocation,
    accepted: &[AcceptedValue],
    output: &Output,
) -> Result<Option<OutputSource>, Fault> {
    let (template, is_glob) = match &output.source {
        OutputSource::Path(path) => (path, false),
        OutputSource::Glob(pattern) => (pattern, true),
    };
    let (mut plain, mut written) = (String::new(), String::new());
    for part in parts(template) {
        let name = match part {
            NamePart::Text(text) => {
                plain.push_str(text);
                written.push_str(text);
                continue;
            }
            NamePart::Input(name) => name,
        };
        let at = invocation.inputs.iter().position(|input| input.parameter.name == name);
        let Some(AcceptedValue::Text(value)) = at.and_then(|at| accepted.get(at)) else {
            return Ok(None);
        };
        plain.push_str(value);
        written.push_str(&if is_glob { escaped(value) } else { value.clone() });
    }
    if let Some(right) = reject_file_name(&plain) {
        let name = output.references.first().map_or("", String::as_str);
        let message = format!(
            "parameter {name} names the output {}, and {plain:?} is no file of the workspace: {right}",
            output.parameter.name
        );
        return Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
    }
    Ok(Some(match is_glob {
        false => OutputSource::Path(written),
        true => OutputSource::Glob(written),
    }))
}

/// A value as a part of a pattern that means itself alone, also within braces.
fn escaped(value: &str) -> String {
    let mut safe = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '?' | '*' | '[' | ']' | '{' | '}' | ',' | '\\' => safe.extend(['[', c, ']']),
            c => safe.push(c),
        }
    }
    safe
}

/// No output that is named after an input is a file that the service's owner put there.
///
/// # Errors
/// `InvalidValue`
pub(super) fn reject_staged(
    invocation: &Invocation,
    rules: &[OutputRule],
    staged: &[StagedFile],
) -> Result<(), Fault> {
    for rule in rules {
        let output = invocation.outputs.iter().find(|output| output.parameter.name == rule.name);
        let Some(name) = output.and_then(|output| output.references.first()) else { continue };
        let takes = |to: &str| match &rule.source {
            OutputSource::Path(path) => {
                let (path, to) = (Path::new(path), Path::new(to));
                path.starts_with(to) || to.starts_with(path)
            }
            OutputSource::Glob(pattern) => {
                let pattern = GlobBuilder::new(pattern).literal_separator(true).build();
                pattern.is_ok_and(|pattern| {
                    let pattern = pattern.compile_matcher();
                    Path::new(to).ancestors().any(|part| pattern.is_match(part))
                })
            }
        };
        if staged.iter().any(|file| takes(&file.to)) {
            let what = format!(
                "parameter {name} names the output {}, and a file of the service has that name: take another",
                rule.name
            );
            return Err(Fault::new(FaultCode::InvalidValue, what).parameter(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_pattern_means_itself() {
        for value in ["a*", "a?b", "[x]", "{a,b}", "a\\", "a,b", "plain"] {
            for pattern in [escaped(value), format!("{{{},other}}", escaped(value))] {
                let glob = GlobBuilder::new(&pattern).literal_separator(true).build().unwrap();
                let glob = glob.compile_matcher();
                assert!(glob.is_match(value), "{pattern}");
                assert!(!glob.is_match("ab") && !glob.is_match("a"), "{pattern}");
            }
        }
    }
}
