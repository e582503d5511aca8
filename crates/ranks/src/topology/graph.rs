//! Graphs of ranks (MPI 4.1, 8.5.3 and 8.5.4).

use crate::error::{Error, Result};
use crate::header::Rank;

/// A graph that every rank knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where each rank's neighbours end among `edges`.
    index: Vec<usize>,
    edges: Vec<Rank>,
}

/// A neighbour and the weight of the edge.
pub type Edge = (Rank, u32);

/// A graph of which each rank knows its own edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistributedGraph {
    /// From whom this rank receives.
    pub sources: Vec<Edge>,
    /// To whom it sends.
    pub destinations: Vec<Edge>,
    /// Weights were given.
    pub weighted: bool,
}

impl Graph {
    /// The graph in which the neighbours of rank i are `edges[index[i - 1]..index[i]]`.
    pub fn new(index: &[usize], edges: &[Rank]) -> Result<Self> {
        let wrong = |argument, problem: String| Err(Error::Argument { argument, problem });
        if !index.is_sorted() || index.last().copied().unwrap_or_default() != edges.len() {
            let problem = format!("it has to rise up to {}, the number of edges", edges.len());
            return wrong("index", problem);
        }
        if let Some(rank) = edges.iter().find(|&&rank| rank as usize >= index.len()) {
            return wrong("edges", format!("rank {rank} is not below {}", index.len()));
        }
        Ok(Self { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// How many ranks it has.
    pub fn size(&self) -> usize {
        self.index.len()
    }

    /// Where each rank's neighbours end among the edges.
    pub fn index(&self) -> &[usize] {
        &self.index
    }

    /// All neighbours, rank by rank.
    pub fn edges(&self) -> &[Rank] {
        &self.edges
    }

    /// The neighbours of a rank; none if it is not there.
    pub fn neighbors(&self, rank: Rank) -> &[Rank] {
        let Some(&end) = self.index.get(rank as usize) else { return &[] };
        let start = if rank == 0 { 0 } else { self.index[rank as usize - 1] };
        &self.edges[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_the_standards_example() {
        // MPI 4.1, example 8.3.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        let neighbors: Vec<_> = (0..5).map(|rank| graph.neighbors(rank)).collect();
        assert_eq!(neighbors, [&[1, 3][..], &[0], &[3], &[0, 2], &[]]);
        for (index, edges) in
            [(&[2, 1][..], &[0, 1][..]), (&[1, 3], &[0, 1]), (&[1, 2], &[0, 2]), (&[], &[0])]
        {
            assert!(Graph::new(index, edges).is_err(), "{index:?} {edges:?}");
        }
    }
}
