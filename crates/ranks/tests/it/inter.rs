//! Inter-communicators: odd and even ranks, who talk to each other.

use fishplate_ranks::collective::{Blocks, Root};
use fishplate_ranks::group::Comparison;
use fishplate_ranks::{ANY_SOURCE, Communicator, InterCommunicator, Operation};

use crate::conformance;

conformance! {
    messages_go_to_the_other_group;
    what_one_group_gives_the_other_gets;
    reductions_are_of_the_other_group;
    a_merge_has_both_groups_in_the_order_that_they_say;
    duplicates_and_parts_are_contexts_of_their_own;
    groups_with_a_common_rank_and_missing_peers_are_refused;
}

/// Even ranks and odd ranks, each led by its last; `None` if this is a domain of one.
fn halves(world: &Communicator) -> Option<InterCommunicator> {
    let (me, size) = (world.rank(), world.size());
    let half = world.split(Some(me % 2), 0).unwrap().unwrap();
    if size == 1 {
        return None;
    }
    let last = half.size() - 1;
    let other_last = (0..size).rfind(|rank| rank % 2 != me % 2).unwrap();
    let peer = (half.rank() == last).then_some((world, other_last));
    Some(half.create_inter(last, peer, 12).unwrap())
}

fn messages_go_to_the_other_group(world: &Communicator) {
    let Some(inter) = halves(world) else { return };
    let (me, other) = (world.rank() % 2, 1 - world.rank() % 2);
    assert_eq!(
        (inter.size() + inter.remote_size(), inter.rank()),
        (world.size(), world.rank() / 2)
    );
    for to in 0..inter.remote_size() {
        inter.remote().send(&[me, inter.rank(), to], to, 3).unwrap();
    }
    let mut seen = vec![false; inter.remote_size() as usize];
    for _ in 0..inter.remote_size() {
        let probed = inter.remote().probe(ANY_SOURCE, 3).unwrap();
        let mut got = [9; 3];
        let status = inter.remote().recv(&mut got, ANY_SOURCE, 3).unwrap();
        assert_eq!(status, probed);
        let from = status.source.unwrap();
        assert_eq!(got, [other, from, inter.rank()]);
        assert!(!std::mem::replace(&mut seen[from as usize], true));
    }
    assert!(inter.remote().send(&[0u8], inter.remote_size(), 0).is_err(), "no such rank there");
}

fn what_one_group_gives_the_other_gets(world: &Communicator) {
    let Some(inter) = halves(world) else { return };
    let (parity, me) = (world.rank() % 2, inter.rank());
    let (size, remote) = (inter.size() as usize, inter.remote_size() as usize);
    inter.barrier().run().unwrap();
    // Each of either group is the root once; short and long.
    for (from_parity, roots) in [(0, world.size().div_ceil(2)), (1, world.size() / 2)] {
        for root in 0..roots {
            let part = match (from_parity == parity, root == me) {
                (true, true) => Root::This,
                (true, false) => Root::Null,
                (false, _) => Root::Remote(root),
            };
            let gives = part == Root::This;
            for length in [2, 2000] {
                let mut data = vec![if gives { 100 + root } else { 0 }; length];
                inter.broadcast(&mut data, part).run().unwrap();
                let expected = if part == Root::Null { 0 } else { 100 + root };
                assert_eq!(data, vec![expected; length]);
                let mine = vec![me; length];
                let mut all = vec![9; if gives { remote * length } else { 0 }];
                inter.gather(&mine, &mut all, part).run().unwrap();
                let ranks = (0..inter.remote_size()).flat_map(|rank| vec![rank; length]);
                assert_eq!(all, if gives { ranks.collect::<Vec<_>>() } else { vec![] });
                let mut own = vec![9; length];
                inter.scatter(&all, &mut own, part).run().unwrap();
                assert_eq!(own, vec![if matches!(part, Root::Remote(_)) { me } else { 9 }; length]);
            }
            // Rank i has i elements.
            let counts: Vec<usize> = (0..remote).collect();
            let blocks = Blocks::packed(&counts);
            let mine = vec![me; me as usize];
            let mut all = vec![9; counts.iter().sum()];
            inter.gatherv(&mine, &mut all, &blocks, part).run().unwrap();
            let expected: Vec<u32> = (0..inter.remote_size())
                .flat_map(|rank| vec![if gives { rank } else { 9 }; rank as usize])
                .collect();
            assert_eq!(all, expected);
            let mut own = vec![8; me as usize];
            inter.scatterv(&all, &blocks, &mut own, part).run().unwrap();
            let scattered = if matches!(part, Root::Remote(_)) { me } else { 8 };
            assert_eq!(own, vec![scattered; me as usize]);
        }
    }
    let theirs = |rank: usize| (1 - parity) * 1000 + u32::try_from(rank).unwrap();
    let mine = parity * 1000 + me;
    let mut all = vec![0; remote];
    inter.allgather(&[mine], &mut all).run().unwrap();
    assert_eq!(all, (0..remote).map(theirs).collect::<Vec<_>>());
    let mut all = vec![0; 2 * remote];
    let sent: Vec<u32> = (0..inter.remote_size()).flat_map(|to| [mine, to]).collect();
    inter.alltoall(&sent, &mut all).run().unwrap();
    let expected: Vec<u32> = (0..remote).flat_map(|rank| [theirs(rank), me]).collect();
    assert_eq!(all, expected);
    assert_eq!(size, inter.local().size() as usize);
}

fn reductions_are_of_the_other_group(world: &Communicator) {
    let Some(inter) = halves(world) else { return };
    let (parity, me) = (world.rank() % 2, inter.rank());
    let operation = Operation::sum::<u32>();
    let sum = |parity: u32| (0..world.size()).filter(|rank| rank % 2 == parity).sum::<u32>();
    for length in [1, 1000] {
        let mine = vec![world.rank(); length];
        let mut result = vec![0; length];
        inter.allreduce(&mine, &mut result, &operation).run().unwrap();
        assert_eq!(result, vec![sum(1 - parity); length]);
        // The last of the even ranks is the root.
        let root = world.size().div_ceil(2) - 1;
        let part = match (parity, me == root) {
            (0, true) => Root::This,
            (0, false) => Root::Null,
            _ => Root::Remote(root),
        };
        let mut result = vec![7; length];
        inter.reduce(&mine, &mut result, &operation, part).run().unwrap();
        assert_eq!(result, vec![if part == Root::This { sum(1) } else { 7 }; length]);
    }
    // As many elements as both groups can share out.
    let total = (inter.size() * inter.remote_size()) as usize;
    let counts = vec![inter.remote_size() as usize; inter.size() as usize];
    let mine: Vec<u32> = (0..).take(total).map(|at| at * world.rank()).collect();
    let mut result = vec![0; inter.remote_size() as usize];
    inter.reduce_scatter(&mine, &mut result, &counts, &operation).run().unwrap();
    let first = me * inter.remote_size();
    let expected: Vec<u32> =
        (first..first + inter.remote_size()).map(|at| at * sum(1 - parity)).collect();
    assert_eq!(result, expected);
}

fn a_merge_has_both_groups_in_the_order_that_they_say(world: &Communicator) {
    let Some(inter) = halves(world) else { return };
    let even: Vec<u32> = (0..world.size()).step_by(2).collect();
    let odd: Vec<u32> = (1..world.size()).step_by(2).collect();
    let is_odd = world.rank() % 2 == 1;
    for (high, first, second) in
        [(is_odd, &even, &odd), (!is_odd, &odd, &even), (true, &even, &odd), (false, &even, &odd)]
    {
        let merged = inter.merge(high).unwrap();
        assert_eq!(merged.group().ranks()[..], [first.as_slice(), second].concat());
        let mut all = vec![0; world.size() as usize];
        merged.allgather(&[world.rank()], &mut all).run().unwrap();
        assert_eq!(all, merged.group().ranks()[..]);
    }
}

fn duplicates_and_parts_are_contexts_of_their_own(world: &Communicator) {
    let Some(inter) = halves(world) else { return };
    let copy = inter.dup().unwrap();
    assert_eq!(copy.compare(&inter), Comparison::Congruent);
    assert_eq!(inter.compare(&inter), Comparison::Identical);
    let partner = inter.rank();
    if partner < inter.remote_size() {
        inter.remote().send(&[1u8], partner, 0).unwrap();
        copy.remote().send(&[2u8], partner, 0).unwrap();
        let mut got = [0u8];
        copy.remote().recv(&mut got, partner, 0).unwrap();
        assert_eq!(got, [2]);
        inter.remote().recv(&mut got, partner, 0).unwrap();
        assert_eq!(got, [1]);
    }
    // Ranks 0 and above of either group apart, in reverse order; nobody odd has the colour 2.
    let color = if world.size() > 3 && world.rank() == 2 { 2 } else { 1 };
    let part = inter.split(Some(color), -i32::try_from(inter.rank()).unwrap()).unwrap();
    assert_eq!(part.is_some(), color == 1);
    if let Some(part) = part {
        let mut all = vec![0; part.remote_size() as usize];
        part.allgather(&[world.rank()], &mut all).run().unwrap();
        assert_eq!(all, part.remote().group().ranks()[..]);
        assert!(all.is_sorted_by(|one, next| one > next) && !all.contains(&world.rank()));
    }
    assert!(inter.split(None, 0).unwrap().is_none());
}

fn groups_with_a_common_rank_and_missing_peers_are_refused(world: &Communicator) {
    let alone = world.process().alone();
    if world.rank() == 0 {
        let missing = alone.create_inter(0, None, 1).unwrap_err();
        assert!(missing.to_string().contains("the leader has to name"), "{missing}");
        let itself = alone.create_inter(0, Some((world, 0)), 1).unwrap_err();
        assert!(itself.to_string().contains("a rank in common"), "{itself}");
        assert!(alone.create_inter(1, None, 1).is_err(), "no such leader");
    }
}
