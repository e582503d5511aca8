//! Grids (MPI 4.1, 8.5). The last dimension varies fastest.

use std::cmp::Reverse;

use crate::error::{Error, Result};
use crate::header::Rank;

/// A grid of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dimensions: Vec<u32>,
    periodic: Vec<bool>,
}

fn wrong(argument: &'static str, problem: String) -> Error {
    Error::Argument { argument, problem }
}

impl Cartesian {
    /// One of these dimensions, each of which goes round or not.
    pub fn new(dimensions: &[u32], periodic: &[bool]) -> Result<Self> {
        if dimensions.len() != periodic.len() {
            let (many, flags) = (dimensions.len(), periodic.len());
            let problem = format!("there are {flags} flags for {many} dimensions");
            return Err(wrong("periodic", problem));
        }
        if dimensions.contains(&0) {
            return Err(wrong("dimensions", "one of them is 0".to_owned()));
        }
        let size = dimensions.iter().try_fold(1u32, |size, &dimension| size.checked_mul(dimension));
        size.ok_or_else(|| wrong("dimensions", "they are more ranks than can be".to_owned()))?;
        Ok(Self { dimensions: dimensions.to_vec(), periodic: periodic.to_vec() })
    }

    /// Ranks in each dimension.
    pub fn dimensions(&self) -> &[u32] {
        &self.dimensions
    }

    /// Which go round.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// All its ranks.
    pub fn size(&self) -> u32 {
        self.dimensions.iter().product()
    }

    /// Where a rank is (`MPI_Cart_coords`).
    pub fn coordinates(&self, rank: Rank) -> Result<Vec<u32>> {
        if rank >= self.size() {
            return Err(Error::InvalidRank { rank, size: self.size() });
        }
        let mut rest = rank;
        let mut coordinates: Vec<u32> = Vec::with_capacity(self.dimensions.len());
        for &dimension in self.dimensions.iter().rev() {
            coordinates.push(rest % dimension);
            rest /= dimension;
        }
        coordinates.reverse();
        Ok(coordinates)
    }

    /// Who is there (`MPI_Cart_rank`). What is outside comes in again where the dimension goes round, else it is an error.
    pub fn rank(&self, coordinates: &[i64]) -> Result<Rank> {
        if coordinates.len() != self.dimensions.len() {
            let (many, given) = (self.dimensions.len(), coordinates.len());
            return Err(wrong("coordinates", format!("{many} are needed, not {given}")));
        }
        let mut rank = 0;
        for ((&at, &dimension), periodic) in
            coordinates.iter().zip(&self.dimensions).zip(&self.periodic)
        {
            let within = if *periodic { at.rem_euclid(dimension.into()) } else { at };
            let within = u32::try_from(within).ok().filter(|&within| within < dimension);
            let within = within.ok_or_else(|| {
                wrong("coordinates", format!("{at} is outside of a dimension of {dimension}"))
            })?;
            rank = rank * dimension + within;
        }
        Ok(rank)
    }

    /// From whom `rank` receives and to whom it sends when all shift along a dimension (`MPI_Cart_shift`).
    pub fn shift(
        &self,
        rank: Rank,
        dimension: usize,
        displacement: i64,
    ) -> Result<[Option<Rank>; 2]> {
        if dimension >= self.dimensions.len() {
            let many = self.dimensions.len();
            return Err(wrong("dimension", format!("{dimension} is not below {many}")));
        }
        let here: Vec<i64> = self.coordinates(rank)?.into_iter().map(i64::from).collect();
        Ok([-1, 1].map(|direction| {
            let mut there = here.clone();
            there[dimension] =
                there[dimension].checked_add(displacement.checked_mul(direction)?)?;
            self.rank(&there).ok()
        }))
    }

    /// The neighbours of a rank in the order of dimensions, down before up.
    pub fn neighbors(&self, rank: Rank) -> Vec<Option<Rank>> {
        let pairs = (0..self.dimensions.len()).map(|dimension| self.shift(rank, dimension, 1));
        pairs.flat_map(Result::unwrap_or_default).collect()
    }

    /// The grid of some of the dimensions, and in which of those grids a rank is (`MPI_Cart_sub`).
    pub fn part(&self, keep: &[bool], rank: Rank) -> Result<(Self, u32)> {
        if keep.len() != self.dimensions.len() {
            let (many, given) = (self.dimensions.len(), keep.len());
            return Err(wrong("keep", format!("{many} flags are needed, not {given}")));
        }
        let kept = |at: &usize| keep[*at];
        let all = 0..self.dimensions.len();
        let coordinates = self.coordinates(rank)?;
        let other = all.clone().filter(|at| !kept(at));
        let color = other.fold(0, |color, at| color * self.dimensions[at] + coordinates[at]);
        let dimensions = all.clone().filter(kept).map(|at| self.dimensions[at]).collect();
        let periodic = all.filter(kept).map(|at| self.periodic[at]).collect();
        Ok((Self { dimensions, periodic }, color))
    }
}

/// Fills in the dimensions that are 0, as equal as they can be and from large to small, so that all together are `ranks`
/// (`MPI_Dims_create`).
pub fn create_dimensions(ranks: u32, dimensions: &mut [u32]) -> Result<()> {
    let given = dimensions.iter().filter(|&&one| one > 0).map(|&one| u64::from(one));
    // More than can be ranks is no matter how much more.
    let given = given.fold(1, u64::saturating_mul);
    let free = dimensions.iter().filter(|&&one| one == 0).count();
    if ranks == 0 || !u64::from(ranks).is_multiple_of(given) || (free == 0 && given != ranks.into())
    {
        let problem = format!("{ranks} ranks can't be divided by those that are given, {given}");
        return Err(wrong("dimensions", problem));
    }
    let rest = ranks / u32::try_from(given).unwrap_or(u32::MAX);
    let mut best: Option<Vec<u32>> = None;
    factor(rest, free, rest, &mut Vec::new(), &mut best);
    let mut factors = best.unwrap_or_default().into_iter();
    for one in dimensions.iter_mut().filter(|one| **one == 0) {
        *one = factors.next().unwrap_or(1);
    }
    Ok(())
}

/// How unequal factors are, from large to small: from the first to the last, then how small that is, then all of them.
fn inequality(factors: &[u32]) -> (u32, Reverse<u32>, &[u32]) {
    let [first, last] =
        [factors.first(), factors.last()].map(|one| one.copied().unwrap_or_default());
    (first - last, Reverse(last), factors)
}

/// Every product of `count` factors, none larger than the one before; the best is the most equal one.
fn factor(rest: u32, count: usize, most: u32, chosen: &mut Vec<u32>, best: &mut Option<Vec<u32>>) {
    if count == 0 {
        if rest == 1 && best.as_ref().is_none_or(|best| inequality(chosen) < inequality(best)) {
            *best = Some(chosen.clone());
        }
        return;
    }
    for one in (1..=most.min(rest)).filter(|one| rest.is_multiple_of(*one)) {
        let power =
            |root: u32| u64::from(root).saturating_pow(u32::try_from(count).unwrap_or(u32::MAX));
        // The others are not larger.
        if power(one) < rest.into() {
            continue;
        }
        // The last one is not larger than the root.
        let is_worse = |best: &Vec<u32>| power(one - inequality(best).0.min(one)) > u64::from(rest);
        if chosen.is_empty() && best.as_ref().is_some_and(is_worse) {
            return;
        }
        chosen.push(one);
        factor(rest / one, count - 1, one, chosen, best);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rank_is_where_its_coordinates_are(
            dimensions in proptest::collection::vec(1u32..5, 0..4), rank: u32, round: bool, displacement in -9i64..9,
        ) {
            let grid = Cartesian::new(&dimensions, &vec![round; dimensions.len()]).unwrap();
            let rank = rank % grid.size();
            let coordinates: Vec<i64> = grid.coordinates(rank).unwrap().into_iter().map(i64::from).collect();
            prop_assert_eq!(grid.rank(&coordinates), Ok(rank));
            for dimension in 0..dimensions.len() {
                let [from, to] = grid.shift(rank, dimension, displacement).unwrap();
                for other in [from, to].into_iter().flatten() {
                    prop_assert!(other < grid.size());
                }
                if let Some(to) = to {
                    prop_assert_eq!(grid.shift(to, dimension, displacement).unwrap()[0], Some(rank));
                }
                prop_assert!(!round || from.is_some() && to.is_some());
            }
        }

        #[test]
        fn created_dimensions_are_all_ranks(ranks in 1u32..3000, count in 1usize..5) {
            let mut dimensions = vec![0; count];
            create_dimensions(ranks, &mut dimensions).unwrap();
            prop_assert_eq!(dimensions.iter().product::<u32>(), ranks);
            prop_assert!(dimensions.is_sorted_by(|one, next| one >= next));
        }
    }

    #[test]
    fn dimensions_are_as_equal_as_can_be() {
        for (ranks, given, expected) in [
            (6, vec![0, 0], vec![3, 2]),
            (7, vec![0, 0], vec![7, 1]),
            (6, vec![0, 3, 0], vec![2, 3, 1]),
            (12, vec![0, 0, 0], vec![3, 2, 2]),
            (16, vec![0, 0], vec![4, 4]),
            (36, vec![0, 0, 0], vec![4, 3, 3]),
            (19_008, vec![0, 0, 0], vec![33, 24, 24]),
            (5_040, vec![0, 0, 0], vec![21, 16, 15]),
            (6, vec![2, 3], vec![2, 3]),
        ] {
            let mut dimensions = given;
            create_dimensions(ranks, &mut dimensions).unwrap();
            assert_eq!(dimensions, expected, "{ranks}");
        }
        // The standard's example 8.1.
        assert!(create_dimensions(7, &mut [0, 3, 0]).is_err());
        assert!(
            create_dimensions(7, &mut [2, 3]).is_err() && create_dimensions(0, &mut [0]).is_err()
        );
    }

    #[test]
    fn a_part_has_the_kept_dimensions() {
        let grid = Cartesian::new(&[2, 3, 4], &[true, false, true]).unwrap();
        let (part, color) = grid.part(&[true, false, true], 17).unwrap();
        assert_eq!((part.dimensions(), part.periodic()), (&[2, 4][..], &[true, true][..]));
        assert_eq!((grid.coordinates(17).unwrap(), color), (vec![1, 1, 1], 1));
        assert!(grid.part(&[true], 0).is_err() && grid.part(&[true; 3], 24).is_err());
        assert!(grid.rank(&[0, 3, 0]).is_err() && grid.rank(&[-1, 0, 5]).is_ok());
        assert!(Cartesian::new(&[2, 0], &[true; 2]).is_err() && Cartesian::new(&[2], &[]).is_err());
    }
}
