//! Whether the shape of each output array will be known: not every file tells it.

use std::collections::BTreeSet;
use std::ops::Range;

use fishplate_contract::{DataType, Dimension};
use fishplate_formats::array_file::Format;

use super::description::{Input, Output};
use super::diagnostic::DiagnosticReport;

/// Reports outputs whose shape nobody can tell. `named` are their places.
pub(super) fn check(
    inputs: &[Input],
    outputs: &[Output],
    named: &[Range<usize>],
    report: &mut DiagnosticReport<'_>,
) {
    let mut known = BTreeSet::new();
    for input in inputs {
        match &input.parameter.data_type {
            DataType::Int | DataType::Long => {
                known.insert(input.parameter.name.clone());
            }
            DataType::Array(array) => known.extend(names(&array.dimensions)),
            _ => {}
        }
    }
    for (output, place) in outputs.iter().zip(named) {
        let Output { parameter, format, .. } = output;
        let Some(array) = parameter.data_type.as_array() else { continue };
        let is_unknown = |axis: &&Dimension| match axis {
            Dimension::Any => true,
            Dimension::Named(name) => !known.contains(name),
            Dimension::Fixed(_) => false,
        };
        // The length of the last axis is that of a line of text.
        let told_by_rows = usize::from(matches!(format, Format::Text { .. }));
        let axes = array.rank() - told_by_rows.min(array.rank() - 1);
        let unknown = array.dimensions[..axes].iter().filter(is_unknown).count();
        if !matches!(format, Format::Npy) && unknown > 1 {
            let (name, what) = (&parameter.name, if told_by_rows == 1 { "text" } else { "raw" });
            report
                .error(
                    place.clone(),
                    format!("a `{what}` file does not tell the shape of `{name}`, {array}"),
                )
                .label(format!("{unknown} axes of unknown length"))
                .hint(
                    "one may be unknown: give the others lengths (`[3]`), or the names of `int` \
                     inputs (`[n]`) or of axes of input arrays; or use format = \"npy\"",
                );
        }
        known.extend(names(&array.dimensions));
    }
}

fn names(dimensions: &[Dimension]) -> impl Iterator<Item = String> {
    dimensions.iter().filter_map(|axis| match axis {
        Dimension::Named(name) => Some(name.clone()),
        Dimension::Any | Dimension::Fixed(_) => None,
    })
}
