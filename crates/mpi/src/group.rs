//! Groups (MPI 5.0, 7.3).

use std::ffi::c_int;

use fishplate_ranks as ranks;
use ranks::group::Comparison;

use crate::arguments::{Integer, List, Out};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::{GROUP_EMPTY, Group};

/// What a group's handle stands for.
pub(crate) type GroupObject = ranks::Group;

fn signed(rank: Option<u32>) -> c_int {
    rank.and_then(|rank| c_int::try_from(rank).ok()).unwrap_or(MPI_UNDEFINED)
}

fn set(place: Out<Group>, group: GroupObject) -> Result<()> {
    place.set(if group.size() == 0 { GROUP_EMPTY } else { Group::new(group) })
}

fn rank_of(rank: c_int) -> Result<u32> {
    u32::try_from(rank).map_err(|_| error(MPI_ERR_RANK, format!("rank {rank} is negative")))
}

fn ranks_of(count: c_int, ranks: List<c_int>) -> Result<Vec<u32>> {
    ranks.to_vec(count.count()?)?.into_iter().map(rank_of).collect()
}

/// First, last, stride of each range (MPI 5.0, 7.3.2). The first rank that is not in the group ends it: there may be billions.
fn ranges(group: &GroupObject, count: c_int, ranges: List<[c_int; 3]>) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for [first, last, stride] in ranges.to_vec(count.count()?)? {
        if stride == 0 {
            return Err(error(MPI_ERR_ARG, "a range's stride is 0"));
        }
        let mut rank = i64::from(first);
        let beyond = |rank: i64| if stride > 0 { rank > last.into() } else { rank < last.into() };
        while !beyond(rank) {
            let member = u32::try_from(rank).ok().filter(|member| *member < group.size());
            all.push(member.ok_or_else(|| {
                error(MPI_ERR_RANK, format!("rank {rank} is not one of {}", group.size()))
            })?);
            rank += i64::from(stride);
        }
    }
    Ok(all)
}

/// Errors of members are those of ranks.
fn members(group: ranks::Result<GroupObject>) -> Result<GroupObject> {
    group.map_err(|cause| error(MPI_ERR_RANK, cause.to_string()))
}

entries! {
    fn Group_size(group: Group, size: Out<c_int>) on () => {
        size.set(signed(Some(group.get()?.size())))
    }
    fn Group_rank(group: Group, rank: Out<c_int>) on () => {
        let group = group.get()?;
        rank.set(signed(group.rank_of(crate::environment::process()?.rank())))
    }
    fn Group_translate_ranks(from: Group, count: c_int, ranks: List<c_int>, to: Group, place: Out<c_int>) on () => {
        let (from, to) = (from.get()?, to.get()?);
        let translate = |rank: c_int| {
            if rank == MPI_PROC_NULL {
                return Ok(MPI_PROC_NULL);
            }
            Ok(signed(from.translate(&[rank_of(rank)?], &to)?[0]))
        };
        let ranks = ranks.to_vec(count.count()?)?;
        place.set_all(ranks.into_iter().map(translate).collect::<Result<Vec<_>>>()?)
    }
    fn Group_compare(left: Group, right: Group, result: Out<c_int>) on () => {
        result.set(match left.get()?.compare(&*right.get()?) {
            Comparison::Identical | Comparison::Congruent => MPI_IDENT,
            Comparison::Similar => MPI_SIMILAR,
            Comparison::Unequal => MPI_UNEQUAL,
        })
    }
    fn Group_union(left: Group, right: Group, place: Out<Group>) on () => {
        set(place, left.get()?.union(&*right.get()?))
    }
    fn Group_intersection(left: Group, right: Group, place: Out<Group>) on () => {
        set(place, left.get()?.intersection(&*right.get()?))
    }
    fn Group_difference(left: Group, right: Group, place: Out<Group>) on () => {
        set(place, left.get()?.difference(&*right.get()?))
    }
    fn Group_incl(group: Group, count: c_int, ranks: List<c_int>, place: Out<Group>) on () => {
        set(place, members(group.get()?.include(&ranks_of(count, ranks)?))?)
    }
    fn Group_excl(group: Group, count: c_int, ranks: List<c_int>, place: Out<Group>) on () => {
        set(place, members(group.get()?.exclude(&ranks_of(count, ranks)?))?)
    }
    fn Group_range_incl(group: Group, count: c_int, list: List<[c_int; 3]>, place: Out<Group>) on () => {
        let group = group.get()?;
        set(place, members(group.include(&ranges(&group, count, list)?))?)
    }
    fn Group_range_excl(group: Group, count: c_int, list: List<[c_int; 3]>, place: Out<Group>) on () => {
        let group = group.get()?;
        set(place, members(group.exclude(&ranges(&group, count, list)?))?)
    }
    fn Group_free(place: Out<Group>) on () => {
        // Functions give the empty group in place of a new one, so it may be freed.
        if place.get()? == GROUP_EMPTY {
            return place.set(Group::NULL);
        }
        place.free().map(|_| ())
    }
}
