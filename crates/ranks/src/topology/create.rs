//! Communicators with a topology. All calls are collective.

use crate::collective::Blocks;
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::header::Rank;
use crate::topology::{Cartesian, DistributedGraph, Edge, Graph, Topology};

impl Communicator {
    /// A communicator whose first ranks are a grid; `None` for those that are left over (`MPI_Cart_create`).
    pub fn create_cartesian(&self, grid: &Cartesian) -> Result<Option<Self>> {
        self.first(grid.size(), Topology::Cartesian(grid.clone()))
    }

    /// The grids of some of the dimensions of this one (`MPI_Cart_sub`).
    pub fn cartesian_part(&self, keep: &[bool]) -> Result<Self> {
        let Some(Topology::Cartesian(grid)) = self.topology() else {
            let problem = "it has no grid".to_owned();
            return Err(Error::Argument { argument: "communicator", problem });
        };
        let (part, color) = grid.part(keep, self.rank())?;
        let key = i32::try_from(self.rank()).unwrap_or(i32::MAX);
        let made = self.split(Some(color), key)?;
        let mut made = made.ok_or(Error::InvalidRank { rank: self.rank(), size: self.size() })?;
        made.set_topology(Topology::Cartesian(part));
        Ok(made)
    }

    /// A communicator whose first ranks are a graph; `None` for those that are left over (`MPI_Graph_create`).
    pub fn create_graph(&self, graph: &Graph) -> Result<Option<Self>> {
        let size = u32::try_from(graph.size()).unwrap_or(u32::MAX);
        self.first(size, Topology::Graph(graph.clone()))
    }

    /// A communicator in which this rank has these neighbours (`MPI_Dist_graph_create_adjacent`). Who is a destination here has
    /// this rank as a source.
    pub fn create_distributed_graph_adjacent(&self, graph: DistributedGraph) -> Result<Self> {
        for &(rank, _) in graph.sources.iter().chain(&graph.destinations) {
            self.group().member(rank)?;
        }
        let mut made = self.dup()?;
        made.set_topology(Topology::DistributedGraph(graph));
        Ok(made)
    }

    /// A communicator with these edges and those that other ranks give, from the first rank of each to the second
    /// (`MPI_Dist_graph_create`). If one rank gives weights all do.
    pub fn create_distributed_graph(
        &self,
        edges: &[(Rank, Rank, u32)],
        weighted: bool,
    ) -> Result<Self> {
        for &(from, to, _) in edges {
            self.group().member(from)?;
            self.group().member(to)?;
        }
        let mine: Vec<u32> =
            edges.iter().flat_map(|&(from, to, weight)| [from, to, weight]).collect();
        let mut counts = vec![0usize; self.size() as usize];
        self.allgather(&[mine.len()], &mut counts).run()?;
        let mut all = vec![0; counts.iter().sum()];
        self.allgatherv(&mine, &mut all, &Blocks::packed(&counts)).run()?;
        let all: Vec<&[u32]> = all.chunks_exact(3).collect();
        let me = self.rank();
        let of = |here: usize, there: usize| -> Vec<Edge> {
            all.iter().filter(|edge| edge[here] == me).map(|edge| (edge[there], edge[2])).collect()
        };
        let (sources, destinations) = (of(1, 0), of(0, 1));
        self.create_distributed_graph_adjacent(DistributedGraph { sources, destinations, weighted })
    }

    fn first(&self, size: u32, topology: Topology) -> Result<Option<Self>> {
        if size > self.size() {
            let problem = format!("it has {size} ranks, and the communicator {}", self.size());
            return Err(Error::Argument { argument: "topology", problem });
        }
        let color = (self.rank() < size).then_some(0);
        Ok(self.split(color, 0)?.map(|mut made| {
            made.set_topology(topology);
            made
        }))
    }
}
