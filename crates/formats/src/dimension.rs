//! Lengths of axes by their names: in one call every axis `n` is as long as every other, and as
//! the whole number `n` says that the caller sent.

use std::collections::BTreeMap;

use fishplate_contract::{Array, ArrayType, Dimension};
use serde::{Deserialize, Serialize};

/// The lengths that are known, and who says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dimensions(BTreeMap<String, Known>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    length: u64,
    /// As messages name it: `the input n`, `axis 1 of the output grid`.
    said_by: String,
}

impl Dimensions {
    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An axis of this name is so long, as `said_by` says; what was said first stays.
    pub fn tell(&mut self, name: &str, length: u64, said_by: impl Into<String>) {
        let known = || Known { length, said_by: said_by.into() };
        self.0.entry(name.to_owned()).or_insert_with(known);
    }

    /// The lengths of an array's axes, as far as they are known.
    pub fn axes(&self, array: &ArrayType) -> Vec<Option<u64>> {
        let length = |dimension: &Dimension| match dimension {
            Dimension::Any => None,
            Dimension::Named(name) => self.0.get(name).map(|known| known.length),
            Dimension::Fixed(length) => Some(*length),
        };
        array.dimensions.iter().map(length).collect()
    }

    /// Checks the shape of an array that messages call `what`, and learns from it.
    ///
    /// # Errors
    /// What does not agree, and with what.
    pub fn bind(&mut self, array: &ArrayType, shape: &[u64], what: &str) -> Result<(), String> {
        let shape_text = Array::shape_text(shape);
        if shape.len() != array.rank() {
            let (has, wants) = (counted(shape.len()), array.rank());
            return Err(format!("{what} has {has} ({shape_text}), and {array} has {wants}"));
        }
        for (at, (dimension, length)) in array.dimensions.iter().zip(shape).enumerate() {
            let axis = at + 1;
            match dimension {
                Dimension::Fixed(fixed) if fixed != length => {
                    return Err(format!(
                        "{what} has the shape {shape_text}, and its axis {axis} must be {fixed} \
                         long ({array})"
                    ));
                }
                Dimension::Named(name) => match self.0.get(name) {
                    Some(known) if known.length != *length => {
                        let Known { length, said_by } = known;
                        return Err(format!(
                            "{what} has the shape {shape_text}, but its axis {axis}, {name}, must \
                             be {length} long, as {said_by} says ({array})"
                        ));
                    }
                    _ => self.tell(name, *length, format!("axis {axis} of {what}")),
                },
                Dimension::Any | Dimension::Fixed(_) => {}
            }
        }
        Ok(())
    }
}

/// Checks that an output of this shape, which messages call `what`, can be written as elements.
///
/// # Errors
/// What is wrong with it.
pub fn check_empty_rows(shape: &[u64], what: &str) -> Result<(), String> {
    let (rows, most) = (Array::empty_rows(shape), Array::MOST_EMPTY_ROWS);
    if rows <= most {
        return Ok(());
    }
    let shape = Array::shape_text(shape);
    Err(format!(
        "{what} has the shape {shape}: of rows without numbers there may be at most {most}"
    ))
}

fn counted(rank: usize) -> String {
    if rank == 1 { "1 dimension".to_owned() } else { format!("{rank} dimensions") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ArrayType {
        text.parse().unwrap()
    }

    #[test]
    fn names_agree_across_arrays_and_with_numbers() {
        let mut known = Dimensions::default();
        known.tell("n", 4, "the input n");
        assert_eq!(known.axes(&of("double[n,m,3,]")), [Some(4), None, Some(3), None]);
        assert_eq!(known.bind(&of("double[n,m]"), &[4, 5], "the input a"), Ok(()));
        assert_eq!(known.bind(&of("int[m]"), &[5], "the output b"), Ok(()));
        assert_eq!(
            known.bind(&of("int[m,n]"), &[6, 4], "the output c").unwrap_err(),
            "the output c has the shape 6 x 4, but its axis 1, m, must be 5 long, as axis 2 of \
             the input a says (int[m,n])"
        );
        assert_eq!(
            known.bind(&of("int[n]"), &[3], "the output d").unwrap_err(),
            "the output d has the shape 3, but its axis 1, n, must be 4 long, as the input n says \
             (int[n])"
        );
    }

    #[test]
    fn one_array_agrees_with_itself_and_with_what_is_fixed() {
        let bind = |text: &str, shape: &[u64]| Dimensions::default().bind(&of(text), shape, "m");
        assert!(bind("float[k,k]", &[3, 3]).is_ok());
        assert_eq!(
            bind("float[k,k]", &[3, 2]).unwrap_err(),
            "m has the shape 3 x 2, but its axis 2, k, must be 3 long, as axis 1 of m says \
             (float[k,k])"
        );
        assert_eq!(
            bind("float[,3]", &[7, 4]).unwrap_err(),
            "m has the shape 7 x 4, and its axis 2 must be 3 long (float[,3])"
        );
        assert_eq!(
            bind("float[][]", &[7]).unwrap_err(),
            "m has 1 dimension (7), and float[][] has 2"
        );
    }
}
