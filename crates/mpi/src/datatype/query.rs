//! What a program can ask of a datatype (MPI 5.0, 5.1.5 to 5.1.8 and 5.1.13).

use std::ffi::c_int;
use std::sync::{Arc, PoisonError};

use crate::arguments::{Integer, Out, Text, TextOut};
use crate::constants::*;
use crate::datatype::{DatatypeObject, Envelope};
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::Datatype;

/// A number, or `MPI_UNDEFINED` if it does not fit.
fn set<C: Integer>(place: Out<C>, value: i64) -> Result<()> {
    let undefined =
        || C::of(MPI_UNDEFINED.into()).ok_or_else(|| error(MPI_ERR_VALUE_TOO_LARGE, ""));
    place.set(C::of(value).map_or_else(undefined, Ok)?)
}

fn size(datatype: Datatype) -> Result<i64> {
    Ok(i64::try_from(datatype.get()?.layout.size).unwrap_or(i64::MAX))
}

fn extent(datatype: Datatype, lower_bound: Out<i64>, extent: Out<i64>) -> Result<()> {
    let object = datatype.get()?;
    lower_bound.set(object.layout.lower_bound)?;
    extent.set(object.layout.extent())
}

fn true_extent(datatype: Datatype, lower_bound: Out<i64>, extent: Out<i64>) -> Result<()> {
    let layout = &datatype.get()?.layout;
    lower_bound.set(layout.true_lower_bound)?;
    extent.set(layout.true_upper_bound.saturating_sub(layout.true_lower_bound))
}

/// As the form without large counts can tell it.
fn small(object: &DatatypeObject) -> Result<&Envelope> {
    if !object.envelope.counts.is_empty() {
        let problem = "the datatype was made with large counts: use the form with _c";
        return Err(error(MPI_ERR_TYPE, problem));
    }
    Ok(&object.envelope)
}

fn fill<T: Copy>(place: Out<T>, most: i64, values: &[T]) -> Result<()> {
    if most < i64::try_from(values.len()).unwrap_or(i64::MAX) {
        return Err(error(
            MPI_ERR_ARG,
            format!("there is room for {most} values, and there are {}", values.len()),
        ));
    }
    place.set_all(values.iter().copied())
}

/// Handles: the standard's own, and new ones of all others, which the caller frees.
fn handles(objects: &[Arc<DatatypeObject>]) -> Vec<Datatype> {
    let handle = |object: &Arc<DatatypeObject>| {
        let known = *object.handle.lock().unwrap_or_else(PoisonError::into_inner);
        known.unwrap_or_else(|| Datatype::of(object.clone()))
    };
    objects.iter().map(handle).collect()
}

fn not_named(object: &DatatypeObject) -> Result<()> {
    if object.envelope.combiner == MPI_COMBINER_NAMED {
        return Err(error(MPI_ERR_TYPE, "a named datatype has no contents"));
    }
    Ok(())
}

fn length<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

entries! {
    fn Type_size<C>(datatype: Datatype, place: Out<C>) on () => {
        set(place, size(datatype)?)
    }
    fn Type_size_x(datatype: Datatype, place: Out<i64>) on () => {
        set(place, size(datatype)?)
    }
    fn Type_get_extent(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        extent(datatype, lower_bound, place)
    }
    fn Type_get_extent_c(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        extent(datatype, lower_bound, place)
    }
    fn Type_get_extent_x(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        extent(datatype, lower_bound, place)
    }
    fn Type_get_true_extent(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        true_extent(datatype, lower_bound, place)
    }
    fn Type_get_true_extent_c(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        true_extent(datatype, lower_bound, place)
    }
    fn Type_get_true_extent_x(datatype: Datatype, lower_bound: Out<i64>, place: Out<i64>) on () => {
        true_extent(datatype, lower_bound, place)
    }
    fn Type_get_envelope(
        datatype: Datatype, integers: Out<c_int>, addresses: Out<c_int>, datatypes: Out<c_int>, combiner: Out<c_int>,
    ) on () => {
        let object = datatype.get()?;
        let envelope = small(&object)?;
        integers.set_count(envelope.integers.len())?;
        addresses.set_count(envelope.addresses.len())?;
        datatypes.set_count(envelope.datatypes.len())?;
        combiner.set(envelope.combiner)
    }
    fn Type_get_envelope_c(
        datatype: Datatype, integers: Out<i64>, addresses: Out<i64>, counts: Out<i64>, datatypes: Out<i64>,
        combiner: Out<c_int>,
    ) on () => {
        let object = datatype.get()?;
        let envelope = &object.envelope;
        integers.set(length(&envelope.integers))?;
        addresses.set(length(&envelope.addresses))?;
        counts.set(length(&envelope.counts))?;
        datatypes.set(length(&envelope.datatypes))?;
        combiner.set(envelope.combiner)
    }
    fn Type_get_contents(
        datatype: Datatype, most_integers: c_int, most_addresses: c_int, most_datatypes: c_int, integers: Out<c_int>,
        addresses: Out<i64>, datatypes: Out<Datatype>,
    ) on () => {
        let object = datatype.get()?;
        not_named(&object)?;
        let envelope = small(&object)?;
        fill(integers, most_integers.into(), &envelope.integers)?;
        fill(addresses, most_addresses.into(), &envelope.addresses)?;
        fill(datatypes, most_datatypes.into(), &handles(&envelope.datatypes))
    }
    fn Type_get_contents_c(
        datatype: Datatype, most_integers: i64, most_addresses: i64, most_counts: i64, most_datatypes: i64,
        integers: Out<c_int>, addresses: Out<i64>, counts: Out<i64>, datatypes: Out<Datatype>,
    ) on () => {
        let object = datatype.get()?;
        not_named(&object)?;
        let envelope = &object.envelope;
        fill(integers, most_integers, &envelope.integers)?;
        fill(addresses, most_addresses, &envelope.addresses)?;
        fill(counts, most_counts, &envelope.counts)?;
        fill(datatypes, most_datatypes, &handles(&envelope.datatypes))
    }
    fn Type_get_name(datatype: Datatype, name: TextOut, length: Out<c_int>) on () => {
        if datatype == Datatype::NULL {
            return name.set_with_length("MPI_DATATYPE_NULL", MPI_MAX_OBJECT_NAME, length);
        }
        let object = datatype.get()?;
        let text = object.name.lock().unwrap_or_else(PoisonError::into_inner);
        name.set_with_length(&text, MPI_MAX_OBJECT_NAME, length)
    }
    fn Type_set_name(datatype: Datatype, name: Text) on () => {
        *datatype.get()?.name.lock().unwrap_or_else(PoisonError::into_inner) = name.get()?;
        Ok(())
    }
}
