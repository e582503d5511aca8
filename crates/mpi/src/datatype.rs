//! Datatypes (MPI 5.0, chapter 5).
//!
//! - `layout`: where a datatype's bytes are in memory
//! - `basic`: the types that others are made of; `named`: the table of the standard's own
//! - `constructors`, `array`: making datatypes; `query`: asking about them
//! - `held`: handles that outlive `MPI_Type_free`
//! - `pack`: the bytes of a message, ours and `external32`

mod array;
mod basic;
mod constructors;
mod held;
mod layout;
mod named;
mod pack;
mod query;

use std::sync::{Arc, Mutex};

pub(crate) use basic::{Basic, Class};
pub(crate) use held::HeldHandle;
pub(crate) use layout::{Layout, Piece};
pub(crate) use named::{fortran_info, predefined};

use crate::attribute::Attributes;
use crate::handle::Datatype;

/// What a datatype's handle stands for.
#[derive(Debug)]
pub(crate) struct DatatypeObject {
    pub(crate) layout: Arc<Layout>,
    pub(crate) attributes: Attributes,
    envelope: Envelope,
    name: Mutex<String>,
    /// Its handle, if that is never freed.
    handle: Mutex<Option<Datatype>>,
    /// A value and an index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    pub(crate) pair: Option<(Basic, Basic)>,
}

/// How a datatype was made (MPI 5.0, 5.1.13).
#[derive(Clone, Debug, Default)]
struct Envelope {
    combiner: i32,
    integers: Vec<i32>,
    addresses: Vec<i64>,
    /// Of a constructor of large counts; the others have none.
    counts: Vec<i64>,
    datatypes: Vec<Arc<DatatypeObject>>,
}

impl DatatypeObject {
    fn new(layout: Layout, envelope: Envelope) -> Self {
        Self {
            layout: Arc::new(layout),
            attributes: Attributes::default(),
            envelope,
            name: Mutex::default(),
            handle: Mutex::default(),
            pair: None,
        }
    }

    /// What it is made of, if of one basic type only.
    pub(crate) fn basic(&self) -> Option<Basic> {
        self.layout.basic()
    }

    /// Whether it was given to a program that has to free it.
    fn is_predefined(&self) -> bool {
        self.handle.lock().is_ok_and(|handle| handle.is_some())
    }
}
