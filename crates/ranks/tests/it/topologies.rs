//! Topologies, and collective operations among neighbours.

use fishplate_ranks::collective::Blocks;
use fishplate_ranks::topology::cartesian::create_dimensions;
use fishplate_ranks::topology::{Cartesian, DistributedGraph, Graph, Topology};
use fishplate_ranks::{Communicator, Error};

use crate::conformance;

conformance! {
    a_grid_exchanges_with_its_neighbours;
    a_ring_of_two_and_of_one_tells_up_from_down;
    a_part_of_a_grid_is_a_row;
    a_graph_exchanges_with_its_neighbours;
    a_distributed_graph_is_the_same_whoever_gives_its_edges;
    who_has_no_neighbours_is_told;
}

fn a_grid_exchanges_with_its_neighbours(world: &Communicator) {
    // One rank is left over, if there are more than two.
    let size = if world.size() > 2 { world.size() - 1 } else { world.size() };
    let mut dimensions = [0, 0];
    create_dimensions(size, &mut dimensions).unwrap();
    let grid = Cartesian::new(&dimensions, &[true, false]).unwrap();
    let made = world.create_cartesian(&grid).unwrap();
    assert_eq!(made.is_some(), world.rank() < size);
    let Some(made) = made else { return };
    let again = made.dup().unwrap();
    assert_eq!(again.topology(), Some(&Topology::Cartesian(grid.clone())));
    let me = again.rank();
    let neighbors = grid.neighbors(me);
    let mut got = [77; 4];
    again.neighbor_allgather(&[me], &mut got).run().unwrap();
    let expected: Vec<u32> = neighbors.iter().map(|rank| rank.unwrap_or(77)).collect();
    assert_eq!(got[..], expected);
    let too_large = Cartesian::new(&[world.size() + 1], &[true]).unwrap();
    assert!(world.create_cartesian(&too_large).is_err());
}

fn a_ring_of_two_and_of_one_tells_up_from_down(world: &Communicator) {
    let size = world.size().min(2);
    let ring = Cartesian::new(&[size, 1], &[true, true]).unwrap();
    let Some(ring) = world.create_cartesian(&ring).unwrap() else { return };
    // Down and up of each dimension; what goes up comes from below.
    let (me, other) = (ring.rank(), (ring.rank() + 1) % size);
    let sent = [0, 1, 2, 3].map(|way| 10 * me + way);
    let mut got = [99; 4];
    ring.neighbor_alltoall(&sent, &mut got).run().unwrap();
    assert_eq!(got, [10 * other + 1, 10 * other, 10 * me + 3, 10 * me + 2]);
}

fn a_part_of_a_grid_is_a_row(world: &Communicator) {
    let mut dimensions = [0, 0];
    create_dimensions(world.size(), &mut dimensions).unwrap();
    let grid = Cartesian::new(&dimensions, &[false, true]).unwrap();
    let made = world.create_cartesian(&grid).unwrap().unwrap();
    let row = made.cartesian_part(&[false, true]).unwrap();
    let Some(Topology::Cartesian(part)) = row.topology() else { panic!("a grid") };
    assert_eq!((part.dimensions(), part.periodic()), (&dimensions[1..], &[true][..]));
    let mut all = vec![0; dimensions[1] as usize];
    row.allgather(&[made.rank()], &mut all).run().unwrap();
    let first = made.rank() - made.rank() % dimensions[1];
    assert_eq!(all, (first..first + dimensions[1]).collect::<Vec<_>>());
    assert!(world.cartesian_part(&[true]).is_err(), "it has no grid");
}

fn a_graph_exchanges_with_its_neighbours(world: &Communicator) {
    // A star whose middle is rank 0, and which has an edge to itself there.
    let size = world.size();
    let index: Vec<usize> = (0..size as usize).map(|rank| size as usize + rank).collect();
    let edges: Vec<u32> = (0..size).chain((1..size).map(|_| 0)).collect();
    let graph = Graph::new(&index, &edges).unwrap();
    let star = world.create_graph(&graph).unwrap().unwrap();
    let neighbors = graph.neighbors(star.rank());
    assert_eq!(neighbors.len(), if star.rank() == 0 { size as usize } else { 1 });
    let sent: Vec<u32> = neighbors.iter().map(|to| 100 * star.rank() + to).collect();
    let mut got = vec![0; neighbors.len()];
    star.neighbor_alltoall(&sent, &mut got).run().unwrap();
    let expected: Vec<u32> = neighbors.iter().map(|from| 100 * from + star.rank()).collect();
    assert_eq!(got, expected);
}

fn a_distributed_graph_is_the_same_whoever_gives_its_edges(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let (next, last) = ((me + 1) % size, (me + size - 1) % size);
    // Each to the next, twice, with weights; given by the rank before.
    let given = [(next, (next + 1) % size, next), (next, (next + 1) % size, 100 + next)];
    let one = world.create_distributed_graph(&given, true).unwrap();
    let adjacent = DistributedGraph {
        sources: vec![(last, last), (last, 100 + last)],
        destinations: vec![(next, me), (next, 100 + me)],
        weighted: true,
    };
    assert_eq!(one.topology(), Some(&Topology::DistributedGraph(adjacent.clone())));
    let other = world.create_distributed_graph_adjacent(adjacent).unwrap();
    for made in [one, other] {
        // Blocks of one and of two elements.
        let blocks = Blocks::packed(&[1, 2]);
        let mut got = [0; 3];
        let sent = [me, 10 + me, 20 + me];
        made.neighbor_alltoallv(&sent, &blocks, &mut got, &blocks).run().unwrap();
        assert_eq!(got, [last, 10 + last, 20 + last]);
        let (mine, mut got) = ([me], [0; 2]);
        made.scope(|scope| {
            made.neighbor_allgather(&mine, &mut got).start(scope).unwrap().wait().unwrap();
        });
        assert_eq!(got, [last; 2]);
    }
    assert!(world.create_distributed_graph(&[(0, size, 1)], false).is_err());
}

fn who_has_no_neighbours_is_told(world: &Communicator) {
    let error = world.neighbor_allgather(&[1], &mut []).run().unwrap_err();
    assert!(matches!(error, Error::Argument { argument: "communicator", .. }), "{error}");
}
