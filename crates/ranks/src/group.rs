//! Groups: ordered sets of processes (MPI 4.1, 7.3).

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::header::Rank;

/// Ranks of the domain; a rank in the group is a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(Arc<[Rank]>);

/// How two groups or communicators compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same members in the same order, and for communicators the same context.
    Identical,
    /// The same members in the same order, in different contexts.
    Congruent,
    /// The same members in another order.
    Similar,
    /// Other members.
    Unequal,
}

impl Group {
    pub(crate) fn of(ranks: Arc<[Rank]>) -> Self {
        Self(ranks)
    }

    /// The members' ranks in the domain.
    pub fn ranks(&self) -> &Arc<[Rank]> {
        &self.0
    }

    /// How many members.
    pub fn size(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// The group's rank of a rank of the domain.
    pub fn rank_of(&self, rank: Rank) -> Option<Rank> {
        // The world's, and most others' first ranks, without a search.
        if self.0.get(rank as usize) == Some(&rank) {
            return Some(rank);
        }
        self.0.iter().position(|&member| member == rank).and_then(|at| u32::try_from(at).ok())
    }

    /// Members of either, those of `self` first.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let more = other.0.iter().filter(|rank| !self.0.contains(rank));
        Self(self.0.iter().chain(more).copied().collect())
    }

    /// Members of both, in the order of `self`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|rank| other.0.contains(rank)).copied().collect())
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|rank| !other.0.contains(rank)).copied().collect())
    }

    /// These members, in this order.
    pub fn include(&self, ranks: &[Rank]) -> Result<Self> {
        let mut members = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let member = self.member(rank)?;
            if members.contains(&member) {
                return Err(Error::Argument {
                    argument: "ranks",
                    problem: format!("rank {rank} is there twice"),
                });
            }
            members.push(member);
        }
        Ok(Self(members.into()))
    }

    /// All but these members.
    pub fn exclude(&self, ranks: &[Rank]) -> Result<Self> {
        Ok(self.difference(&self.include(ranks)?))
    }

    /// What these ranks of `self` are in `other`; `None` for those that are not.
    pub fn translate(&self, ranks: &[Rank], other: &Self) -> Result<Vec<Option<Rank>>> {
        ranks.iter().map(|&rank| Ok(other.rank_of(self.member(rank)?))).collect()
    }

    /// How they compare; never [`Comparison::Congruent`].
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.0 == other.0 {
            Comparison::Identical
        } else if self.0.len() == other.0.len() && self.difference(other).0.is_empty() {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    pub(crate) fn member(&self, rank: Rank) -> Result<Rank> {
        let size = self.size();
        self.0.get(rank as usize).copied().ok_or(Error::InvalidRank { rank, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_keep_the_standards_order() {
        let (a, b) = (Group::of([3, 1, 5].into()), Group::of([5, 2, 3].into()));
        assert_eq!(a.union(&b).0[..], [3, 1, 5, 2]);
        assert_eq!(a.intersection(&b).0[..], [3, 5]);
        assert_eq!(a.difference(&b).0[..], [1]);
        assert_eq!(a.include(&[2, 0]).unwrap().0[..], [5, 3]);
        assert_eq!(a.exclude(&[0]).unwrap().0[..], [1, 5]);
        assert_eq!(a.translate(&[0, 1], &b).unwrap(), [Some(2), None]);
        assert_eq!(a.compare(&a.include(&[1, 0, 2]).unwrap()), Comparison::Similar);
        assert_eq!(a.compare(&b), Comparison::Unequal);
        assert!(a.include(&[3]).is_err() && a.include(&[1, 1]).is_err());
    }
}
