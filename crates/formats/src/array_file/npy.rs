//! NumPy's `.npy` (numpy.lib.format): a magic, a version, the length of the header, and the header:
//! a Python dictionary that tells type, order and shape. The numbers follow.

use fishplate_contract::{Array, ElementType};

/// The most bytes that a header may have; NumPy's own are 128.
pub const HEADER_SIZE: usize = 64 << 10;

/// Its media type, which is not registered.
pub const MEDIA_TYPE: &str = "application/x-npy";

/// What a file begins with.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// What a header tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// The type of its numbers.
    pub dtype: Dtype,
    /// The first index runs fastest.
    pub fortran_order: bool,
    /// Lengths of its axes.
    pub shape: Vec<u64>,
    /// Where the numbers begin.
    pub offset: usize,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    /// What kind.
    pub kind: NumberKind,
    /// Bytes of one number.
    pub size: usize,
    /// The most significant byte comes first.
    pub big: bool,
}

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Whole numbers.
    Signed,
    /// Whole numbers from 0 upwards.
    Unsigned,
    /// IEEE 754 numbers.
    Real,
}

/// A file that is no `.npy` of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NpyError(String);

fn error<T>(what: impl Into<String>) -> Result<T, NpyError> {
    Err(NpyError(what.into()))
}

impl NpyHeader {
    /// Reads the header from the beginning of a file, of which `start` holds [`HEADER_SIZE`] bytes
    /// or all that there are.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(start: &[u8]) -> Result<Self, NpyError> {
        let Some(rest) = start.strip_prefix(MAGIC) else {
            return error("it is no .npy file: it does not begin with \\x93NUMPY");
        };
        let cut = || NpyError("its header is cut off".to_owned());
        let (length, before) = match rest {
            [1, _, low, high, ..] => (usize::from(u16::from_le_bytes([*low, *high])), 10),
            [2 | 3, _, a, b, c, d, ..] => {
                let length = u32::from_le_bytes([*a, *b, *c, *d]);
                (usize::try_from(length).unwrap_or(usize::MAX), 12)
            }
            [1..=3, ..] | [] => return Err(cut()),
            [version, ..] => {
                return error(format!("its version {version} is not one of 1, 2 and 3"));
            }
        };
        if length > HEADER_SIZE - before {
            return error(format!("its header has {length} bytes, more than {HEADER_SIZE}"));
        }
        let header = start.get(before..before + length).ok_or_else(cut)?;
        let header = std::str::from_utf8(header).or_else(|_| error("its header is not text"))?;
        Literal { rest: header }.header(before + length)
    }

    /// The header of an array that follows little-endian in C order.
    pub fn print(element: ElementType, shape: &[u64]) -> Vec<u8> {
        let descr = match element {
            ElementType::Int => "<i4",
            ElementType::Long => "<i8",
            ElementType::Float => "<f4",
            ElementType::Double => "<f8",
        };
        let lengths: Vec<String> = shape.iter().map(|length| format!("{length},")).collect();
        let shape = lengths.join(" ");
        // A tuple of several has no comma at its end, as NumPy prints it.
        let shape = if lengths.len() > 1 { shape.trim_end_matches(',') } else { &shape };
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
        // The numbers begin at a multiple of 64, and a line feed ends the header.
        let whole = (10 + text.len() + 1).next_multiple_of(64);
        let length = u16::try_from(whole - 10).unwrap_or(u16::MAX);
        let mut header = [MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat();
        header.resize(whole - 1, b' ');
        header.push(b'\n');
        header
    }

    /// Bytes of the numbers; `None` if they cannot be counted.
    pub fn size(&self) -> Option<u64> {
        let count = Array::size(ElementType::Int, &self.shape)? / ElementType::Int.size() as u64;
        count.checked_mul(self.dtype.size as u64)
    }
}

impl Dtype {
    fn parse(descr: &str) -> Result<Self, NpyError> {
        let refused = || NpyError(format!("its dtype {descr:?} is none of real or whole numbers"));
        let (order, kind) = descr.split_at_checked(1).ok_or_else(refused)?;
        let big = match order {
            "<" | "|" => false,
            ">" => true,
            "=" => cfg!(target_endian = "big"),
            _ => return Err(refused()),
        };
        let (kind, size) = match kind {
            "i1" => (NumberKind::Signed, 1),
            "i2" => (NumberKind::Signed, 2),
            "i4" => (NumberKind::Signed, 4),
            "i8" => (NumberKind::Signed, 8),
            "u1" => (NumberKind::Unsigned, 1),
            "u2" => (NumberKind::Unsigned, 2),
            "u4" => (NumberKind::Unsigned, 4),
            "u8" => (NumberKind::Unsigned, 8),
            "f4" => (NumberKind::Real, 4),
            "f8" => (NumberKind::Real, 8),
            _ => return Err(refused()),
        };
        Ok(Self { kind, size, big })
    }

    /// Its numbers are the element's, but for the order of their bytes.
    pub fn is(self, element: ElementType) -> bool {
        let kind = match element {
            ElementType::Int | ElementType::Long => NumberKind::Signed,
            ElementType::Float | ElementType::Double => NumberKind::Real,
        };
        self.kind == kind && self.size == element.size()
    }

    /// As NumPy calls it.
    pub fn name(self) -> String {
        let kind = match self.kind {
            NumberKind::Signed => "int",
            NumberKind::Unsigned => "uint",
            NumberKind::Real => "float",
        };
        format!("{kind}{}", 8 * self.size)
    }

    /// Whether its numbers can be the element's: whole numbers where each fits exactly, `float32`
    /// in `double`. Never a `float64` in `float`, nor a real number in whole ones: whether they
    /// fit would depend on the data of the day.
    ///
    /// # Errors
    /// What to do.
    pub fn check(self, element: ElementType) -> Result<(), NpyError> {
        let fits =
            self.kind != NumberKind::Real || self.is(element) || element == ElementType::Double;
        if fits {
            return Ok(());
        }
        let (has, wants) = (self.name(), Self::of(element).name());
        error(format!("its dtype is {has}, and {wants} is wanted: save array.astype(\"{wants}\")"))
    }

    /// The type of an element as it is everywhere in Fishplate.
    pub fn of(element: ElementType) -> Self {
        let kind = match element {
            ElementType::Int | ElementType::Long => NumberKind::Signed,
            ElementType::Float | ElementType::Double => NumberKind::Real,
        };
        Self { kind, size: element.size(), big: false }
    }

    /// Appends whole numbers of this type as elements. `before` counts the numbers before these.
    ///
    /// # Errors
    /// A number that the element cannot hold exactly.
    pub fn convert(
        self,
        numbers: &mut [u8],
        element: ElementType,
        before: u64,
        to: &mut Vec<u8>,
    ) -> Result<(), NpyError> {
        if self.big {
            super::raw::swap(numbers, self.size);
        }
        if self.is(element) {
            to.extend_from_slice(numbers);
            return Ok(());
        }
        for (at, number) in numbers.chunks_exact(self.size).enumerate() {
            let fits = match self.kind {
                NumberKind::Real => push_real(number, to),
                NumberKind::Signed | NumberKind::Unsigned => {
                    push_whole(self.whole(number), element, to)
                }
            };
            if !fits {
                let (place, value) = (before + at as u64, self.whole(number));
                let name = element.name();
                return error(format!("its number {value} (index {place}) does not fit {name}"));
            }
        }
        Ok(())
    }

    /// A number from its [`Dtype::size`] bytes, as far as an `f64` holds it; not a number, if there are fewer or more.
    pub fn number(self, bytes: &[u8]) -> f64 {
        let mut little = [0; 8];
        let Some(to) = little.get_mut(..self.size).filter(|to| to.len() == bytes.len()) else {
            return f64::NAN;
        };
        to.copy_from_slice(bytes);
        if self.big {
            to.reverse();
        }
        match (self.kind, self.size) {
            (NumberKind::Real, 4) => {
                let [a, b, c, d, ..] = little;
                f64::from(f32::from_le_bytes([a, b, c, d]))
            }
            (NumberKind::Real, _) => f64::from_le_bytes(little),
            (NumberKind::Signed | NumberKind::Unsigned, size) => self.whole(&little[..size]) as f64,
        }
    }

    /// A whole number from its little-endian bytes.
    fn whole(self, number: &[u8]) -> i128 {
        let negative =
            self.kind == NumberKind::Signed && number.last().is_some_and(|top| *top >= 0x80);
        let mut bytes = [if negative { 0xFF } else { 0 }; 16];
        bytes[..number.len()].copy_from_slice(number);
        i128::from_le_bytes(bytes)
    }
}

fn push_whole(number: i128, element: ElementType, to: &mut Vec<u8>) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "whether it lost anything is checked")]
    match element {
        ElementType::Int => match i32::try_from(number) {
            Ok(number) => to.extend_from_slice(&number.to_le_bytes()),
            Err(_) => return false,
        },
        ElementType::Long => match i64::try_from(number) {
            Ok(number) => to.extend_from_slice(&number.to_le_bytes()),
            Err(_) => return false,
        },
        ElementType::Float if number as f32 as i128 == number => {
            to.extend_from_slice(&(number as f32).to_le_bytes());
        }
        ElementType::Double if number as f64 as i128 == number => {
            to.extend_from_slice(&(number as f64).to_le_bytes());
        }
        ElementType::Float | ElementType::Double => return false,
    }
    true
}

/// `float32` as `double`, the only widening of real numbers there is.
fn push_real(number: &[u8], to: &mut Vec<u8>) -> bool {
    let Ok(number) = number.try_into() else { return false };
    to.extend_from_slice(&f64::from(f32::from_le_bytes(number)).to_le_bytes());
    true
}

/// A Python literal being read, as far as headers have them.
struct Literal<'h> {
    rest: &'h str,
}

impl<'h> Literal<'h> {
    fn header(&mut self, offset: usize) -> Result<NpyHeader, NpyError> {
        let (mut dtype, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.skip('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" if self.next() == Some('[') => {
                    return error("its dtype is a structure, not a number");
                }
                "descr" => dtype = Some(Dtype::parse(self.string()?)?),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return error(format!("its header has an unknown key {key:?}")),
            }
            if !self.skip(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return error("its header goes on behind the dictionary");
        }
        match (dtype, fortran_order, shape) {
            (Some(dtype), Some(fortran_order), Some(shape)) => {
                Ok(NpyHeader { dtype, fortran_order, shape, offset })
            }
            _ => error("its header lacks one of descr, fortran_order and shape"),
        }
    }

    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn skip(&mut self, sign: char) -> bool {
        let found = self.next() == Some(sign);
        if found {
            self.rest = &self.rest[sign.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), NpyError> {
        if self.skip(sign) { Ok(()) } else { error(format!("its header has no {sign:?} in place")) }
    }

    fn string(&mut self) -> Result<&'h str, NpyError> {
        let Some(quote @ ('\'' | '"')) = self.next() else {
            return error("its header has no string in place");
        };
        let inside = &self.rest[1..];
        let Some((text, rest)) = inside.split_once(quote) else {
            return error("its header has a string without an end");
        };
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.next();
        for (text, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Ok(value);
            }
        }
        error("its fortran_order is neither True nor False")
    }

    fn tuple(&mut self) -> Result<Vec<u64>, NpyError> {
        let mut lengths = Vec::new();
        self.expect('(')?;
        while !self.skip(')') {
            self.next();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            // Python 2 wrote `3L`.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            let length = digits.parse();
            lengths.push(length.or_else(|_| error("its shape is no tuple of lengths"))?);
            if !self.skip(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(lengths)
    }
}
