//! Communicators from communicators.

use fishplate_ranks::group::Comparison;
use fishplate_ranks::{ANY_SOURCE, ANY_TAG, Communicator};

use crate::conformance;

conformance! {
    a_duplicate_keeps_its_messages_apart;
    a_split_orders_by_key_and_leaves_out_who_has_no_colour;
    a_group_makes_a_communicator_without_the_others;
    contexts_of_side_by_side_communicators_differ;
    a_rank_alone_talks_to_itself;
}

fn a_duplicate_keeps_its_messages_apart(world: &Communicator) {
    let other = world.dup().unwrap();
    assert_eq!(world.compare(&other), Comparison::Congruent);
    assert_eq!(other.compare(&other), Comparison::Identical);
    let (me, size) = (world.rank(), world.size());
    let to = (me + 1) % size;
    world.bsend(&[1u8], to, 0).unwrap();
    other.bsend(&[2u8], to, 0).unwrap();
    let mut got = [0u8];
    other.recv(&mut got, ANY_SOURCE, ANY_TAG).unwrap();
    assert_eq!(got, [2]);
    world.recv(&mut got, ANY_SOURCE, ANY_TAG).unwrap();
    assert_eq!(got, [1]);
}

fn a_split_orders_by_key_and_leaves_out_who_has_no_colour(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    // The last one has no colour; the others are split by parity, in reverse order.
    let color = (me + 1 < size).then_some(me % 2);
    let part = world.split(color, -i32::try_from(me).unwrap()).unwrap();
    assert_eq!(part.is_some(), color.is_some());
    let Some(part) = part else { return };
    let mut members: Vec<u32> = (0..size - 1).filter(|rank| rank % 2 == me % 2).collect();
    members.reverse();
    assert_eq!(part.group().ranks()[..], members);
    assert_eq!(members[part.rank() as usize], me);
    let mut all = vec![0; members.len()];
    part.allgather(&[me], &mut all).run().unwrap();
    assert_eq!(all, members);
    // Equal keys: the order of ranks.
    let again = part.split(Some(0), 0).unwrap().unwrap();
    assert_eq!(again.group(), part.group());
}

fn a_group_makes_a_communicator_without_the_others(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    if me == 0 && size > 1 {
        let strangers = world.group().exclude(&[0]).unwrap();
        assert!(world.create_group(&strangers, 3).is_err(), "this rank is not in it");
        return;
    }
    let mut ranks: Vec<u32> = (0..size).filter(|&rank| rank > 0 || size == 1).collect();
    ranks.reverse();
    let group = world.group().include(&ranks).unwrap();
    let part = world.create_group(&group, 3).unwrap();
    assert_eq!((part.size(), ranks[part.rank() as usize]), (ranks.len() as u32, me));
    let mut value = [me];
    part.broadcast(&mut value, 0).run().unwrap();
    assert_eq!(value, [ranks[0]]);
    // A status names ranks of the communicator.
    let last = part.size() - 1;
    if part.rank() == last {
        part.bsend(&[me], 0, 1).unwrap();
    }
    if part.rank() == 0 {
        assert_eq!(part.recv(&mut value, ANY_SOURCE, 1).unwrap().source, Some(last));
        assert_eq!(value, [ranks[last as usize]]);
    }
}

fn contexts_of_side_by_side_communicators_differ(world: &Communicator) {
    let mut made: Vec<Communicator> = vec![];
    for round in 0..5 {
        made.push(world.dup().unwrap());
        made.push(world.split(Some((world.rank() + round) % 2), 0).unwrap().unwrap());
        made.push(made[0].dup().unwrap());
    }
    let mut contexts: Vec<_> = made.iter().map(Communicator::context).collect();
    contexts.sort_unstable();
    contexts.dedup();
    assert_eq!(contexts.len(), made.len());
}

fn a_rank_alone_talks_to_itself(world: &Communicator) {
    let alone = world.process().alone();
    assert_eq!((alone.rank(), alone.size()), (0, 1));
    let mut got = [0u8; 9000];
    let status = alone.sendrecv(&[4u8; 9000], 0, 1, &mut got, 0, 1).unwrap();
    assert_eq!((status.source, got), (Some(0), [4; 9000]));
    alone.barrier().run().unwrap();
}
