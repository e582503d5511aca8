//! The standard's own datatypes, and what Fortran is told of them.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use crate::arguments::Out;
use crate::constants::*;
use crate::datatype::{Basic, Class, DatatypeObject, Envelope, Layout, Piece};
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::{Datatype, Kind};

/// Name, distance from `MPI_DATATYPE_NULL`, class, bytes, bytes in `external32`.
type Row = (&'static str, usize, Class, usize, usize);

use Class::{
    Bool, Byte, Character, Complex, Floating, Logical, LongDouble, LongDoubleComplex, Signed,
    Unsigned,
};

#[rustfmt::skip]
const BASIC: &[Row] = &[
    ("MPI_AINT", 0x01, Signed, 8, 8), ("MPI_COUNT", 0x02, Signed, 8, 8), ("MPI_OFFSET", 0x03, Signed, 8, 8),
    ("MPI_PACKED", 0x07, Byte, 1, 1), ("MPI_SHORT", 0x08, Signed, 2, 2), ("MPI_INT", 0x09, Signed, 4, 4),
    ("MPI_LONG", 0x0a, Signed, 8, 4), ("MPI_LONG_LONG", 0x0b, Signed, 8, 8),
    ("MPI_UNSIGNED_SHORT", 0x0c, Unsigned, 2, 2), ("MPI_UNSIGNED", 0x0d, Unsigned, 4, 4),
    ("MPI_UNSIGNED_LONG", 0x0e, Unsigned, 8, 4), ("MPI_UNSIGNED_LONG_LONG", 0x0f, Unsigned, 8, 8),
    ("MPI_FLOAT", 0x10, Floating, 4, 4), ("MPI_C_FLOAT_COMPLEX", 0x12, Complex, 8, 8),
    ("MPI_CXX_FLOAT_COMPLEX", 0x13, Complex, 8, 8), ("MPI_DOUBLE", 0x14, Floating, 8, 8),
    ("MPI_C_DOUBLE_COMPLEX", 0x16, Complex, 16, 16), ("MPI_CXX_DOUBLE_COMPLEX", 0x17, Complex, 16, 16),
    ("MPI_LOGICAL", 0x18, Logical, 4, 4), ("MPI_INTEGER", 0x19, Signed, 4, 4), ("MPI_REAL", 0x1a, Floating, 4, 4),
    ("MPI_COMPLEX", 0x1b, Complex, 8, 8), ("MPI_DOUBLE_PRECISION", 0x1c, Floating, 8, 8),
    ("MPI_DOUBLE_COMPLEX", 0x1d, Complex, 16, 16), ("MPI_CHARACTER", 0x1e, Character, 1, 1),
    ("MPI_LONG_DOUBLE", 0x20, LongDouble, 16, 16), ("MPI_C_LONG_DOUBLE_COMPLEX", 0x24, LongDoubleComplex, 32, 32),
    ("MPI_CXX_LONG_DOUBLE_COMPLEX", 0x25, LongDoubleComplex, 32, 32), ("MPI_C_BOOL", 0x38, Bool, 1, 1),
    ("MPI_CXX_BOOL", 0x39, Bool, 1, 1), ("MPI_WCHAR", 0x3c, Character, 4, 2), ("MPI_INT8_T", 0x40, Signed, 1, 1),
    ("MPI_UINT8_T", 0x41, Unsigned, 1, 1), ("MPI_CHAR", 0x43, Character, 1, 1), ("MPI_SIGNED_CHAR", 0x44, Signed, 1, 1),
    ("MPI_UNSIGNED_CHAR", 0x45, Unsigned, 1, 1), ("MPI_BYTE", 0x47, Byte, 1, 1), ("MPI_INT16_T", 0x48, Signed, 2, 2),
    ("MPI_UINT16_T", 0x49, Unsigned, 2, 2), ("MPI_INT32_T", 0x50, Signed, 4, 4), ("MPI_UINT32_T", 0x51, Unsigned, 4, 4),
    ("MPI_INT64_T", 0x58, Signed, 8, 8), ("MPI_UINT64_T", 0x59, Unsigned, 8, 8), ("MPI_LOGICAL1", 0xc0, Logical, 1, 1),
    ("MPI_INTEGER1", 0xc1, Signed, 1, 1), ("MPI_LOGICAL2", 0xc8, Logical, 2, 2), ("MPI_INTEGER2", 0xc9, Signed, 2, 2),
    ("MPI_REAL2", 0xca, Floating, 2, 2), ("MPI_LOGICAL4", 0xd0, Logical, 4, 4), ("MPI_INTEGER4", 0xd1, Signed, 4, 4),
    ("MPI_REAL4", 0xd2, Floating, 4, 4), ("MPI_COMPLEX4", 0xd3, Complex, 4, 4), ("MPI_LOGICAL8", 0xd8, Logical, 8, 8),
    ("MPI_INTEGER8", 0xd9, Signed, 8, 8), ("MPI_REAL8", 0xda, Floating, 8, 8), ("MPI_COMPLEX8", 0xdb, Complex, 8, 8),
    ("MPI_LOGICAL16", 0xe0, Logical, 16, 16), ("MPI_INTEGER16", 0xe1, Signed, 16, 16),
    ("MPI_REAL16", 0xe2, Floating, 16, 16), ("MPI_COMPLEX16", 0xe3, Complex, 16, 16),
    ("MPI_COMPLEX32", 0xeb, Complex, 32, 32),
];

/// Name, distance from `MPI_DATATYPE_NULL`, value, index.
#[rustfmt::skip]
const PAIRS: &[(&str, usize, &str, &str)] = &[
    ("MPI_FLOAT_INT", 0x28, "MPI_FLOAT", "MPI_INT"), ("MPI_DOUBLE_INT", 0x29, "MPI_DOUBLE", "MPI_INT"),
    ("MPI_LONG_INT", 0x2a, "MPI_LONG", "MPI_INT"), ("MPI_2INT", 0x2b, "MPI_INT", "MPI_INT"),
    ("MPI_SHORT_INT", 0x2c, "MPI_SHORT", "MPI_INT"), ("MPI_LONG_DOUBLE_INT", 0x2d, "MPI_LONG_DOUBLE", "MPI_INT"),
    ("MPI_2REAL", 0x30, "MPI_REAL", "MPI_REAL"), ("MPI_2INTEGER", 0x32, "MPI_INTEGER", "MPI_INTEGER"),
    ("MPI_2DOUBLE_PRECISION", 0x31, "MPI_DOUBLE_PRECISION", "MPI_DOUBLE_PRECISION"),
];

fn basic(name: &str) -> (usize, Basic) {
    let row = BASIC.iter().find(|row| row.0 == name).unwrap_or(&BASIC[0]);
    (row.1, Basic { class: row.2, size: row.3, external: row.4 })
}

fn handle(at: usize) -> Datatype {
    Datatype::predefined(crate::handle::DatatypeKind::NULL + at)
}

/// A value and an index, as a C compiler puts them into a struct.
fn pair(value: Basic, index: Basic) -> DatatypeObject {
    let at = i64::try_from(value.size.next_multiple_of(index.size)).unwrap_or_default();
    let pieces = [(0, value), (at, index)]
        .map(|(at, basic)| Piece::block(at, 1, &Arc::new(Layout::of(basic))));
    let layout = Layout::of_pieces(pieces.into(), true);
    DatatypeObject {
        pair: Some((value, index)),
        ..DatatypeObject::new(layout, Envelope::default())
    }
}

fn named(mut object: DatatypeObject, name: &str, at: usize) -> (usize, DatatypeObject) {
    object.envelope.combiner = MPI_COMBINER_NAMED;
    object.name = Mutex::new(name.to_owned());
    object.handle = Mutex::new(Some(handle(at)));
    (at, object)
}

/// All of them, by their distance from the null handle.
pub(crate) fn predefined() -> Vec<Option<Arc<DatatypeObject>>> {
    let basics = BASIC.iter().map(|&(name, at, class, size, external)| {
        let layout = Layout::of(Basic { class, size, external });
        named(DatatypeObject::new(layout, Envelope::default()), name, at)
    });
    let pairs = PAIRS
        .iter()
        .map(|&(name, at, value, index)| named(pair(basic(value).1, basic(index).1), name, at));
    let mut all: Vec<_> = (0..0x100).map(|_| None).collect();
    for (at, object) in basics.chain(pairs) {
        all[at] = Some(Arc::new(object));
    }
    all
}

/// What `MPI_Abi_get_fortran_info` tells (MPI 5.0, 20.5): sizes of the types without a size in their name, and that
/// all others are supported.
pub(crate) fn fortran_info() -> Vec<(String, String)> {
    let sizes = ["LOGICAL", "INTEGER", "REAL", "DOUBLE_PRECISION"].map(|name| {
        let (_, basic) = basic(&format!("MPI_{name}"));
        (format!("mpi_{}_size", name.to_lowercase()), basic.size.to_string())
    });
    let supported = BASIC.iter().filter(|row| row.1 >= 0xc0 || row.0 == "MPI_DOUBLE_COMPLEX");
    let supported =
        supported.map(|row| (format!("{}_supported", row.0.to_lowercase()), "true".to_owned()));
    sizes.into_iter().chain(supported).collect()
}

/// A type that is made on demand and never freed, the same for the same arguments.
fn on_demand(key: [c_int; 3], make: impl FnOnce() -> Result<DatatypeObject>) -> Result<Datatype> {
    type Made = Mutex<Vec<([c_int; 3], Datatype)>>;
    static MADE: Made = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, handle)) = made.iter().find(|(known, _)| *known == key) {
        return Ok(*handle);
    }
    let object = Arc::new(make()?);
    let handle = Datatype::of(object.clone());
    if let Ok(mut slot) = object.handle.lock() {
        *slot = Some(handle);
    }
    made.push((key, handle));
    Ok(handle)
}

/// A number of Fortran with so much precision and range (MPI 5.0, 19.1.5).
fn fortran(
    combiner: c_int,
    precision: c_int,
    range: c_int,
    kinds: &[(&str, c_int, c_int)],
) -> Result<Datatype> {
    let enough = |wanted: c_int, has: c_int| wanted == MPI_UNDEFINED || wanted <= has;
    let fits = |kind: &&(&str, c_int, c_int)| enough(precision, kind.1) && enough(range, kind.2);
    let (name, ..) = kinds.iter().find(fits).ok_or_else(|| {
        error(MPI_ERR_ARG, format!("no Fortran type has precision {precision} and range {range}"))
    })?;
    if combiner != MPI_COMBINER_F90_INTEGER && precision == MPI_UNDEFINED && range == MPI_UNDEFINED
    {
        return Err(error(MPI_ERR_ARG, "precision, range or both are needed"));
    }
    on_demand([combiner, precision, range], || {
        let integers =
            if combiner == MPI_COMBINER_F90_INTEGER { vec![range] } else { vec![precision, range] };
        let envelope = Envelope { combiner, integers, ..Envelope::default() };
        Ok(DatatypeObject::new(Layout::of(basic(name).1), envelope))
    })
}

entries! {
    fn Type_create_f90_integer(range: c_int, datatype: Out<Datatype>) on () => {
        let kinds = [
            ("MPI_INTEGER1", 0, 2), ("MPI_INTEGER2", 0, 4), ("MPI_INTEGER4", 0, 9), ("MPI_INTEGER8", 0, 18),
            ("MPI_INTEGER16", 0, 38),
        ];
        datatype.set(fortran(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, range, &kinds)?)
    }
    fn Type_create_f90_real(precision: c_int, range: c_int, datatype: Out<Datatype>) on () => {
        let kinds = [("MPI_REAL4", 6, 37), ("MPI_REAL8", 15, 307), ("MPI_REAL16", 33, 4931)];
        datatype.set(fortran(MPI_COMBINER_F90_REAL, precision, range, &kinds)?)
    }
    fn Type_create_f90_complex(precision: c_int, range: c_int, datatype: Out<Datatype>) on () => {
        let kinds = [("MPI_COMPLEX8", 6, 37), ("MPI_COMPLEX16", 15, 307), ("MPI_COMPLEX32", 33, 4931)];
        datatype.set(fortran(MPI_COMBINER_F90_COMPLEX, precision, range, &kinds)?)
    }
    fn Type_match_size(class: c_int, size: c_int, datatype: Out<Datatype>) on () => {
        let name = match class {
            MPI_TYPECLASS_INTEGER => "MPI_INTEGER",
            MPI_TYPECLASS_REAL => "MPI_REAL",
            MPI_TYPECLASS_COMPLEX => "MPI_COMPLEX",
            _ => return Err(error(MPI_ERR_ARG, format!("{class} is no MPI_TYPECLASS_..."))),
        };
        let name = format!("{name}{size}");
        let row = BASIC.iter().find(|row| row.0 == name);
        datatype.set(handle(row.ok_or_else(|| error(MPI_ERR_ARG, format!("there is no {name}")))?.1))
    }
    fn Type_get_value_index(value: Datatype, index: Datatype, datatype: Out<Datatype>) on () => {
        (value.get()?, index.get()?);
        let is = |handle: Datatype, name: &str| handle == self::handle(basic(name).0);
        if let Some(row) = PAIRS.iter().find(|row| is(value, row.2) && is(index, row.3)) {
            return datatype.set(handle(row.1));
        }
        datatype.set(Datatype::NULL)
    }
}
