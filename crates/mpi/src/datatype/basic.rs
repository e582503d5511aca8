//! The types that all others are made of.

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A number of IEEE 754.
    Floating,
    /// C's `long double`.
    LongDouble,
    /// Two numbers of IEEE 754.
    Complex,
    /// Two of C's `long double`.
    LongDoubleComplex,
    /// A truth value of C or C++.
    Bool,
    /// A truth value of Fortran.
    Logical,
    /// A character that is no number.
    Character,
    /// Eight bits that mean nothing.
    Byte,
}

/// A basic type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basic {
    pub(crate) class: Class,
    /// Bytes in memory.
    pub(crate) size: usize,
    /// Bytes in `external32` (MPI 5.0, 15.5.2).
    pub(crate) external: usize,
}

impl Basic {
    /// Eight bits.
    pub(crate) const BYTE: Self = Self { class: Class::Byte, size: 1, external: 1 };

    /// Parts that are turned each by itself in `external32`.
    pub(crate) fn parts(self) -> usize {
        if matches!(self.class, Class::Complex | Class::LongDoubleComplex) { 2 } else { 1 }
    }
}
