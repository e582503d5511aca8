//! Parts of arrays (MPI 5.0, 5.1.3 and 5.1.4).

use std::ffi::c_int;
use std::sync::Arc;

use crate::arguments::{Integer, List, Out};
use crate::constants::*;
use crate::datatype::constructors::{Int, counts, put};
use crate::datatype::{Envelope, Layout, Piece};
use crate::entry::entries;
use crate::error::{Error, Result, error};
use crate::handle::Datatype;

fn wrong(problem: String) -> Error {
    error(MPI_ERR_ARG, problem)
}

/// How many dimensions an array has.
fn count_of(dimensions: c_int) -> Result<usize> {
    match dimensions.count()? {
        0 => Err(wrong("an array has 0 dimensions, and should have 1 or more".to_owned())),
        dimensions => Ok(dimensions),
    }
}

/// The dimensions from the one whose elements lie next to each other outwards.
fn inwards_out(order: c_int, dimensions: usize) -> Result<Vec<usize>> {
    match order {
        MPI_ORDER_C => Ok((0..dimensions).rev().collect()),
        MPI_ORDER_FORTRAN => Ok((0..dimensions).collect()),
        _ => Err(wrong(format!(
            "the order is {order}, and should be MPI_ORDER_C or MPI_ORDER_FORTRAN"
        ))),
    }
}

/// Of each dimension, runs of indices that are taken: begin, length.
type Runs = Vec<(usize, usize)>;

/// The elements whose indices are taken in every dimension, with the extent of the whole array.
fn part(old: &Arc<Layout>, sizes: &[usize], runs: &[Runs], order: &[usize]) -> Layout {
    let extent = old.extent();
    let mut stride = extent;
    let mut layout = old.clone();
    for (depth, &dimension) in order.iter().enumerate() {
        // A row of this dimension: its elements are rows of the one within.
        let pieces = runs[dimension].iter().map(|&(begin, length)| {
            let displacement = stride.saturating_mul(i64::try_from(begin).unwrap_or(i64::MAX));
            let layout = layout.clone();
            if depth == 0 {
                Piece::block(displacement, length, &layout)
            } else {
                Piece { displacement, repeat: length, stride, count: 1, layout }
            }
        });
        layout = Arc::new(Layout::of_pieces(pieces.collect(), false));
        stride = stride.saturating_mul(i64::try_from(sizes[dimension]).unwrap_or(i64::MAX));
    }
    layout.resized(old.lower_bound.min(0), stride)
}

/// The indices of a dimension that a process has.
fn distributed(
    distribution: c_int,
    argument: c_int,
    size: usize,
    processes: usize,
    at: usize,
) -> Result<Runs> {
    let positive = |argument: c_int| {
        usize::try_from(argument).ok().filter(|argument| *argument > 0).ok_or_else(|| {
            wrong(format!("a distribution's argument is {argument}, and should be 1 or more"))
        })
    };
    let default = argument == MPI_DISTRIBUTE_DFLT_DARG;
    Ok(match distribution {
        MPI_DISTRIBUTE_NONE => vec![(0, size)],
        MPI_DISTRIBUTE_BLOCK => {
            let block = if default { size.div_ceil(processes) } else { positive(argument)? };
            if block * processes < size {
                return Err(wrong(format!("{processes} blocks of {block} are less than {size}")));
            }
            let begin = (block * at).min(size);
            vec![(begin, block.min(size - begin))]
        }
        MPI_DISTRIBUTE_CYCLIC => {
            let block = if default { 1 } else { positive(argument)? };
            let begins = (at * block..size).step_by(block * processes);
            begins.map(|begin| (begin, block.min(size - begin))).collect()
        }
        _ => return Err(wrong(format!("{distribution} is no MPI_DISTRIBUTE_..."))),
    })
}

entries! {
    fn Type_create_subarray<C>(
        dimensions: c_int, sizes: List<C>, subsizes: List<C>, starts: List<C>, order: c_int, old: Datatype,
        new: Out<Datatype>,
    ) on () => {
        let (dimensions, old) = (count_of(dimensions)?, old.get()?);
        let (sizes, subsizes, starts) =
            (sizes.counts(dimensions)?, subsizes.counts(dimensions)?, starts.counts(dimensions)?);
        let mut runs = Vec::new();
        for ((&size, &subsize), &start) in sizes.iter().zip(&subsizes).zip(&starts) {
            if subsize == 0 || start + subsize > size {
                return Err(wrong(format!("{subsize} elements from {start} on are not within {size}")));
            }
            runs.push(vec![(start, subsize)]);
        }
        let layout = part(&old.layout, &sizes, &runs, &inwards_out(order, dimensions)?);
        let arguments: Vec<_> = std::iter::once(Int(i64::try_from(dimensions).unwrap_or(0)))
            .chain(counts(&sizes)).chain(counts(&subsizes)).chain(counts(&starts))
            .chain([Int(order.into())])
            .collect();
        let envelope = Envelope::new::<C>(MPI_COMBINER_SUBARRAY, arguments, vec![old]);
        put(new, layout, envelope)
    }
    fn Type_create_darray<C>(
        size: c_int, rank: c_int, dimensions: c_int, sizes: List<C>, distributions: List<c_int>, arguments: List<c_int>,
        processes: List<c_int>, order: c_int, old: Datatype, new: Out<Datatype>,
    ) on () => {
        let (dimensions, old) = (count_of(dimensions)?, old.get()?);
        let sizes = sizes.counts(dimensions)?;
        let (distributions, darguments) = (distributions.to_vec(dimensions)?, arguments.to_vec(dimensions)?);
        let grid = processes.counts(dimensions)?;
        let (processes_given, rank_given) = (size.count()?, rank.count()?);
        let product = grid.iter().try_fold(1, |product: usize, &one| product.checked_mul(one));
        if grid.contains(&0) || product != Some(processes_given) {
            return Err(wrong(format!("a grid of {grid:?} processes is not {size}")));
        }
        if rank_given >= processes_given {
            return Err(wrong(format!("process {rank} is not one of {size}")));
        }
        // Coordinates of the rank: the last dimension varies fastest, in both orders.
        let mut rest = rank_given;
        let mut runs = vec![Runs::new(); dimensions];
        for at in (0..dimensions).rev() {
            let coordinate = rest % grid[at];
            rest /= grid[at];
            runs[at] = distributed(distributions[at], darguments[at], sizes[at], grid[at], coordinate)?;
        }
        let layout = part(&old.layout, &sizes, &runs, &inwards_out(order, dimensions)?);
        let ints = |values: &[c_int]| values.iter().map(|&value| Int(value.into())).collect::<Vec<_>>();
        let told: Vec<_> = ints(&[size, rank, c_int::try_from(dimensions).unwrap_or(0)]).into_iter()
            .chain(counts(&sizes))
            .chain(ints(&distributions)).chain(ints(&darguments)).chain(ints(&processes.to_vec(dimensions)?))
            .chain([Int(order.into())])
            .collect();
        let envelope = Envelope::new::<C>(MPI_COMBINER_DARRAY, told, vec![old]);
        put(new, layout, envelope)
    }
}
