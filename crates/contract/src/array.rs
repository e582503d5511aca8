//! Arrays of numbers: their types, their shapes and their bytes (paper 003).
//!
//! An array's bytes are its elements one after another, little-endian, the last index running
//! fastest (C order). A text, an attachment, a `.npy` file: all are made of these bytes and back.

use std::fmt;
use std::str::FromStr;

use crate::number;
use crate::payload::Payload;

/// What an array consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// `xs:int`, 4 bytes.
    Int,
    /// `xs:long`, 8 bytes.
    Long,
    /// `xs:float`, IEEE 754 binary32, 4 bytes.
    Float,
    /// `xs:double`, IEEE 754 binary64, 8 bytes.
    Double,
}

impl ElementType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Int, Self::Long, Self::Float, Self::Double];

    /// Its name, which is that of its XSD type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
        }
    }

    /// The element of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Self::Int | Self::Float => 4,
            Self::Long | Self::Double => 8,
        }
    }

    /// Reads one number in the lexical form of its XSD type, white space around it allowed, and
    /// appends its bytes; `false`, and nothing is appended, if the text is not one.
    pub fn parse(self, text: &[u8], to: &mut Vec<u8>) -> bool {
        let text = text.trim_ascii();
        match self {
            Self::Int => number::int(text).map(|n| to.extend_from_slice(&n.to_le_bytes())),
            Self::Long => number::long(text).map(|n| to.extend_from_slice(&n.to_le_bytes())),
            Self::Float => number::float(text).map(|n| to.extend_from_slice(&n.to_le_bytes())),
            Self::Double => number::double(text).map(|n| to.extend_from_slice(&n.to_le_bytes())),
        }
        .is_some()
    }

    /// Writes one number, given by its [`ElementType::size`] bytes, in the lexical form of its XSD
    /// type: the shortest that reads back to the same number.
    ///
    /// # Panics
    /// If `bytes` has another length.
    pub fn print(self, bytes: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Int => number::print_int(i32::from_le_bytes(exactly(bytes)), to),
            Self::Long => number::print_long(i64::from_le_bytes(exactly(bytes)), to),
            Self::Float => number::print_float(f32::from_le_bytes(exactly(bytes)), to),
            Self::Double => number::print_double(f64::from_le_bytes(exactly(bytes)), to),
        }
    }
}

#[expect(clippy::expect_used, reason = "documented: whoever calls cuts the bytes to the size")]
fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many bytes as the element has")
}

/// How long an array is along one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// As long as the caller or the program makes it: `[]`.
    Any,
    /// As long as every other dimension of that name in the call, and as the `int` or `long` of
    /// that name, if there is one: `[n]`.
    Named(String),
    /// Just so long: `[3]`.
    Fixed(u64),
}

/// The type of an array: what it consists of, and its shape as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// What it consists of.
    pub element: ElementType,
    /// Slowest index first; at least one, at most [`ArrayType::MAX_RANK`].
    pub dimensions: Vec<Dimension>,
}

impl ArrayType {
    /// The most dimensions an array has.
    pub const MAX_RANK: usize = 8;

    /// An array whose dimensions may be of any length.
    pub fn new(element: ElementType, rank: usize) -> Self {
        Self { element, dimensions: vec![Dimension::Any; rank.clamp(1, Self::MAX_RANK)] }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dimensions.len()
    }

    /// Whether an array of this shape is of this type; named dimensions are of any length here.
    pub fn fits(&self, shape: &[u64]) -> bool {
        let fits = |(dimension, length): (&Dimension, &u64)| match dimension {
            Dimension::Fixed(fixed) => fixed == length,
            Dimension::Any | Dimension::Named(_) => true,
        };
        shape.len() == self.rank() && self.dimensions.iter().zip(shape).all(fits)
    }
}

/// `float[][]`, `double[n,m]`, `int[3]`, `long[n,]` (an axis without a name may have any length).
impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element.name())?;
        if self.dimensions.iter().all(|dimension| *dimension == Dimension::Any) {
            return (0..self.rank()).try_for_each(|_| f.write_str("[]"));
        }
        for (at, dimension) in self.dimensions.iter().enumerate() {
            f.write_str(if at == 0 { "[" } else { "," })?;
            match dimension {
                Dimension::Any => {}
                Dimension::Named(name) => f.write_str(name)?,
                Dimension::Fixed(length) => write!(f, "{length}")?,
            }
        }
        f.write_str("]")
    }
}

/// A text is not the type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnArrayType;

impl FromStr for ArrayType {
    type Err = NotAnArrayType;

    fn from_str(text: &str) -> Result<Self, NotAnArrayType> {
        let open = text.find('[').ok_or(NotAnArrayType)?;
        let element = ElementType::from_name(text[..open].trim()).ok_or(NotAnArrayType)?;
        let mut dimensions = Vec::new();
        let mut rest = &text[open..];
        while !rest.is_empty() {
            let inside = rest.strip_prefix('[').ok_or(NotAnArrayType)?;
            let (lengths, after) = inside.split_once(']').ok_or(NotAnArrayType)?;
            for length in lengths.split(',') {
                dimensions.push(dimension(length.trim())?);
            }
            rest = after.trim_start();
        }
        match dimensions.len() <= Self::MAX_RANK {
            true => Ok(Self { element, dimensions }),
            false => Err(NotAnArrayType),
        }
    }
}

fn dimension(text: &str) -> Result<Dimension, NotAnArrayType> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => Ok(Dimension::Any),
        Some(b'0'..=b'9') => text.parse().map(Dimension::Fixed).map_err(|_| NotAnArrayType),
        Some(b'A'..=b'Z' | b'a'..=b'z' | b'_') if bytes.all(is_name) => {
            Ok(Dimension::Named(text.to_owned()))
        }
        Some(_) => Err(NotAnArrayType),
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// An array of numbers.
#[derive(Clone, Debug)]
pub struct Array {
    /// What it consists of.
    pub element: ElementType,
    /// Lengths of its axes, slowest index first. The first may be [`Array::UNKNOWN`] if the data is a
    /// stream.
    pub shape: Vec<u64>,
    /// Its elements, little-endian, in C order.
    pub data: Payload,
}

impl Array {
    /// Stands for the length of the first axis if only the end of the data will tell it.
    pub const UNKNOWN: u64 = u64::MAX;

    /// Bytes that an array of this shape has; `None` if there are more than can be counted.
    pub fn size(element: ElementType, shape: &[u64]) -> Option<u64> {
        // A length of 0 makes it empty however long the other axes are said to be.
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(element.size() as u64, |size, length| size.checked_mul(*length))
    }

    /// The most [`Array::empty_rows`] of an output. They occupy nothing where the array lies, and
    /// each is an element where it is written as elements.
    pub const MOST_EMPTY_ROWS: u64 = 10_000;

    /// Rows without numbers: as many as the axes before the first one of no length make. None in
    /// an array that has numbers.
    pub fn empty_rows(shape: &[u64]) -> u64 {
        match shape.iter().position(|length| *length == 0) {
            None | Some(0) => 0,
            Some(axis) => shape[..axis].iter().fold(1, |rows, length| rows.saturating_mul(*length)),
        }
    }

    /// The shape as people write it: `1000 x 3`.
    pub fn shape_text(shape: &[u64]) -> String {
        let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
        lengths.join(" x ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_read_as_it_is_written() {
        for text in ["int[]", "float[][]", "double[n,m]", "double[n,3]", "long[n,]", "int[3]"] {
            let read: ArrayType = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        assert_eq!("float[,]".parse::<ArrayType>().unwrap().to_string(), "float[][]");
        assert_eq!("float[n][m]".parse::<ArrayType>().unwrap().to_string(), "float[n,m]");
        assert_eq!("float [ n , m ]".parse::<ArrayType>().unwrap().to_string(), "float[n,m]");
        let bad =
            ["float", "bool[]", "float[", "float[]x", "float[-1]", "float[a b]", "[]", "int[1x]"];
        for text in bad {
            assert_eq!(text.parse::<ArrayType>(), Err(NotAnArrayType), "{text}");
        }
        let most = "[]".repeat(ArrayType::MAX_RANK);
        assert!(format!("int{most}").parse::<ArrayType>().is_ok());
        assert!(format!("int{most}[]").parse::<ArrayType>().is_err());
    }

    #[test]
    fn a_shape_fits_its_type() {
        let of: ArrayType = "double[n,3]".parse().unwrap();
        assert!(of.fits(&[7, 3]) && of.fits(&[0, 3]));
        assert!(!of.fits(&[7, 4]) && !of.fits(&[3]) && !of.fits(&[7, 3, 1]));
    }

    #[test]
    fn a_size_that_cannot_be_counted_is_none() {
        assert_eq!(Array::size(ElementType::Double, &[4, 5]), Some(160));
        assert_eq!(Array::size(ElementType::Int, &[u64::MAX, u64::MAX, 0]), Some(0));
        assert_eq!(Array::size(ElementType::Int, &[u64::MAX, 2]), None);
    }

    #[test]
    fn rows_without_numbers_are_those_before_the_empty_axis() {
        for (shape, rows) in [
            (&[][..], 0),
            (&[7], 0),
            (&[0, 7], 0),
            (&[7, 2], 0),
            (&[7, 0], 7),
            (&[7, 2, 0, 9, 0], 14),
            (&[1 << 40, 1 << 40, 0], u64::MAX),
        ] {
            assert_eq!(Array::empty_rows(shape), rows, "{shape:?}");
        }
    }

    #[test]
    fn every_element_prints_what_it_parses_to_the_last_bit() {
        let cases: [(ElementType, &[&str]); 4] = [
            (ElementType::Int, &["0", "-2147483648", "2147483647"]),
            (ElementType::Long, &["-9223372036854775808", "9223372036854775807"]),
            (ElementType::Float, &["0.1", "-0.0", "3.4028235e38", "1e-45", "INF", "-INF", "NaN"]),
            (
                ElementType::Double,
                &["0.1", "-0.0", "1.7976931348623157e308", "5e-324", "INF", "NaN"],
            ),
        ];
        for (element, texts) in cases {
            for text in texts {
                let (mut bytes, mut printed, mut again) = (Vec::new(), Vec::new(), Vec::new());
                assert!(element.parse(format!(" {text}\n").as_bytes(), &mut bytes), "{text}");
                assert_eq!(bytes.len(), element.size());
                element.print(&bytes, &mut printed);
                assert!(element.parse(&printed, &mut again), "{printed:?}");
                assert_eq!(bytes, again, "{text}");
            }
        }
    }
}
