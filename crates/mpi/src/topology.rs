//! Topologies (MPI 5.0, chapter 8).

use std::ffi::c_int;
use std::sync::Arc;

use fishplate_ranks::Rank;
use fishplate_ranks::topology::cartesian::create_dimensions;
use fishplate_ranks::topology::{Cartesian, DistributedGraph, Edge, Graph, Topology};

use crate::arguments::{Integer, List, Out};
use crate::communicator::{CommObject, Ranks, set};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Error, Result, error};
use crate::handle::{Comm, Info};

fn signed(value: impl TryInto<c_int>) -> c_int {
    value.try_into().unwrap_or(c_int::MAX)
}

fn rank_or_null(rank: Option<Rank>) -> c_int {
    rank.map_or(MPI_PROC_NULL, signed)
}

/// What the core says of an argument, in the class that the standard has for it.
fn of_class(class: c_int) -> impl Fn(fishplate_ranks::Error) -> Error {
    move |cause| error(class, cause.to_string())
}

fn unsigned(class: c_int, values: Vec<c_int>) -> Result<Vec<u32>> {
    let value = |value: c_int| {
        u32::try_from(value).map_err(|_| error(class, format!("{value} is negative")))
    };
    values.into_iter().map(value).collect()
}

fn grid_of(dimensions: c_int, sizes: List<c_int>, periodic: List<c_int>) -> Result<Cartesian> {
    let dimensions = dimensions.count()?;
    let sizes = unsigned(MPI_ERR_DIMS, sizes.to_vec(dimensions)?)?;
    let periodic: Vec<bool> =
        periodic.to_vec(dimensions)?.into_iter().map(|flag| flag != 0).collect();
    Cartesian::new(&sizes, &periodic).map_err(of_class(MPI_ERR_DIMS))
}

fn graph_of(nodes: c_int, index: List<c_int>, edges: List<c_int>) -> Result<Graph> {
    let index = index.counts(nodes.count()?)?;
    let count = index.last().copied().unwrap_or_default();
    let edges = unsigned(MPI_ERR_RANK, edges.to_vec(count)?)?;
    Ok(Graph::new(&index, &edges)?)
}

fn topology<T>(comm: &CommObject, of: impl FnOnce(&Topology) -> Option<&T>) -> Result<&T> {
    let found = comm.intra()?.topology().and_then(of);
    found.ok_or_else(|| error(MPI_ERR_TOPOLOGY, "the communicator has no such topology"))
}

fn grid(comm: &CommObject) -> Result<&Cartesian> {
    topology(comm, |topology| match topology {
        Topology::Cartesian(grid) => Some(grid),
        _ => None,
    })
}

fn graph(comm: &CommObject) -> Result<&Graph> {
    topology(comm, |topology| match topology {
        Topology::Graph(graph) => Some(graph),
        _ => None,
    })
}

fn neighbors(graph: &Graph, rank: c_int) -> Result<&[Rank]> {
    let node = u32::try_from(rank).ok().filter(|node| (*node as usize) < graph.size());
    let node = node.ok_or_else(|| {
        error(MPI_ERR_RANK, format!("rank {rank} is not one of {} nodes", graph.size()))
    })?;
    Ok(graph.neighbors(node))
}

fn distributed(comm: &CommObject) -> Result<&DistributedGraph> {
    topology(comm, |topology| match topology {
        Topology::DistributedGraph(graph) => Some(graph),
        _ => None,
    })
}

/// As many values as the caller has room for.
fn fill(place: Out<c_int>, most: c_int, values: impl IntoIterator<Item = c_int>) -> Result<()> {
    place.set_all(values.into_iter().take(most.count()?))
}

/// Ranks that a topology of so many leaves out have none.
fn rank_within(comm: &CommObject, size: usize) -> Result<c_int> {
    let rank = comm.intra()?.rank();
    Ok(if (rank as usize) < size { signed(rank) } else { MPI_UNDEFINED })
}

/// Neighbours with weights; 1 without.
fn edges(count: usize, ranks: List<c_int>, weights: List<c_int>) -> Result<(Vec<Edge>, bool)> {
    let ranks = unsigned(MPI_ERR_RANK, ranks.to_vec(count)?)?;
    let weighted = weights.address() != UNWEIGHTED;
    let values = if weighted && weights.address() != WEIGHTS_EMPTY {
        unsigned(MPI_ERR_ARG, weights.to_vec(count)?)?
    } else {
        vec![1; count]
    };
    Ok((ranks.into_iter().zip(values).collect(), weighted))
}

fn fill_edges(
    edges: &[Edge],
    most: c_int,
    ranks: Out<c_int>,
    weights: Out<c_int>,
    weighted: bool,
) -> Result<()> {
    fill(ranks, most, edges.iter().map(|edge| signed(edge.0)))?;
    if weighted && ![UNWEIGHTED, WEIGHTS_EMPTY].contains(&weights.address()) {
        fill(weights, most, edges.iter().map(|edge| signed(edge.1)))?;
    }
    Ok(())
}

fn made(
    place: Out<Comm>,
    comm: &Arc<CommObject>,
    made: Option<fishplate_ranks::Communicator>,
) -> Result<()> {
    set(place, comm, made.map(Ranks::Intra))
}

entries! {
    fn Dims_create(nodes: c_int, dimensions: c_int, sizes: Out<c_int>) on () => {
        let count = dimensions.count()?;
        let given = (0..count).map(|at| sizes.at(at).get()).collect::<Result<Vec<_>>>()?;
        let mut found = unsigned(MPI_ERR_DIMS, given)?;
        let nodes = u32::try_from(nodes).map_err(|_| error(MPI_ERR_DIMS, format!("{nodes} nodes are negative")))?;
        create_dimensions(nodes, &mut found).map_err(of_class(MPI_ERR_DIMS))?;
        sizes.set_all(found.into_iter().map(signed))
    }
    fn Topo_test(comm: Comm, kind: Out<c_int>) on comm => {
        let object = comm.get()?;
        let topology = object.intra().ok().and_then(fishplate_ranks::Communicator::topology);
        kind.set(match topology {
            None => MPI_UNDEFINED,
            Some(Topology::Cartesian(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistributedGraph(_)) => MPI_DIST_GRAPH,
        })
    }
    fn Cart_create(
        comm: Comm, dimensions: c_int, sizes: List<c_int>, periodic: List<c_int>, _reorder: c_int, place: Out<Comm>,
    ) on comm => {
        let object = comm.get()?;
        place.set(Comm::NULL)?;
        let grid = grid_of(dimensions, sizes, periodic)?;
        let created = object.intra()?.create_cartesian(&grid).map_err(of_class(MPI_ERR_DIMS))?;
        made(place, &object, created)
    }
    fn Cart_sub(comm: Comm, keep: List<c_int>, place: Out<Comm>) on comm => {
        let object = comm.get()?;
        let keep = keep.to_vec(grid(&object)?.dimensions().len())?;
        let keep: Vec<bool> = keep.into_iter().map(|flag| flag != 0).collect();
        let created = object.intra()?.cartesian_part(&keep)?;
        made(place, &object, Some(created))
    }
    fn Cart_map(comm: Comm, dimensions: c_int, sizes: List<c_int>, periodic: List<c_int>, rank: Out<c_int>) on comm => {
        let grid = grid_of(dimensions, sizes, periodic)?;
        rank.set(rank_within(&*comm.get()?, grid.size() as usize)?)
    }
    fn Cartdim_get(comm: Comm, count: Out<c_int>) on comm => {
        count.set_count(grid(&*comm.get()?)?.dimensions().len())
    }
    fn Cart_get(
        comm: Comm, most: c_int, sizes: Out<c_int>, periodic: Out<c_int>, coordinates: Out<c_int>,
    ) on comm => {
        let object = comm.get()?;
        let grid = grid(&object)?;
        fill(sizes, most, grid.dimensions().iter().copied().map(signed))?;
        fill(periodic, most, grid.periodic().iter().map(|flag| c_int::from(*flag)))?;
        fill(coordinates, most, grid.coordinates(object.local().rank())?.into_iter().map(signed))
    }
    fn Cart_coords(comm: Comm, rank: c_int, most: c_int, coordinates: Out<c_int>) on comm => {
        let object = comm.get()?;
        let rank = unsigned(MPI_ERR_RANK, vec![rank])?[0];
        fill(coordinates, most, grid(&object)?.coordinates(rank)?.into_iter().map(signed))
    }
    fn Cart_rank(comm: Comm, coordinates: List<c_int>, rank: Out<c_int>) on comm => {
        let object = comm.get()?;
        let grid = grid(&object)?;
        rank.set(signed(grid.rank(&coordinates.integers(grid.dimensions().len())?)?))
    }
    fn Cart_shift(
        comm: Comm, dimension: c_int, displacement: c_int, source: Out<c_int>, destination: Out<c_int>,
    ) on comm => {
        let object = comm.get()?;
        let dimension = usize::try_from(dimension)
            .map_err(|_| error(MPI_ERR_ARG, format!("dimension {dimension} is negative")))?;
        let [from, to] = grid(&object)?.shift(object.local().rank(), dimension, displacement.into())?;
        source.set(rank_or_null(from))?;
        destination.set(rank_or_null(to))
    }
    fn Graph_create(
        comm: Comm, nodes: c_int, index: List<c_int>, edges: List<c_int>, _reorder: c_int, place: Out<Comm>,
    ) on comm => {
        let object = comm.get()?;
        if nodes == 0 {
            // Nobody is in an empty graph, and all call this.
            object.intra()?;
            return place.set(Comm::NULL);
        }
        let created = object.intra()?.create_graph(&graph_of(nodes, index, edges)?)?;
        made(place, &object, created)
    }
    fn Graph_map(comm: Comm, nodes: c_int, index: List<c_int>, edges: List<c_int>, rank: Out<c_int>) on comm => {
        let graph = graph_of(nodes, index, edges)?;
        rank.set(rank_within(&*comm.get()?, graph.size())?)
    }
    fn Graphdims_get(comm: Comm, nodes: Out<c_int>, edges: Out<c_int>) on comm => {
        let object = comm.get()?;
        let graph = graph(&object)?;
        nodes.set_count(graph.size())?;
        edges.set_count(graph.edges().len())
    }
    fn Graph_get(comm: Comm, most_index: c_int, most_edges: c_int, index: Out<c_int>, edges: Out<c_int>) on comm => {
        let object = comm.get()?;
        let graph = graph(&object)?;
        fill(index, most_index, graph.index().iter().copied().map(signed))?;
        fill(edges, most_edges, graph.edges().iter().copied().map(signed))
    }
    fn Graph_neighbors_count(comm: Comm, rank: c_int, count: Out<c_int>) on comm => {
        count.set_count(neighbors(graph(&*comm.get()?)?, rank)?.len())
    }
    fn Graph_neighbors(comm: Comm, rank: c_int, most: c_int, place: Out<c_int>) on comm => {
        fill(place, most, neighbors(graph(&*comm.get()?)?, rank)?.iter().copied().map(signed))
    }
    fn Dist_graph_create_adjacent(
        comm: Comm, sources_count: c_int, sources: List<c_int>, source_weights: List<c_int>, destinations_count: c_int,
        destinations: List<c_int>, destination_weights: List<c_int>, _info: Info, _reorder: c_int, place: Out<Comm>,
    ) on comm => {
        let object = comm.get()?;
        let (sources, weighted) = edges(sources_count.count()?, sources, source_weights)?;
        let (destinations, _) = edges(destinations_count.count()?, destinations, destination_weights)?;
        let graph = DistributedGraph { sources, destinations, weighted };
        let created = object.intra()?.create_distributed_graph_adjacent(graph)?;
        made(place, &object, Some(created))
    }
    fn Dist_graph_create(
        comm: Comm, count: c_int, sources: List<c_int>, degrees: List<c_int>, destinations: List<c_int>,
        weights: List<c_int>, _info: Info, _reorder: c_int, place: Out<Comm>,
    ) on comm => {
        let object = comm.get()?;
        let count = count.count()?;
        let sources = unsigned(MPI_ERR_RANK, sources.to_vec(count)?)?;
        let degrees = degrees.counts(count)?;
        let (targets, weighted) = edges(degrees.iter().sum(), destinations, weights)?;
        let froms = sources.iter().zip(&degrees).flat_map(|(&from, &degree)| vec![from; degree]);
        let all: Vec<_> = froms.zip(targets).map(|(from, (to, weight))| (from, to, weight)).collect();
        let created = object.intra()?.create_distributed_graph(&all, weighted)?;
        made(place, &object, Some(created))
    }
    fn Dist_graph_neighbors_count(
        comm: Comm, sources: Out<c_int>, destinations: Out<c_int>, weighted: Out<c_int>,
    ) on comm => {
        let object = comm.get()?;
        let graph = distributed(&object)?;
        sources.set_count(graph.sources.len())?;
        destinations.set_count(graph.destinations.len())?;
        weighted.set_flag(graph.weighted)
    }
    fn Dist_graph_neighbors(
        comm: Comm, most_sources: c_int, sources: Out<c_int>, source_weights: Out<c_int>, most_destinations: c_int,
        destinations: Out<c_int>, destination_weights: Out<c_int>,
    ) on comm => {
        let object = comm.get()?;
        let graph = distributed(&object)?;
        fill_edges(&graph.sources, most_sources, sources, source_weights, graph.weighted)?;
        fill_edges(&graph.destinations, most_destinations, destinations, destination_weights, graph.weighted)
    }
}
