//! Types of arrays in a schema. In the plain view a row is a sequence of elements, which every
//! toolkit maps to an array, and rows of rows to arrays of arrays; in the binary view an array is
//! base64 with its type and shape.

use fishplate_contract::{ArrayType, Element};

use super::markup::Markup;
use super::schema::{FileType, annotate};
use crate::envelope::ArrayForm;

/// The types that a schema uses.
pub(super) struct ArrayTypes {
    /// How their bytes are typed in the binary view.
    file: FileType,
    /// Element, rank, and whether a name tells one from others.
    rows: Vec<(Element, usize, bool)>,
    /// Whether a name tells one from others.
    binary: Vec<bool>,
}

impl ArrayTypes {
    pub(super) fn of(file: FileType) -> Self {
        Self { file, rows: Vec::new(), binary: Vec::new() }
    }

    /// The local name of the type of such an array.
    pub(super) fn name(&mut self, of: &ArrayType, labelled: bool, form: ArrayForm) -> String {
        if form == ArrayForm::Binary {
            note(&mut self.binary, labelled);
            return binary_name(labelled).to_owned();
        }
        for rank in 1..of.rank() {
            note(&mut self.rows, (of.element, rank, false));
        }
        note(&mut self.rows, (of.element, of.rank(), labelled));
        row_name(of.element, of.rank(), labelled)
    }

    pub(super) fn write(&self, to: &mut Markup) {
        for (element, rank, labelled) in &self.rows {
            write_rows(to, *element, *rank, *labelled);
        }
        for labelled in &self.binary {
            write_binary(to, self.file, *labelled);
        }
    }
}

fn note<T: PartialEq>(list: &mut Vec<T>, used: T) {
    if !list.contains(&used) {
        list.push(used);
    }
}

/// `ArrayOfFloat`, `ArrayOfArrayOfFloat`.
fn row_name(element: Element, rank: usize, labelled: bool) -> String {
    let named = if labelled { "Named" } else { "" };
    let of = match element {
        Element::Int => "Int",
        Element::Long => "Long",
        Element::Float => "Float",
        Element::Double => "Double",
    };
    format!("{named}{}{of}", "ArrayOf".repeat(rank))
}

fn binary_name(labelled: bool) -> &'static str {
    if labelled { "NamedArray" } else { "Array" }
}

fn write_rows(to: &mut Markup, element: Element, rank: usize, labelled: bool) {
    to.open("xs:complexType", &[("name", &row_name(element, rank, labelled))]);
    let text = match rank {
        1 => format!("An array of {}: an element for each number.", element.name()),
        _ => format!(
            "An array of {} with {rank} dimensions: an element for each index of the first; all \
             have equally many elements.",
            element.name()
        ),
    };
    annotate(to, &text, &[], &[]);
    to.open("xs:sequence", &[]);
    let item = match rank {
        1 => format!("xs:{}", element.name()),
        _ => format!("tns:{}", row_name(element, rank - 1, false)),
    };
    let attributes =
        [("name", "item"), ("type", &item), ("minOccurs", "0"), ("maxOccurs", "unbounded")];
    to.empty("xs:element", &attributes);
    to.close();
    if labelled {
        write_label(to);
    }
    to.close();
}

fn write_binary(to: &mut Markup, file: FileType, labelled: bool) {
    let name = [("name", binary_name(labelled))];
    let attributes: Vec<_> = name.into_iter().chain(file.attributes()).collect();
    to.open("xs:complexType", &attributes);
    let text = "An array of numbers: its elements one after another, little-endian, the last \
                index running fastest (C order).";
    annotate(to, text, &[], &[]);
    to.open("xs:simpleContent", &[]);
    to.open("xs:extension", &[("base", file.name())]);
    to.open("xs:attribute", &[("name", "type"), ("type", "xs:string")]);
    let text = "What it consists of: int (4 bytes), long (8 bytes), float (IEEE 754 binary32) or \
                double (binary64). May be left out in a request.";
    annotate(to, text, &[], &[]);
    to.close();
    to.open("xs:attribute", &[("name", "shape")]);
    let text = "Length of each dimension, slowest index first, such as 1000 3. May be left out in \
                a request if the number of bytes tells it.";
    annotate(to, text, &[], &[]);
    to.open("xs:simpleType", &[]);
    to.empty("xs:list", &[("itemType", "xs:long")]);
    to.close();
    to.close();
    if labelled {
        write_label(to);
    }
    to.close();
    to.close();
    to.close();
}

fn write_label(to: &mut Markup) {
    to.empty("xs:attribute", &[("name", "name"), ("type", "xs:string")]);
}
