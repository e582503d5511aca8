//! Types of arrays in a schema. In the plain view a row is a sequence of elements, which every
//! toolkit maps to an array, and rows of rows to arrays of arrays; in the binary view an array is
//! base64 with its type and shape.

use fishplate_contract::{ArrayType, ElementType};

use super::markup::Markup;
use super::schema::{FileType, annotate};
use super::view::DataView;
use crate::envelope::ArrayForm;

/// The types that a schema uses.
pub(super) struct ArrayTypes {
    /// How their bytes are typed in the binary view.
    file: FileType,
    /// References may stand for arrays.
    data: DataView,
    rows: Vec<(ElementType, usize, ArrayKind)>,
    binary: Vec<ArrayKind>,
}

/// What an array is.
#[derive(Clone, Copy, PartialEq)]
enum ArrayKind {
    /// A value, or a row of one.
    Bare,
    /// A value that a name tells from others.
    Named,
    /// A value that may be elsewhere, and may have a name.
    Data,
}

impl ArrayKind {
    /// What the name of its type begins with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Bare => "",
            Self::Named => "Named",
            Self::Data => "Data",
        }
    }
}

impl ArrayTypes {
    pub(super) fn of(file: FileType, data: DataView) -> Self {
        Self { file, data, rows: Vec::new(), binary: Vec::new() }
    }

    /// The local name of the type of such an array.
    pub(super) fn name(&mut self, of: &ArrayType, labelled: bool, form: ArrayForm) -> String {
        let kind = match self.data {
            DataView::Xdescr => ArrayKind::Data,
            DataView::Plain if labelled => ArrayKind::Named,
            DataView::Plain => ArrayKind::Bare,
        };
        if form == ArrayForm::Binary {
            note(&mut self.binary, kind);
            return binary_name(kind);
        }
        for rank in 1..of.rank() {
            note(&mut self.rows, (of.element, rank, ArrayKind::Bare));
        }
        note(&mut self.rows, (of.element, of.rank(), kind));
        row_name(of.element, of.rank(), kind)
    }

    pub(super) fn write(&self, to: &mut Markup) {
        for (element, rank, kind) in &self.rows {
            write_rows(to, *element, *rank, *kind);
        }
        for kind in &self.binary {
            write_binary(to, self.file, *kind);
        }
    }
}

fn note<T: PartialEq>(list: &mut Vec<T>, used: T) {
    if !list.contains(&used) {
        list.push(used);
    }
}

/// `ArrayOfFloat`, `ArrayOfArrayOfFloat`.
fn row_name(element: ElementType, rank: usize, kind: ArrayKind) -> String {
    let named = kind.prefix();
    let of = match element {
        ElementType::Int => "Int",
        ElementType::Long => "Long",
        ElementType::Float => "Float",
        ElementType::Double => "Double",
    };
    format!("{named}{}{of}", "ArrayOf".repeat(rank))
}

fn binary_name(kind: ArrayKind) -> String {
    format!("{}Array", kind.prefix())
}

fn write_rows(to: &mut Markup, element: ElementType, rank: usize, kind: ArrayKind) {
    to.open("xs:complexType", &[("name", &row_name(element, rank, kind))]);
    let text = match rank {
        1 => format!("An array of {}: an element for each number.", element.name()),
        _ => format!(
            "An array of {} with {rank} dimensions: an element for each index of the first; all \
             have equally many elements.",
            element.name()
        ),
    };
    let text = match kind {
        ArrayKind::Data => format!("{text} Or the address where such an array is."),
        ArrayKind::Bare | ArrayKind::Named => text,
    };
    annotate(to, &text, &[], &[]);
    to.open("xs:sequence", &[]);
    let item = match rank {
        1 => format!("xs:{}", element.name()),
        _ => format!("tns:{}", row_name(element, rank - 1, ArrayKind::Bare)),
    };
    let attributes =
        [("name", "item"), ("type", &item), ("minOccurs", "0"), ("maxOccurs", "unbounded")];
    to.empty("xs:element", &attributes);
    if kind == ArrayKind::Data {
        to.empty("xs:element", &[("ref", "wsa:EndpointReference"), ("minOccurs", "0")]);
    }
    to.close();
    if kind == ArrayKind::Data {
        write_shape(to);
    }
    write_label(to, kind);
    to.close();
}

fn write_binary(to: &mut Markup, file: FileType, kind: ArrayKind) {
    let name = binary_name(kind);
    let name = [("name", name.as_str())];
    let own = file.attributes().filter(|_| kind != ArrayKind::Data);
    let attributes: Vec<_> = name.into_iter().chain(own).collect();
    to.open("xs:complexType", &attributes);
    let text = "An array of numbers: its elements one after another, little-endian, the last \
                index running fastest (C order).";
    annotate(to, text, &[], &[]);
    if kind == ArrayKind::Data {
        to.open("xs:choice", &[]);
        for element in ["x:Value", "wsa:EndpointReference"] {
            to.empty("xs:element", &[("ref", element)]);
        }
        to.close();
        write_shape(to);
        write_label(to, kind);
        to.close();
        return;
    }
    to.open("xs:simpleContent", &[]);
    to.open("xs:extension", &[("base", file.name())]);
    write_shape(to);
    write_label(to, kind);
    to.close();
    to.close();
    to.close();
}

/// The attributes that tell type and shape of an array's bytes, or of what is elsewhere.
fn write_shape(to: &mut Markup) {
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
}

fn write_label(to: &mut Markup, kind: ArrayKind) {
    if kind == ArrayKind::Bare {
        return;
    }
    to.empty("xs:attribute", &[("name", "name"), ("type", "xs:string")]);
}
