//! Constructors of datatypes (MPI 5.0, 5.1.2). Each gives pieces, and what `MPI_Type_get_contents` tells of it.

use std::sync::Arc;

use crate::arguments::{Integer, List, Out};
use crate::constants::*;
use crate::datatype::{DatatypeObject, Envelope, Layout, Piece, held};
use crate::entry::entries;
use crate::error::{Error, Result, error};
use crate::handle::Datatype;

/// An argument of a constructor, as `MPI_Type_get_contents` sorts them.
#[derive(Clone, Copy)]
pub(super) enum Argument {
    /// `int` in both forms of a constructor.
    Int(i64),
    /// `int`, or `MPI_Count` in the form for large counts.
    Count(i64),
    /// `MPI_Aint`, or `MPI_Count` likewise.
    Address(i64),
}

pub(super) use Argument::{Address, Count, Int};

impl Envelope {
    pub(super) fn new<C: Integer>(
        combiner: i32,
        arguments: impl IntoIterator<Item = Argument>,
        datatypes: Vec<Arc<DatatypeObject>>,
    ) -> Self {
        let mut envelope = Self { combiner, datatypes, ..Self::default() };
        for argument in arguments {
            match argument {
                Count(value) | Address(value) if C::LARGE => envelope.counts.push(value),
                Int(value) | Count(value) => {
                    envelope.integers.push(i32::try_from(value).unwrap_or(i32::MAX));
                }
                Address(value) => envelope.addresses.push(value),
            }
        }
        envelope
    }
}

/// A new datatype of pieces of one other.
pub(super) fn make(
    place: Out<Datatype>,
    envelope: Envelope,
    pieces: impl FnOnce(&Arc<Layout>) -> Result<Vec<Piece>>,
) -> Result<()> {
    let pieces = pieces(&envelope.datatypes[0].layout)?;
    put(place, Layout::of_pieces(pieces, false), envelope)
}

/// A new datatype's handle.
pub(super) fn put(place: Out<Datatype>, layout: Layout, envelope: Envelope) -> Result<()> {
    if !layout.is_tellable() {
        let problem = "the datatype's size or extent is more than MPI_Count can tell";
        return Err(error(MPI_ERR_VALUE_TOO_LARGE, problem));
    }
    place.set(Datatype::new(DatatypeObject::new(layout, envelope)))
}

pub(super) fn counts(values: &[usize]) -> impl Iterator<Item = Argument> {
    values.iter().map(|&value| Count(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Blocks, each so many elements at so many bytes.
fn blocks(lengths: &[usize], displacements: &[i64], unit: i64, layout: &Arc<Layout>) -> Vec<Piece> {
    let pairs = lengths.iter().zip(displacements);
    pairs.map(|(&length, at)| Piece::block(at.saturating_mul(unit), length, layout)).collect()
}

fn vector<C: Integer>(
    combiner: i32,
    count: C,
    length: C,
    stride: Argument,
    unit: Option<i64>,
    old: Datatype,
    new: Out<Datatype>,
) -> Result<()> {
    let (count, length, old) = (count.count()?, length.count()?, old.get()?);
    let (Int(distance) | Count(distance) | Address(distance)) = stride;
    let stride_bytes = distance.saturating_mul(unit.unwrap_or_else(|| old.layout.extent()));
    let arguments = [Count(number(count)), Count(number(length)), stride];
    make(new, Envelope::new::<C>(combiner, arguments, vec![old]), |layout| {
        Ok(vec![Piece {
            displacement: 0,
            repeat: count,
            stride: stride_bytes,
            count: length,
            layout: layout.clone(),
        }])
    })
}

/// `unit` is what displacements count; the extent if `None`.
fn indexed<C: Integer>(
    combiner: i32,
    lengths: &[usize],
    displacements: Vec<Argument>,
    unit: Option<i64>,
    old: Datatype,
    new: Out<Datatype>,
) -> Result<()> {
    let old = old.get()?;
    let values: Vec<i64> =
        displacements.iter().map(|(Int(value) | Count(value) | Address(value))| *value).collect();
    let block = [MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_HINDEXED_BLOCK].contains(&combiner);
    let told = if block { &lengths[..lengths.len().min(1)] } else { lengths };
    let arguments: Vec<_> = std::iter::once(Count(number(lengths.len())))
        .chain(counts(told))
        .chain(displacements)
        .collect();
    make(new, Envelope::new::<C>(combiner, arguments, vec![old]), |layout| {
        Ok(blocks(lengths, &values, unit.unwrap_or_else(|| layout.extent()), layout))
    })
}

/// Blocks of one length. Without blocks the length is told all the same.
fn indexed_block<C: Integer>(
    combiner: i32,
    count: C,
    length: C,
    displacements: Vec<Argument>,
    unit: Option<i64>,
    old: Datatype,
    new: Out<Datatype>,
) -> Result<()> {
    let (count, length) = (count.count()?, length.count()?);
    if count == 0 {
        let arguments = [Count(0), Count(number(length))];
        return make(new, Envelope::new::<C>(combiner, arguments, vec![old.get()?]), |_| {
            Ok(Vec::new())
        });
    }
    indexed::<C>(combiner, &vec![length; count], displacements, unit, old, new)
}

/// What is free of its handle may still be in use.
pub(super) fn not_predefined(datatype: Datatype) -> Result<Arc<DatatypeObject>> {
    let object = datatype.get()?;
    let problem: fn() -> Error =
        || error(MPI_ERR_TYPE, "a predefined datatype can't be changed or freed");
    if object.is_predefined() { Err(problem()) } else { Ok(object) }
}

entries! {
    fn Type_contiguous<C>(count: C, old: Datatype, new: Out<Datatype>) on () => {
        let count = count.count()?;
        let envelope = Envelope::new::<C>(MPI_COMBINER_CONTIGUOUS, [Count(number(count))], vec![old.get()?]);
        make(new, envelope, |layout| Ok(vec![Piece::block(0, count, layout)]))
    }
    fn Type_vector<C>(count: C, length: C, stride: C, old: Datatype, new: Out<Datatype>) on () => {
        vector(MPI_COMBINER_VECTOR, count, length, Count(stride.into()), None, old, new)
    }
    fn Type_create_hvector<C>(count: C, length: C, stride: i64, old: Datatype, new: Out<Datatype>) on () => {
        vector(MPI_COMBINER_HVECTOR, count, length, Address(stride), Some(1), old, new)
    }
    fn Type_indexed<C>(count: C, lengths: List<C>, at: List<C>, old: Datatype, new: Out<Datatype>) on () => {
        let count = count.count()?;
        let at = at.integers(count)?.into_iter().map(Count).collect();
        indexed::<C>(MPI_COMBINER_INDEXED, &lengths.counts(count)?, at, None, old, new)
    }
    fn Type_create_hindexed<C>(count: C, lengths: List<C>, at: List<i64>, old: Datatype, new: Out<Datatype>) on () => {
        let count = count.count()?;
        let at = at.integers(count)?.into_iter().map(Address).collect();
        indexed::<C>(MPI_COMBINER_HINDEXED, &lengths.counts(count)?, at, Some(1), old, new)
    }
    fn Type_create_indexed_block<C>(count: C, length: C, at: List<C>, old: Datatype, new: Out<Datatype>) on () => {
        let at = at.integers(count.count()?)?.into_iter().map(Count).collect();
        indexed_block(MPI_COMBINER_INDEXED_BLOCK, count, length, at, None, old, new)
    }
    fn Type_create_hindexed_block<C>(count: C, length: C, at: List<i64>, old: Datatype, new: Out<Datatype>) on () => {
        let at = at.integers(count.count()?)?.into_iter().map(Address).collect();
        indexed_block(MPI_COMBINER_HINDEXED_BLOCK, count, length, at, Some(1), old, new)
    }
    fn Type_create_struct<C>(
        count: C, lengths: List<C>, at: List<i64>, types: List<Datatype>, new: Out<Datatype>,
    ) on () => {
        let count = count.count()?;
        let (lengths, at) = (lengths.counts(count)?, at.integers(count)?);
        let types = types.to_vec(count)?.into_iter().map(Datatype::get).collect::<Result<Vec<_>>>()?;
        let parts = lengths.iter().zip(&at).zip(&types);
        let pieces = parts.map(|((&length, &at), object)| Piece::block(at, length, &object.layout)).collect();
        let arguments: Vec<_> = std::iter::once(Count(number(count)))
            .chain(counts(&lengths))
            .chain(at.iter().map(|&at| Address(at)))
            .collect();
        let envelope = Envelope::new::<C>(MPI_COMBINER_STRUCT, arguments, types);
        put(new, Layout::of_pieces(pieces, true), envelope)
    }
    fn Type_create_resized(old: Datatype, lower_bound: i64, extent: i64, new: Out<Datatype>) on () => {
        resized::<i32>(old, lower_bound, extent, new)
    }
    fn Type_create_resized_c(old: Datatype, lower_bound: i64, extent: i64, new: Out<Datatype>) on () => {
        resized::<i64>(old, lower_bound, extent, new)
    }
    fn Type_dup(old: Datatype, new: Out<Datatype>) on () => {
        let object = old.get()?;
        let attributes = object.attributes.copied(old.to_address())?;
        let envelope = Envelope::new::<i32>(MPI_COMBINER_DUP, [], vec![object.clone()]);
        let (layout, pair) = (object.layout.clone(), object.pair);
        let (name, handle) = Default::default();
        new.set(Datatype::new(DatatypeObject { layout, attributes, envelope, name, handle, pair }))
    }
    fn Type_commit(datatype: Out<Datatype>) on () => {
        // Layouts need no preparation.
        datatype.get()?.get().map(|_| ())
    }
    fn Type_free(datatype: Out<Datatype>) on () => {
        let handle = datatype.get()?;
        not_predefined(handle)?.attributes.delete_all(handle.to_address())?;
        held::free(handle)?;
        datatype.set(Datatype::NULL)
    }
}

fn resized<C: Integer>(
    old: Datatype,
    lower_bound: i64,
    extent: i64,
    new: Out<Datatype>,
) -> Result<()> {
    let object = old.get()?;
    let layout = object.layout.resized(lower_bound, extent);
    let envelope = Envelope::new::<C>(
        MPI_COMBINER_RESIZED,
        [Address(lower_bound), Address(extent)],
        vec![object],
    );
    put(new, layout, envelope)
}
