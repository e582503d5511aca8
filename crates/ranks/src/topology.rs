//! Virtual topologies (MPI 4.1, chapter 8): who is whose neighbour.
//!
//! - [`mod@cartesian`]: grids, whose last dimension varies fastest
//! - [`graph`]: graphs that every rank knows, and those of which each knows its own edges
//! - [`create`]: communicators with a topology
//!
//! Ranks are not reordered: between processes of one host there is nothing to win.

pub mod cartesian;
pub mod create;
pub mod graph;

pub use cartesian::Cartesian;
pub use graph::{DistributedGraph, Edge, Graph};

use crate::header::Rank;

/// A communicator's topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cartesian(Cartesian),
    /// A graph that every rank knows.
    Graph(Graph),
    /// A graph of which each rank knows its own edges.
    DistributedGraph(DistributedGraph),
}

impl Topology {
    /// From whom `rank` receives in neighbourhood operations; `None` is nobody (MPI 4.1, 8.6).
    pub fn sources(&self, rank: Rank) -> Vec<Option<Rank>> {
        match self {
            Self::Cartesian(grid) => grid.neighbors(rank),
            Self::Graph(graph) => graph.neighbors(rank).iter().copied().map(Some).collect(),
            Self::DistributedGraph(graph) => {
                graph.sources.iter().map(|edge| Some(edge.0)).collect()
            }
        }
    }

    /// To whom it sends.
    pub fn destinations(&self, rank: Rank) -> Vec<Option<Rank>> {
        match self {
            Self::DistributedGraph(graph) => {
                graph.destinations.iter().map(|edge| Some(edge.0)).collect()
            }
            symmetric => symmetric.sources(rank),
        }
    }

    /// The order in which sends are begun, so that those of one pair meet their receives: in a grid, what goes up a
    /// dimension comes from below, though both may be the same rank.
    pub(crate) fn send_order(&self, count: usize) -> Vec<usize> {
        match self {
            Self::Cartesian(_) => (0..count).map(|at| at ^ 1).collect(),
            _ => (0..count).collect(),
        }
    }
}
